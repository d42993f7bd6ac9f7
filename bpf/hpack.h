/*
 * hpack.h - header blocks of HTTP/2 (RFC 7541), one direction of a connection
 *
 * Source for the BPF programs, the unit tests and the fuzzer alike.  Takes one
 * byte at a time, so that it does not matter how a block is cut.  Only what
 * tells a request or its answer from others is kept: the path, the status, the
 * length and two media types.
 *
 * Strings stay as they are coded: Huffman coding is deterministic, so a coded
 * path is as good a key as a plain one, and user space knows both forms of the
 * paths in its table.  Of the dynamic table only the order of the insertions
 * matters: index 61 + i is the i-th newest, whatever has been evicted, for
 * nobody may refer to what has been.  The last HPACK_ENTRIES are kept, which is
 * all that a table of the default size (4096 bytes) can hold; an older one, or
 * one from before the reading began, is unknown.
 */
#ifndef MOETOP_BPF_HPACK_H
#define MOETOP_BPF_HPACK_H

#include "bpf/http.h"

#define HPACK_ENTRIES 128u /* power of 2 */
#define HPACK_STATIC 61u
#define HPACK_NUMBER_MAX (1u << 24)

/* What a name means, and what its value is then. */
enum hpack_kind {
	HPACK_OTHER,
	HPACK_PATH,   /* FNV-1a of the coded bytes, up to '?' of a plain one */
	HPACK_STATUS, /* a number */
	HPACK_LENGTH, /* that it is there */
	HPACK_TYPE,   /* flags of struct http_stream */
	HPACK_GRPC,   /* status of a remote call, a number */
};

enum hpack_state {
	HPACK_FIELD, /* first byte of a field */
	HPACK_INDEX, /* more bytes of its index */
	HPACK_NAME_LENGTH,
	HPACK_NAME_LENGTH_MORE,
	HPACK_NAME,
	HPACK_VALUE_LENGTH,
	HPACK_VALUE_LENGTH_MORE,
	HPACK_VALUE,
};

enum hpack_form { HPACK_INDEXED, HPACK_INSERTED, HPACK_LITERAL, HPACK_RESIZE };

struct hpack {
	__u64 hash;     /* of the string being read */
	__u64 value;    /* of the field being read */
	__u32 number;   /* being read; of a string: its bytes to come */
	__u32 inserted; /* entries, since the reading began */
	__u8 state;
	__u8 form;
	__u8 kind;
	__u8 coded; /* the string is Huffman-coded */
	__u8 shift;
	__u8 pos; /* bytes of the string so far, at most 255 */
	__u8 pad[2];
	__u64 values[HPACK_ENTRIES];
	__u8 kinds[HPACK_ENTRIES];
};

/* FNV-1a of names, plain and coded, and of the starts of two values. */
#define HPACK_PATH_PLAIN 0xcdf2c36c30fbed4eull
#define HPACK_PATH_CODED 0x928b3d60c5e9627eull
#define HPACK_STATUS_PLAIN 0x2e34de0ff2ef0cf7ull
#define HPACK_STATUS_CODED 0xd8bfa374e1998187ull
#define HPACK_LENGTH_PLAIN 0x2d69a1e6ee916e7dull
#define HPACK_LENGTH_CODED 0x2ca55973a88208a0ull
#define HPACK_TYPE_PLAIN 0x0f4dd5cf6a7a0235ull
#define HPACK_TYPE_CODED 0x2b43d376d44a02afull
#define HPACK_GRPC_PLAIN 0x0ebe512588b8ba7aull
#define HPACK_GRPC_CODED 0xf0475c076d900c22ull
/* text/event-stream: 17 bytes, or the first 11 of 94 bits */
#define HPACK_EVENTS_PLAIN 0x66e22b900351904cull
#define HPACK_EVENTS_CODED 0xb6c5e844fad9caa1ull
#define HPACK_EVENTS_CODED_BYTES 11u
/* application/grpc: 16 bytes, or 11 */
#define HPACK_CALLS_PLAIN 0x73f7854cb5384026ull
#define HPACK_CALLS_CODED 0xf34505ef68ec16b3ull
#define HPACK_CALLS_BYTES 16u
#define HPACK_CALLS_CODED_BYTES 11u
/* the paths of the static table: "/" and "/index.html" */
#define HPACK_ROOT 0xaf63a24c860189feull
#define HPACK_INDEX_HTML 0xc0db15da98438971ull

/* :status of the entries 8 to 14 of the static table */
HTTP_TABLE __u16 hpack_statuses[8] = { 200, 204, 206, 304, 400, 404, 500 };

/* Expect a header block; s gets what is found in it. */
static __always_inline void hpack_begin(struct hpack *p, struct http_stream *s)
{
	p->state = HPACK_FIELD;
	s->left = 0; /* 1 + the status of a remote call */
	s->hash = 0;
	s->path_bytes = 0;
	s->status = 0;
	s->flags &= HTTP_RESPONSE;
}

/* The table is lost: what is inserted from now on is known again. */
static __always_inline void hpack_forget(struct hpack *p)
{
	p->inserted = 0;
	p->state = HPACK_FIELD;
}

