/*
 * layouts.h - launches of every row adapter on a small model of device memory
 *
 * A world has the ids that the tokens of some layers chose, and buffers with
 * what kernels around routing keep: ids of three sizes, counts, offsets, blocks,
 * and others that are none of these: weights, lists of rows, of pairs and of
 * blocks, zeroes.  A launch of an adapter has all parameters of its layout; its
 * order may be shuffled, sizes and all, as another release might have it.
 * Shared by test_layouts.c and tests/fuzz/fuzz_adapters.c.
 */
#ifndef MOETOP_TESTS_UNIT_CUPTI_LAYOUTS_H
#define MOETOP_TESTS_UNIT_CUPTI_LAYOUTS_H

#include <stdlib.h>
#include <string.h>

#include "cupti/adapters.h"

#define WORLD_LAYERS 32u
#define WORLD_ROWS_MAX 40u
#define WORLD_PAIRS_MAX (WORLD_ROWS_MAX * 8u)
#define WORLD_EXPERTS_MAX 64u
#define WORLD_TILE 8u
#define WORLD_BLOCK 16u
#define REGION_BYTES 6144u
#define REGION_STRIDE 0x100000ull
#define REGION_BASE 0x7f0000000000ull

enum region {
	REGION_IDS32,
	REGION_IDS16,
	REGION_IDS64,
	REGION_COUNTS,
	REGION_OFF32,
	REGION_OFF64,
	REGION_BLOCKS,
	REGION_BATCH,
	REGION_LIMIT,
	REGION_WEIGHTS,   /* floats */
	REGION_INDEX,     /* of rows, by columns: source_rows */
	REGION_SORTED,    /* pairs by expert, padded: sorted_token_ids */
	REGION_BLOCK_IDS, /* expert of each block */
	REGION_ZEROES,
	REGIONS
};

struct world {
	uint32_t rows, real, k, experts;
	uint64_t random;
	int32_t ids[WORLD_LAYERS][WORLD_PAIRS_MAX];
	uint16_t counts[WORLD_LAYERS][WORLD_EXPERTS_MAX];
	uint8_t memory[REGIONS][WORLD_LAYERS][REGION_BYTES];
};

static inline uint32_t world_random(struct world *w, uint32_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (uint32_t)(w->random >> 33) % below;
}

static inline void world_choose(struct world *w, uint32_t layer)
{
	int32_t *ids = w->ids[layer];

	for (uint32_t t = 0; t < w->rows; t++)
		for (uint32_t j = 0; j < w->k; j++) {
			bool again = true;
			int32_t id = -1;

			while (t < w->real && again) {
				id = (int32_t)world_random(w, w->experts);
				again = false;
				for (uint32_t i = 0; i < j; i++)
					again |= ids[t * w->k + i] == id;
			}
			ids[t * w->k + j] = id;
			if (id >= 0)
				w->counts[layer][id]++;
		}
}

static inline void world_put(struct world *w, enum region r, uint32_t layer,
			     size_t i, size_t bytes, int64_t v)
{
	memcpy(&w->memory[r][layer][i * bytes], &v, bytes);
}

static inline void world_fill_blocks(struct world *w, uint32_t l)
{
	uint32_t n = 0;

	for (uint32_t e = 0; e < w->experts; e++)
		for (uint32_t left = w->counts[l][e]; left; n++) {
			uint32_t rows = left < WORLD_TILE ? left : WORLD_TILE;

			world_put(w, REGION_BATCH, l, n, 4, e);
			world_put(w, REGION_LIMIT, l, n, 4,
				  n * WORLD_TILE + rows);
			left -= rows;
		}
	world_put(w, REGION_BLOCKS, l, 0, 4, n);
}

