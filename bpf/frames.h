/*
 * frames.h - framing of HTTP/2 (RFC 9113), and what it says of requests
 *
 * Source for the BPF programs, the unit tests and the fuzzer alike.  The state
 * can stop and go on at any byte.  A stream is a request from the end of the
 * client's first header block until END_STREAM of the server; until a reset by
 * either, the server's GOAWAY that excludes it, or the end of the connection.
 *
 * A call that begins with what can be no frame, or holds bytes that cannot be
 * seen, puts its direction out of step: counted, and found again at the next
 * call that begins with a frame.  What was open by then is taken for over, and
 * what is not comes back with its next frame.
 */
#ifndef MOETOP_BPF_FRAMES_H
#define MOETOP_BPF_FRAMES_H

#include "bpf/frame.h"
#include "bpf/frames_data.h"
#include "bpf/reader.h"
#include "bpf/streams.h"

#define FRAMES_STEPS 2560u /* windows and skips of a call; more are lost */
#define FRAMES_STEPS_EACH 64u

enum frames_state {
	FRAMES_LOST,   /* waits for a call that begins with a frame */
	FRAMES_HEADER, /* of a frame */
	FRAMES_PAD,    /* the length of the padding */
	FRAMES_SKIP,
	FRAMES_BLOCK,
	FRAMES_DATA,
	FRAMES_NUMBER, /* of the last stream, in GOAWAY */
	FRAMES_REST,
};

enum { BLOCK_ENDS_STREAM = FLAG_END_STREAM, BLOCK_OF_PUSH = 2 };

/* What of the preface HTTP/1.x does not take for a head: "SM\r\n\r\n". */
#define FRAMES_PREFACE_REST 6u

/* HTTP status by that of a remote call, as google.rpc.Code maps them. */
HTTP_TABLE __u16 frames_grpc[32] = { 200, 499, 500, 400, 504, 404,
				     409, 403, 429, 400, 409, 400,
				     501, 500, 503, 500, 401 };

static __always_inline int frames_lose(struct frames *f)
{
	f->state = FRAMES_LOST;
	hpack_forget(&f->hpack);
	exchange_add(counters.desyncs, 1);
	return 1;
}

/* Expect a frame. */
static __always_inline void frames_expect(struct frames *f)
{
	f->state = FRAMES_HEADER;
	f->have = 0;
}

/* ---- what a frame says --------------------------------------------------- */

/* A header block of the client is complete. */
HTTP_GLOBAL int frames_request(struct conn *c, struct h2 *h)
{
	int endpoint = ENDPOINT_OTHER;
	struct http_stream *s;
	__u32 id;

	if (!c || !h)
		return 0;
	s = &c->in;
	id = h->in.stream;
	if (!(id & 1) || id <= h->newest)
		return 0; /* trailers */
	h->newest = id;
	if (s->hash)
		endpoint = endpoint_of(s->hash);
	if (endpoint < 0) {
		if (s->flags & HTTP_PATH)
			path_emit(s);
		endpoint = ENDPOINT_OTHER;
	}
	stream_open(c, h, id, (__u32)endpoint & (ENDPOINTS - 1), 0);
	return 0;
}

/* One of the server. */
HTTP_GLOBAL int frames_response(struct conn *c, struct h2 *h)
{
	struct http_stream *s;
	struct frames *f;
	struct stream *t;

	if (!c || !h)
		return 0;
	s = &c->out;
	f = &h->out;
	if (f->at >= STREAMS_MAX)
		return 0;
	t = &h->streams[f->at & (STREAMS_MAX - 1)];
	if (t->id != f->stream)
		return 0; /* it was reset in the middle of this block */
	if (!(t->flags & STREAM_HEAD)) {
		if (s->status && s->status < 200)
			return 0;
		t->answer.status = s->status;
		t->flags = STREAM_HEAD | (s->flags & (HTTP_EVENTS | HTTP_CALLS |
						      HTTP_HAS_LENGTH));
		if (s->flags & HTTP_EVENTS)
			slot_reclassify(&t->slot);
	}
	if (s->left)
		t->answer.status = frames_grpc[(s->left - 1) & 31];
	if (f->ends & BLOCK_ENDS_STREAM)
		slot_close(&t->slot, &t->answer, c->port, ENDED_COMPLETED,
			   f->now_ns);
	return 0;
}

