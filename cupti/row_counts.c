#include "cupti/row_counts.h"

#include <errno.h>
#include <string.h>

#include "wire/record.h"

#define PART_ALIGN 16u
#define ADDRESS_LEAST 65536u
#define RISING_TOKENS 2u /* one token's experts may come in order */

/* ---- shape ---------------------------------------------------------------- */

/* The most blocks that so many rows can need: one for each expert that has
 * any, and one more for each full tile of the others. */
static uint32_t blocks_max(const struct moe_launch *l)
{
	uint64_t pairs = (uint64_t)l->rows * l->k;
	uint64_t active = pairs < l->experts ? pairs : l->experts;

	return (uint32_t)(active + (pairs - active) / l->tile);
}

size_t row_part_bytes(const struct moe_launch *l, unsigned i)
{
	if (l->what == ROWS_BLOCKS)
		return i == 0 ? 4 : 4 * (size_t)blocks_max(l);
	if (i)
		return 0;
	switch (l->what) {
	case ROWS_IDS:
		return (size_t)l->rows * l->k * l->bytes;
	case ROWS_COUNTS:
		return (size_t)l->experts * l->stride * l->bytes;
	case ROWS_OFFSETS:
		return ((size_t)l->experts + 1) * l->bytes;
	default:
		return 0;
	}
}

size_t row_part_offset(const struct moe_launch *l, unsigned i)
{
	size_t at = 0;

	for (unsigned p = 0; p < i; p++)
		at += (row_part_bytes(l, p) + PART_ALIGN - 1) &
		      ~(size_t)(PART_ALIGN - 1);
	return at;
}

static bool known(const struct moe_launch *l)
{
	return l->rows && l->k && l->rows <= ROW_TOKENS_MAX &&
	       l->k <= ROW_K_MAX && l->k <= l->wide;
}

/* An address of device memory, not a number that stands in its place. */
static bool is_address(uint64_t p, uint8_t align)
{
	return p >= ADDRESS_LEAST && p >> 57 == 0 && p % align == 0;
}

bool row_shape_fits(const struct moe_launch *l)
{
	if (!l->experts || l->experts > EXPERTS_MAX || l->wide < l->experts ||
	    !l->bytes || !is_address(l->data[0], l->bytes))
		return false;
	switch (l->what) {
	case ROWS_IDS:
		return known(l) &&
		       (l->bytes == 2 || l->bytes == 4 || l->bytes == 8);
	case ROWS_COUNTS:
		return l->bytes == 4 && l->stride >= 1 && l->stride <= 3 &&
		       (l->part || l->k);
	case ROWS_OFFSETS:
		return (l->bytes == 4 || l->bytes == 8) && (l->part || l->k);
	case ROWS_BLOCKS:
		return known(l) && is_address(l->data[1], 4) &&
		       is_address(l->data[2], 4) && l->tile && l->bytes == 4;
	default:
		return false;
	}
}

bool moe_launch_same(const struct moe_launch *a, const struct moe_launch *b)
{
	return a->what && a->what == b->what && a->data[0] == b->data[0] &&
	       a->data[1] == b->data[1] && a->data[2] == b->data[2] &&
	       a->rows == b->rows && a->k == b->k && a->bytes == b->bytes &&
	       a->experts == b->experts && a->wide == b->wide &&
	       a->stride == b->stride && a->tile == b->tile &&
	       a->fused == b->fused;
}

/* ---- numbers -------------------------------------------------------------- */

static int64_t number_at(const void *copy, uint8_t bytes, size_t i)
{
	int64_t wide;
	int32_t narrow;
	int16_t half;

	if (bytes == 8) {
		memcpy(&wide, (const char *)copy + 8 * i, 8);
		return wide;
	}
	if (bytes == 2) {
		memcpy(&half, (const char *)copy + 2 * i, 2);
		return half;
	}
	memcpy(&narrow, (const char *)copy + 4 * i, 4);
	return narrow;
}

static void sum_counts(struct row_sums *s, const uint16_t *counts, uint32_t n)
{
	for (uint32_t e = 0; e < n; e++) {
		uint64_t c = counts[e];

		s->rows += c;
		s->active += c > 0;
		s->single += c == 1;
		s->twice += c == 2;
		s->sum_squares += c * c;
		if (c > s->max_rows)
			s->max_rows = c;
	}
}

/* ---- ids ------------------------------------------------------------------ */

/* One token: 1 real, 0 padding, -EINVAL neither. */
static int count_token(const void *copy, const struct moe_launch *l, size_t row,
		       struct row_sums *s, uint16_t *counts)
{
	int64_t seen[ROW_K_MAX] = { 0 };
	uint32_t dropped = 0;

	for (uint32_t j = 0; j < l->k; j++) {
		int64_t id = number_at(copy, l->bytes, row * l->k + j);

		if (id < -1 || id >= (int64_t)l->wide ||
		    (j && (id == -1) != (seen[0] == -1)))
			return -EINVAL;
		for (uint32_t i = 0; id >= 0 && i < j; i++)
			if (seen[i] == id)
				return -EINVAL;
		seen[j] = id;
		if (id >= 0 && id < (int64_t)l->experts)
			counts[id]++;
		else if (id >= 0)
			dropped++;
	}
	s->dropped += dropped;
	if (seen[0] != -1 && dropped < l->fused)
		return -EINVAL;
	return seen[0] != -1;
}

