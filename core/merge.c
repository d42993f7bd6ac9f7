#include "core/merge_parts.h"
#include "wire/kernel_class.h"
#include "wire/requests.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(SAMPLE_GROUPS == GROUPS, "groups of the model and the wire");
_Static_assert(SAMPLE_LAYERS_MAX >= LAYERS_MAX, "every layer has a place");
_Static_assert(SAMPLE_CLASSES_MAX >= CLASSES, "every class has a place");
_Static_assert(SAMPLE_PHASES == PHASES, "phases of the model and the wire");
_Static_assert(SAMPLE_HIST_BUCKETS >= HIST_BUCKETS &&
		       SAMPLE_HIST_BUCKETS >= ROWS_BUCKETS,
	       "every bucket has a place");

static const struct {
	const char *name;
	enum kernel_group group;
} classes[CLASSES] = {
	[CLASS_OTHER] = { "other", GROUP_OTHER },
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = { name, group },
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

/* ---- records ----------------------------------------------------------- */

/* Parts of another window: the one before never closed. */
static void open_part(struct merge *m, uint32_t window)
{
	if (m->part_id == window)
		return;
	if (m->part_id)
		m->totals.windows_torn++;
	m->part = (struct sample_window){ 0 };
	memset(m->backend_ns, 0, sizeof(m->backend_ns));
	m->part_id = window;
	m->part_cells = m->part_exact = 0;
}

static int take_layer(struct merge *m, const struct rec_layer *r)
{
	bool inside = r->layer < LAYERS_MAX;
	struct sample_class *c;
	struct sample_layer *layer;
	double ns = (double)r->union_ns;
	unsigned group;

	if (!r->window || r->phase >= PHASES || r->klass >= CLASSES ||
	    r->part > PART_BEFORE || (!inside && r->layer != LAYER_NONE))
		return -EBADMSG;
	open_part(m, r->window);
	if (r->phase != PHASE_DECODE)
		return 0;
	group = classes[r->klass].group;
	m->part.group_ns[group] += ns;
	c = merge_find_class(&m->part, classes[r->klass].name, group);
	if (c)
		merge_add_class(
			c, &(struct sample_class){ .calls = (double)r->calls,
						   .sum_ns = (double)r->sum_ns,
						   .union_ns = ns });
	if (!inside)
		return 0;
	merge_grow(&m->part, r->layer + 1u);
	layer = &m->part.layers[r->layer];
	merge_add_layer_class(layer, &(struct sample_layer_class){
					     .id = r->klass,
					     .calls = (double)r->calls,
					     .sum_ns = (double)r->sum_ns,
					     .union_ns = ns });
	/* one record per class and part: all cover the same steps */
	if (r->steps > layer->steps)
		layer->steps = r->steps;
	if (r->part == PART_BEFORE) {
		layer->before_ns += ns;
		return 0;
	}
	layer->block_ns += ns;
	layer->group_ns[group] += ns;
	if (group == GROUP_EXPERT && r->union_ns >= m->backend_ns[r->layer]) {
		m->backend_ns[r->layer] = r->union_ns;
		snprintf(layer->backend, sizeof(layer->backend), "%s",
			 classes[r->klass].name);
	}
	return 0;
}

static int take_rows(struct merge *m, const struct rec_rows *r)
{
	const struct sample_rows rows = {
		.cells = r->cells,
		.rows = (double)r->rows,
		.active = (double)r->active,
		.single = (double)r->single,
		.twice = (double)r->twice,
		.sum_squares = (double)r->sum_squares,
		.max_rows = (double)r->max_rows,
		.experts = (double)r->experts * r->cells,
		.padded_rows = (double)r->padded_rows,
		.blocks = (double)r->blocks,
	};

	/* what no true histogram can be: more singles than active ones, more
	 * active ones than rows or than experts */
	if (!r->window || r->phase >= PHASES || r->layer >= LAYERS_MAX ||
	    !r->experts || r->experts > EXPERTS_MAX || r->active > r->rows ||
	    r->single > r->active || r->twice > r->active - r->single ||
	    r->active > (uint64_t)r->experts * r->cells ||
	    r->max_rows > r->rows || r->sum_squares < r->rows ||
	    r->exact_cells > r->cells || r->direct_cells > r->cells ||
	    r->blocks > r->rows)
		return -EBADMSG;
	open_part(m, r->window);
	m->experts = r->experts;
	if (r->phase == PHASE_DECODE) {
		m->totals.cells += r->cells;
		m->part_cells += r->cells;
		m->part_exact += r->exact_cells;
		m->exact = 2 * m->part_exact > m->part_cells;
	}
	if (r->phase == PHASE_PREFILL) {
		merge_add_rows(&m->part.prefill_rows, &rows);
		return 0;
	}
	merge_grow(&m->part, r->layer + 1u);
	merge_add_rows(&m->part.rows, &rows);
	merge_add_rows(&m->part.layers[r->layer].rows, &rows);
	return 0;
}

static int take_steps(struct merge *m, const struct rec_steps *r)
{
	if (!r->window || r->phase >= PHASES || r->busy_ns > r->span_ns)
		return -EBADMSG;
	open_part(m, r->window);
	m->part.kernels_run[r->phase] = (double)r->kernels;
	m->part.launches[r->phase] = (double)r->launches;
	m->part.span_ns[r->phase] = (double)r->span_ns;
	m->part.phase_busy_ns[r->phase] = (double)r->busy_ns;
	return 0;
}

static void bound_hist(struct sample_hist *h, enum hist_what what)
{
	h->n = what == HIST_ROWS ? ROWS_BUCKETS : HIST_BUCKETS;
	h->exact = what == HIST_ROWS;
	for (__u32 b = 0; b < h->n; b++)
		h->upper[b] = what == HIST_ROWS
				      ? (double)rows_bucket_high(b)
				      : (double)hist_bucket_low_ns(b + 1) / 1e9;
}

static int take_hist(struct merge *m, const struct rec_hist *r)
{
	unsigned end = (unsigned)r->first + r->count;
	struct sample_hist *h;

	if (!r->window || r->what >= HIST_WHATS || r->count > HIST_PER_RECORD ||
	    end > (r->what == HIST_ROWS ? ROWS_BUCKETS : HIST_BUCKETS))
		return -EBADMSG;
	open_part(m, r->window);
	h = r->what == HIST_ROWS ? &m->part.rows_per_expert : &m->part.step_s;
	if (!h->n)
		bound_hist(h, r->what);
	h->sum += (double)r->sum / (r->what == HIST_ROWS ? 1 : 1e9);
	for (unsigned i = 0; i < r->count; i++) {
		h->buckets[r->first + i] += r->buckets[i];
		h->count += r->buckets[i];
	}
	return 0;
}

static int take_window(struct merge *m, const struct rec_window *r)
{
	if (!r->window || r->end_ns < r->start_ns ||
	    r->layers_seen > LAYERS_MAX ||
	    r->draft_layers > LAYERS_MAX - r->layers_seen)
		return -EBADMSG;
	open_part(m, r->window);
	m->part.windows = 1;
	m->part.wall_ns = (double)(r->end_ns - r->start_ns);
	m->part.end_ns = (double)r->end_ns;
	m->part.busy_ns = 0;
	for (unsigned p = 0; p < PHASES; p++) {
		m->part.steps[p] = r->phase_steps[p];
		m->part.step_ns[p] = (double)r->step_ns[p];
		m->part.tokens[p] = (double)r->tokens[p];
		m->part.busy_ns += (double)r->busy_ns[p];
	}
	m->part.cells_rejected = r->cells_rejected;
	m->part.cells_lost = r->cells_lost;
	m->part.bad_steps = r->bad_steps;
	m->part.kernels = r->kernels;
	m->part.layers_seen = r->layers_seen;
	if (r->draft_layers)
		merge_split_layers(&m->part, r->layers_seen);
	m->totals.windows++;
	m->totals.cells_rejected += r->cells_rejected;
	m->totals.cells_lost += r->cells_lost;
	m->totals.bad_steps += r->bad_steps;
	merge_add_window(&m->closed, &m->part);
	m->part = (struct sample_window){ 0 };
	m->part_id = 0;
	return 0;
}

/* Text of a foreign process goes to a terminal: printable ASCII only.  to has
 * room for bytes + 1. */
static void copy_text(char *to, const char *from, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes && from[i]; i++)
		to[i] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	to[i] = '\0';
}