/* The stream of this frame ends. */
HTTP_GLOBAL int frames_stream_end(struct conn *c, struct h2 *h, __u32 out,
				  __u32 how)
{
	struct frames *f;
	struct stream *t;

	if (!c || !h)
		return 0;
	f = out ? &h->out : &h->in;
	if (!out && h->adopts)
		h->reset[h->resets++ & (STREAMS_RESET - 1)] = f->stream;
	if (f->at >= STREAMS_MAX)
		return 0;
	t = &h->streams[f->at & (STREAMS_MAX - 1)];
	if (t->id == f->stream)
		slot_close(&t->slot, &t->answer, c->port, how, f->now_ns);
	return 0;
}

/* The whole frame went by.  1: out of step. */
static __always_inline int frames_end(struct conn *c, struct h2 *h, __u32 out)
{
	struct frames *f = out ? &h->out : &h->in;

	frames_expect(f);
	if (f->type == FRAME_DATA && out && (f->flags & FLAG_END_STREAM))
		frames_stream_end(c, h, out, ENDED_COMPLETED);
	else if (f->type == FRAME_RESET)
		frames_stream_end(c, h, out,
				  out ? ENDED_BY_SERVER : ENDED_BY_CLIENT);
	else if (f->type == FRAME_GOAWAY && out)
		streams_end(c, h, (__u32)f->word & 0x7fffffff, ENDED_BY_SERVER,
			    f->now_ns);
	if (!f->block || !(f->flags & FLAG_END_HEADERS))
		return 0;
	f->block = 0;
	if (f->hpack.state != HPACK_FIELD)
		return frames_lose(f);
	if (f->ends & BLOCK_OF_PUSH)
		return 0;
	if (out)
		frames_response(c, h);
	else
		frames_request(c, h);
	return 0;
}

/* ---- the parts of a frame ------------------------------------------------ */

/* What comes next in this frame.  1: out of step. */
HTTP_GLOBAL int frames_next(struct conn *c, struct h2 *h, __u32 out)
{
	struct frames *f;

	if (!c || !h)
		return 1;
	f = out ? &h->out : &h->in;
	if (f->padding > f->left || f->skip > f->left - f->padding)
		return frames_lose(f);
	if (!f->left && !(f->flags & FLAG_PADDED))
		return frames_end(c, h, out);
	if (f->flags & FLAG_PADDED)
		f->state = FRAMES_PAD;
	else if (f->skip)
		f->state = FRAMES_SKIP;
	else if (f->left == f->padding)
		f->state = FRAMES_REST;
	else if (f->block)
		f->state = FRAMES_BLOCK;
	else if (f->type == FRAME_DATA && f->at < STREAMS_MAX)
		f->state = FRAMES_DATA;
	else if (f->type == FRAME_GOAWAY && f->have < 13)
		f->state = FRAMES_NUMBER;
	else
		f->state = FRAMES_REST;
	return 0;
}

static __always_inline void frames_block_begin(struct frames *f,
					       struct http_stream *s)
{
	f->block = 1;
	f->ends = f->flags & FLAG_END_STREAM;
	if (f->type == FRAME_PUSH) {
		f->skip = 4;
		f->ends = BLOCK_OF_PUSH;
	} else if (f->flags & FLAG_PRIORITY) {
		f->skip = 5;
	}
	hpack_begin(&f->hpack, s);
}

