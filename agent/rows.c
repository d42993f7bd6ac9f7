#include "agent/rows.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS (2 * ROW_COPIES_MAX)
/* Kernels and copies are timed by different engines of the device, whose clocks
 * may tick as slowly as 1.024 us, and a store may reach memory a little after
 * its kernel's end. */
#define GUARD_NS 2000u
#define CELL_EMPTY 0u
#define CELL_KILLED UINT32_MAX

struct rows {
	uint32_t copies;
	struct row_copy copy[ROW_COPIES_MAX];
	uint16_t counts[ROW_COPIES_MAX][EXPERTS_MAX];
	uint16_t slot[SLOTS];     /* copy index + 1, by correlation */
	uint32_t cell[CELLS_MAX]; /* copy index + 1 */
	struct rows_result result;
};

struct rows *rows_new(void)
{
	void *p = mmap(NULL, sizeof(struct rows), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void rows_free(struct rows *r)
{
	if (r)
		munmap(r, sizeof(*r));
}

void rows_begin(struct rows *r)
{
	r->copies = 0;
	memset(r->slot, 0, sizeof(r->slot));
}

/* ---- one copy ------------------------------------------------------------- */

static int64_t id_at(const void *ids, uint8_t bytes, size_t i)
{
	int64_t wide;
	int32_t narrow;

	if (bytes == 8) {
		memcpy(&wide, (const char *)ids + 8 * i, 8);
		return wide;
	}
	memcpy(&narrow, (const char *)ids + 4 * i, 4);
	return narrow;
}

/* One token: 1 real, 0 padding, -EINVAL neither. */
static int count_token(const void *ids, const struct moe_launch *l, size_t row,
		       uint16_t *counts)
{
	int64_t seen[64];

	seen[0] = 0;
	for (uint32_t j = 0; j < l->k; j++) {
		int64_t id = id_at(ids, l->id_bytes, row * l->k + j);

		if (id == -1 && (j == 0 || seen[0] == -1)) {
			seen[j] = id;
			continue;
		}
		if (id < 0 || id >= l->experts || (j && seen[0] == -1))
			return -EINVAL;
		for (uint32_t i = 0; i < j; i++)
			if (seen[i] == id)
				return -EINVAL;
		seen[j] = id;
		counts[id]++;
	}
	return seen[0] != -1;
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

int rows_count(const void *ids, const struct moe_launch *launch,
	       struct row_sums *out, uint16_t *counts)
{
	struct row_sums s = { 0 };
	bool padding = false;

	if (!launch->experts || launch->experts > EXPERTS_MAX || !launch->k ||
	    launch->k > 64 || launch->k > launch->experts ||
	    launch->rows > UINT16_MAX)
		return -EINVAL;
	memset(counts, 0, launch->experts * sizeof(*counts));
	for (uint32_t t = 0; t < launch->rows; t++) {
		int real = count_token(ids, launch, t, counts);

		if (real < 0 || (real && padding))
			return -EINVAL;
		if (real)
			s.tokens++;
		else
			padding = true;
	}
	s.padded_rows = (launch->rows - s.tokens) * launch->k;
	sum_counts(&s, counts, launch->experts);
	*out = s;
	return 0;
}

static uint64_t hash_ids(const uint8_t *p, size_t bytes)
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

int rows_add(struct rows *r, const void *ids, const struct moe_launch *launch,
	     uint32_t correlation)
{
	struct row_copy *c = &r->copy[r->copies];
	size_t bytes = (size_t)launch->rows * launch->k * launch->id_bytes;

	if (r->copies == ROW_COPIES_MAX)
		return -ENOSPC;
	*c = (struct row_copy){ .launch = *launch,
				.correlation = correlation,
				.hash = hash_ids(ids, bytes) };
	c->valid = rows_count(ids, launch, &c->sums, r->counts[r->copies]) == 0;
	r->copies++;
	return 0;
}

/* ---- times ---------------------------------------------------------------- */

static void index_copies(struct rows *r)
{
	for (uint32_t i = 0; i < r->copies; i++) {
		uint32_t s = r->copy[i].correlation * 2654435761u % SLOTS;

		/* Its call was not seen: nothing says when it ran. */
		if (!r->copy[i].correlation)
			continue;
		while (r->slot[s])
			s = (s + 1) % SLOTS;
		r->slot[s] = (uint16_t)(i + 1);
	}
}

static void set_times(struct rows *r, const struct copy_time *time, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t s = time[i].correlation * 2654435761u % SLOTS;

		for (; r->slot[s]; s = (s + 1) % SLOTS) {
			struct row_copy *c = &r->copy[r->slot[s] - 1];

			if (c->correlation != time[i].correlation)
				continue;
			c->start = time[i].start;
			c->end = time[i].end;
			break;
		}
	}
}

/* ---- cells ---------------------------------------------------------------- */

static bool same_launch(const struct moe_launch *a, const struct moe_launch *b)
{
	return a->rows && a->ids == b->ids && a->rows == b->rows &&
	       a->k == b->k && a->id_bytes == b->id_bytes;
}

static void offer(struct rows *r, uint32_t cell, uint32_t copy,
		  struct step_rows *step)
{
	const struct row_copy *c = &r->copy[copy], *first;

	if (r->cell[cell] == CELL_KILLED)
		return;
	if (!c->valid) {
		r->result.rejected++;
		return;
	}
	if (r->cell[cell] == CELL_EMPTY) {
		if (step->tokens && step->tokens != c->sums.tokens) {
			r->result.rejected++;
			return;
		}
		step->tokens = c->sums.tokens;
		r->cell[cell] = copy + 1;
		return;
	}
	first = &r->copy[r->cell[cell] - 1];
	if (first->hash != c->hash || first->sums.tokens != c->sums.tokens) {
		r->result.rejected++;
		r->cell[cell] = CELL_KILLED;
	}
}

/* Copies and cells both run forward in time. */
static void match(struct rows *r, const struct reduce_result *w)
{
	uint64_t last = 0;
	uint32_t i = 0;

	for (uint32_t k = 0; k < r->copies; k++) {
		const struct row_copy *c = &r->copy[k];
		const struct reduce_cell *cell;

		if (!c->start || c->start < last)
			continue;
		last = c->start;
		while (i < w->cells && w->cell[i].until < c->end)
			i++;
		if (i == w->cells)
			break;
		cell = &w->cell[i];
		if (cell->from + GUARD_NS <= c->start &&
		    c->end + GUARD_NS <= cell->until &&
		    same_launch(&cell->launch, &c->launch))
			offer(r, i, k, &r->result.step[cell->step]);
	}
}

static void add_layer(struct layer_rows *l, const struct row_copy *c)
{
	l->cells++;
	l->experts = c->launch.experts;
	l->rows += c->sums.rows;
	l->active += c->sums.active;
	l->single += c->sums.single;
	l->twice += c->sums.twice;
	l->sum_squares += c->sums.sum_squares;
	l->max_rows += c->sums.max_rows;
	l->tokens += c->sums.tokens;
	l->padded_rows += c->sums.padded_rows;
}

static void add_step(struct step_rows *s, const struct row_copy *c,
		     unsigned layer)
{
	s->cells++;
	s->mask[layer / 64] |= 1ull << layer % 64;
	s->rows += c->sums.rows;
	s->active += c->sums.active;
	s->single += c->sums.single;
}

static void add_cell(struct rows *r, const struct reduce_result *w, uint32_t i)
{
	const struct reduce_cell *cell = &w->cell[i];
	unsigned phase = w->step[cell->step].phase;
	uint32_t copy = r->cell[i];
	uint32_t *expert = r->result.expert[phase][cell->layer];

	if (copy == CELL_EMPTY || copy == CELL_KILLED) {
		r->result.lost++;
		return;
	}
	copy--;
	add_layer(&r->result.layer[phase][cell->layer], &r->copy[copy]);
	add_step(&r->result.step[cell->step], &r->copy[copy], cell->layer);
	for (uint32_t e = 0; e < r->copy[copy].launch.experts; e++) {
		uint32_t rows = r->counts[copy][e];

		expert[e] += rows;
		if (phase == PHASE_DECODE && rows)
			r->result.rows_hist[rows_bucket(rows)]++;
	}
	if (phase == PHASE_DECODE)
		r->result.rows_hist_rows += r->copy[copy].sums.rows;
}

const struct rows_result *rows_end(struct rows *r, const struct copy_time *time,
				   size_t times,
				   const struct reduce_result *window)
{
	memset(&r->result, 0, offsetof(struct rows_result, step));
	memset(r->result.step, 0, window->steps * sizeof(r->result.step[0]));
	memset(r->cell, 0, window->cells * sizeof(r->cell[0]));
	index_copies(r);
	set_times(r, time, times);
	match(r, window);
	for (uint32_t i = 0; i < window->cells; i++)
		add_cell(r, window, i);
	return &r->result;
}
