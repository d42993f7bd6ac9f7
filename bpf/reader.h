/*
 * reader.h - the bytes that one system call moved, piece by piece
 *
 * Bounded: at most READER_IOVECS pieces, which is what the kernel takes too, and
 * windows of at most HTTP_WINDOW bytes.  The includer defines
 *
 *	copy_bytes(READER_ARG to, n, from)	0 on success
 *
 * for an address of the caller of the system call, or, where READER_PARAM and
 * READER_ARG name a packet, for an offset in that.
 */
#ifndef MOETOP_BPF_READER_H
#define MOETOP_BPF_READER_H

#include "bpf/http.h"

#define READER_IOVECS 1024u

#ifndef READER_PARAM
#define READER_PARAM /* bytes are in memory */
#define READER_ARG
#endif

/* What a system call transferred, piece by piece. */
struct reader {
	__u64 at;  /* address of the next byte */
	__u64 iov; /* address of the next struct iovec */
	__u32 iovs;
	__u32 piece;  /* bytes left of this piece */
	__u32 rest;   /* bytes left of the pieces after it */
	__u32 opaque; /* the bytes are somewhere else (sendfile, io_uring) */
};

/* Go to the next piece.  1: there is none. */
static __always_inline int reader_next(READER_PARAM struct reader *r)
{
	struct {
		__u64 base, bytes;
	} v = { 0 };

	if (!r->iovs || !r->rest ||
	    copy_bytes(READER_ARG & v, sizeof(v), r->iov))
		return 1;
	r->iov += sizeof(v);
	r->iovs--;
	r->at = v.base;
	r->piece = v.bytes < r->rest ? (__u32)v.bytes : r->rest;
	r->rest -= r->piece;
	return 0;
}

static __always_inline void reader_skip(struct reader *r, __u32 n)
{
	r->at += n;
	r->piece -= n;
}

/* Show up to max (a power of two) bytes of this piece; 0: unreadable. */
static __always_inline __u32 reader_peek(READER_PARAM const struct reader *r,
					 void *to, __u32 max)
{
	__u32 n = r->piece < max ? r->piece : max;

	if (r->opaque || !n)
		return 0;
	HTTP_KEEP(n); /* or it drops what only the verifier needs */
	n = ((n - 1) & (max - 1)) + 1; /* a bound that every verifier sees */
	return copy_bytes(READER_ARG to, n, r->at) ? 0 : n;
}

/* Skip the part of a body that is in this piece; its bytes. */
static __always_inline __u32 reader_skip_body(struct reader *r,
					      struct http_stream *s)
{
	__u32 n = s->left < r->piece ? (__u32)s->left : r->piece;

	reader_skip(r, n);
	s->left -= n;
	return n;
}

#endif