/* Is the frame one that may not come here? */
static __always_inline int frames_bad(const struct frames *f, __u32 type,
				      __u32 id)
{
	if (!frame_fits(type, f->flags, f->left))
		return 1;
	if (f->fresh && type != FRAME_SETTINGS)
		return 1;
	if (f->block)
		return type != FRAME_CONTINUATION || id != f->stream;
	if (type <= FRAME_RESET || type == FRAME_PUSH)
		return !id;
	if (type == FRAME_SETTINGS || type == FRAME_PING ||
	    type == FRAME_GOAWAY)
		return id != 0;
	return type == FRAME_CONTINUATION;
}

/* The header of a frame is complete.  1: out of step. */
HTTP_GLOBAL int frames_begin(struct conn *c, struct h2 *h, __u32 out)
{
	struct frames *f;
	__u32 type, id;

	if (!c || !h)
		return 1;
	f = out ? &h->out : &h->in;
	type = (__u32)(f->word >> 40) & 0xff;
	id = (__u32)f->word & 0x7fffffff;
	f->left = (__u32)f->first << 16 | (__u32)(f->word >> 48);
	f->flags = (__u8)(f->word >> 32);
	if (frames_bad(f, type, id))
		return frames_lose(f);
	f->stream = id;
	f->padding = 0;
	f->skip = 0;
	f->at = STREAMS_MAX;
	f->data = DATA_BEGINS;
	f->type = (__u8)type;
	f->fresh = 0;
	f->synced = 1;
	if (type == FRAME_HEADERS || type == FRAME_PUSH)
		frames_block_begin(f, out ? &c->out : &c->in);
	if (type > FRAME_HEADERS && type != FRAME_PUSH)
		f->flags &= (__u8)~FLAG_PADDED;
	if (out && (type <= FRAME_HEADERS || type == FRAME_CONTINUATION))
		f->at = stream_answered(c, h, f->stream);
	else if (type == FRAME_RESET)
		f->at = (__u32)stream_find(h, f->stream);
	return 0;
}

/* Bytes of the header of a frame.  1: out of step; 2: there are more. */
static __always_inline int frames_header(struct conn *c, struct h2 *h,
					 struct reader *r,
					 const struct http_window *w, __u32 n,
					 __u32 out)
{
	struct frames *f = out ? &h->out : &h->in;
	__u32 i = 0;

	for (; i < FRAME_HEADER_BYTES; i++) {
		if (i >= n || f->have >= FRAME_HEADER_BYTES)
			break;
		if (!f->have++)
			f->first = w->b[i];
		else
			f->word = f->word << 8 | w->b[i];
	}
	reader_skip(r, i);
	return f->have < FRAME_HEADER_BYTES ? 2 : frames_begin(c, h, out);
}

static __always_inline int frames_number(struct frames *f, struct reader *r,
					 const struct http_window *w)
{
	f->word = f->word << 8 | w->b[0];
	f->have++;
	f->left--;
	reader_skip(r, 1);
	return 0;
}

static __always_inline int frames_pad(struct frames *f, struct reader *r,
				      const struct http_window *w)
{
	if (!f->left)
		return frames_lose(f);
	f->padding = w->b[0];
	f->flags &= (__u8)~FLAG_PADDED;
	f->left--;
	reader_skip(r, 1);
	return 0;
}

/* Bytes of a header block. */
HTTP_GLOBAL int frames_block(struct frames *f, struct http_stream *s,
			     struct reader *r, const struct http_window *w,
			     __u32 n)
{
	__u32 most, skip;
	int got;

	if (!f || !s || !r || !w)
		return 1;
	most = f->left - f->padding;
	skip = hpack_skippable(&f->hpack);
	if (skip) {
		skip = skip < most ? skip : most;
		skip = skip < r->piece ? skip : r->piece;
		hpack_skip(&f->hpack, s, skip);
		f->left -= skip;
		reader_skip(r, skip);
		return 0;
	}
	got = hpack_bytes(&f->hpack, s, w, n < most ? n : most);
	if (got & HTTP_INVALID)
		return frames_lose(f);
	f->left -= (__u32)got & HTTP_TAKEN;
	reader_skip(r, (__u32)got & HTTP_TAKEN);
	return 0;
}

