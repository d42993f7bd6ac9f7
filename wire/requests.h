/*
 * requests.h - what the request tracker counts, shared with the BPF programs
 *
 * The tracker frames HTTP inside the kernel, so these are exact counts and not
 * samples.  A request is counted when its head is complete; it is in flight
 * until its response ends or its connection does.  It is waiting until the
 * first byte of the response body that is no SSE comment, then streaming.
 *
 * At any moment started = completed + client_aborted + server_aborted + waiting
 * + streaming, summed over the endpoints.
 *
 * A client that closes with a request open aborts it; the request is in flight
 * until the server closes too, for so long it works on it and may answer after
 * all.  A reset ends it at once.
 *
 * A stream that was under way before the tracker was is counted as started when
 * its next event is seen; its start is unknown.  A connection that was there
 * before the tracker, and whose last bytes came from the client, is guessed to
 * have a request waiting, until something proves it or its time has passed.
 */
#ifndef MOETOP_WIRE_REQUESTS_H
#define MOETOP_WIRE_REQUESTS_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/* What a path is for; the table of paths is bpf/endpoints.c. */
enum endpoint {
	ENDPOINT_OTHER,      /* a path that no table knows */
	ENDPOINT_GENERATION, /* makes tokens: this is the load */
	ENDPOINT_POOLING,    /* embeddings, scores: a forward pass, no decode */
	ENDPOINT_IGNORED,    /* health, metrics, models */
	ENDPOINTS
};

/* Values that rise and fall, per endpoint; guessed ones are in no other. */
struct request_gauges {
	__s64 waiting[ENDPOINTS];
	__s64 streaming[ENDPOINTS];
	__s64 guessed[ENDPOINTS];
	/* of TLS that nobody reads for us, from the times of its records */
	__s64 inferred_waiting;
	__s64 inferred_streaming;
	__s64 tls_unpaired; /* open sockets whose plain text is not known */
};

/*
 * Values that only grow, per endpoint; but a request whose answer turns out to
 * be an event stream moves from started[] of its class to ENDPOINT_GENERATION,
 * once for each path that no table knew.
 */
struct request_counters {
	__u64 started[ENDPOINTS];
	__u64 completed[ENDPOINTS];      /* response ended by its framing */
	__u64 client_aborted[ENDPOINTS]; /* client left a request open */
	__u64 server_aborted[ENDPOINTS]; /* server closed in mid-response */
	/* Of event streams but [DONE]; messages of remote calls; else chunks. */
	__u64 events[ENDPOINTS];
	__u64 failed[ENDPOINTS];     /* completed with status >= 400 */
	__u64 failed_5xx[ENDPOINTS]; /* of those, with status >= 500 */
	/* Framing lost, or a request beyond 8 outstanding, 128 in HTTP/2. */
	__u64 desyncs;
	__u64 resyncs;      /* and found again */
	__u64 records_lost; /* request records that found the ring full */
	__u64 connections;
	__u64 overflows;  /* calls of connections that found the table full */
	__u64 paths_lost; /* requests whose unknown path found no room */
	__u64 tls_connections; /* seen to be encrypted */
	__u64 tls_read;        /* of those, followed in plain text */
	__u64 tls_inferred; /* and those whose times tell all that is known */
};

/*
 * Log-linear histogram: bucket i covers [lo, hi) with 16 buckets an octave, so
 * that a quantile is off by at most 3.2 %.  Bucket 0 holds everything below
 * 2^HIST_MIN_SHIFT ns (1 us).
 */
#define HIST_MIN_SHIFT 10
#define HIST_SUB_SHIFT 4
#define HIST_OCTAVES 30
#define HIST_BUCKETS (HIST_OCTAVES << HIST_SUB_SHIFT)

struct request_histogram {
	__u64 count;
	__u64 sum_ns;
	__u64 buckets[HIST_BUCKETS];
};

static inline __u32 hist_bucket(__u64 ns)
{
	__u64 v = ns >> HIST_MIN_SHIFT;
	__u32 octave = 0;

	if (v < 1)
		return 0;
	/* log2 by halving: BPF has no count-leading-zeros instruction */
	if (v >> 32)
		return HIST_BUCKETS - 1;
	for (__u32 s = 16; s; s >>= 1)
		if ((v >> octave) >> s)
			octave += s;
	if (octave >= HIST_OCTAVES)
		return HIST_BUCKETS - 1;
	return (octave << HIST_SUB_SHIFT) |
	       (__u32)((ns >> (octave + HIST_MIN_SHIFT - HIST_SUB_SHIFT)) &
		       ((1u << HIST_SUB_SHIFT) - 1));
}

/* The lowest value of a bucket; bucket 0 reaches down to 0. */
static inline __u64 hist_bucket_low_ns(__u32 bucket)
{
	__u32 octave = bucket >> HIST_SUB_SHIFT;
	__u64 sub = bucket & ((1u << HIST_SUB_SHIFT) - 1);

	return ((1ull << HIST_SUB_SHIFT) + sub)
	       << (octave + HIST_MIN_SHIFT - HIST_SUB_SHIFT);
}

/* One finished request. */
struct request_record {
	__u64 start_ns;      /* head complete, CLOCK_MONOTONIC; 0: unknown */
	__u64 first_body_ns; /* 0: no body byte was sent */
	__u64 end_ns;
	__u64 body_bytes;
	__u64 max_gap_ns;
	__u64 path_hash; /* FNV-1a up to '?', or of all of a coded path; or 0 */
	__u32 events;
	__u16 status;  /* HTTP status, 0: unknown */
	__u8 endpoint; /* enum endpoint */
	__u8 how;      /* 0 completed, 1 client aborted, 2 server aborted */
	__u16 port;
	__u16 pad[3];
};

_Static_assert(sizeof(struct request_record) == 64, "wire layout");

#endif
