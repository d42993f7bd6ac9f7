/*
 * frames_wire.h - bytes of HTTP/2, written by hand
 */
#ifndef MOETOP_TESTS_UNIT_BPF_FRAMES_WIRE_H
#define MOETOP_TESTS_UNIT_BPF_FRAMES_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/frame.h"
#include "bpf/huffman.h"

#define WIRE_BYTES 65536u

struct wire {
	uint8_t b[WIRE_BYTES];
	size_t n;
	size_t frame; /* where the open frame begins */
	bool coded;   /* strings of headers in Huffman's code */
};

static inline void wire_byte(struct wire *w, unsigned c)
{
	w->b[w->n++] = (uint8_t)c;
}

static inline void wire_bytes(struct wire *w, const void *b, size_t n)
{
	memcpy(w->b + w->n, b, n);
	w->n += n;
}

static inline void wire_text(struct wire *w, const char *text)
{
	wire_bytes(w, text, strlen(text));
}

static inline void wire_number(struct wire *w, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		wire_byte(w, v >> shift & 255);
}

/* ---- frames -------------------------------------------------------------- */

static inline void wire_open(struct wire *w, unsigned type, unsigned flags,
			     uint32_t stream)
{
	w->frame = w->n;
	wire_bytes(w, "\0\0\0", 3);
	wire_byte(w, type);
	wire_byte(w, flags);
	wire_number(w, stream);
}

/* The payload is complete: its length can be said. */
static inline void wire_close(struct wire *w)
{
	size_t n = w->n - w->frame - 9;

	w->b[w->frame] = (uint8_t)(n >> 16);
	w->b[w->frame + 1] = (uint8_t)(n >> 8);
	w->b[w->frame + 2] = (uint8_t)n;
}

static inline void wire_frame(struct wire *w, unsigned type, unsigned flags,
			      uint32_t stream, const void *b, size_t n)
{
	wire_open(w, type, flags, stream);
	wire_bytes(w, b, n);
	wire_close(w);
}

static inline void wire_data(struct wire *w, uint32_t stream, unsigned flags,
			     const char *text)
{
	wire_frame(w, FRAME_DATA, flags, stream, text, strlen(text));
}

static inline void wire_reset(struct wire *w, uint32_t stream)
{
	wire_frame(w, FRAME_RESET, 0, stream, "\0\0\0\x08", 4);
}

/* What both sides say first. */
static inline void wire_settings(struct wire *w)
{
	wire_frame(w, FRAME_SETTINGS, 0, 0, "\0\3\0\0\0\x64", 6);
}

static inline void wire_preface(struct wire *w)
{
	wire_text(w, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	wire_settings(w);
}

/* ---- header blocks ------------------------------------------------------- */

static inline void wire_int(struct wire *w, unsigned high, unsigned bits,
			    uint32_t v)
{
	uint32_t mask = (1u << bits) - 1;

	if (v < mask) {
		wire_byte(w, high | v);
		return;
	}
	wire_byte(w, high | mask);
	for (v -= mask; v > 127; v >>= 7)
		wire_byte(w, (v & 127) | 128);
	wire_byte(w, v);
}

static inline void wire_string(struct wire *w, const char *text)
{
	uint8_t coded[512];
	size_t n = strlen(text);

	if (!w->coded) {
		wire_int(w, 0, 7, (uint32_t)n);
		wire_text(w, text);
		return;
	}
	if (huffman_encode(text, n, coded, sizeof(coded), &n))
		abort();
	wire_int(w, 0x80, 7, (uint32_t)n);
	wire_bytes(w, coded, n);
}

static inline void wire_indexed(struct wire *w, uint32_t index)
{
	wire_int(w, 0x80, 7, index);
}

/* index: of the name; 0: it is spelt out */
static inline void wire_field(struct wire *w, bool insert, uint32_t index,
			      const char *name, const char *value)
{
	wire_int(w, insert ? 0x40 : 0, insert ? 6 : 4, index);
	if (!index)
		wire_string(w, name);
	wire_string(w, value);
}

enum { BY_STATUS = 8, BY_LENGTH = 28, BY_TYPE = 31, BY_PATH = 4 };
#define WIRE_FIRST 62u /* the newest entry of the dynamic table */

/* POST, http, a host, and a path that goes into the table. */
static inline void wire_request(struct wire *w, uint32_t stream, unsigned flags,
				const char *path)
{
	wire_open(w, FRAME_HEADERS, flags | FLAG_END_HEADERS, stream);
	wire_indexed(w, 3);
	wire_indexed(w, 6);
	wire_field(w, true, BY_PATH, "", path);
	wire_field(w, false, 0, "x-secret", "of no interest");
	wire_close(w);
}

static inline void wire_response(struct wire *w, uint32_t stream,
				 unsigned flags, const char *type)
{
	wire_open(w, FRAME_HEADERS, flags | FLAG_END_HEADERS, stream);
	wire_indexed(w, BY_STATUS);
	wire_field(w, true, 0, "server", "of no interest");
	wire_field(w, true, BY_TYPE, "", type);
	wire_close(w);
}

#endif