static int take_status(struct merge *m, const struct rec_status *r)
{
	if (r->state >= AGENT_STATES || r->reason >= REASONS)
		return -EBADMSG;
	m->status = *r;
	copy_text(m->status.device_name, r->device_name,
		  sizeof(r->device_name) - 1);
	m->have_status = true;
	return 0;
}

static int take_text(struct merge *m, const struct rec_text *r)
{
	if (r->level > 2)
		return -EBADMSG;
	if (r->level > 0)
		copy_text(m->text, r->text, TEXT_BYTES);
	return 0;
}

static int check_experts(const struct rec_experts *r)
{
	if (!r->window || r->phase >= PHASES || r->layer >= LAYERS_MAX ||
	    !r->count || r->count > EXPERTS_PER_RECORD ||
	    (uint32_t)r->first + r->count > EXPERTS_MAX)
		return -EBADMSG;
	return 0;
}

static int take_step_rows(struct merge *m, const struct rec_step_rows *r)
{
	double rows = (double)r->rows, active = (double)r->active;
	double single = (double)r->single, cells = r->cells;
	struct sample_clusters step;

	if (!r->window || r->phase >= PHASES || r->cells > LAYERS_MAX ||
	    r->cells != __builtin_popcountll(r->layer_mask[0]) +
				__builtin_popcountll(r->layer_mask[1]) ||
	    r->active > r->rows || r->single > r->active)
		return -EBADMSG;
	open_part(m, r->window);
	if (r->phase != PHASE_DECODE || !r->cells)
		return 0;
	step = (struct sample_clusters){
		.steps = 1,
		.rows = rows / cells,
		.rows_squared = rows / cells * rows / cells,
		.active = active / cells,
		.active_squared = active / cells * active / cells,
		.cell_rows_squared = rows * rows / cells,
		.uu = active * active,
		.uf = active * single,
		.ff = single * single,
	};
	merge_add_clusters(&m->part.clusters, &step);
	return 0;
}

