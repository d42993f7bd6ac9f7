#include "sim/server/places.h"

#include <string.h>

#define REPLICAS_MAX 32u

static const char *const names[PLACES] = {
	[PLACE_IDS] = "ids",       [PLACE_IDS16] = "ids16",
	[PLACE_IDS64] = "ids64",   [PLACE_IDS_FUSED] = "idsS",
	[PLACE_IDS_ZERO] = "idsZ", [PLACE_PHYSICAL] = "phys",
	[PLACE_COUNTS] = "counts", [PLACE_SIZES] = "sizes",
	[PLACE_OFF32] = "off32",   [PLACE_OFF64] = "off64",
	[PLACE_BLOCKS] = "blocks", [PLACE_BATCH] = "batch",
	[PLACE_LIMIT] = "limit",   [PLACE_REAL] = "real",
};

int places_find(const char *name)
{
	for (int i = 0; i < PLACES; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

uint32_t places_physical(uint32_t experts)
{
	return experts +
	       (experts / 2 < REPLICAS_MAX ? experts / 2 : REPLICAS_MAX);
}

size_t places_bytes(enum place what, uint32_t rows, uint32_t k,
		    uint32_t experts)
{
	size_t pairs = (size_t)rows * k;

	switch (what) {
	case PLACE_IDS:
	case PLACE_PHYSICAL:
		return 4 * pairs;
	case PLACE_IDS16:
		return 2 * pairs;
	case PLACE_IDS64:
		return 8 * pairs;
	case PLACE_IDS_FUSED:
		return 4 * (pairs + (size_t)rows * PLACE_FUSED);
	case PLACE_IDS_ZERO:
		return 4 * (pairs + (size_t)rows * PLACE_ZERO_IDS);
	case PLACE_COUNTS:
		return 4 * (size_t)experts;
	case PLACE_SIZES:
		return 12 * (size_t)experts;
	case PLACE_OFF32:
		return 4 * ((size_t)experts + 1);
	case PLACE_OFF64:
		return 8 * ((size_t)experts + 1);
	case PLACE_BATCH:
	case PLACE_LIMIT:
		return 4 * (experts + pairs / PLACE_TILE + 1);
	default:
		return 4;
	}
}

/* ---- ids ------------------------------------------------------------------- */

static size_t fill_ids(const struct places_input *in, uint8_t bytes, char *buf)
{
	size_t n = (size_t)in->rows * in->k;

	for (size_t i = 0; i < n; i++) {
		int64_t id = in->ids[i];

		memcpy(buf + i * bytes, &id, bytes);
	}
	return n * bytes;
}

static size_t fill_fused(const struct places_input *in, int32_t *buf)
{
	uint32_t wide = in->k + PLACE_FUSED;

	for (uint32_t t = 0; t < in->rows; t++) {
		const int32_t *from = in->ids + (size_t)t * in->k;
		int32_t *to = buf + (size_t)t * wide;

		memcpy(to, from, in->k * sizeof(*to));
		for (uint32_t s = 0; s < PLACE_FUSED; s++)
			to[in->k + s] =
				from[0] < 0 ? -1 : (int32_t)(in->experts + s);
	}
	return (size_t)in->rows * wide * sizeof(*buf);
}

/* The first and the third id of each token. */
static size_t fill_zero(const struct places_input *in, int32_t *buf)
{
	size_t at = 0;

	for (uint32_t t = 0; t < in->rows; t++) {
		const int32_t *from = in->ids + (size_t)t * in->k;
		uint32_t taken = 0;

		for (uint32_t j = 0; j < in->k + PLACE_ZERO_IDS; j++) {
			int32_t none = (int32_t)(in->experts +
						 (t + j) % PLACE_ZERO_EXPERTS);

			if (j == 0 || j == 2)
				buf[at++] = from[0] < 0 ? -1 : none;
			else
				buf[at++] = from[taken++];
		}
	}
	return at * sizeof(*buf);
}

static size_t fill_physical(const struct places_input *in, int32_t *buf)
{
	uint32_t replicas = places_physical(in->experts) - in->experts;
	size_t n = (size_t)in->rows * in->k;

	for (size_t i = 0; i < n; i++) {
		int32_t id = in->ids[i];

		if (id >= 0 && id < (int32_t)replicas && i % 2)
			id += (int32_t)in->experts;
		buf[i] = id;
	}
	return n * sizeof(*buf);
}

/* ---- counts ------------------------------------------------------------------ */

static size_t fill_counts(const struct places_input *in, uint32_t stride,
			  int32_t *buf)
{
	memset(buf, 0, (size_t)in->experts * stride * sizeof(*buf));
	for (uint32_t e = 0; e < in->experts; e++) {
		buf[e * stride] = (int32_t)in->counts[e];
		if (stride == 3)
			buf[e * stride + 1] = buf[e * stride + 2] = 512;
	}
	return (size_t)in->experts * stride * sizeof(*buf);
}

static size_t fill_offsets(const struct places_input *in, uint8_t bytes,
			   char *buf)
{
	int64_t at = 0;

	for (uint32_t e = 0; e <= in->experts; e++) {
		memcpy(buf + (size_t)e * bytes, &at, bytes);
		at += e < in->experts ? in->counts[e] : 0;
	}
	return ((size_t)in->experts + 1) * bytes;
}

static size_t fill_blocks(const struct places_input *in, enum place what,
			  int32_t *buf)
{
	int32_t n = 0;

	for (uint32_t e = 0; e < in->experts; e++) {
		uint32_t left = in->counts[e];

		for (; left; n++) {
			uint32_t rows = left < PLACE_TILE ? left : PLACE_TILE;

			if (what == PLACE_BATCH)
				buf[n] = (int32_t)e;
			else if (what == PLACE_LIMIT)
				buf[n] =
					n * (int32_t)PLACE_TILE + (int32_t)rows;
			left -= rows;
		}
	}
	if (what == PLACE_BLOCKS)
		buf[0] = n;
	return what == PLACE_BLOCKS ? 4 : (size_t)n * sizeof(*buf);
}

size_t places_fill(enum place what, const struct places_input *in, void *buf)
{
	switch (what) {
	case PLACE_IDS:
		return fill_ids(in, 4, buf);
	case PLACE_IDS16:
		return fill_ids(in, 2, buf);
	case PLACE_IDS64:
		return fill_ids(in, 8, buf);
	case PLACE_IDS_FUSED:
		return fill_fused(in, buf);
	case PLACE_IDS_ZERO:
		return fill_zero(in, buf);
	case PLACE_PHYSICAL:
		return fill_physical(in, buf);
	case PLACE_COUNTS:
		return fill_counts(in, 1, buf);
	case PLACE_SIZES:
		return fill_counts(in, 3, buf);
	case PLACE_OFF32:
		return fill_offsets(in, 4, buf);
	case PLACE_OFF64:
		return fill_offsets(in, 8, buf);
	case PLACE_BLOCKS:
	case PLACE_BATCH:
	case PLACE_LIMIT:
		return fill_blocks(in, what, buf);
	default:
		return 0;
	}
}
