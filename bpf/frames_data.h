/*
 * frames_data.h - the body of a response over HTTP/2
 *
 * The events of an event stream are those of sse.h, with frames of data for
 * chunks; in remote calls (gRPC) they are messages, however they are cut; else
 * frames of data that are not empty.  An answer of announced length has none.
 */
#ifndef MOETOP_BPF_FRAMES_DATA_H
#define MOETOP_BPF_FRAMES_DATA_H

#include "bpf/reader.h"
#include "bpf/streams.h"

static __always_inline void frames_skip_data(struct frames *f, struct stream *t,
					     struct reader *r, __u32 most)
{
	__u32 n = most < r->piece ? most : r->piece;

	reader_skip(r, n);
	f->left -= n;
	t->answer.body_bytes += n;
}

/* A message: a byte, its length in four, and so many bytes. */
HTTP_GLOBAL int frames_message(struct frames *f, struct stream *t,
			       struct reader *r, const struct http_window *w,
			       __u32 n)
{
	__u32 most;

	if (!f || !t || !r || !w)
		return 0;
	most = f->left - f->padding;
	if (t->have >= 5) {
		__u32 before = f->left;

		frames_skip_data(f, t, r,
				 most < t->message ? most : t->message);
		t->message -= before - f->left;
	} else {
		__u32 i = 0;

		for (; i < 5; i++) {
			if (i >= n || i >= most || t->have >= 5)
				break;
			t->message = t->message << 8 | w->b[i];
			t->have++;
		}
		frames_skip_data(f, t, r, i);
		if (t->have < 5)
			return 0;
		stream_event(t, 1, f->now_ns);
	}
	if (!t->message)
		t->have = 0;
	return 0;
}

/* Data of an event stream. */
HTTP_GLOBAL int frames_events(struct frames *f, struct stream *t,
			      struct reader *r, const struct http_window *w,
			      __u32 n)
{
	__u32 most;
	int got;

	if (!f || !t || !r || !w)
		return 0;
	most = f->left - f->padding;
	if (f->data == DATA_BEGINS)
		sse_chunk_begin(&t->answer.sse, most);
	f->data = DATA_READ;
	got = sse_scan(&t->answer.sse, w, 0, n < most ? n : most);
	if (got & SSE_GOT_EVENT)
		t->answer.sse.events++;
	if (got & (SSE_GOT_EVENT | SSE_GOT_DONE))
		stream_event(t, got & SSE_GOT_EVENT, f->now_ns);
	frames_skip_data(f, t, r, (__u32)got & SSE_TAKEN);
	most = f->left - f->padding;
	if (sse_chunk_read(&t->answer.sse, got, most)) {
		f->data = DATA_SKIPPED;
		frames_skip_data(f, t, r, most);
	}
	return 0;
}

/* Is a stream that is older than we one of events? */
static __always_inline void frames_probe(struct stream *t, __u8 first)
{
	t->flags &= (__u16)~STREAM_PROBE;
	if (!http_is_field(first))
		return;
	t->flags |= HTTP_EVENTS;
	slot_reclassify(&t->slot);
}

/* Bytes of the body of a response. */
static __always_inline void frames_data(struct conn *c, struct h2 *h,
					struct reader *r,
					const struct http_window *w, __u32 n)
{
	struct frames *f = &h->out;
	struct stream *t = &h->streams[f->at & (STREAMS_MAX - 1)];
	__u32 most = f->left - f->padding;

	c->answer.last_ns = f->now_ns;
	if (t->id != f->stream) { /* it ended in the middle of this frame */
		frames_skip_data(f, t, r, most);
		return;
	}
	if (t->flags & HTTP_CALLS) {
		frames_message(f, t, r, w, n);
		return;
	}
	if (t->flags & STREAM_PROBE)
		frames_probe(t, w->b[0]);
	if ((t->flags & HTTP_EVENTS) && f->data != DATA_SKIPPED) {
		frames_events(f, t, r, w, n);
		return;
	}
	if (f->data == DATA_BEGINS)
		stream_event(t, 1, f->now_ns);
	f->data = DATA_SKIPPED;
	frames_skip_data(f, t, r, most);
}

#endif
