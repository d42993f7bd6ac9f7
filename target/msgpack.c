#include "target/msgpack.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

struct cursor {
	const uint8_t *p, *end;
};

/* One token: a scalar, or the head of something that holds more tokens. */
struct token {
	enum { NUMBER, STRING, OTHER } kind;
	double number;
	const char *text;
	size_t bytes;    /* of text, or to be skipped */
	uint64_t inside; /* tokens that follow and belong to it */
	bool is_map;
};

/* Big-endian; false at the end of the input. */
static bool take_uint(struct cursor *c, unsigned bytes, uint64_t *out)
{
	uint64_t v = 0;

	if ((size_t)(c->end - c->p) < bytes)
		return false;
	while (bytes--)
		v = v << 8 | *c->p++;
	*out = v;
	return true;
}

static double float_of(uint64_t bits, bool wide)
{
	uint32_t low = (uint32_t)bits;
	double d;
	float f;

	if (wide) {
		memcpy(&d, &bits, sizeof(d));
		return d;
	}
	memcpy(&f, &low, sizeof(f));
	return (double)f;
}

static double signed_of(uint64_t v, unsigned bytes)
{
	switch (bytes) {
	case 1:
		return (double)(int8_t)v;
	case 2:
		return (double)(int16_t)v;
	case 4:
		return (double)(int32_t)v;
	default:
		return (double)(int64_t)v;
	}
}

static bool take_bytes(struct cursor *c, struct token *t, uint64_t n)
{
	if (n > (uint64_t)(c->end - c->p))
		return false;
	t->text = (const char *)c->p;
	t->bytes = (size_t)n;
	c->p += n;
	return true;
}

/* What begins with 0xc0 to 0xdf. */
static bool take_long(struct cursor *c, uint8_t head, struct token *t)
{
	unsigned size = 1u << (head & 3);
	uint64_t v = 0;

	if (head == 0xc2 || head == 0xc3) {
		t->kind = NUMBER;
		t->number = head & 1;
		return true;
	}
	if (head == 0xc0)
		return true;
	if (head == 0xca || head == 0xcb) { /* float 32, 64 */
		t->kind = NUMBER;
		if (!take_uint(c, head == 0xca ? 4 : 8, &v))
			return false;
		t->number = float_of(v, head == 0xcb);
		return true;
	}
	if (head >= 0xcc && head <= 0xd3) { /* integers of 8 to 64 bits */
		t->kind = NUMBER;
		if (!take_uint(c, size, &v))
			return false;
		t->number = head < 0xd0 ? (double)v : signed_of(v, size);
		return true;
	}
	if (head >= 0xd4 && head <= 0xd8) /* fixext 1 to 16 */
		return take_bytes(c, t, 1 + (1ull << (head - 0xd4)));
	if (head >= 0xd9 && head <= 0xdb) { /* str 8 to 32 */
		t->kind = STRING;
		return take_uint(c, 1u << (head - 0xd9), &v) &&
		       take_bytes(c, t, v);
	}
	if (head >= 0xc4 && head <= 0xc6) /* bin 8 to 32 */
		return take_uint(c, 1u << (head - 0xc4), &v) &&
		       take_bytes(c, t, v);
	if (head >= 0xc7 && head <= 0xc9) /* ext 8 to 32 */
		return take_uint(c, 1u << (head - 0xc7), &v) &&
		       take_bytes(c, t, v + 1);
	if (head < 0xdc)
		return false;
	/* array 16, 32, map 16, 32 */
	if (!take_uint(c, head & 1 ? 4 : 2, &v))
		return false;
	t->is_map = head >= 0xde;
	t->inside = t->is_map ? 2 * v : v;
	return true;
}

static bool take_token(struct cursor *c, struct token *t)
{
	uint8_t head;

	*t = (struct token){ .kind = OTHER };
	if (c->p == c->end)
		return false;
	head = *c->p++;
	if (head < 0x80 || head >= 0xe0) {
		t->kind = NUMBER;
		t->number = (int8_t)head;
		return true;
	}
	if (head < 0x90) {
		t->is_map = true;
		t->inside = 2 * (head & 15u);
		return true;
	}
	if (head < 0xa0) {
		t->inside = head & 15u;
		return true;
	}
	if (head < 0xc0) {
		t->kind = STRING;
		return take_bytes(c, t, head & 31u);
	}
	return take_long(c, head, t);
}

/* What belongs to a token that was taken; every token takes a byte or more. */
static bool skip(struct cursor *c, uint64_t left)
{
	struct token t;

	for (; left; left--) {
		if (left > (uint64_t)(c->end - c->p) || !take_token(c, &t))
			return false;
		left += t.inside;
	}
	return true;
}

int msgpack_map(const uint8_t *p, size_t n,
		void (*entry)(void *arg, const char *key, size_t key_bytes,
			      double value),
		void *arg)
{
	struct cursor c = { p, p + n };
	struct token map, key, value;

	if (!take_token(&c, &map) || !map.is_map)
		return -EPROTO;
	for (uint64_t i = 0; i < map.inside; i += 2) {
		if (!take_token(&c, &key) || !skip(&c, key.inside) ||
		    !take_token(&c, &value) || !skip(&c, value.inside))
			return -EPROTO;
		if (key.kind == STRING && value.kind == NUMBER)
			entry(arg, key.text, key.bytes, value.number);
	}
	return c.p == c.end ? 0 : -EPROTO;
}
