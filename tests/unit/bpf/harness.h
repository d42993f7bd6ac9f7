/*
 * harness.h - the framing core of the BPF programs as plain C
 *
 * Defines what bpf/exchange.h asks for, with plain memory for everything.  One
 * connection at a time; time is a counter that each call moves on by 1 us.
 */
#ifndef MOETOP_TESTS_UNIT_BPF_HARNESS_H
#define MOETOP_TESTS_UNIT_BPF_HARNESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "bpf/endpoints.h"
#include "bpf/http.h"
#include "bpf/huffman.h"
#include "wire/requests.h"

#define HARNESS_RECORDS 64u

static struct request_gauges gauges;
static struct request_counters counters;
static struct request_record records[HARNESS_RECORDS];
static unsigned n_records, n_paths;
static bool path_coded; /* of the last path */
static char path_tail[HTTP_PATH_TAIL];
static __u64 learnt; /* the last hash of endpoint_learn */
static struct request_histogram histograms[3];
static __u64 harness_ns;
static int tls_where; /* answer of tls_elsewhere */

static inline long copy_bytes(void *to, __u32 n, __u64 from)
{
	memcpy(to, (const void *)(uintptr_t)from, n);
	return 0;
}

/* Of the path, or of its form in Huffman's code. */
static inline __u64 path_hash(const char *path, bool coded)
{
	uint8_t code[128];
	size_t n = 0;

	if (!coded)
		return endpoints_hash(path, strlen(path));
	huffman_encode(path, strlen(path), code, sizeof(code), &n);
	return endpoints_hash((const char *)code, n);
}

static inline int endpoint_of(__u64 hash)
{
	static __u64 hashes[256][2];
	size_t n;
	const struct endpoint_path *p = endpoints_table(&n);

	for (size_t i = 0; i < n && i < 256; i++) {
		if (!hashes[i][0])
			for (int coded = 0; coded < 2; coded++)
				hashes[i][coded] = path_hash(p[i].path, coded);
		if (hashes[i][0] == hash || hashes[i][1] == hash)
			return (int)p[i].endpoint;
	}
	return -1;
}

static inline void endpoint_learn(__u64 hash)
{
	learnt = hash;
}

static inline void path_emit(const struct http_stream *s)
{
	path_coded = s->flags & HTTP_CODED;
	memcpy(path_tail, s->path, sizeof(path_tail));
	n_paths++;
}

static inline int record_emit(const struct request_record *r)
{
	if (n_records == HARNESS_RECORDS)
		return 1;
	records[n_records++] = *r;
	return 0;
}

static inline void histogram_add(__u32 which, __u64 ns)
{
	histograms[which].count++;
	histograms[which].sum_ns += ns;
	histograms[which].buckets[hist_bucket(ns)]++;
}

#define tls_begins(c) ((void)(c))
#define tls_elsewhere(c) ((void)(c), tls_where)
#define tls_lone(c, bytes) ((void)(c), (void)(bytes))

#include "bpf/ends.h"

static struct h2 harness_h2;
static const struct conn *harness_h2_of;
static bool harness_no_room;

static __always_inline struct h2 *h2_find(const struct conn *c)
{
	return harness_h2_of == c ? &harness_h2 : NULL;
}

static __always_inline struct h2 *h2_make(const struct conn *c)
{
	if (harness_no_room) {
		counters.overflows++;
		return NULL;
	}
	if (harness_h2_of == c)
		return &harness_h2;
	harness_h2_of = c;
	memset(&harness_h2, 0, sizeof(harness_h2));
	return &harness_h2;
}

static inline void harness_reset(void)
{
	memset(&gauges, 0, sizeof(gauges));
	memset(&counters, 0, sizeof(counters));
	memset(histograms, 0, sizeof(histograms));
	n_records = 0;
	n_paths = 0;
	learnt = 0;
	harness_h2_of = NULL;
	harness_no_room = false;
	harness_ns = 1000000000;
}

/* One system call with these pieces. */
static inline void harness_call(struct conn *c, bool sent,
				const struct iovec *v, unsigned n)
{
	struct reader r = { .iov = (uintptr_t)v, .iovs = n };

	for (unsigned i = 0; i < n; i++)
		r.rest += (__u32)v[i].iov_len;
	harness_ns += 1000;
	if (sent)
		conn_sent(c, &r, harness_ns);
	else
		conn_received(c, &r, harness_ns);
}

/*
 * Bytes in one call, from a copy of their exact size, so that the address
 * sanitizer sees a read too far.
 */
static inline void harness_bytes(struct conn *c, bool sent, const void *bytes,
				 size_t n)
{
	struct iovec v = { malloc(n ? n : 1), n };

	memcpy(v.iov_base, bytes, n);
	harness_call(c, sent, &v, 1);
	free(v.iov_base);
}

static inline int64_t harness_in_flight(void)
{
	int64_t sum = 0;

	for (unsigned e = 0; e < ENDPOINTS; e++)
		sum += gauges.waiting[e] + gauges.streaming[e];
	return sum;
}

static inline uint64_t harness_sum(const __u64 *per_endpoint)
{
	uint64_t sum = 0;

	for (unsigned e = 0; e < ENDPOINTS; e++)
		sum += per_endpoint[e];
	return sum;
}

/* Nothing is lost or counted twice. */
static inline bool harness_balanced(void)
{
	return (int64_t)(harness_sum(counters.started) -
			 harness_sum(counters.completed) -
			 harness_sum(counters.client_aborted) -
			 harness_sum(counters.server_aborted)) ==
	       harness_in_flight();
}

#endif