static __always_inline void hpack_found(struct http_stream *s, __u32 kind,
					__u64 value)
{
	if (kind == HPACK_PATH)
		s->hash = value;
	else if (kind == HPACK_STATUS)
		s->status = (__u16)value;
	else if (kind == HPACK_LENGTH)
		s->flags |= HTTP_HAS_LENGTH;
	else if (kind == HPACK_TYPE)
		s->flags |= (__u16)value;
	else if (kind == HPACK_GRPC)
		s->left = value + 1;
}

/* Kind and value of an entry of either table; unknown ones are of no kind. */
static __always_inline __u32 hpack_entry(const struct hpack *p, __u32 index,
					 __u64 *value)
{
	__u32 at;

	*value = 0;
	if (index > HPACK_STATIC) {
		index -= HPACK_STATIC;
		if (index > HPACK_ENTRIES || index > p->inserted)
			return HPACK_OTHER;
		at = (p->inserted - index) & (HPACK_ENTRIES - 1);
		*value = p->values[at];
		return p->kinds[at];
	}
	if (index == 4 || index == 5) {
		*value = index == 4 ? HPACK_ROOT : HPACK_INDEX_HTML;
		return HPACK_PATH;
	}
	if (index >= 8 && index <= 14) {
		*value = hpack_statuses[(index - 8) & 7];
		return HPACK_STATUS;
	}
	if (index == 28)
		return HPACK_LENGTH;
	return index == 31 ? HPACK_TYPE : HPACK_OTHER;
}

/* The index of a field is complete. */
HTTP_GLOBAL int hpack_index(struct hpack *p, struct http_stream *s)
{
	__u64 value;
	__u32 kind;

	if (!p || !s)
		return HTTP_INVALID;
	p->state = HPACK_FIELD;
	if (p->form == HPACK_RESIZE)
		return 0;
	if (p->form == HPACK_INDEXED) {
		if (!p->number)
			return HTTP_INVALID;
		kind = hpack_entry(p, p->number, &value);
		hpack_found(s, kind, value);
		return 0;
	}
	p->kind = (__u8)hpack_entry(p, p->number, &value);
	p->state = p->number ? HPACK_VALUE_LENGTH : HPACK_NAME_LENGTH;
	return 0;
}

static __always_inline int hpack_field(struct hpack *p, struct http_stream *s,
				       __u8 c)
{
	__u8 mask = 0x0f;

	p->form = HPACK_LITERAL;
	if (c & 0x80) {
		p->form = HPACK_INDEXED;
		mask = 0x7f;
	} else if (c & 0x40) {
		p->form = HPACK_INSERTED;
		mask = 0x3f;
	} else if (c & 0x20) {
		p->form = HPACK_RESIZE;
		mask = 0x1f;
	}
	p->number = c & mask;
	p->shift = 0;
	p->state = HPACK_INDEX;
	return p->number == mask ? 0 : hpack_index(p, s);
}

static __always_inline __u8 hpack_name_kind(__u64 hash)
{
	if (hash == HPACK_PATH_CODED || hash == HPACK_PATH_PLAIN)
		return HPACK_PATH;
	if (hash == HPACK_STATUS_CODED || hash == HPACK_STATUS_PLAIN)
		return HPACK_STATUS;
	if (hash == HPACK_LENGTH_CODED || hash == HPACK_LENGTH_PLAIN)
		return HPACK_LENGTH;
	if (hash == HPACK_TYPE_CODED || hash == HPACK_TYPE_PLAIN)
		return HPACK_TYPE;
	if (hash == HPACK_GRPC_CODED || hash == HPACK_GRPC_PLAIN)
		return HPACK_GRPC;
	return HPACK_OTHER;
}

/*
 * A number of at most three digits, from the last bytes of its string: '0' to
 * '2' are coded as 0 to 2 in 5 bits, '3' to '9' as 25 to 31 in 6.
 */
static __always_inline __u64 hpack_digits(const struct hpack *p)
{
	__u32 n = p->pos < 3 ? p->pos : 3, bits = n * 8, sum = 0;
	__u32 v = n ? (__u32)p->value << ((32 - bits) & 31) : 0;

	for (__u32 i = 0; i < 3; i++) {
		if (!p->coded && i < n) {
			sum = sum * 10 + ((v >> 24) & 15);
			v <<= 8;
		} else if (p->coded && bits >= 5 && v >> 27 <= 2) {
			sum = sum * 10 + (v >> 27);
			v <<= 5;
			bits -= 5;
		} else if (p->coded && bits >= 6 && v >> 26 >= 25 &&
			   v >> 26 <= 31) {
			sum = sum * 10 + (v >> 26) - 22;
			v <<= 6;
			bits -= 6;
		}
	}
	return sum;
}

