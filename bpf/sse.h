/*
 * sse.h - the events of an event stream
 *
 * Source for the BPF programs, the unit tests and the fuzzer alike.  Follows the
 * HTML standard, section 9.2.6: lines end with LF, CR LF or CR, an empty line
 * ends an event, a line that begins with ':' is a comment.  A block of lines is
 * an event if it has a field "data" or "event"; "data: [DONE]" is the end marker
 * of these servers and no event.
 *
 * The state can stop and go on at any byte.  Reading every byte costs about as
 * much as all the rest, so a chunk is left after the line that makes it an event
 * if it looks like those before it: nearly all servers write one event a chunk.
 * All of it is read of the first chunk of a response, of one that is longer than
 * usual, and of every one after a chunk that did not end or begin as an event
 * does.  Two events pass for one only if they are together shorter than one and
 * a quarter of the usual one.
 */
#ifndef MOETOP_BPF_SSE_H
#define MOETOP_BPF_SSE_H

#include "bpf/http.h"

/* Of one chunk no more is read; the rest is taken for the same event. */
#define SSE_READ_MAX 16384u

enum sse_flag {
	SSE_CR = 0x01,      /* the last byte was CR; an LF would belong to it */
	SSE_COUNTED = 0x02, /* this block is an event or the end marker */
	SSE_UNEVEN = 0x04,  /* chunks are no events: read all of each */
	SSE_WHOLE = 0x08,   /* read all of this chunk */
};

/* What a scan found in the last byte that it took. */
enum {
	SSE_TAKEN = 0xff,
	SSE_GOT_EVENT = 0x100,
	SSE_GOT_DONE = 0x200,
};

struct sse {
	__u64 chunk;  /* bytes of this chunk */
	__u64 usual;  /* bytes of an event, about; 0: not known yet */
	__u16 events; /* that began in this chunk */
	__u16 blocks; /* that ended in this chunk, comments among them */
	__u8 line;    /* bytes that agree with the end marker, or SSE_* */
	__u8 flags;
};

#define SSE_E 0x1eu       /* a line that has an "e" yet */
#define SSE_OTHER 0x1fu   /* a line of which no more need be known */
#define SSE_DATA_BYTES 5u /* "data:" */

static __always_inline int sse_count(struct sse *s, int what)
{
	if (s->flags & SSE_COUNTED)
		return 0;
	s->flags |= SSE_COUNTED;
	return what;
}

static __always_inline int sse_line_end(struct sse *s, __u8 c)
{
	__u8 line = s->line;

	if (c == '\r')
		s->flags |= SSE_CR;
	s->line = 0;
	if (!line) {
		s->flags &= (__u8)~SSE_COUNTED;
		s->blocks++;
	} else if (line < SSE_E && line >= SSE_DATA_BYTES - 1) {
		return sse_count(s, SSE_GOT_EVENT);
	}
	return 0;
}

static __always_inline int sse_line_begin(struct sse *s, __u8 c)
{
	if (c == 'd') {
		s->line = 1;
		return 0;
	}
	s->line = c == 'e' ? SSE_E : SSE_OTHER;
	if (!http_is_field(c))
		s->flags |= SSE_UNEVEN;
	return 0;
}

static __always_inline int sse_second_byte(struct sse *s, __u8 c)
{
	s->line = SSE_OTHER;
	if (c == 'v')
		return sse_count(s, SSE_GOT_EVENT);
	s->flags |= SSE_UNEVEN;
	return 0;
}

/* A byte of the stream.  0, SSE_GOT_EVENT or SSE_GOT_DONE. */
HTTP_GLOBAL int sse_byte(struct sse *s, __u8 c)
{
	__u8 line, flags;

	if (!s)
		return 0;
	line = s->line;
	flags = s->flags;
	s->flags = flags & (__u8)~SSE_CR;
	if (c == '\n' && (flags & SSE_CR))
		return 0;
	if (c == '\n' || c == '\r')
		return sse_line_end(s, c);
	if (line == SSE_OTHER)
		return 0;
	if (!line)
		return sse_line_begin(s, c);
	if (line == SSE_E)
		return sse_second_byte(s, c);
	if (line == SSE_DATA_BYTES && c == '[') /* the space may be left out */
		line++;
	if (c == (__u8)http_text[TEXT_DONE][line & 31]) {
		s->line = line + 1;
		if (line + 1u < HTTP_DONE_BYTES)
			return 0;
		s->line = SSE_OTHER;
		return sse_count(s, SSE_GOT_DONE);
	}
	s->line = SSE_OTHER;
	return line >= SSE_DATA_BYTES ? sse_count(s, SSE_GOT_EVENT) : 0;
}