/* ---- calls --------------------------------------------------------------- */

#define FRAMES_GO_ON 2 /* a part of a frame is over: frames_next() */

/* One window or skip of a direction.  1: stop with this call. */
HTTP_GLOBAL int frames_step(READER_PARAM struct conn *c, struct h2 *h,
			    struct reader *r, __u32 out)
{
	struct http_window w = { 0 };
	struct frames *f;
	__u32 n = 0;
	int lost = 0;

	if (!c || !h || !r)
		return 1;
	f = out ? &h->out : &h->in;
	if (!r->piece)
		return reader_next(READER_ARG r);
	if (f->state == FRAMES_LOST)
		return 1;
	if (f->state != FRAMES_REST && f->state != FRAMES_SKIP) {
		n = reader_peek(READER_ARG r, &w, HTTP_WINDOW);
		if (!n)
			return frames_lose(f);
	}
	switch (f->state) {
	case FRAMES_HEADER:
		lost = frames_header(c, h, r, &w, n, out);
		break;
	case FRAMES_PAD:
		lost = frames_pad(f, r, &w);
		break;
	case FRAMES_BLOCK:
		lost = frames_block(f, out ? &c->out : &c->in, r, &w, n);
		break;
	case FRAMES_NUMBER:
		lost = frames_number(f, r, &w);
		break;
	case FRAMES_DATA:
		if (out)
			frames_data(c, h, r, &w, n);
		break;
	default:
		n = f->state == FRAMES_SKIP ? f->skip : f->left;
		n = n < r->piece ? n : r->piece;
		f->skip -= f->state == FRAMES_SKIP ? n : 0;
		f->left -= n;
		if (f->padding > f->left)
			f->padding = f->left;
		reader_skip(r, n);
		break;
	}
	return lost ? lost & 1 : FRAMES_GO_ON;
}

/* Some of them.  1: stop with this call. */
HTTP_GLOBAL int frames_steps(READER_PARAM struct conn *c, struct h2 *h,
			     struct reader *r, __u32 out)
{
	if (!c || !h || !r)
		return 1;
	for (__u32 i = 0; i < FRAMES_STEPS_EACH; i++) {
		int got = frames_step(READER_ARG c, h, r, out);

		if (got == FRAMES_GO_ON)
			got = frames_next(c, h, out);
		if (got)
			return 1;
	}
	return 0;
}

/* Out of step: does this call begin with a frame? */
HTTP_GLOBAL int frames_resync(READER_PARAM struct conn *c, struct h2 *h,
			      struct reader *r, __u32 out)
{
	struct http_window w = { 0 };
	struct frames *f;
	__u32 n;

	if (!c || !h || !r)
		return 0;
	f = out ? &h->out : &h->in;
	n = reader_peek(READER_ARG r, &w, HTTP_WINDOW);
	if (!frame_seems(&w, n))
		return 0;
	if (f->synced)
		streams_end(c, h, 0, ENDED_COMPLETED, f->now_ns);
	h->adopts = 1;
	f->block = 0;
	frames_expect(f);
	exchange_add(counters.resyncs, 1);
	return 0;
}

/* ---- beginnings ---------------------------------------------------------- */

/*
 * HTTP/1.x comes upon HTTP/2, in one direction; the next call of that, or the
 * rest of this one, does what is to be done.  There, since the stack of a BPF
 * program is small and every caller's part of it counts.
 */
enum { FRAMES_FRESH = HTTP_METHOD_PRI, FRAMES_GUESSED, FRAMES_UPGRADED };

static __always_inline void frames_enter(struct http_stream *s, __u32 how)
{
	s->state = HTTP_FRAMES;
	s->method = how;
}

