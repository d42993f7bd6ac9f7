#include "cupti/row_counts.h"

#include <string.h>

#define DOUBT_CELLS 8u  /* fewer say nothing */
#define DOUBT_LAYERS 4u /* nor do fewer layers */
#define INVALID_MOST 8u /* one copy in so many may be refused */

static uint64_t hash_bytes(const uint8_t *p, size_t bytes)
{
	uint64_t h = bytes, word;

	for (; bytes >= 8; bytes -= 8, p += 8) {
		memcpy(&word, p, 8);
		h = (h ^ word) * 0x9fb21c651e98df25ull;
		h ^= h >> 29;
	}
	word = 0;
	memcpy(&word, p, bytes);
	return (h ^ word) * 0x9fb21c651e98df25ull;
}

uint64_t row_copy_hash(const void *copy, const struct moe_launch *l)
{
	uint64_t h = 0;

	for (unsigned i = 0; i < ROW_PARTS; i++) {
		size_t bytes = row_part_bytes(l, i);

		if (bytes)
			h = h * 31 + hash_bytes((const uint8_t *)copy +
							row_part_offset(l, i),
						bytes);
	}
	return h;
}

/* What more than half have in common is left at the end. */
static void vote(uint64_t *common, uint32_t *votes, uint64_t value)
{
	if (!*votes)
		*common = value;
	if (*common == value)
		++*votes;
	else
		--*votes;
}

void row_doubt_add(struct row_doubt *d, const struct row_sums *s, uint64_t hash,
		   unsigned layer)
{
	uint64_t bit = 1ull << layer % 64;

	d->cells++;
	d->ordered += s->ordered;
	d->layers += !(d->seen[layer / 64 % 2] & bit);
	d->seen[layer / 64 % 2] |= bit;
	vote(&d->hash.value, &d->hash.votes, hash);
	vote(&d->last.value, &d->last.votes, (uint64_t)s->last);
}

void row_doubt_invalid(struct row_doubt *d)
{
	d->invalid++;
}

void row_doubt_again(struct row_doubt *d, const struct row_sums *s,
		     uint64_t hash)
{
	d->hash.count += hash == d->hash.value;
	d->last.count += s->last >= 0 && (uint64_t)s->last == d->last.value;
}

bool row_is_doubtful(const struct row_doubt *d)
{
	if (d->cells + d->invalid < DOUBT_CELLS)
		return false;
	if (d->invalid * INVALID_MOST > d->cells + d->invalid)
		return true;
	return d->layers >= DOUBT_LAYERS &&
	       (2 * d->ordered > d->cells || 2 * d->hash.count > d->cells ||
		4 * d->last.count > 3 * d->cells);
}
