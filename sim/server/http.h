/*
 * http.h - the HTTP/1.1 front of the simulated server
 *
 * One thread, one event loop.  POST /v1/completions and /v1/chat/completions
 * (SGLang: /generate too), streamed by server-sent events or whole; GET
 * /health, /v1/models, /metrics, /version and the engine's own.  An event is
 * one chunk and one write(2) to the socket, as with uvicorn on uvloop; the head
 * of a stream is written when the request has been read.
 */
#ifndef MOETOP_SIM_SERVER_HTTP_H
#define MOETOP_SIM_SERVER_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "model/arch.h"
#include "sim/server/engine.h"
#include "sim/server/kernels.h"
#include "sim/server/truth.h"

#define HTTP_BODY_BYTES_MAX (8u << 20)

struct http_options {
	const char *host; /* an IPv4 address */
	uint16_t port;    /* 0: the kernel picks */
	const char *model_name, *model_path;
	uint32_t max_model_len;
	enum kernel_flavour flavour;
	uint32_t stream_interval; /* tokens per event, at least 1 */
	double mean_tokens;       /* of an answer that may end by itself */
	uint64_t kv_capacity;     /* tokens; 0 unknown */
	const struct arch *arch;  /* borrowed; NULL: no estimates */
	uint32_t tp, ep;          /* GPUs; at least 1 */
	uint64_t seed;
	struct engine *engine; /* borrowed until http_close */
	struct truth *truth;   /* likewise; NULL: no log */
};

struct http;

/* Bind and listen.  Strings in o are borrowed until http_close.  0 or -errno;
 * why gets one line. */
int http_open(struct http **out, const struct http_options *o, char *why,
	      size_t why_bytes);
uint16_t http_port(const struct http *h);

/* Run the loop in a thread of its own.  0 or -errno. */
int http_start(struct http *h);
/* Stop accepting, end the thread, cut off open responses (they count as
 * aborted). */
void http_stop(struct http *h);
/* Also frees what the engine may still refer to: it must have stopped. */
void http_close(struct http *h);

/* Counts so far; any thread. */
void http_totals(struct http *h, struct truth_totals *out);

#endif
