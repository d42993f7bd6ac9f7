#include "agent/rows.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/rows_parts.h"

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
	r->counts_used = 0;
	memset(r->slot, 0, sizeof(r->slot));
	memset(r->newest, 0, sizeof(r->newest));
}

/* ---- copies ---------------------------------------------------------------- */

static int read_copy(struct rows *r, struct row_copy *c, const void *copy)
{
	if (r->counts_used + c->launch.experts > COUNTS_MAX)
		return -ENOSPC;
	c->counts = r->counts_used;
	c->valid = row_counts_read(copy, &c->launch, &c->sums,
				   r->counts + c->counts) == 0;
	if (c->valid)
		r->counts_used += c->launch.experts;
	return 0;
}

int rows_add(struct rows *r, const void *copy, const struct moe_launch *launch,
	     struct row_calls calls)
{
	struct row_copy *c = &r->copy[r->copies];

	if (r->copies == ROW_COPIES_MAX || !row_shape_fits(launch))
		return -ENOSPC;
	*c = (struct row_copy){ .launch = *launch,
				.calls = calls,
				.hash = row_copy_hash(copy, launch) };
	if (read_copy(r, c, copy))
		return -ENOSPC;
	r->copies++;
	return 0;
}

int rows_add_stage(struct rows *r, const void *copy,
		   const struct moe_launch *launch, uint64_t stage,
		   struct row_calls calls)
{
	struct row_copy *c = &r->copy[r->copies];
	uint32_t *newest = &r->newest[stage_slot(stage)];
	const struct row_copy *old = *newest ? &r->copy[*newest - 1] : NULL;

	if (r->copies == ROW_COPIES_MAX || !row_shape_fits(launch))
		return -ENOSPC;
	*c = (struct row_copy){ .launch = *launch,
				.calls = calls,
				.stage = stage,
				.hash = row_copy_hash(copy, launch) };
	/* As it was: the same replay's, or the same rows once more. */
	if (old && old->stage == stage && old->hash == c->hash &&
	    moe_launch_same(&old->launch, launch)) {
		c->valid = old->valid;
		c->counts = old->counts;
		c->sums = old->sums;
	} else if (read_copy(r, c, copy)) {
		return -ENOSPC;
	}
	r->copies++;
	*newest = r->copies;
	return 0;
}

/* ---- sums ------------------------------------------------------------------ */

static void add_layer(struct layer_rows *l, const struct row_copy *c,
		      bool direct)
{
	l->cells++;
	l->direct_cells += direct;
	l->exact_cells += c->stage != 0;
	l->experts = c->launch.experts;
	l->rows += c->sums.rows;
	l->active += c->sums.active;
	l->single += c->sums.single;
	l->twice += c->sums.twice;
	l->sum_squares += c->sums.sum_squares;
	l->max_rows += c->sums.max_rows;
	l->tokens += c->sums.tokens;
	l->padded_rows += c->sums.padded_rows;
	l->dropped += c->sums.dropped;
	l->blocks += direct ? c->sums.rows : c->sums.active;
}

static void add_step(struct step_rows *s, const struct row_copy *c,
		     unsigned layer)
{
	s->cells++;
	s->exact_cells += c->stage != 0;
	s->mask[layer / 64] |= 1ull << layer % 64;
	s->rows += c->sums.rows;
	s->active += c->sums.active;
	s->single += c->sums.single;
}

static void add_placed(struct rows *r, const struct reduce_result *w,
		       uint32_t i)
{
	const struct reduce_cell *cell = &w->cell[i];
	unsigned phase = w->step[cell->step].phase;
	struct layer_rows *l = &r->result.layer[phase][cell->layer];
	const struct row_copy *c;

	if (r->placed[i] == CELL_EMPTY || r->placed[i] == CELL_KILLED)
		return;
	c = &r->copy[r->placed[i] - 1];
	l->placed_cells++;
	l->placed_experts = c->launch.experts;
	l->placed_rows += c->sums.rows;
	l->placed_active += c->sums.active;
}

static void add_cell(struct rows *r, const struct reduce_result *w, uint32_t i)
{
	const struct reduce_cell *cell = &w->cell[i];
	unsigned phase = w->step[cell->step].phase;
	uint32_t *expert = r->result.expert[phase][cell->layer];
	const struct row_copy *c;

	if (r->cell[i] == CELL_EMPTY || r->cell[i] == CELL_KILLED) {
		r->result.lost++;
		return;
	}
	c = &r->copy[r->cell[i] - 1];
	if (c->stage)
		r->result.exact++;
	else
		r->result.sampled++;
	add_layer(&r->result.layer[phase][cell->layer], c, cell->at.direct);
	add_step(&r->result.step[cell->step], c, cell->layer);
	for (uint32_t e = 0; e < c->launch.experts; e++) {
		uint32_t rows = r->counts[c->counts + e];

		expert[e] += rows;
		if (phase == PHASE_DECODE && rows)
			r->result.rows_hist[rows_bucket(rows)]++;
	}
	if (phase == PHASE_DECODE)
		r->result.rows_hist_rows += c->sums.rows;
}

const struct rows_result *rows_end(struct rows *r, const struct copy_time *time,
				   size_t times,
				   const struct reduce_result *window,
				   bool use_stages)
{
	memset(&r->result, 0, offsetof(struct rows_result, step));
	memset(r->result.step, 0, window->steps * sizeof(r->result.step[0]));
	memset(r->cell, 0, window->cells * sizeof(r->cell[0]));
	memset(r->placed, 0, window->cells * sizeof(r->placed[0]));
	rows_match(r, time, times, window, use_stages);
	for (uint32_t i = 0; i < window->cells; i++) {
		add_cell(r, window, i);
		add_placed(r, window, i);
	}
	return &r->result;
}
