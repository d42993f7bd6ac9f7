#include "bpf/huffman.h"

#include <errno.h>

struct code {
	uint32_t bits; /* the last n count */
	uint8_t n;
};

static const struct code codes[256] = {
#include "bpf/huffman.def"
};

#define LONGEST 30u
#define PADDING_MAX 7u

int huffman_encode(const char *text, size_t n, uint8_t *coded, size_t max,
		   size_t *bytes)
{
	uint64_t open = 0; /* bits that fill no byte yet */
	unsigned bits = 0;
	size_t done = 0;

	for (size_t i = 0; i < n; i++) {
		const struct code *c = &codes[(unsigned char)text[i]];

		open = open << c->n | c->bits;
		for (bits += c->n; bits >= 8; bits -= 8) {
			if (done == max)
				return -ENOSPC;
			coded[done++] = (uint8_t)(open >> (bits - 8));
		}
	}
	if (bits && done == max)
		return -ENOSPC;
	if (bits) /* filled up with ones */
		coded[done++] = (uint8_t)(open << (8 - bits) | 0xffu >> bits);
	*bytes = done;
	return 0;
}

/* The character of a code, -1 if there is none. */
static int code_find(uint32_t bits, unsigned n)
{
	for (int i = 0; i < 256; i++)
		if (codes[i].n == n && codes[i].bits == bits)
			return i;
	return -1;
}

int huffman_decode(const uint8_t *coded, size_t bytes, size_t skip, char *text,
		   size_t max, size_t *n)
{
	uint32_t open = 0;
	unsigned bits = 0;
	size_t done = 0;

	for (size_t i = skip; i < bytes * 8; i++) {
		int c;

		open = open << 1 | ((unsigned)coded[i / 8] >> (7 - i % 8) & 1u);
		if (++bits > LONGEST)
			return -EILSEQ;
		c = bits < 5 ? -1 : code_find(open, bits);
		if (c < 0)
			continue;
		if (done == max)
			return -ENOSPC;
		text[done++] = (char)c;
		open = 0;
		bits = 0;
	}
	if (bits > PADDING_MAX || open != (1u << bits) - 1)
		return -EILSEQ;
	*n = done;
	return 0;
}
