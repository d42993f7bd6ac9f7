/*
 * http.h - framing of HTTP/1.x, one direction of one connection
 *
 * Source for the BPF programs, the unit tests and the fuzzer alike.  The state
 * can stop and go on at any byte, so it does not matter how the bytes are cut
 * into calls.  The caller shows a window of at most HTTP_WINDOW bytes where
 * bytes must be read, and skips body bytes by arithmetic.
 *
 * Follows RFC 9112: section 6.3 for the length of a body, 7.1 for chunks with
 * extensions and trailers, 2.2 for empty lines before a request and for bare
 * LF.  Not framed: obsolete line folding.  HTTP/2 is recognised by its preface
 * and framed by frames.h.
 */
#ifndef MOETOP_BPF_HTTP_H
#define MOETOP_BPF_HTTP_H

#ifdef __bpf__
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#define HTTP_GLOBAL __noinline      /* verified once, not at every call */
#define HTTP_TABLE const            /* static ones have no place in BTF */
#define HTTP_KEEP(x) barrier_var(x) /* let the compiler know nothing of it */
#else
#include <linux/types.h>
#define HTTP_GLOBAL static inline
#define HTTP_TABLE static const
#define HTTP_KEEP(x) ((void)(x))
#endif

#define HTTP_WINDOW 64u       /* for heads and events */
#define HTTP_SHORT_WINDOW 32u /* for size lines, trailers and chunk starts */
#define HTTP_PATH_TAIL 64u
#define HTTP_LENGTH_MAX (1ull << 56)

/* In the order of a message: up to HTTP_SKIP the head, then the body. */
enum http_state {
	HTTP_UNKNOWN, /* out of step; waits for a start it can recognise */
	HTTP_LINE,    /* request line or status line */
	HTTP_NAME,    /* start of a header line */
	HTTP_VALUE,   /* value of a header that matters */
	HTTP_SKIP,    /* rest of a header that does not */
	HTTP_LENGTH,  /* body of known length */
	HTTP_SIZE,    /* chunk-size line */
	HTTP_CHUNK,   /* chunk data and its CRLF */
	HTTP_TRAILER,
	HTTP_CLOSE,  /* body until the connection closes */
	HTTP_TLS,    /* records of TLS (tls.h) */
	HTTP_OPAQUE, /* another protocol */
	HTTP_FRAMES, /* HTTP/2 */
};

enum http_flag {
	HTTP_RESPONSE = 0x01, /* direction: server to client */
	HTTP_HAS_LENGTH = 0x02,
	HTTP_HAS_CODING = 0x04,
	HTTP_CHUNKED = 0x08,   /* the last transfer coding is "chunked" */
	HTTP_EVENTS = 0x10,    /* content-type: text/event-stream */
	HTTP_QUERY = 0x20,     /* past the '?' of the target */
	HTTP_BAD = 0x40,       /* not HTTP/1.x */
	HTTP_UNDECIDED = 0x80, /* in a chunk of which more must be read */
	HTTP_PROBE = 0x100,    /* the chunk is only thought to be one */
	/* of a header block of HTTP/2 */
	HTTP_CODED = 0x200, /* the path is Huffman-coded */
	HTTP_PATH = 0x400,  /* it is there byte by byte, not by an index */
	HTTP_CALLS = 0x800, /* content-type: application/grpc */
	HTTP_H2C = 0x1000,  /* of a head: upgrade: h2c */
};

/* Result of a scan: the bytes taken, and one of these or none. */
enum {
	HTTP_TAKEN = 0xff,
	HTTP_GOT_HEAD = 0x100,
	HTTP_GOT_SIZE = 0x200, /* chunk data follows */
	HTTP_GOT_END = 0x400,  /* of the trailers and the message */
	HTTP_INVALID = 0x800,
};

