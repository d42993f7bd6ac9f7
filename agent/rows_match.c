#include "agent/rows_parts.h"

#include <string.h>

/* Kernels and copies are timed by different engines of the device, whose clocks
 * may tick as slowly as 1.024 us, and a store may reach memory a little after
 * its kernel's end. */
#define GUARD_NS 2000u

/* ---- times ---------------------------------------------------------------- */

static uint32_t home_of(uint32_t correlation)
{
	return correlation * 2654435761u % COPY_SLOTS;
}

static void index_times(struct rows *r, const struct copy_time *time, size_t n)
{
	if (n > ROW_COPIES_MAX)
		n = ROW_COPIES_MAX;
	for (size_t i = 0; i < n; i++) {
		uint32_t s = home_of(time[i].correlation);

		while (r->slot[s])
			s = (s + 1) % COPY_SLOTS;
		r->slot[s] = (uint32_t)i + 1;
	}
}

static const struct copy_time *find_time(const struct rows *r,
					 const struct copy_time *time,
					 uint32_t correlation)
{
	/* Its call was not seen: nothing says when it ran. */
	if (!correlation)
		return NULL;
	for (uint32_t s = home_of(correlation); r->slot[s];
	     s = (s + 1) % COPY_SLOTS)
		if (time[r->slot[s] - 1].correlation == correlation)
			return &time[r->slot[s] - 1];
	return NULL;
}

static void set_times(struct rows *r, const struct copy_time *time)
{
	for (uint32_t i = 0; i < r->copies; i++) {
		struct row_copy *c = &r->copy[i];
		const struct copy_time *first, *last;

		first = find_time(r, time, c->calls.first);
		last = c->calls.last == c->calls.first
			       ? first
			       : find_time(r, time, c->calls.last);
		c->start = first && last ? first->start : 0;
		c->end = first && last ? last->end : 0;
	}
}

/* ---- cells ---------------------------------------------------------------- */

static void offer(struct rows *r, uint32_t *cell, uint32_t copy,
		  struct step_rows *step)
{
	const struct row_copy *c = &r->copy[copy], *first;

	if (*cell == CELL_KILLED)
		return;
	if (!c->valid) {
		r->result.rejected++;
		r->invalid += step != NULL;
		return;
	}
	if (*cell == CELL_EMPTY) {
		if (step) {
			step->torn |=
				step->known && step->tokens != c->sums.tokens;
			step->known = true;
			step->tokens = c->sums.tokens;
		}
		*cell = copy + 1;
		return;
	}
	first = &r->copy[*cell - 1];
	if (first->hash != c->hash || first->sums.rows != c->sums.rows) {
		r->result.rejected++;
		*cell = CELL_KILLED;
	}
}

/* When the cell's data of this kind is its own. */
static bool inside(const struct reduce_cell *cell, const struct row_copy *c)
{
	uint64_t from = cell->gemm_from, until = cell->gemm_until;

	if (c->launch.what == ROWS_IDS &&
	    moe_launch_same(&cell->at.rows, &c->launch)) {
		from = cell->from;
		until = cell->until;
	}
	return from && from + GUARD_NS <= c->start &&
	       c->end + GUARD_NS <= until;
}

/* Copies and cells both run forward in time. */
static void match_buffers(struct rows *r, const struct reduce_result *w)
{
	uint64_t last = 0;
	uint32_t i = 0;

	for (uint32_t k = 0; k < r->copies; k++) {
		const struct row_copy *c = &r->copy[k];
		const struct reduce_cell *cell;

		if (c->stage || !c->start || c->start < last)
			continue;
		last = c->start;
		while (i < w->cells && w->cell[i].until < c->end)
			i++;
		if (i == w->cells)
			break;
		cell = &w->cell[i];
		if (!inside(cell, c))
			continue;
		if (moe_launch_same(&cell->at.rows, &c->launch))
			offer(r, &r->cell[i], k, &r->result.step[cell->step]);
		else if (moe_launch_same(&cell->at.placed, &c->launch))
			offer(r, &r->placed[i], k, NULL);
	}
}

/* ---- stages ---------------------------------------------------------------- */

/* Until when each cell's stage holds its rows: until the next cell that writes
 * there, or until a step follows of which nothing is known. */
