/*
 * exchange.h - requests and responses of one connection, and their accounts
 *
 * Source for the BPF programs, the unit tests and the fuzzer alike.  Whoever
 * includes it defines first
 *
 *	struct request_gauges gauges;
 *	struct request_counters counters;
 *	copy_bytes()		as reader.h says
 *	endpoint_of()		class of a path hash, -1 for an unknown one
 *	endpoint_learn()	an unknown path turned out to make tokens
 *	path_emit()		ship a path that no table knows
 *	record_emit()		ship the record of an ended request
 *	h2_find(), h2_make()	as streams.h says
 *	histogram_add()		enum exchange_histogram
 *	tls_begins(), tls_elsewhere(), tls_lone()	as tls.h says
 */
#ifndef MOETOP_BPF_EXCHANGE_H
#define MOETOP_BPF_EXCHANGE_H

#include "bpf/request.h"

/* ---- responses, by the sender -------------------------------------------- */

/* The request that is being answered, NULL if none is known. */
static __always_inline struct slot *response_slot(struct conn *c)
{
	if (c->adopting)
		return &c->adopted;
	c->popped = conn_first(c);
	if (c->popped == c->pushed)
		return NULL;
	return &c->slots[c->popped & (EXCHANGE_SLOTS - 1)];
}

/* A response has begun, or goes on after a part that was not seen. */
static __always_inline void response_begin(struct conn *c)
{
	if (!c->responding)
		c->answered = conn_first(c);
	c->responding = 1;
}

/* The response is over, or was before we noticed. */
static __always_inline void response_done(struct conn *c, __u64 now)
{
	struct slot *s = response_slot(c);

	if (s && (c->adopting || c->answered == c->popped))
		slot_end(c, s, ENDED_COMPLETED, now);
	if (c->adopting)
		c->adopting = 0;
	else if (s)
		c->popped += c->answered == c->popped; /* else retired */
	else if (conn_over(c))
		c->over_popped++;
	c->responding = 0;
	c->answer = (struct answer){ 0 };
	http_begin(&c->out);
}

/* The guess was right: the request that it stands for is being answered. */
static __always_inline int guess_confirm(struct conn *c)
{
	const __u64 guess = slot_word(SLOT_GUESSED, ENDPOINT_GENERATION);

	if (!slot_move(&c->adopted, guess,
		       slot_word(SLOT_WAITING, ENDPOINT_GENERATION)))
		return 0;
	c->adopting = 1;
	exchange_add(counters.started[ENDPOINT_GENERATION], 1);
	return 1;
}

/*
 * The server has agreed to go on with HTTP/2: its first frame is next, the
 * client's preface is to come, and the request is the first stream.
 */
HTTP_GLOBAL int response_upgrade(struct conn *c, __u64 now)
{
	struct slot *s;
	struct h2 *h;

	if (!c)
		return 0;
	frames_fresh(c, 1);
	h = h2_find(c);
	s = response_slot(c);
	if (h && s) {
		h->newest = 1;
		h->out.now_ns = now;
		stream_upgrade(c, h, s);
	}
	response_done(c, now);
	c->out.state = h ? HTTP_FRAMES : HTTP_OPAQUE;
	return 0;
}

/* An event stream begins, or is seen for the first time in its middle. */
static __always_inline void response_is_stream(struct conn *c, __u64 now)
{
	struct slot *s = response_slot(c);

	if (s) {
		slot_reclassify(s);
		return;
	}
	if (conn_over(c) || c->closed)
		return;
	if (guess_confirm(c))
		return;
	s = &c->adopted;
	s->start_ns = 0;
	s->path_hash = 0;
	c->adopting = 1;
	if (slot_move(s, SLOT_FREE,
		      slot_word(SLOT_WAITING, ENDPOINT_GENERATION)))
		exchange_add(counters.started[ENDPOINT_GENERATION], 1);
	if (c->closed)
		slot_end(c, s, (__u32)c->closed - 1, now);
}

static __always_inline void response_chunk_skip(struct conn *c,
						struct reader *r)
{
	struct http_stream *s = &c->out;
	__u64 data = s->left > 2 ? s->left - 2 : 0;
	__u32 n = reader_skip_body(r, s);

	c->answer.body_bytes += n < data ? n : data;
	if (!s->left)
		http_begin_size(s);
}