/* Does a line end in the eight bytes from w->b[i] on? */
static __always_inline int sse_ends_line(const struct http_window *w, __u32 i)
{
	const __u64 ones = 0x0101010101010101ull;
	__u64 eight, lf, cr;

	__builtin_memcpy(&eight, &w->b[i & (HTTP_WINDOW - 8)], sizeof(eight));
	lf = eight ^ ones * '\n';
	cr = eight ^ ones * '\r';
	return (((lf - ones) & ~lf) | ((cr - ones) & ~cr)) & ones << 7 ? 1 : 0;
}

/*
 * The bytes from w->b[from] to w->b[to - 1]; stops after one that makes an event
 * or the end marker.  The position after the last byte taken, and what it is.
 */
HTTP_GLOBAL int sse_scan(struct sse *s, const struct http_window *w, __u32 from,
			 __u32 to)
{
	if (!s || !w)
		return 0;
	/* The verifier walks through the rounds and not through the places. */
	for (__u32 round = 0, i = from; round < HTTP_WINDOW; round++) {
		__u8 c;
		int got;

		i &= HTTP_WINDOW * 2 - 1;
		if (i >= to || i >= HTTP_WINDOW)
			break;
		c = w->b[i];
		if (s->line == SSE_OTHER && c != '\n' && c != '\r') {
			if (!(i & 7) && i + 8 <= to && !sse_ends_line(w, i))
				i += 7;
			i++;
			continue;
		}
		i++;
		got = sse_byte(s, c);
		if (got)
			return (int)i | got;
	}
	return (int)(to & SSE_TAKEN);
}

/* A chunk of so many bytes begins. */
static __always_inline void sse_chunk_begin(struct sse *s, __u64 bytes)
{
	s->chunk = bytes;
	s->events = 0;
	s->blocks = 0;
	s->flags &= (__u8)~SSE_WHOLE;
	if ((s->flags & SSE_UNEVEN) || s->chunk >= s->usual + s->usual / 4)
		s->flags |= SSE_WHOLE;
}

/* How long an event is: follows what is shorter at once. */
static __always_inline void sse_learn(struct sse *s)
{
	__u64 mean;

	if (!s->events)
		return;
	mean = s->blocks <= 1 ? s->chunk : s->chunk / s->blocks;
	if (!s->usual || mean < s->usual)
		s->usual = mean;
	else
		s->usual += (mean - s->usual) / 4;
}

/*
 * The chunk was read to where so many bytes are left, with this result at last.
 * 1: no more need be read of it.
 */
static __always_inline int sse_chunk_read(struct sse *s, int got, __u64 left)
{
	if (!left) {
		if (s->line || (s->flags & SSE_COUNTED))
			s->flags |= SSE_UNEVEN;
		sse_learn(s);
		return 1;
	}
	if (s->chunk - left < SSE_READ_MAX &&
	    (!(got & SSE_GOT_EVENT) || (s->flags & SSE_WHOLE)))
		return 0;
	s->line = 0;
	s->flags &= (__u8) ~(SSE_CR | SSE_COUNTED);
	sse_learn(s);
	return 1;
}

/*
 * A chunk of so many bytes that begins with an event: what a scan would leave.
 * 0: it must be scanned.
 */
static __always_inline int sse_quick(struct sse *s, __u64 bytes)
{
	if (s->line || (s->flags & (__u8)~SSE_WHOLE) ||
	    bytes >= s->usual + s->usual / 4)
		return 0;
	s->flags = 0;
	s->chunk = bytes;
	s->events = 1;
	s->blocks = 0;
	sse_learn(s);
	return 1;
}

#endif