/*
 * An empty set of streams, both directions out of step; NULL: no room.  If the
 * other direction makes one at the same time, that is it.
 */
static __always_inline struct h2 *frames_make(struct conn *c)
{
	struct h2 *h = h2_make(c);

	c->out.state = h ? HTTP_FRAMES : HTTP_OPAQUE;
	return h;
}

/* The first frame of the server is to come, and perhaps that of the client. */
HTTP_GLOBAL int frames_fresh(struct conn *c, __u32 out)
{
	struct h2 *h;

	if (!c)
		return 0;
	h = !out && c->out.state == HTTP_FRAMES ? h2_find(c) : NULL;
	if (!h) {
		h = frames_make(c);
		if (h) {
			frames_expect(&h->out);
			h->out.fresh = 1;
		}
	}
	if (out)
		return 0;
	c->in.state = h ? HTTP_FRAMES : HTTP_OPAQUE;
	if (!h)
		return 0;
	h->in.type = FRAME_NONE;
	h->in.state = FRAMES_REST;
	h->in.left = FRAMES_PREFACE_REST;
	h->in.fresh = 1;
	return 0;
}

/* The server has agreed to go on with HTTP/2 (exchange.h). */
HTTP_GLOBAL int response_upgrade(struct conn *c, __u64 now);

/* Both directions are of an older connection. */
HTTP_GLOBAL int frames_older(struct conn *c)
{
	if (!c)
		return 0;
	frames_make(c);
	c->in.state = c->out.state;
	return 0;
}

/* A call of a connection that speaks HTTP/2. */
HTTP_GLOBAL int frames_call(READER_PARAM struct conn *c, struct reader *r,
			    __u64 now, __u32 out)
{
	struct http_stream *s;
	struct frames *f;
	struct h2 *h;

	if (!c || !r)
		return 0;
	s = out ? &c->out : &c->in;
	if (s->method == FRAMES_FRESH)
		frames_fresh(c, out);
	else if (s->method == FRAMES_GUESSED)
		frames_older(c);
	else if (s->method == FRAMES_UPGRADED)
		response_upgrade(c, now);
	s->method = 0;
	h = h2_find(c);
	if (!h)
		return 0;
	f = out ? &h->out : &h->in;
	f->now_ns = now;
	if (!r->piece && reader_next(READER_ARG r))
		return r->rest && f->state != FRAMES_LOST ? frames_lose(f) : 0;
	if (f->state == FRAMES_LOST)
		frames_resync(READER_ARG c, h, r, out);
	for (__u32 i = 0; i < FRAMES_STEPS / FRAMES_STEPS_EACH; i++)
		if (frames_steps(READER_ARG c, h, r, out))
			break;
	if ((r->piece || r->rest) && f->state != FRAMES_LOST)
		frames_lose(f);
	return 0;
}

/* ---- out of step -------------------------------------------------------- */

/*
 * Out of step, and a call begins with these bytes of so many: is the protocol
 * HTTP/2?  It takes four calls that begin with a frame, or two that are one.
 */
HTTP_GLOBAL int frames_guess(struct conn *c, const struct http_window *w,
			     __u32 n, __u32 bytes, __u32 out)
{
	struct http_stream *s;
	__u32 whole;

	if (!c || !w)
		return 0;
	s = out ? &c->out : &c->in;
	if (!frame_seems(w, n)) {
		s->field = 0;
		return 0;
	}
	whole = ((__u32)w->b[1] << 8 | w->b[2]) + FRAME_HEADER_BYTES;
	s->field = (__u8)(s->field + (whole == bytes ? 2 : 1));
	return s->field >= 4;
}

/* A gap in what one direction has moved. */
static __always_inline void frames_gap(struct conn *c, int out)
{
	struct h2 *h = h2_find(c);
	struct frames *f;

	if (!h)
		return;
	f = out ? &h->out : &h->in;
	if (f->state != FRAMES_LOST)
		frames_lose(f);
}

#endif