struct http_stream {
	__u64 left;   /* of the body or chunk; the number being read before */
	__u16 status; /* response */
	__u16 flags;
	__u8 state;
	__u8 field;   /* of the first line: 0, 1, 2 */
	__u8 match;   /* header names still possible, then the one found */
	__u8 pos;     /* in the pattern being matched; 0: line is empty */
	__u64 hash;   /* request: FNV-1a of the path */
	__u32 method; /* request: first four bytes, first byte highest */
	__u32 path_bytes;
	char path[HTTP_PATH_TAIL]; /* its last bytes, path_bytes & 63 is next */
};

struct http_window {
	__u8 b[HTTP_WINDOW] __attribute__((aligned(8)));
};

#define HTTP_FNV_BASIS 14695981039346656037ull
#define HTTP_FNV_PRIME 1099511628211ull
#define HTTP_METHOD_HEAD 0x48454144u
#define HTTP_METHOD_PRI 0x505249u /* the preface of HTTP/2 */

enum {
	HTTP_IS_LENGTH = 1,
	HTTP_IS_CODING = 2,
	HTTP_IS_TYPE = 4,
	HTTP_IS_UPGRADE = 8,
};
#define HTTP_IS_ANY 15u

/* One table: single strings would go to mergeable sections, unknown to BPF. */
enum {
	TEXT_LENGTH,
	TEXT_CODING,
	TEXT_TYPE,
	TEXT_UPGRADE,
	TEXT_CHUNKED,
	TEXT_EVENTS,
	TEXT_DONE,
	TEXT_H2C,
	TEXTS
};
HTTP_TABLE char http_text[TEXTS][32] = {
	[TEXT_LENGTH] = "content-length:", [TEXT_CODING] = "transfer-encoding:",
	[TEXT_TYPE] = "content-type:",     [TEXT_UPGRADE] = "upgrade:",
	[TEXT_CHUNKED] = "chunked",        [TEXT_EVENTS] = "text/event-stream",
	[TEXT_DONE] = "data: [DONE]",      [TEXT_H2C] = "h2c",
};
#define HTTP_CHUNKED_BYTES 7u
#define HTTP_EVENTS_BYTES 17u
#define HTTP_DONE_BYTES 12u
#define HTTP_H2C_BYTES 3u