/* A string is complete. */
HTTP_GLOBAL int hpack_string(struct hpack *p, struct http_stream *s)
{
	if (!p || !s)
		return 0;
	if (p->state == HPACK_NAME) {
		p->kind = hpack_name_kind(p->hash);
		p->state = HPACK_VALUE_LENGTH;
		return 0;
	}
	p->state = HPACK_FIELD;
	if (p->kind == HPACK_PATH) {
		p->value = p->hash;
		s->flags |= HTTP_PATH | (p->coded ? HTTP_CODED : 0);
	} else if (p->kind == HPACK_STATUS || p->kind == HPACK_GRPC) {
		p->value = hpack_digits(p);
	}
	hpack_found(s, p->kind, p->value);
	if (p->form == HPACK_INSERTED) {
		__u32 at = p->inserted & (HPACK_ENTRIES - 1);

		p->values[at] = p->value;
		p->kinds[at] = p->kind;
		p->inserted++;
	}
	return 0;
}

static __always_inline void hpack_string_begin(struct hpack *p,
					       struct http_stream *s)
{
	p->state = p->state <= HPACK_NAME ? HPACK_NAME : HPACK_VALUE;
	p->hash = HTTP_FNV_BASIS;
	p->value = 0;
	p->pos = 0;
	if (p->state == HPACK_VALUE && p->kind == HPACK_PATH) {
		s->flags &= (__u16)~HTTP_QUERY;
		s->path_bytes = 0;
	}
	if (!p->number)
		hpack_string(p, s);
}

static __always_inline void hpack_path_byte(struct hpack *p,
					    struct http_stream *s, __u8 c)
{
	if (c == '?' && !p->coded)
		s->flags |= HTTP_QUERY;
	if (s->flags & HTTP_QUERY)
		return;
	p->hash = (p->hash ^ c) * HTTP_FNV_PRIME;
	s->path[s->path_bytes++ & (HTTP_PATH_TAIL - 1)] = (char)c;
}

static __always_inline void hpack_type_byte(struct hpack *p)
{
	__u32 events = p->coded ? HPACK_EVENTS_CODED_BYTES : HTTP_EVENTS_BYTES;
	__u32 calls = p->coded ? HPACK_CALLS_CODED_BYTES : HPACK_CALLS_BYTES;

	if (p->pos == events &&
	    p->hash == (p->coded ? HPACK_EVENTS_CODED : HPACK_EVENTS_PLAIN))
		p->value = HTTP_EVENTS;
	if (p->pos == calls &&
	    p->hash == (p->coded ? HPACK_CALLS_CODED : HPACK_CALLS_PLAIN))
		p->value = HTTP_CALLS;
}

static __always_inline void hpack_string_byte(struct hpack *p,
					      struct http_stream *s, __u8 c)
{
	if (p->pos < 255)
		p->pos++;
	if (p->state == HPACK_VALUE && p->kind == HPACK_PATH) {
		hpack_path_byte(p, s, c);
	} else if (p->state == HPACK_NAME || p->kind == HPACK_TYPE) {
		p->hash = (p->hash ^ c) * HTTP_FNV_PRIME;
		if (p->state == HPACK_VALUE)
			hpack_type_byte(p);
	} else {
		p->value = p->value << 8 | c;
	}
	if (!--p->number)
		hpack_string(p, s);
}

/* A byte of a header block.  0 or HTTP_INVALID. */
HTTP_GLOBAL int hpack_byte(struct hpack *p, struct http_stream *s, __u8 c)
{
	if (!p || !s)
		return HTTP_INVALID;
	switch (p->state) {
	case HPACK_FIELD:
		return hpack_field(p, s, c);
	case HPACK_NAME:
	case HPACK_VALUE:
		hpack_string_byte(p, s, c);
		return 0;
	case HPACK_NAME_LENGTH:
	case HPACK_VALUE_LENGTH:
		p->coded = c >> 7;
		p->number = c & 0x7f;
		p->shift = 0;
		p->state++;
		if (p->number < 0x7f)
			hpack_string_begin(p, s);
		return 0;
	default:
		break;
	}
	p->number += (__u32)(c & 0x7f) << (p->shift & 31);
	p->shift += 7;
	if (p->number > HPACK_NUMBER_MAX || p->shift > 28)
		return HTTP_INVALID;
	if (c & 0x80)
		return 0;
	if (p->state == HPACK_INDEX)
		return hpack_index(p, s);
	hpack_string_begin(p, s);
	return 0;
}

/* So many of the next bytes are of a value that does not matter. */
static __always_inline __u32 hpack_skippable(const struct hpack *p)
{
	return p->state == HPACK_VALUE && p->kind == HPACK_OTHER &&
			       p->form != HPACK_INDEXED
		       ? p->number
		       : 0;
}

/* n of them were left out. */
static __always_inline void hpack_skip(struct hpack *p, struct http_stream *s,
				       __u32 n)
{
	p->number -= n;
	if (!p->number)
		hpack_string(p, s);
}

/* Bytes of a block; those taken, or HTTP_INVALID. */
static __always_inline int hpack_bytes(struct hpack *p, struct http_stream *s,
				       const struct http_window *w, __u32 n)
{
	for (__u32 i = 0; i < HTTP_WINDOW; i++) {
		if (i >= n || hpack_skippable(p))
			return (int)i;
		if (hpack_byte(p, s, w->b[i]))
			return HTTP_INVALID;
	}
	return HTTP_WINDOW;
}

#endif