/* Never falling from first to last, or the numbers 0, 1, .. by columns: what
 * lists of rows and of blocks look like. */
static bool is_ordered(const void *copy, const struct moe_launch *l,
		       uint32_t tokens)
{
	size_t n = (size_t)tokens * l->k;
	bool rising = tokens >= RISING_TOKENS, columns = n > 1;
	int64_t last = -1;

	for (size_t i = 0; i < n; i++) {
		int64_t id = number_at(copy, l->bytes, i);

		rising &= id >= last;
		columns &= id == (int64_t)(i % l->k * l->rows + i / l->k);
		last = id;
	}
	/* A list of sorted pairs, padded with their number. */
	return rising || columns || (n == 2 && last == 2);
}

static int read_ids(const void *copy, const struct moe_launch *l,
		    struct row_sums *s, uint16_t *counts)
{
	bool padding = false;

	for (uint32_t t = 0; t < l->rows; t++) {
		int real = count_token(copy, l, t, s, counts);

		if (real < 0 || (real && padding))
			return -EINVAL;
		if (real)
			s->tokens++;
		else
			padding = true;
	}
	s->padded_rows = (l->rows - s->tokens) * l->k;
	s->ordered = is_ordered(copy, l, s->tokens);
	if (s->tokens)
		s->last = (int32_t)number_at(copy, l->bytes,
					     (size_t)s->tokens * l->k - 1);
	return 0;
}

/* ---- counts, offsets, blocks ------------------------------------------------ */

static int64_t pairs_max(const struct moe_launch *l)
{
	return l->rows && l->k && !l->part
		       ? (int64_t)l->rows * l->k
		       : (int64_t)ROW_TOKENS_MAX * ROW_K_MAX;
}

static int read_counts(const void *copy, const struct moe_launch *l,
		       uint16_t *counts)
{
	bool offsets = l->what == ROWS_OFFSETS;
	int64_t last = 0, sum = 0;

	if (offsets && number_at(copy, l->bytes, 0))
		return -EINVAL;
	for (uint32_t e = 0; e < l->experts; e++) {
		size_t at = offsets ? e + 1u : (size_t)e * l->stride;
		int64_t n = number_at(copy, l->bytes, at);

		if (offsets) {
			if (n < last)
				return -EINVAL;
			n -= last;
			last += n;
		}
		if (n < 0 || n > UINT16_MAX ||
		    (l->rows && !l->part && n > l->rows))
			return -EINVAL;
		counts[e] = (uint16_t)n;
		sum += n;
	}
	return sum <= pairs_max(l) ? 0 : -EINVAL;
}

static int read_blocks(const void *copy, const struct moe_launch *l,
		       struct row_sums *s, uint16_t *counts)
{
	const char *expert = (const char *)copy + row_part_offset(l, 1);
	const char *end = (const char *)copy + row_part_offset(l, 2);
	int64_t n = number_at(copy, 4, 0), last = -1;
	bool full = true;

	if (n < 0 || n > blocks_max(l))
		return -EINVAL;
	for (int64_t i = 0; i < n; i++) {
		int64_t e = number_at(expert, 4, (size_t)i);
		int64_t rows = number_at(end, 4, (size_t)i) - i * l->tile;

		if (e < 0 || e >= l->experts || e < last || rows < 1 ||
		    rows > l->tile || (e == last && !full) ||
		    counts[e] + rows > l->rows)
			return -EINVAL;
		counts[e] = (uint16_t)(counts[e] + rows);
		full = rows == l->tile;
		last = e;
	}
	s->ordered = (uint64_t)l->rows * l->k == 2 && last == 2;
	return 0;
}

/* Whole tokens, as many as there can be. */
static int set_tokens(const struct moe_launch *l, struct row_sums *s)
{
	if (l->part || l->what == ROWS_IDS)
		return 0;
	if (!l->k || s->rows % l->k || (l->rows && s->rows / l->k > l->rows))
		return -EINVAL;
	s->tokens = (uint32_t)(s->rows / l->k);
	if (s->max_rows > s->tokens)
		return -EINVAL;
	if (l->rows)
		s->padded_rows = (l->rows - s->tokens) * l->k;
	return 0;
}

int row_counts_read(const void *copy, const struct moe_launch *l,
		    struct row_sums *out, uint16_t *counts)
{
	struct row_sums s = { .last = -1 };
	int err;

	if (!row_shape_fits(l))
		return -EINVAL;
	memset(counts, 0, l->experts * sizeof(*counts));
	if (l->what == ROWS_IDS)
		err = read_ids(copy, l, &s, counts);
	else if (l->what == ROWS_BLOCKS)
		err = read_blocks(copy, l, &s, counts);
	else
		err = read_counts(copy, l, counts);
	if (err)
		return err;
	sum_counts(&s, counts, l->experts);
	/* A step without a token says nothing, and zeroes are everywhere. */
	err = s.rows || l->part ? set_tokens(l, &s) : -EINVAL;
	if (!err)
		*out = s;
	return err;
}
