/*
 * load.h - a load generator for OpenAI-compatible servers
 *
 * Raw HTTP/1.1 over loopback sockets, keep-alive, one epoll loop, one thread.
 * Closed loop: N users, each sends its next request when the last one has been
 * answered (and a think time has passed).  Open loop: requests arrive at a rate
 * whether or not earlier ones are done, at most USERS_MAX at once; an arrival
 * beyond is counted as dropped.
 *
 * Everything that is random follows from the seed.
 */
#ifndef MOETOP_SIM_SERVER_LOAD_H
#define MOETOP_SIM_SERVER_LOAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/users.h"
#include "wire/requests.h"

struct load_options {
	uint32_t address; /* IPv4, network byte order; 127.0.0.0/8 only */
	uint16_t port;
	struct users users; /* closed loop; not used with a rate */
	double rate;        /* requests per second; 0: closed loop */
	double think_s;     /* mean, exponential */
	double prompt_tokens, output_tokens; /* means; lengths are uniform in
						1/2 .. 3/2 of the mean */
	/* shares of requests, 0..1 */
	double abort_ratio;  /* given up on the way, half by FIN, half by RST */
	double large_ratio;  /* with a prompt of LOAD_LARGE_TOKENS */
	double health_ratio; /* GET /health instead of a generation */
	double json_ratio;   /* not streamed */
	double chat_ratio;   /* to /v1/chat/completions */
	double duration_s;   /* stop starting requests; 0: never */
	double drain_s;      /* then wait this long for open ones, and abort */
	uint64_t requests;   /* stop after so many generations; 0: no limit */
	uint64_t seed;
	_Atomic int *stop; /* not 0: end now */
};

#define LOAD_LARGE_TOKENS 6000u

/* Generations only, but for health. */
struct load_stats {
	uint64_t started;   /* sent whole */
	uint64_t completed; /* answered to the end with status 200 */
	uint64_t aborted;   /* given up by us */
	uint64_t failed;    /* another status, or cut off by the server */
	uint64_t dropped, events, health;
	struct request_histogram ttft, gap; /* to and between events */
};

/* "http://127.0.0.1:8000" (also localhost).  0 or -EINVAL: not a loopback
 * address, another scheme, a path. */
int load_parse_url(const char *url, uint32_t *address, uint16_t *port);

/* Run to the end.  0, -EINVAL for an address that is not loopback, or -errno:
 * out of memory or descriptors; *out is filled in every case. */
int load_run(const struct load_options *o, struct load_stats *out);

/* The value below which a share of q (0..1) lies, in nanoseconds; 0: empty. */
double load_quantile_ns(const struct request_histogram *h, double q);

#endif