/* As the alignment kernel of vLLM leaves them. */
static inline void world_fill_sorted(struct world *w, uint32_t l)
{
	uint32_t pairs = w->rows * w->k, at = 0, block = 0;

	for (uint32_t i = 0; i < REGION_BYTES / 4; i++) {
		world_put(w, REGION_SORTED, l, i, 4, pairs);
		world_put(w, REGION_BLOCK_IDS, l, i, 4, -1);
	}
	for (uint32_t e = 0; e < w->experts; e++) {
		uint32_t from = at;

		for (uint32_t i = 0; i < pairs; i++)
			if (w->ids[l][i] == (int32_t)e)
				world_put(w, REGION_SORTED, l, at++, 4, i);
		if (at == from)
			continue;
		at = (at + WORLD_BLOCK - 1) / WORLD_BLOCK * WORLD_BLOCK;
		while (block < at / WORLD_BLOCK)
			world_put(w, REGION_BLOCK_IDS, l, block++, 4, e);
	}
}

static inline void world_fill(struct world *w, uint32_t l)
{
	uint32_t pairs = w->rows * w->k, sum = 0;

	for (uint32_t i = 0; i < pairs; i++) {
		float weight = (float)world_random(w, 1000) / 1000.f;

		world_put(w, REGION_IDS32, l, i, 4, w->ids[l][i]);
		world_put(w, REGION_IDS16, l, i, 2, w->ids[l][i]);
		world_put(w, REGION_IDS64, l, i, 8, w->ids[l][i]);
		world_put(w, REGION_INDEX, l, i, 4,
			  i % w->k * w->rows + i / w->k);
		memcpy(&w->memory[REGION_WEIGHTS][l][4 * i], &weight, 4);
	}
	for (uint32_t e = 0; e <= w->experts; e++) {
		world_put(w, REGION_OFF32, l, e, 4, sum);
		world_put(w, REGION_OFF64, l, e, 8, sum);
		if (e < w->experts)
			world_put(w, REGION_COUNTS, l, e, 4, w->counts[l][e]);
		sum += e < w->experts ? w->counts[l][e] : 0;
	}
	world_fill_blocks(w, l);
	world_fill_sorted(w, l);
}

static inline void world_make(struct world *w, uint64_t seed, uint32_t rows,
			      uint32_t padding, uint32_t k, uint32_t experts)
{
	memset(w, 0, sizeof(*w));
	w->random = seed | 1;
	w->rows = rows;
	w->real = rows - padding;
	w->k = k;
	w->experts = experts;
	for (uint32_t l = 0; l < WORLD_LAYERS; l++) {
		world_choose(w, l);
		world_fill(w, l);
	}
}

static inline uint64_t region_address(unsigned r)
{
	return REGION_BASE + r * REGION_STRIDE;
}

/* What a copy of the agent's would get; false: nothing is mapped there. */
static inline bool world_read(const struct world *w, uint32_t layer,
			      uint64_t from, void *to, size_t bytes)
{
	uint64_t r = (from - REGION_BASE) / REGION_STRIDE;
	uint64_t at = (from - REGION_BASE) % REGION_STRIDE;

	if (from < REGION_BASE || r >= REGIONS || at + bytes > REGION_BYTES)
		return false;
	memcpy(to, &w->memory[r][layer][at], bytes);
	return true;
}

/* ---- a launch ---------------------------------------------------------------- */

struct call {
	const char *name;
	unsigned n;
	uint64_t value[32];
	size_t bytes[32]; /* of each parameter; a struct is one */
	uint8_t block[256];
	uint32_t grid_x;
};

static inline enum region data_region(const struct row_adapter *a, unsigned i)
{
	if (a->what == ROWS_BLOCKS)
		return i == 0   ? REGION_BLOCKS
		       : i == 1 ? REGION_BATCH
				: REGION_LIMIT;
	if (a->what == ROWS_OFFSETS)
		return a->bytes == 8 ? REGION_OFF64 : REGION_OFF32;
	return a->what == ROWS_COUNTS ? REGION_COUNTS : REGION_IDS32;
}