static int check_spans(const struct rec_spans *r)
{
	if (!r->count || r->count > SPANS_PER_RECORD)
		return -EBADMSG;
	for (unsigned i = 0; i < r->count; i++)
		if ((r->span[i].layer >= LAYERS_MAX &&
		     r->span[i].layer != LAYER_NONE) ||
		    (r->span[i].group >= GROUPS &&
		     r->span[i].group != SPAN_UNKNOWN))
			return -EBADMSG;
	return 0;
}

/* The agent's own count begins anew when it has slept. */
static void take_tick(struct merge *m, const struct record *r)
{
	uint64_t now = r->tick.records_dropped,
		 before = m->tick.records_dropped;

	m->totals.records_dropped += now >= before ? now - before : now;
	m->tick = r->tick;
	m->tick_ns = r->time_ns;
	m->have_tick = true;
}

static int take(struct merge *m, const struct record *r)
{
	switch (r->type) {
	case REC_STATUS:
		return take_status(m, &r->status);
	case REC_TICK:
		take_tick(m, r);
		return 0;
	case REC_WINDOW:
		return take_window(m, &r->window);
	case REC_LAYER:
		return take_layer(m, &r->layer);
	case REC_ROWS:
		return take_rows(m, &r->rows);
	case REC_EXPERTS:
		return check_experts(&r->experts);
	case REC_SPANS:
		return check_spans(&r->spans);
	case REC_STEP_ROWS:
		return take_step_rows(m, &r->step_rows);
	case REC_TEXT:
		return take_text(m, &r->text);
	case REC_HIST:
		return take_hist(m, &r->hist);
	case REC_STEPS:
		return take_steps(m, &r->steps);
	default:
		return -EBADMSG;
	}
}

void merge_init(struct merge *m)
{
	memset(m, 0, sizeof(*m));
}

int merge_record(struct merge *m, const struct record *r)
{
	int err = take(m, r);

	if (err)
		m->totals.refused++;
	else if (r->time_ns > m->last_ns)
		m->last_ns = r->time_ns;
	return err;
}

void merge_clear(struct merge *m)
{
	m->closed = (struct sample_window){ 0 };
}