/* A probed chunk is of an event stream: back in step. */
static __always_inline void response_resumed(struct conn *c, __u64 now)
{
	c->out.flags &= (__u16)~HTTP_PROBE;
	response_begin(c);
	c->answer.counted = 0;
	c->answer.sse = (struct sse){ 0 };
	sse_chunk_begin(&c->answer.sse, c->out.left - 2);
	exchange_add(counters.resyncs, 1);
	response_is_stream(c, now);
}

/* What a scan of an event stream found. */
static __always_inline void response_found(struct conn *c, int got, __u64 now)
{
	struct slot *slot;

	if (!(got & (SSE_GOT_EVENT | SSE_GOT_DONE)))
		return;
	slot = response_slot(c);
	answer_first(&c->answer, slot, 1, now);
	if (got & SSE_GOT_EVENT) {
		c->answer.sse.events++;
		answer_event(&c->answer, slot, 1, now);
	}
}

/*
 * Data of a chunk of an event stream; w->b[at] to w->b[n - 1] are the next bytes
 * of the piece.
 */
static __always_inline int response_events(struct conn *c, struct reader *r,
					   const struct http_window *w,
					   __u32 at, __u32 n, __u64 now)
{
	struct http_stream *s = &c->out;
	__u64 data = s->left - 2;
	__u32 taken;
	int got;

	if (s->flags & HTTP_PROBE) {
		if (!http_is_field(w->b[at & (HTTP_WINDOW - 1)])) {
			s->state = HTTP_UNKNOWN;
			return 1;
		}
		response_resumed(c, now);
	}
	if (n - at > data)
		n = at + (__u32)data;
	got = sse_scan(&c->answer.sse, w, at, n);
	taken = ((__u32)got & SSE_TAKEN) - at;
	response_found(c, got, now);
	s->left -= taken;
	c->answer.body_bytes += taken;
	reader_skip(r, taken);
	if (sse_chunk_read(&c->answer.sse, got, s->left - 2)) {
		s->flags &= (__u16)~HTTP_UNDECIDED;
		response_chunk_skip(c, r);
	}
	return 0;
}

/* A chunk of anything else counts as an event when its first byte is sent. */
static __always_inline void response_chunk(struct conn *c, struct reader *r,
					   __u64 now)
{
	struct slot *slot = response_slot(c);

	c->out.flags &= (__u16)~HTTP_UNDECIDED;
	answer_first(&c->answer, slot, 1, now);
	answer_event(&c->answer, slot, 1, now);
	response_chunk_skip(c, r);
}

static __always_inline int response_data(struct conn *c, struct reader *r,
					 const struct http_window *w, __u32 at,
					 __u32 n, __u64 now)
{
	if (c->out.flags & HTTP_EVENTS)
		return response_events(c, r, w, at, n, now);
	response_chunk(c, r, now);
	return 0;
}

/* An event stream that lasts until close; n: 0 if the bytes are unreadable. */
static __always_inline void response_until_close(struct conn *c,
						 struct reader *r,
						 const struct http_window *w,
						 __u32 n, __u64 now)
{
	int got = n ? sse_scan(&c->answer.sse, w, 0, n) : 0;
	__u32 taken = n ? (__u32)got & SSE_TAKEN : r->piece;

	response_found(c, got, now);
	c->answer.body_bytes += taken;
	reader_skip(r, taken);
}

static __always_inline void response_head_done(struct conn *c, __u64 now)
{
	struct http_stream *s = &c->out;
	__u16 status = s->status;
	struct slot *slot;

	if (status < 200 && status != 101) {
		http_begin(s);
		return;
	}
	if (c->adopted.state && !response_slot(c))
		guess_confirm(c);
	response_begin(c);
	c->answer.status = status;
	if (status == 101 && s->flags & HTTP_H2C) {
		frames_enter(s, FRAMES_UPGRADED);
		return;
	}
	if (status == 101) {
		response_done(c, now);
		s->state = HTTP_OPAQUE;
		c->in.state = HTTP_OPAQUE;
		return;
	}
	if (s->flags & HTTP_EVENTS)
		response_is_stream(c, now);
	slot = response_slot(c);
	if (http_body(s, status == 204 || status == 304 ||
				 (slot && slot->head_method)))
		response_done(c, now);
}

/*
 * The sender is out of step: a call may begin with a response head, or with a
 * chunk of an event stream.  1: it does not.
 */