static inline enum region ids_region(const struct row_adapter *a)
{
	if (a->role == ROLE_ARRIVE || a->bytes == 8)
		return a->what == ROWS_OFFSETS ? REGION_IDS32 : REGION_IDS64;
	return a->what == ROWS_IDS && a->bytes == 2 ? REGION_IDS16
						    : REGION_IDS32;
}

/* What the adapter says is at this place; false: it says nothing. */
static inline bool told_value(const struct world *w,
			      const struct row_adapter *a, int at, uint64_t *v)
{
	const struct {
		int where;
		uint64_t value;
	} told[] = {
		{ a->ids, region_address(ids_region(a)) },
		{ a->data[0], region_address(data_region(a, 0)) },
		{ a->data[1], region_address(data_region(a, 1)) },
		{ a->data[2], region_address(data_region(a, 2)) },
		{ a->rows, w->rows },
		{ a->k, w->k },
		{ a->experts, w->experts + a->extra },
		{ a->first_expert, 0 },
		{ a->numel, w->rows * w->k },
		{ a->tile, WORLD_TILE },
		{ a->here, w->experts },
		{ a->ranks, 1 },
	};

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		if (told[i].where == at) {
			*v = told[i].value;
			return true;
		}
	return false;
}

static inline uint64_t other_value(struct world *w, size_t bytes)
{
	if (bytes == 8)
		return region_address(
			REGION_WEIGHTS +
			world_random(w, REGIONS - REGION_WEIGHTS));
	switch (world_random(w, 4)) {
	case 0:
		return 0;
	case 1:
		return WORLD_BLOCK;
	case 2:
		return w->experts;
	default:
		return 128;
	}
}

/* All members of a struct in places of 8 bytes, in 4 where the adapter has
 * numbers; slot: their places, for a shuffle. */
static inline void call_struct(struct call *c, struct world *w,
			       const struct row_adapter *a)
{
	size_t bytes = (a->struct_bytes + 7u) / 8 * 8;

	for (size_t at = 0; at < bytes; at += 4) {
		uint64_t v;

		if (!told_value(w, a, (int)at + 1, &v))
			continue;
		memcpy(c->block + at, &v, v >= REGION_BASE ? 8 : 4);
	}
	for (size_t at = 0; at < bytes; at += 8) {
		uint64_t v, none;

		memcpy(&v, c->block + at, 8);
		if (v || told_value(w, a, (int)at + 1, &none) ||
		    told_value(w, a, (int)at + 5, &none))
			continue;
		v = other_value(w, 8);
		memcpy(c->block + at, &v, 8);
	}
	c->n = 1;
	c->bytes[0] = bytes;
}

static inline void call_make(struct call *c, struct world *w,
			     const struct row_adapter *a)
{
	memset(c, 0, sizeof(*c));
	c->name = a->name;
	c->grid_x = a->rows == ARG_GRID_X ? w->rows : w->experts;
	if (a->sizes[0] == 's') {
		call_struct(c, w, a);
		return;
	}
	for (; a->sizes[c->n]; c->n++) {
		char size = a->sizes[c->n];

		c->bytes[c->n] = size == '?' ? 8 : (size_t)(size - '0');
		if (!told_value(w, a, (int)c->n + 1, &c->value[c->n]))
			c->value[c->n] = other_value(w, c->bytes[c->n]);
	}
}

/* Exchange two parameters, or two words of the struct. */
static inline void call_swap(struct call *c, unsigned i, unsigned j)
{
	uint64_t v, u;
	size_t b;

	if (c->bytes[0] > 8) {
		unsigned words = (unsigned)c->bytes[0] / 8;

		memcpy(&v, c->block + i % words * 8, 8);
		memcpy(&u, c->block + j % words * 8, 8);
		memcpy(c->block + i % words * 8, &u, 8);
		memcpy(c->block + j % words * 8, &v, 8);
		return;
	}
	i %= c->n;
	j %= c->n;
	v = c->value[i];
	c->value[i] = c->value[j];
	c->value[j] = v;
	b = c->bytes[i];
	c->bytes[i] = c->bytes[j];
	c->bytes[j] = b;
}