static __always_inline __u8 http_lower(__u8 c)
{
	return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

/* Expect a new message. */
static __always_inline void http_begin(struct http_stream *s)
{
	s->left = 0;
	s->hash = HTTP_FNV_BASIS;
	s->method = 0;
	s->path_bytes = 0;
	s->status = 0;
	s->flags &= HTTP_RESPONSE;
	s->state = HTTP_LINE;
	s->field = 0;
	s->pos = 0;
}

static __always_inline void http_begin_size(struct http_stream *s)
{
	s->state = HTTP_SIZE;
	s->left = 0;
	s->field = 0; /* 1: in a chunk extension */
	s->pos = 0;
}

static __always_inline void http_request_line(struct http_stream *s, __u8 c)
{
	if (s->field == 0) {
		if (c < '!' || c > '~')
			s->flags |= HTTP_BAD;
		if (!(s->method >> 24))
			s->method = s->method << 8 | c;
	} else if (s->field == 1) {
		if (c == '?')
			s->flags |= HTTP_QUERY;
		if (s->flags & HTTP_QUERY)
			return;
		s->hash = (s->hash ^ c) * HTTP_FNV_PRIME;
		s->path[s->path_bytes++ & (HTTP_PATH_TAIL - 1)] = (char)c;
	}
}

static __always_inline void http_status_line(struct http_stream *s, __u8 c)
{
	if (s->field == 0) {
		if (!s->method && c != 'H')
			s->flags |= HTTP_BAD;
		s->method = 1;
	} else if (s->field == 1) {
		if (c < '0' || c > '9' || s->status > 99)
			s->flags |= HTTP_BAD;
		else
			s->status = (__u16)(s->status * 10 + (c - '0'));
	}
}

static __always_inline void http_line_byte(struct http_stream *s, __u8 c)
{
	s->pos = 1;
	if (c == ' ') {
		if (s->field < 2)
			s->field++;
		return;
	}
	if (s->flags & HTTP_RESPONSE)
		http_status_line(s, c);
	else
		http_request_line(s, c);
}

static __always_inline void http_name_byte(struct http_stream *s, __u8 c)
{
	__u8 at = s->pos & 31, lower = http_lower(c), match = s->match;

	if (http_text[TEXT_LENGTH][at] != lower)
		match &= (__u8)~HTTP_IS_LENGTH;
	if (http_text[TEXT_CODING][at] != lower)
		match &= (__u8)~HTTP_IS_CODING;
	if (http_text[TEXT_TYPE][at] != lower)
		match &= (__u8)~HTTP_IS_TYPE;
	if (http_text[TEXT_UPGRADE][at] != lower)
		match &= (__u8)~HTTP_IS_UPGRADE;
	s->match = match;
	s->pos = at + 1;
	if (!match) {
		s->state = HTTP_SKIP;
	} else if (c == ':') {
		s->state = HTTP_VALUE;
		s->pos = 0;
		if (match == HTTP_IS_LENGTH) {
			s->left = 0;
			s->flags |= HTTP_HAS_LENGTH;
		} else if (match == HTTP_IS_CODING) {
			s->flags |= HTTP_HAS_CODING;
		}
	}
}

static __always_inline void http_value_byte(struct http_stream *s, __u8 c)
{
	if (c == ' ' || c == '\t')
		return;
	if (s->match == HTTP_IS_LENGTH) {
		if (c < '0' || c > '9' || s->left > HTTP_LENGTH_MAX / 16)
			s->flags |= HTTP_BAD;
		else
			s->left = s->left * 10 + (__u64)(c - '0');
	} else if (s->match == HTTP_IS_CODING) {
		if (c == ',')
			s->pos = 0;
		else if (s->pos < HTTP_CHUNKED_BYTES &&
			 http_text[TEXT_CHUNKED][s->pos & 31] == http_lower(c))
			s->pos++;
		else
			s->pos = HTTP_CHUNKED_BYTES + 1;
	} else if (s->match == HTTP_IS_UPGRADE) {
		if (http_text[TEXT_H2C][s->pos & 31] != http_lower(c)) {
			s->state = HTTP_SKIP;
		} else if (++s->pos == HTTP_H2C_BYTES) {
			s->flags |= HTTP_H2C;
			s->state = HTTP_SKIP;
		}
	} else if (http_text[TEXT_EVENTS][s->pos & 31] != http_lower(c)) {
		s->state = HTTP_SKIP;
	} else if (++s->pos == HTTP_EVENTS_BYTES) {
		s->flags |= HTTP_EVENTS;
		s->state = HTTP_SKIP;
	}
}

/* Is the first line, now complete, not one of HTTP/1.x? */
static __always_inline int http_line_bad(const struct http_stream *s)
{
	if (s->state != HTTP_LINE || !s->pos)
		return 0;
	return s->flags & HTTP_RESPONSE ? s->status < 100 : s->field < 2;
}

/* A line of the head has ended.  1: so has the head. */
static __always_inline int http_line_end(struct http_stream *s)
{
	__u8 state = s->state;

	if (state == HTTP_LINE && !s->pos) /* empty line between messages */
		return 0;
	if (state == HTTP_NAME && !s->pos)
		return 1;
	if (state == HTTP_VALUE && s->match == HTTP_IS_CODING) {
		s->flags &= (__u16)~HTTP_CHUNKED;
		if (s->pos == HTTP_CHUNKED_BYTES)
			s->flags |= HTTP_CHUNKED;
	}
	s->state = HTTP_NAME;
	s->match = HTTP_IS_ANY;
	s->pos = 0;
	return 0;
}

/* A byte of a head that matters.  0, HTTP_GOT_HEAD or HTTP_INVALID. */
HTTP_GLOBAL int http_head_byte(struct http_stream *s, __u8 c)
{
	if (!s)
		return HTTP_INVALID;
	if (c == '\n') {
		if (http_line_bad(s))
			return HTTP_INVALID;
		return http_line_end(s) ? HTTP_GOT_HEAD : 0;
	}
	if (s->state == HTTP_LINE)
		http_line_byte(s, c);
	else if (s->state == HTTP_NAME)
		http_name_byte(s, c);
	else
		http_value_byte(s, c);
	return s->flags & HTTP_BAD ? HTTP_INVALID : 0;
}

/* Bytes of a head, up to HTTP_GOT_HEAD after its empty line. */
HTTP_GLOBAL int http_head(struct http_stream *s, struct http_window *w, __u32 n)
{
	if (!s || !w)
		return HTTP_INVALID;
	for (__u32 i = 0; i < HTTP_WINDOW && i < n; i++) {
		__u8 c = w->b[i];
		int got;

		if (c == '\r' || (s->state == HTTP_SKIP && c != '\n'))
			continue;
		got = http_head_byte(s, c);
		if (got)
			return (int)(i + 1) | got;
	}
	return (int)(n & HTTP_TAKEN);
}

/*
 * The head is complete: choose how the body is framed.  1: there is none and
 * the message is over.  no_body: of a response that has none by its request or
 * status, whatever its headers say.
 */
static __always_inline int http_body(struct http_stream *s, int no_body)
{
	if (no_body)
		return 1;
	if (s->flags & HTTP_CHUNKED) {
		http_begin_size(s);
		return 0;
	}
	if ((s->flags & HTTP_HAS_LENGTH) && !(s->flags & HTTP_HAS_CODING)) {
		s->state = HTTP_LENGTH;
		return !s->left;
	}
	if (!(s->flags & HTTP_RESPONSE))
		return 1;
	s->state = HTTP_CLOSE;
	return 0;
}

static __always_inline __u32 http_at_most(__u32 n)
{
	return n < HTTP_SHORT_WINDOW ? n : HTTP_SHORT_WINDOW;
}

static __always_inline int http_hex(__u8 c)
{
	c = http_lower(c);
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * Bytes of a chunk-size line, up to HTTP_GOT_SIZE; then left counts the data and
 * the CRLF after it.  The last chunk leads to HTTP_TRAILER instead.
 */
HTTP_GLOBAL int http_size(struct http_stream *s, const struct http_window *w,
			  __u32 n)
{
	if (!s || !w)
		return HTTP_INVALID;
	for (__u32 i = 0; i < HTTP_SHORT_WINDOW && i < n; i++) {
		__u8 c = w->b[i];
		int digit;

		if (c == '\n') {
			if (!s->pos)
				return HTTP_INVALID;
			s->pos = 0;
			s->state = HTTP_TRAILER;
			if (!s->left)
				return (int)(i + 1);
			s->state = HTTP_CHUNK;
			s->left += 2;
			return (int)(i + 1) | HTTP_GOT_SIZE;
		}
		if (c == '\r' || s->field)
			continue;
		digit = http_hex(c);
		if (digit >= 0 && s->left < HTTP_LENGTH_MAX / 16) {
			s->left = s->left << 4 | (__u64)digit;
			s->pos = 1;
		} else if (s->pos && (c == ';' || c == ' ' || c == '\t')) {
			s->field = 1;
		} else {
			return HTTP_INVALID;
		}
	}
	return (int)http_at_most(n);
}

/* Bytes after the last chunk, up to HTTP_GOT_END after an empty line. */
HTTP_GLOBAL int http_trailer(struct http_stream *s, const struct http_window *w,
			     __u32 n)
{
	if (!s || !w)
		return HTTP_INVALID;
	for (__u32 i = 0; i < HTTP_SHORT_WINDOW && i < n; i++) {
		__u8 c = w->b[i];

		if (c == '\n') {
			if (!s->pos)
				return (int)(i + 1) | HTTP_GOT_END;
			s->pos = 0;
		} else if (c != '\r') {
			s->pos = 1;
		}
	}
	return (int)http_at_most(n);
}

/* How many bytes to show next. */
static __always_inline __u32 http_window_bytes(const struct http_stream *s)
{
	return s->state == HTTP_SIZE || s->state == HTTP_TRAILER
		       ? HTTP_SHORT_WINDOW
		       : HTTP_WINDOW;
}

/* Bytes of whatever must be read in this state. */
static __always_inline int http_scan(struct http_stream *s,
				     struct http_window *w, __u32 n)
{
	if (!n)
		return HTTP_INVALID;
	if (s->state <= HTTP_SKIP)
		return http_head(s, w, n);
	if (s->state == HTTP_SIZE)
		return http_size(s, w, n);
	return http_trailer(s, w, n);
}

/* May a line of an event stream begin with this? */
static __always_inline int http_is_field(__u8 c)
{
	return c == ':' || c == 'd' || c == 'e' || c == 'i' || c == 'r';
}

/* The first bytes of a chunk of an event stream, the first of all lowest. */
struct http_glance {
	__u64 low, high;
};

#define HTTP_DATA 0x203a61746164ull /* "data: " */
#define HTTP_EV 0x7665ull           /* "ev", of "event" */

/*
 * Is it certain at a glance that these begin a chunk of so many bytes, of which
 * one to four are digits, and its data is an event?  The bytes of the size line,
 * or 0.  The digits are not read: they are compared with what they must be.
 */
static __always_inline __u32 http_glance(const struct http_glance *g,
					 __u64 bytes)
{
	__u64 at = bytes > 4103 ? 4 : bytes > 262 ? 3 : bytes > 21 ? 2 : 1;
	__u64 data = bytes - 4 - at; /* without both ends of line */
	__u64 size = data << (16 - 4 * at), digits, letters, rest;

	digits = size >> 12 | (size & 0xf00) | (size & 0xf0) << 12 |
		 (size & 0xf) << 24;
	letters = (digits + 0x06060606) >> 4 & 0x01010101;
	digits += 0x30303030 + letters * ('a' - '0' - 10);
	rest = ((g->low | letters * ('a' - 'A')) ^ digits) << (64 - 8 * at);
	if (data >> 4 * at || rest)
		return 0;
	rest = g->low >> 8 * at;
	if ((rest & 0xffff) != 0x0a0d)
		return 0;
	rest = rest >> 16 | g->high << (48 - 8 * at);
	/* "data: [DONE]" is told by its seventh byte */
	if ((rest & 0xffff) != HTTP_EV &&
	    ((rest & 0xffffffffffff) != HTTP_DATA || (__u8)(rest >> 48) <= '['))
		return 0;
	return (__u32)at + 2;
}

/* Does a call that begins with these bytes begin a request? */
static __always_inline int http_is_request(const struct http_window *w, __u32 n)
{
	__u32 m = (__u32)w->b[0] << 24 | (__u32)w->b[1] << 16 |
		  (__u32)w->b[2] << 8 | w->b[3];

	return n >= 4 &&
	       (m == 0x504f5354 /* POST */ || m == 0x47455420 /* GET */ ||
		m == 0x48454144 /* HEAD */ || m == 0x50555420 /* PUT */ ||
		m == 0x44454c45 /* DELE */ || m == 0x4f505449 /* OPTI */ ||
		m == 0x50415443 /* PATC */ || m == 0x50524920 /* PRI */);
}

/* Does a call that begins with these bytes begin a response? */
static __always_inline int http_is_response(const struct http_window *w,
					    __u32 n)
{
	return n >= 7 && w->b[0] == 'H' && w->b[1] == 'T' && w->b[2] == 'T' &&
	       w->b[3] == 'P' && w->b[4] == '/' && w->b[5] == '1' &&
	       w->b[6] == '.';
}

#endif
