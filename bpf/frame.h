/*
 * frame.h - what a frame of HTTP/2 can be (RFC 9113, sections 4 and 6)
 */
#ifndef MOETOP_BPF_FRAME_H
#define MOETOP_BPF_FRAME_H

#include "bpf/http.h"

#define FRAME_HEADER_BYTES 9u

enum frame_type {
	FRAME_DATA,
	FRAME_HEADERS,
	FRAME_PRIORITY,
	FRAME_RESET,
	FRAME_SETTINGS,
	FRAME_PUSH,
	FRAME_PING,
	FRAME_GOAWAY,
	FRAME_WINDOW,
	FRAME_CONTINUATION,
	FRAME_NONE = 0xff, /* the rest of the preface */
};

enum {
	FLAG_END_STREAM = 1, /* of DATA and HEADERS */
	FLAG_ACK = 1,        /* of SETTINGS and PING */
	FLAG_END_HEADERS = 4,
	FLAG_PADDED = 8,
	FLAG_PRIORITY = 0x20,
};

/* Is the payload of a length that its type allows? */
static __always_inline int frame_fits(__u32 type, __u32 flags, __u32 bytes)
{
	if (type == FRAME_PRIORITY)
		return bytes == 5;
	if (type == FRAME_RESET || type == FRAME_WINDOW)
		return bytes == 4;
	if (type == FRAME_SETTINGS)
		return flags & FLAG_ACK ? !bytes : bytes % 6 == 0;
	if (type == FRAME_PING)
		return bytes == 8;
	return type != FRAME_GOAWAY || bytes >= 8;
}

/* Does a call that begins with these bytes begin with a frame? */
static __always_inline int frame_seems(const struct http_window *w, __u32 n)
{
	__u32 bytes = (__u32)w->b[1] << 8 | w->b[2];
	__u32 type = w->b[3], flags = w->b[4], allowed = 0;
	__u32 id = (__u32)w->b[5] << 24 | (__u32)w->b[6] << 16 |
		   (__u32)w->b[7] << 8 | w->b[8];

	if (n < FRAME_HEADER_BYTES || w->b[0] || id >> 31 ||
	    !frame_fits(type, flags, bytes))
		return 0;
	switch (type) {
	case FRAME_DATA:
		allowed = FLAG_END_STREAM | FLAG_PADDED;
		break;
	case FRAME_HEADERS:
		allowed = FLAG_END_STREAM | FLAG_END_HEADERS | FLAG_PADDED |
			  FLAG_PRIORITY;
		break;
	case FRAME_SETTINGS:
	case FRAME_PING:
		return !id && !(flags & ~(__u32)FLAG_ACK);
	case FRAME_GOAWAY:
		return !id && !flags;
	case FRAME_WINDOW:
		return !flags;
	case FRAME_PRIORITY:
	case FRAME_RESET:
		break;
	default:
		return 0;
	}
	return (id & 1) && !(flags & ~allowed);
}

#endif
