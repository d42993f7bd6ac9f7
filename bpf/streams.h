/*
 * streams.h - the streams of an HTTP/2 connection: its requests
 *
 * Lie in a table of their own, made when the connection turns out to speak
 * HTTP/2, so that others need no room for them.  The includer of exchange.h
 * defines
 *
 *	h2_find(c)	the streams of a connection, NULL if it has none
 *	h2_make(c)	those that it has, or a new, empty set; NULL and counted if
 *			there is no room
 *
 * The receiving side opens streams and ends those that the client resets, the
 * sending side ends them; slot.h says why no gauge drifts.  A stream beyond
 * STREAMS_MAX is counted as a desync and not followed.
 */
#ifndef MOETOP_BPF_STREAMS_H
#define MOETOP_BPF_STREAMS_H

#include "bpf/hpack.h"
#include "bpf/slot.h"

#define STREAMS_MAX 128u  /* of a connection, power of 2 */
#define STREAMS_RESET 16u /* ids remembered, power of 2 */

/* Flags of a stream, besides those of its response head in enum http_flag. */
enum {
	STREAM_HEAD = HTTP_PATH,   /* the response head was seen */
	STREAM_PROBE = HTTP_PROBE, /* older than we: its type is not known */
};

struct stream {
	struct slot slot;
	struct answer answer;
	__u32 id;
	__u32 message; /* bytes left of a message of a remote call */
	__u16 flags;
	__u8 have; /* bytes of the five before a message */
	__u8 pad[5];
};

/* Of a frame of data. */
enum frames_read { DATA_BEGINS, DATA_READ, DATA_SKIPPED };

/* The frames of one direction; frames.h. */
struct frames {
	struct hpack hpack;
	__u64 now_ns;  /* of the call */
	__u64 word;    /* the last eight bytes of a frame header */
	__u32 left;    /* bytes of the payload to come */
	__u32 padding; /* of them, at the end */
	__u32 skip;    /* of them, before what matters */
	__u32 stream;
	__u32 at; /* of that stream in the table; STREAMS_MAX: not there */
	__u8 state;
	__u8 have; /* bytes of the header, or of the number that follows it */
	__u8 first;
	__u8 type;
	__u8 flags;
	__u8 ends;   /* the header block is the last of its stream */
	__u8 fresh;  /* no frame was seen, and the first is to come */
	__u8 synced; /* in step, or was */
	__u8 block;  /* in a header block */
	__u8 data;   /* enum frames_read */
	__u8 pad[2];
};

struct h2 {
	struct frames in, out;
	__u32 newest; /* stream of the client */
	__u32 adopts; /* there may be streams whose start was not seen */
	__u32 resets;
	__u32 reset[STREAMS_RESET]; /* by the client, while that is so */
	__u32 pad;
	__u64 oldest_ns; /* as of the last look */
	struct stream streams[STREAMS_MAX];
};

static __always_inline struct h2 *h2_find(const struct conn *c);
static __always_inline struct h2 *h2_make(const struct conn *c);

/* Is there a stream in this place? */
static __always_inline int stream_lives(const struct stream *t)
{
	__u64 word = t->slot.state;

	return word != SLOT_FREE && word != SLOT_TAKEN;
}

/* Where a stream is, STREAMS_MAX if it is not there.  No id comes twice. */
HTTP_GLOBAL int stream_find(const struct h2 *h, __u32 id)
{
	if (!h)
		return STREAMS_MAX;
	for (__u32 i = 0; i < STREAMS_MAX; i++) {
		__u32 at = (id / 2 + i) & (STREAMS_MAX - 1);

		if (h->streams[at].id == id)
			return stream_lives(&h->streams[at]) ? (int)at
							     : (int)STREAMS_MAX;
	}
	return STREAMS_MAX;
}

/* Take room for a stream, STREAMS_MAX if there is none: after a resync both
 * sides may open streams at the same time. */
HTTP_GLOBAL int stream_take(struct h2 *h, __u32 id)
{
	if (!h)
		return STREAMS_MAX;
	for (__u32 i = 0; i < STREAMS_MAX; i++) {
		__u32 at = (id / 2 + i) & (STREAMS_MAX - 1);

		if (h->streams[at].slot.state == SLOT_FREE &&
		    slot_move(&h->streams[at].slot, SLOT_FREE, SLOT_TAKEN))
			return (int)at;
	}
	return STREAMS_MAX;
}

/* A stream in the place that was taken for it; its request is to come. */
static __always_inline void stream_set(struct stream *t, __u32 id, __u32 flags)
{
	t->id = id;
	t->flags = (__u16)flags;
	t->have = 0;
	t->answer = (struct answer){ 0 };
}