static void find_rewrites(struct rows *r, const struct reduce_result *w)
{
	uint64_t limit = 0;

	memset(r->rewritten, 0, sizeof(r->rewritten));
	for (uint32_t i = w->cells; i-- > 0;) {
		const struct reduce_cell *cell = &w->cell[i];
		const struct reduce_step *step = &w->step[cell->step];
		size_t bytes = row_part_offset(&cell->at.rows, ROW_PARTS);
		uint64_t until;

		if (i + 1 == w->cells || (w->cell[i + 1].step != cell->step &&
					  step->next != step[1].start)) {
			limit = step->next;
			memset(r->rewritten, 0, sizeof(r->rewritten));
		}
		until = limit;
		if (!cell->at.stage)
			continue;
		for (size_t at = 0; at < bytes; at += STAGE_ALIGN) {
			uint32_t s = stage_slot(cell->at.stage + at);

			if (r->rewritten[s] && r->rewritten[s] < until)
				until = r->rewritten[s];
			r->rewritten[s] = cell->from;
		}
		r->kept[i] = until;
	}
}

/* A copy of the buffer itself says the same, or not. */
static void compare(struct rows *r, uint32_t cell, const struct row_copy *c)
{
	const struct row_copy *other;

	if (r->cell[cell] == CELL_EMPTY || r->cell[cell] == CELL_KILLED)
		return;
	other = &r->copy[r->cell[cell] - 1];
	if (other->stage)
		return;
	if (c->valid && other->hash == c->hash)
		r->result.agree++;
	else
		r->result.differ++;
}

static void take_stage(struct rows *r, const struct reduce_result *w,
		       uint32_t copy, bool use)
{
	const struct row_copy *c = &r->copy[copy];
	uint32_t writer = r->writer[stage_slot(c->stage)];
	const struct reduce_cell *cell;

	if (!writer)
		return;
	cell = &w->cell[writer - 1];
	if (cell->at.stage != c->stage ||
	    c->end + GUARD_NS > r->kept[writer - 1] ||
	    !moe_launch_same(&cell->at.rows, &c->launch))
		return;
	r->result.stages++;
	r->result.bad_stages += !c->valid;
	compare(r, writer - 1, c);
	if (use)
		offer(r, &r->cell[writer - 1], copy,
		      &r->result.step[cell->step]);
}

static void match_stages(struct rows *r, const struct reduce_result *w,
			 bool use)
{
	uint64_t last = 0;
	uint32_t i = 0;

	find_rewrites(r, w);
	memset(r->writer, 0, sizeof(r->writer));
	for (uint32_t k = 0; k < r->copies; k++) {
		const struct row_copy *c = &r->copy[k];

		if (!c->stage || !c->start || c->start < last)
			continue;
		last = c->start;
		for (; i < w->cells &&
		       (!w->cell[i].at.stage ||
			w->cell[i].gemm_from + GUARD_NS <= c->start);
		     i++)
			if (w->cell[i].at.stage && w->cell[i].gemm_from)
				r->writer[stage_slot(w->cell[i].at.stage)] =
					i + 1;
		take_stage(r, w, k, use);
	}
}

/* ---- doubt ------------------------------------------------------------------- */

static const struct row_copy *copy_of(const struct rows *r, uint32_t cell)
{
	if (r->cell[cell] == CELL_EMPTY || r->cell[cell] == CELL_KILLED)
		return NULL;
	return &r->copy[r->cell[cell] - 1];
}

static bool is_doubtful(const struct rows *r, const struct reduce_result *w)
{
	struct row_doubt d = { .invalid = r->invalid };
	const struct row_copy *c;

	for (uint32_t i = 0; i < w->cells; i++)
		if ((c = copy_of(r, i)))
			row_doubt_add(&d, &c->sums, c->hash, w->cell[i].layer);
	for (uint32_t i = 0; i < w->cells; i++)
		if ((c = copy_of(r, i)))
			row_doubt_again(&d, &c->sums, c->hash);
	return row_is_doubtful(&d);
}

/* Of steps whose layers have not the same tokens, nobody knows which are right;
 * of a doubtful window, none is. */
static void kill(struct rows *r, const struct reduce_result *w)
{
	for (uint32_t i = 0; i < w->cells; i++) {
		bool bad = r->result.doubtful ||
			   r->result.step[w->cell[i].step].torn;

		if (!bad || r->cell[i] == CELL_EMPTY ||
		    r->cell[i] == CELL_KILLED)
			continue;
		r->cell[i] = CELL_KILLED;
		r->result.rejected++;
	}
}

void rows_match(struct rows *r, const struct copy_time *time, size_t times,
		const struct reduce_result *window, bool use_stages)
{
	r->invalid = 0;
	index_times(r, time, times);
	set_times(r, time);
	match_buffers(r, window);
	match_stages(r, window, use_stages);
	kill(r, window);
	if (!is_doubtful(r, window))
		return;
	r->result.doubtful = true;
	kill(r, window);
}
