/*
 * tls.h - a connection whose bytes are TLS, as its socket shows them
 *
 * Source for the BPF programs, the unit tests and the fuzzer alike.  TLS is known
 * by the header of a record, at the beginning or, on a connection that is older
 * than we, at the beginning of a call.  Its plain text is seen elsewhere if the
 * server has it from a library that is followed (tls.bpf.c); then this socket
 * tells only the life cycle.  Else the records themselves tell about what is in
 * flight, and no more than one request of a connection:
 *
 *	application data from the client	a request waits
 *	from the server, not at once		its response streams
 *	silence, or the client's next data	it is over
 *
 * Servers send the head of a stream at once, so what comes within TLS_EARLY_NS
 * is no token; and small records are the protocol's own (close, key update,
 * frames of HTTP/2 that only keep it going).
 *
 * Whoever includes it defines
 *
 *	tls_begins(c)		the connection is TLS; c->tls.kind says since when
 *	tls_elsewhere(c)	enum tls_where
 *	tls_lone(c, bytes)	the server sends a record of so many bytes
 */
#ifndef MOETOP_BPF_TLS_H
#define MOETOP_BPF_TLS_H

#include "bpf/reader.h"
#include "bpf/slot.h"

#define TLS_HEADER_BYTES 5u
#define TLS_RECORD_MAX (16384u + 2048u) /* RFC 5246, 6.2.3 */
#define TLS_APPLICATION 23u
#define TLS_SMALL_BYTES 40u
#define TLS_EARLY_NS 50000000ull
#define TLS_QUIET_NS 2000000000ull /* so long a stream may be silent */
#define TLS_IDLE_NS 5000000000ull  /* and so long after an early head */

/*
 * Where a message would begin, no matter how few of its bytes are there: none of
 * HTTP begins so.  Out of step, all three must be.
 */
static __always_inline int tls_is_record(const struct http_stream *s,
					 const struct http_window *w, __u32 n)
{
	if (!n || (s->state == HTTP_LINE ? s->pos : n < 3))
		return 0;
	return w->b[0] >= 20 && w->b[0] <= 23 && (n < 2 || w->b[1] == 3) &&
	       (n < 3 || w->b[2] <= 4);
}

/* What was thought of the socket before it was known that others tell. */
static __always_inline void tls_forget(struct conn *c, __u64 now)
{
	__u64 word = c->adopted.state;

	if (c->tls.inferred) {
		c->tls.inferred = 0;
		exchange_add(counters.tls_inferred, (__u64)-1);
	}
	if (word == SLOT_FREE)
		return;
	/* a guess that was taken for true */
	if ((word & 0xff) == SLOT_WAITING && slot_move(&c->adopted, word, 0)) {
		exchange_add(counters.started[slot_endpoint(word)], (__u64)-1);
		return;
	}
	slot_end(c, &c->adopted, ENDED_COMPLETED, now);
}

/* It is paired, or there will be nothing more to pair. */
static __always_inline void tls_closed(struct conn *c)
{
	if (__sync_lock_test_and_set(&c->tls.unpaired, 0))
		exchange_add(gauges.tls_unpaired, -1);
}

/* A direction is at the header of a record. */
static __always_inline void tls_found(struct conn *c, struct http_stream *s,
				      __u64 now)
{
	__u8 fresh = s->state == HTTP_LINE;

	s->left = 0;
	s->hash = 0;
	s->pos = 0;
	s->state = HTTP_TLS;
	/* both directions may come here at once */
	if (__sync_val_compare_and_swap(&c->tls.since_ns, 0, now))
		return;
	c->tls.kind = fresh ? TLS_FRESH : TLS_OLD;
	exchange_add(counters.tls_connections, 1);
	exchange_add(gauges.tls_unpaired, 1);
	(void)__sync_lock_test_and_set(&c->tls.unpaired, 1);
	if (c->closed)
		tls_closed(c);
	tls_begins(c);
	if (c->adopted.state == SLOT_FREE)
		return;
	tls_forget(c, now);
	if (tls_elsewhere(c))
		return;
	c->tls.answered = 1;
	c->adopted.start_ns = 0;
	slot_move(&c->adopted, SLOT_FREE, SLOT_TLS_WAITING);
	if (c->closed)
		slot_end(c, &c->adopted, (__u32)c->closed - 1, now);
}

/* No plain text: what follows is inferred. */
static __always_inline void tls_infer(struct conn *c)
{
	if (c->tls.inferred)
		return;
	c->tls.inferred = 1;
	exchange_add(counters.tls_inferred, 1);
}