static __always_inline int response_resync(struct conn *c,
					   const struct reader *r,
					   const struct http_window *w, __u32 n,
					   __u64 now)
{
	struct http_stream *s = &c->out;

	s->flags = HTTP_RESPONSE;
	if (http_is_response(w, n)) {
		if (c->responding)
			response_done(c, now);
		http_begin(s);
		exchange_add(counters.resyncs, 1);
		return 0;
	}
	if (!n || http_hex(w->b[0]) < 0) {
		conn_guess(c, r, w, n, 1, now);
		return 1;
	}
	http_begin_size(s);
	s->flags |= HTTP_CHUNKED | HTTP_EVENTS | HTTP_PROBE;
	return 0;
}

/*
 * Bytes of no response: those of a server that speaks HTTP/2 and does so first?
 * They begin with the length of SETTINGS, less than 65536.
 */
static __always_inline int response_is_frame(const struct conn *c,
					     const struct http_window *w)
{
	return c->out.state == HTTP_LINE && c->out.pos == 1 && !c->out.field &&
	       !w->b[0] && !c->pushed && c->in.state != HTTP_UNKNOWN;
}

/* Bytes that must be read.  1: stop with this call. */
static __always_inline int response_scan(READER_PARAM struct conn *c,
					 struct reader *r, __u64 now)
{
	struct http_stream *s = &c->out;
	struct http_window w = { 0 };
	__u32 n;
	int got;

	n = reader_peek(READER_ARG r, &w, http_window_bytes(s));
	if (s->state <= HTTP_LINE && tls_is_record(s, &w, n)) {
		tls_found(c, s, now);
		return 0;
	}
	if (s->state == HTTP_UNKNOWN && response_resync(c, r, &w, n, now))
		return 1;
	if (s->state == HTTP_CLOSE) {
		response_until_close(c, r, &w, n, now);
		return 0;
	}
	if (s->state == HTTP_CHUNK && n)
		return response_data(c, r, &w, 0, n, now);
	got = http_scan(s, &w, n);
	if ((s->flags & HTTP_PROBE) && !(got & HTTP_GOT_SIZE)) {
		s->state = HTTP_UNKNOWN;
		return 1;
	}
	if (got & HTTP_INVALID) {
		if (response_is_frame(c, &w))
			frames_enter(s, FRAMES_FRESH);
		else
			conn_lose(s);
		return 1;
	}
	reader_skip(r, (__u32)got & HTTP_TAKEN);
	if (got & HTTP_GOT_HEAD) {
		response_head_done(c, now);
	} else if (got & HTTP_GOT_END) {
		response_done(c, now);
	} else if (got & HTTP_GOT_SIZE) {
		s->flags |= HTTP_UNDECIDED;
		if (s->flags & HTTP_EVENTS)
			sse_chunk_begin(&c->answer.sse, s->left - 2);
		if (((__u32)got & HTTP_TAKEN) < n)
			return response_data(c, r, &w, (__u32)got & HTTP_TAKEN,
					     n, now);
	}
	return 0;
}

/* Sent bytes: one window or skip.  1: stop with this call. */
HTTP_GLOBAL int response_step(READER_PARAM struct conn *c, struct reader *r,
			      __u64 now)
{
	struct http_stream *s;

	if (!c || !r)
		return 1;
	s = &c->out;
	if (!r->piece)
		return reader_next(READER_ARG r);
	switch (s->state) {
	case HTTP_OPAQUE:
	case HTTP_FRAMES:
		return 1;
	case HTTP_TLS:
		return STEP_TLS;
	case HTTP_LENGTH:
		answer_first(&c->answer, response_slot(c), 0, now);
		c->answer.body_bytes += reader_skip_body(r, s);
		if (!s->left)
			response_done(c, now);
		return 0;
	case HTTP_CLOSE:
		if (s->flags & HTTP_EVENTS)
			break;
		answer_first(&c->answer, response_slot(c), 0, now);
		c->answer.body_bytes += r->piece;
		reader_skip(r, r->piece);
		return 0;
	case HTTP_CHUNK:
		if (s->flags & HTTP_UNDECIDED)
			break;
		response_chunk_skip(c, r);
		return 0;
	default:
		break;
	}
	return response_scan(READER_ARG c, r, now);
}

/*
 * One more event of a response.  The request is looked at only where it may have
 * ended since the last one: it lies far from all else that an event needs.
 */