/* A request: `out` for one that was only noticed by its answer.  Its place. */
static __always_inline __u32 stream_open(struct conn *c, struct h2 *h, __u32 id,
					 __u32 endpoint, const int out)
{
	__u64 now = out ? h->out.now_ns : h->in.now_ns;
	__u32 at = (__u32)stream_take(h, id);
	struct stream *t;

	if (at >= STREAMS_MAX) {
		exchange_add(counters.desyncs, 1);
		return STREAMS_MAX;
	}
	t = &h->streams[at];
	stream_set(t, id, out ? STREAM_PROBE : 0);
	t->slot.start_ns = out ? 0 : now;
	t->slot.path_hash = out ? 0 : c->in.hash;
	if (slot_move(&t->slot, SLOT_TAKEN, slot_word(SLOT_WAITING, endpoint)))
		exchange_add(counters.started[endpoint], 1);
	/* The life cycle looked at the slots before or looks after the move. */
	if (c->closed)
		slot_close(&t->slot, &t->answer, c->port, (__u32)c->closed - 1,
			   now);
	return at;
}

/* The answer to a request of HTTP/1.x is to come on the first stream. */
HTTP_GLOBAL int stream_upgrade(struct conn *c, struct h2 *h, struct slot *s)
{
	struct stream *t;
	__u64 word;
	__u32 at;

	if (!c || !h || !s)
		return 0;
	at = (__u32)stream_take(h, 1);
	if (at >= STREAMS_MAX)
		return 0;
	t = &h->streams[at];
	stream_set(t, 1, 0);
	t->slot.start_ns = s->start_ns;
	t->slot.path_hash = s->path_hash;
	word = __sync_lock_test_and_set(&s->state, SLOT_FREE);
	gauge_add(word, -1);
	slot_move(&t->slot, SLOT_TAKEN, word);
	if (c->closed)
		slot_close(&t->slot, &t->answer, c->port, (__u32)c->closed - 1,
			   h->out.now_ns);
	return 0;
}

/* End the streams above a number. */
HTTP_GLOBAL int streams_end(struct conn *c, struct h2 *h, __u32 above,
			    __u32 how, __u64 now)
{
	if (!c || !h)
		return 0;
	for (__u32 i = 0; i < STREAMS_MAX; i++) {
		struct stream *t = &h->streams[i];

		if (stream_lives(t) && t->id > above)
			slot_close(&t->slot, &t->answer, c->port, how, now);
	}
	return 0;
}

/* End all that a connection has. */
HTTP_GLOBAL int h2_close(struct conn *c, __u32 how, __u64 now)
{
	struct h2 *h;

	if (!c)
		return 0;
	h = h2_find(c);
	return h ? streams_end(c, h, 0, how, now) : 0;
}

/* Is a stream older than those that were looked at before? */
HTTP_GLOBAL int stream_look(struct h2 *h, __u32 at)
{
	struct stream *t;
	__u64 start_ns;

	if (!h)
		return 0;
	t = &h->streams[at & (STREAMS_MAX - 1)];
	start_ns = t->slot.start_ns;
	if (!stream_lives(t) || !start_ns)
		return 0;
	if (!h->oldest_ns || start_ns < h->oldest_ns)
		h->oldest_ns = start_ns;
	return 0;
}

/* When the oldest request of a connection began; 0: there is none. */
static __always_inline __u64 h2_oldest(struct conn *c)
{
	struct h2 *h = h2_find(c);

	if (!h)
		return 0;
	h->oldest_ns = 0;
	for (__u32 i = 0; i < STREAMS_MAX; i++)
		stream_look(h, i);
	return h->oldest_ns;
}

/* Has the client reset this stream of late? */
static __always_inline int stream_was_reset(const struct h2 *h, __u32 id)
{
	for (__u32 i = 0; i < STREAMS_RESET; i++)
		if (h->reset[i] == id)
			return 1;
	return 0;
}

/* The stream that the server sends something on, noticed now if need be. */
static __always_inline __u32 stream_answered(struct conn *c, struct h2 *h,
					     __u32 id)
{
	__u32 at = (__u32)stream_find(h, id);

	if (at < STREAMS_MAX || !h->adopts || !(id & 1) ||
	    stream_was_reset(h, id))
		return at;
	return stream_open(c, h, id, ENDPOINT_OTHER, 1);
}

/* A byte of an answer that is no comment; event: it begins one. */
HTTP_GLOBAL int stream_event(struct stream *t, __u32 event, __u64 now)
{
	__u32 timed;

	if (!t)
		return 0;
	timed = !(t->flags & HTTP_HAS_LENGTH) || t->flags & HTTP_CALLS;
	answer_first(&t->answer, &t->slot, timed, now);
	if (event && timed)
		answer_event(&t->answer, &t->slot, 1, now);
	return 0;
}

#endif