/* ---- what is made of it --------------------------------------------------------- */

enum verdict { VERDICT_REFUSED, VERDICT_RIGHT, VERDICT_WRONG };

static inline int call_param_info(void *f, size_t i, size_t *offset,
				  size_t *bytes)
{
	const struct call *c = f;

	if (i >= c->n)
		return 1;
	*offset = 8 * i;
	*bytes = c->bytes[i];
	return 0;
}

/* Read all layers of the world as the agent would; WRONG: rows that are not the
 * world's. */
static inline enum verdict call_judge(const struct call *c,
				      const struct world *w,
				      const struct moe_launch *m)
{
	static uint8_t copy[4 * REGION_BYTES];
	uint16_t counts[WORLD_LAYERS][1024];
	struct row_sums sums[WORLD_LAYERS];
	uint64_t hash[WORLD_LAYERS];
	struct row_doubt d = { 0 };
	bool valid[WORLD_LAYERS], wrong = false;

	(void)c;
	if (row_part_offset(m, ROW_PARTS) > sizeof(copy))
		return VERDICT_REFUSED;
	for (uint32_t l = 0; l < WORLD_LAYERS; l++) {
		for (unsigned p = 0; p < ROW_PARTS; p++)
			if (row_part_bytes(m, p) &&
			    !world_read(w, l, m->data[p],
					copy + row_part_offset(m, p),
					row_part_bytes(m, p)))
				return VERDICT_REFUSED;
		hash[l] = row_copy_hash(copy, m);
		valid[l] = !row_counts_read(copy, m, &sums[l], counts[l]);
		if (valid[l])
			row_doubt_add(&d, &sums[l], hash[l], l);
		else
			row_doubt_invalid(&d);
	}
	for (uint32_t l = 0; l < WORLD_LAYERS; l++)
		if (valid[l])
			row_doubt_again(&d, &sums[l], hash[l]);
	if (row_is_doubtful(&d))
		return VERDICT_REFUSED;
	for (uint32_t l = 0; l < WORLD_LAYERS; l++)
		wrong |= valid[l] &&
			 (m->experts != w->experts ||
			  memcmp(counts[l], w->counts[l], 2 * w->experts) != 0);
	return wrong ? VERDICT_WRONG : VERDICT_RIGHT;
}

static inline void call_launch(struct functions *t, struct call *c,
			       struct launch *l)
{
	const struct cuda_api cuda = { .func_param_info = call_param_info };
	struct function *f = functions_get(t, c, false, c->name);
	void *params[32] = { c->block };

	functions_validate(t, &cuda);
	for (unsigned i = 0; i < c->n && c->bytes[0] <= 8; i++)
		params[i] = &c->value[i];
	launch_capture(l, t, f, params, c->grid_x);
}

/* The layer's expert GEMM, which is as it should be: it tells rows x k. */
static inline void call_gemm(struct call *c, const struct world *w)
{
	*c = (struct call){ .name = "fused_moe_kernel", .n = 10 };
	for (unsigned i = 0; i < 10; i++) {
		c->bytes[i] = i < 6 ? 8 : 4;
		c->value[i] = i < 6 ? region_address(REGION_WEIGHTS) : 512;
	}
	c->value[4] = region_address(REGION_BLOCK_IDS);
	c->value[9] = w->rows * w->k;
}

static inline enum verdict call_read(struct functions *t, struct call *c,
				     const struct world *w)
{
	const struct model_hint hint = { w->experts, w->k };
	struct launch l[2] = { 0 };
	struct layer_rows_at at;
	struct call gemm;

	memset(t, 0, sizeof(*t));
	call_gemm(&gemm, w);
	call_launch(t, c, &l[0]);
	call_launch(t, &gemm, &l[1]);
	if (layer_read(t, l, 2, &hint, &at))
		return VERDICT_REFUSED;
	return call_judge(c, w, &at.rows);
}

#endif
