/*
 * request.h - requests of HTTP/1.x, by the receiver; exchange.h has the rest
 */
#ifndef MOETOP_BPF_REQUEST_H
#define MOETOP_BPF_REQUEST_H

#include "bpf/frames.h"
#include "bpf/http.h"
#include "bpf/reader.h"
#include "bpf/slot.h"
#include "bpf/sse.h"
#include "bpf/tls.h"
#include "wire/requests.h"

#define EXCHANGE_STEPS 2560u /* windows and skips of a call; more are lost */
#define EXCHANGE_STEPS_EACH 64u
#define STEP_TLS 2 /* result of a step: the bytes are for tls_step() */

static __always_inline __u32 conn_first(const struct conn *c)
{
	__u32 popped = c->popped, retired = c->retired;

	return (__s32)(retired - popped) > 0 ? retired : popped;
}

/* Are there requests that found no slot?  Those after them find none either. */
static __always_inline int conn_over(const struct conn *c)
{
	return (__s32)(c->over_pushed - c->over_popped) > 0;
}

/* The responses of all outstanding requests went by unseen. */
static __always_inline void requests_retire(struct conn *c, __u64 now)
{
	for (__u32 i = 0; i < EXCHANGE_SLOTS; i++)
		slot_end(c, &c->slots[i], ENDED_COMPLETED, now);
	slot_end(c, &c->adopted, ENDED_COMPLETED, now);
	c->retired = c->pushed;
	c->over_popped = c->over_pushed;
}

/* A request head is complete. */
static __always_inline void request_start(struct conn *c, __u64 now)
{
	struct slot *s = &c->slots[c->pushed & (EXCHANGE_SLOTS - 1)];
	int endpoint;

	if (c->out.state == HTTP_UNKNOWN)
		requests_retire(c, now);
	if (conn_over(c) || c->pushed - conn_first(c) >= EXCHANGE_SLOTS) {
		c->over_pushed++;
		exchange_add(counters.desyncs, 1);
		return;
	}
	endpoint = endpoint_of(c->in.hash);
	if (endpoint < 0) {
		path_emit(&c->in);
		endpoint = ENDPOINT_OTHER;
	}
	endpoint &= ENDPOINTS - 1;
	s->start_ns = now;
	s->path_hash = c->in.hash;
	s->head_method = c->in.method == HTTP_METHOD_HEAD;
	c->pushed++;
	if (slot_move(s, SLOT_FREE, slot_word(SLOT_WAITING, (__u32)endpoint)))
		exchange_add(counters.started[endpoint], 1);
	/* The life cycle looked at the slots before or looks after the move. */
	if (c->closed)
		slot_end(c, s, (__u32)c->closed - 1, now);
}

static __always_inline void request_head_done(struct conn *c, __u64 now)
{
	struct http_stream *s = &c->in;

	if (s->method == HTTP_METHOD_PRI) {
		frames_enter(s, FRAMES_FRESH);
		return;
	}
	if (c->out.state == HTTP_FRAMES)
		conn_lose(&c->out); /* what it sent was none */
	request_start(c, now);
	if (http_body(s, 0))
		http_begin(s);
}

/* Out of step: does this call begin with a frame of HTTP/2, as did others? */
static __always_inline void conn_guess(struct conn *c, const struct reader *r,
				       const struct http_window *w, __u32 n,
				       __u32 out, __u64 now)
{
	if (!frames_guess(c, w, n, r->piece + r->rest, out))
		return;
	requests_retire(c, now);
	c->adopting = 0;
	frames_enter(out ? &c->out : &c->in, FRAMES_GUESSED);
}

/* The receiver is out of step: does this call begin a request?  1: no. */
static __always_inline int request_resync(struct conn *c,
					  const struct reader *r,
					  const struct http_window *w, __u32 n,
					  __u64 now)
{
	struct http_stream *s = &c->in;

	if (!http_is_request(w, n)) {
		conn_guess(c, r, w, n, 0, now);
		return 1;
	}
	s->flags = 0;
	http_begin(s);
	exchange_add(counters.resyncs, 1);
	return 0;
}

/* Bytes that must be read.  1: stop with this call. */
static __always_inline int request_scan(READER_PARAM struct conn *c,
					struct reader *r, __u64 now)
{
	struct http_stream *s = &c->in;
	struct http_window w = { 0 };
	__u32 n;
	int got;

	n = reader_peek(READER_ARG r, &w, http_window_bytes(s));
	if (s->state <= HTTP_LINE && tls_is_record(s, &w, n)) {
		tls_found(c, s, now);
		return 0;
	}
	if (s->state == HTTP_UNKNOWN && request_resync(c, r, &w, n, now))
		return 1;
	got = http_scan(s, &w, n);
	if (got & HTTP_INVALID) {
		conn_lose(s);
		return 1;
	}
	reader_skip(r, (__u32)got & HTTP_TAKEN);
	if (got & HTTP_GOT_HEAD)
		request_head_done(c, now);
	else if (got & HTTP_GOT_END)
		http_begin(s);
	return 0;
}

/* Received bytes: one window or skip.  1: stop with this call. */
HTTP_GLOBAL int request_step(READER_PARAM struct conn *c, struct reader *r,
			     __u64 now)
{
	struct http_stream *s;

	if (!c || !r)
		return 1;
	s = &c->in;
	if (!r->piece)
		return reader_next(READER_ARG r);
	if (s->state >= HTTP_OPAQUE)
		return 1;
	if (s->state == HTTP_TLS)
		return STEP_TLS;
	if (s->state != HTTP_LENGTH && s->state != HTTP_CHUNK)
		return request_scan(READER_ARG c, r, now);
	reader_skip_body(r, s);
	if (s->left)
		return 0;
	if (s->state == HTTP_CHUNK)
		http_begin_size(s);
	else
		http_begin(s);
	return 0;
}

#endif