static __always_inline void tls_start(struct conn *c, __u32 state, __u64 now)
{
	struct slot *s = &c->adopted;

	tls_infer(c);
	s->start_ns = now;
	c->answer.last_ns = now;
	slot_move(s, SLOT_FREE, state);
	if (c->closed)
		slot_end(c, s, (__u32)c->closed - 1, now);
}

/* Application data from the client. */
static __always_inline void tls_received(struct conn *c, __u32 bytes, __u64 now)
{
	/* TLS 1.3: the server has some before the client ends the handshake */
	if (!c->tls.finished && c->tls.kind != TLS_OLD && c->tls.sent) {
		c->tls.finished = 1;
		return;
	}
	c->tls.finished = 1;
	if (bytes < TLS_SMALL_BYTES)
		return;
	if (c->adopted.state == SLOT_TLS_WAITING && !c->tls.answered)
		return; /* more of it */
	slot_end(c, &c->adopted, ENDED_COMPLETED, now);
	c->tls.answered = 0;
	tls_start(c, SLOT_TLS_WAITING, now);
}

/* Application data from the server. */
static __always_inline void tls_sent(struct conn *c, __u32 bytes, __u64 now)
{
	c->tls.sent = 1;
	if (bytes < TLS_SMALL_BYTES)
		return;
	if (c->adopted.state == SLOT_TLS_WAITING) {
		c->tls.answered = 1;
		if (now - c->adopted.start_ns > TLS_EARLY_NS)
			slot_move(&c->adopted, SLOT_TLS_WAITING,
				  SLOT_TLS_STREAMING);
	} else if (c->adopted.state == SLOT_FREE &&
		   (c->tls.kind == TLS_OLD || c->tls.inferred)) {
		tls_start(c, SLOT_TLS_STREAMING, now);
	}
	c->answer.last_ns = now;
}

/* The header of a record is complete.  1: stop with this call. */
HTTP_GLOBAL int tls_record(struct conn *c, __u32 out, __u64 now)
{
	struct http_stream *s;
	__u32 type, bytes;
	int where;

	if (!c)
		return 1;
	s = out ? &c->out : &c->in;
	type = (__u32)(s->hash >> 32) & 0xff;
	bytes = (__u32)s->hash & 0xffff;
	s->pos = 0;
	s->hash = 0;
	if (type < 20 || type > 24 || bytes > TLS_RECORD_MAX) {
		conn_lose(s);
		return 1;
	}
	s->left = bytes;
	if (out && type == TLS_APPLICATION)
		tls_lone(c, bytes);
	where = tls_elsewhere(c);
	if (where) {
		tls_forget(c, now);
		if (where != TLS_PAIRED)
			return 0;
		tls_closed(c);
		s->state = HTTP_OPAQUE;
		return 1;
	}
	if (type != TLS_APPLICATION)
		return 0;
	if (out)
		tls_sent(c, bytes, now);
	else
		tls_received(c, bytes, now);
	return 0;
}

/* A window or skip of a direction.  1: stop with this call. */
HTTP_GLOBAL int tls_step(READER_PARAM struct conn *c, struct reader *r,
			 __u32 out, __u64 now)
{
	struct http_stream *s;
	__u8 header[8] = { 0 };
	__u32 n, want;

	if (!c || !r)
		return 1;
	s = out ? &c->out : &c->in;
	if (s->left) {
		reader_skip_body(r, s);
		return 0;
	}
	n = reader_peek(READER_ARG r, header, sizeof(header));
	if (!n || s->pos >= TLS_HEADER_BYTES) {
		conn_lose(s);
		return 1;
	}
	want = TLS_HEADER_BYTES - s->pos;
	if (n > want)
		n = want;
	for (__u32 i = 0; i < TLS_HEADER_BYTES && i < n; i++)
		s->hash = s->hash << 8 | header[i];
	s->pos += (__u8)n;
	reader_skip(r, n);
	if (s->pos < TLS_HEADER_BYTES)
		return 0;
	return tls_record(c, out, now);
}

/* Called from time to time. */
static __always_inline void tls_settle(struct conn *c, __u64 now)
{
	__u64 word = c->adopted.state, last = c->answer.last_ns, quiet = 0;

	if (!c->tls.kind || (word == SLOT_FREE && !c->tls.inferred))
		return;
	if (tls_elsewhere(c)) {
		tls_forget(c, now);
		return;
	}
	if (word == SLOT_TLS_STREAMING)
		quiet = TLS_QUIET_NS;
	else if (word == SLOT_TLS_WAITING && c->tls.answered)
		quiet = TLS_IDLE_NS;
	if (quiet && now > last && now - last > quiet)
		slot_end(c, &c->adopted, ENDED_COMPLETED, now);
}

#endif