static __always_inline void response_event(struct conn *c, __u64 now)
{
	__u32 timed = c->out.flags & HTTP_CHUNKED;

	if (c->answer.counted && !c->closed)
		answer_count(&c->answer,
			     slot_word(SLOT_STREAMING, c->answer.counted - 1u),
			     timed, now);
	else
		answer_event(&c->answer, response_slot(c), timed, now);
}

/*
 * What nearly every call on an event stream sends: one whole chunk, an event
 * that is not the first.  1: so it was.  Leaves the state as response_step
 * would, at a third of the cost.
 */
static __always_inline int response_quick(READER_PARAM struct conn *c,
					  struct reader *r, __u64 now)
{
	struct http_stream *s = &c->out;
	struct http_glance g = { 0 };
	__u32 line, data;

	if (s->state != HTTP_SIZE || s->left || s->pos || s->field ||
	    (s->flags & (HTTP_EVENTS | HTTP_PROBE)) != HTTP_EVENTS ||
	    !c->answer.first_ns || r->opaque || r->piece < sizeof(g) ||
	    copy_bytes(READER_ARG & g, sizeof(g), r->at))
		return 0;
	line = http_glance(&g, r->piece);
	data = r->piece - line - 2;
	if (!line || !sse_quick(&c->answer.sse, data))
		return 0;
	response_event(c, now);
	c->answer.body_bytes += data;
	reader_skip(r, r->piece);
	return 1;
}

/* ---- a connection -------------------------------------------------------- */

/* Bytes went by unseen. */
static __always_inline void conn_gap(struct conn *c, int out)
{
	struct http_stream *s = out ? &c->out : &c->in;

	if (s->state == HTTP_FRAMES)
		frames_gap(c, out);
	else if (s->state != HTTP_UNKNOWN && s->state != HTTP_OPAQUE)
		conn_lose(s);
}

/* Bytes of a call that were not followed to its end. */
static __always_inline void conn_check(struct http_stream *s,
				       const struct reader *r)
{
	if ((r->piece || r->rest) && s->state != HTTP_UNKNOWN &&
	    s->state < HTTP_OPAQUE && s->state != HTTP_CLOSE)
		conn_lose(s);
}

/* Many steps, apart from the loop over these: the verifier walks through every
 * round of either loop, but not of one within the other. */
HTTP_GLOBAL int request_steps(READER_PARAM struct conn *c, struct reader *r,
			      __u64 now)
{
	if (!c || !r)
		return 1;
	for (__u32 i = 0; i < EXCHANGE_STEPS_EACH; i++) {
		int got = request_step(READER_ARG c, r, now);

		if (got == STEP_TLS)
			got = tls_step(READER_ARG c, r, 0, now);
		if (got)
			return 1;
	}
	return 0;
}

HTTP_GLOBAL int response_steps(READER_PARAM struct conn *c, struct reader *r,
			       __u64 now)
{
	if (!c || !r)
		return 1;
	for (__u32 i = 0; i < EXCHANGE_STEPS_EACH; i++) {
		int got = response_step(READER_ARG c, r, now);

		if (got == STEP_TLS)
			got = tls_step(READER_ARG c, r, 1, now);
		if (got)
			return 1;
	}
	return 0;
}

/* A call has received bytes. */
static __always_inline void conn_received(READER_PARAM struct conn *c,
					  struct reader *r, __u64 now)
{
	if (c->closed == 1 + ENDED_BY_SERVER)
		return; /* what comes after that is read and thrown away */
	for (__u32 i = 0; i < EXCHANGE_STEPS / EXCHANGE_STEPS_EACH; i++)
		if (request_steps(READER_ARG c, r, now))
			break;
	if (c->in.state == HTTP_FRAMES)
		frames_call(READER_ARG c, r, now, 0);
	conn_check(&c->in, r);
}

/* A call has sent bytes: those that the kernel accepted. */
static __always_inline void conn_sent(READER_PARAM struct conn *c,
				      struct reader *r, __u64 now)
{
	if (response_quick(READER_ARG c, r, now))
		return;
	for (__u32 i = 0; i < EXCHANGE_STEPS / EXCHANGE_STEPS_EACH; i++)
		if (response_steps(READER_ARG c, r, now))
			break;
	if (c->out.state == HTTP_FRAMES)
		frames_call(READER_ARG c, r, now, 1);
	conn_check(&c->out, r);
}

#endif
