#include "core/merge.h"
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

/* ---- sums -------------------------------------------------------------- */

static void add_rows(struct sample_rows *to, const struct sample_rows *from)
{
	to->cells += from->cells;
	to->rows += from->rows;
	to->active += from->active;
	to->single += from->single;
	to->twice += from->twice;
	to->sum_squares += from->sum_squares;
	to->max_rows += from->max_rows;
	to->experts += from->experts;
	to->padded_rows += from->padded_rows;
}

static void add_clusters(struct sample_clusters *to,
			 const struct sample_clusters *from)
{
	to->steps += from->steps;
	to->rows += from->rows;
	to->rows_squared += from->rows_squared;
	to->active += from->active;
	to->active_squared += from->active_squared;
	to->cell_rows_squared += from->cell_rows_squared;
	to->uu += from->uu;
	to->uf += from->uf;
	to->ff += from->ff;
}

static void add_layer(struct sample_layer *to, const struct sample_layer *from)
{
	to->steps += from->steps;
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		to->group_ns[g] += from->group_ns[g];
	to->block_ns += from->block_ns;
	to->before_ns += from->before_ns;
	add_rows(&to->rows, &from->rows);
	if (from->backend[0])
		memcpy(to->backend, from->backend, sizeof(to->backend));
}

static void add_class(struct sample_class *to, const struct sample_class *from)
{
	to->calls += from->calls;
	to->sum_ns += from->sum_ns;
	to->union_ns += from->union_ns;
}

static void add_hist(struct sample_hist *to, const struct sample_hist *from)
{
	if (!from->n)
		return;
	if (!to->n) {
		*to = *from;
		return;
	}
	to->count += from->count;
	to->sum += from->sum;
	for (unsigned b = 0; b < from->n; b++)
		to->buckets[b] += from->buckets[b];
}

/* Layers and classes that `to` has not seen begin at nothing. */
static void grow(struct sample_window *to, unsigned n_layers)
{
	for (; to->n_layers < n_layers; to->n_layers++)
		to->layers[to->n_layers] =
			(struct sample_layer){ .dram_bytes = NAN };
}

static struct sample_class *find_class(struct sample_window *w,
				       const char *name, unsigned group)
{
	struct sample_class *c = w->classes;

	for (unsigned i = 0; i < w->n_classes; i++, c++)
		if (!strcmp(c->name, name))
			return c;
	if (w->n_classes == SAMPLE_CLASSES_MAX)
		return NULL;
	w->n_classes++;
	*c = (struct sample_class){ .group = group };
	snprintf(c->name, sizeof(c->name), "%s", name);
	return c;
}

static void add_window(struct sample_window *to,
		       const struct sample_window *from)
{
	to->windows += from->windows;
	to->wall_ns += from->wall_ns;
	to->busy_ns += from->busy_ns;
	for (unsigned p = 0; p < SAMPLE_PHASES; p++) {
		to->steps[p] += from->steps[p];
		to->step_ns[p] += from->step_ns[p];
		to->tokens[p] += from->tokens[p];
		to->kernels_run[p] += from->kernels_run[p];
		to->launches[p] += from->launches[p];
		to->span_ns[p] += from->span_ns[p];
		to->phase_busy_ns[p] += from->phase_busy_ns[p];
	}
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		to->group_ns[g] += from->group_ns[g];
	add_rows(&to->rows, &from->rows);
	add_rows(&to->prefill_rows, &from->prefill_rows);
	add_clusters(&to->clusters, &from->clusters);
	to->cells_rejected += from->cells_rejected;
	to->cells_lost += from->cells_lost;
	to->bad_steps += from->bad_steps;
	to->kernels += from->kernels;
	grow(to, from->n_layers);
	for (unsigned l = 0; l < from->n_layers; l++)
		add_layer(&to->layers[l], &from->layers[l]);
	for (unsigned c = 0; c < from->n_classes; c++) {
		const struct sample_class *of = &from->classes[c];
		struct sample_class *at = find_class(to, of->name, of->group);

		if (at)
			add_class(at, of);
	}
	add_hist(&to->step_s, &from->step_s);
	add_hist(&to->rows_per_expert, &from->rows_per_expert);
	if (from->end_ns > to->end_ns)
		to->end_ns = from->end_ns;
}

static void keep_larger(double *to, double x)
{
	if (x > *to)
		*to = x;
}

void merge_windows(struct sample_window *to, const struct sample_window *from)
{
	add_window(to, from);
	to->ranks += 1;
	keep_larger(&to->rank_rows_max, from->rows.rows);
	keep_larger(&to->rank_active_max, from->rows.active);
	for (unsigned l = 0; l < from->n_layers; l++)
		keep_larger(&to->layers[l].slowest_ns,
			    from->layers[l].group_ns[GROUP_EXPERT]);
}

static void scale_rows(struct sample_rows *r, double by)
{
	r->cells *= by;
	r->rows *= by;
	r->active *= by;
	r->single *= by;
	r->twice *= by;
	r->sum_squares *= by;
	r->max_rows *= by;
	r->experts *= by;
	r->padded_rows *= by;
}

static void scale_clusters(struct sample_clusters *c, double by)
{
	c->steps *= by;
	c->rows *= by;
	c->rows_squared *= by;
	c->active *= by;
	c->active_squared *= by;
	c->cell_rows_squared *= by;
	c->uu *= by;
	c->uf *= by;
	c->ff *= by;
}

static void scale_layer(struct sample_layer *l, double by)
{
	l->steps *= by;
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		l->group_ns[g] *= by;
	l->block_ns *= by;
	l->before_ns *= by;
	scale_rows(&l->rows, by);
}

static void scale_class(struct sample_class *c, double by)
{
	c->calls *= by;
	c->sum_ns *= by;
	c->union_ns *= by;
}

void merge_mean(struct sample_window *w, unsigned n)
{
	double by = 1.0 / n;

	if (n < 2)
		return;
	w->windows *= by;
	w->wall_ns *= by;
	w->busy_ns *= by;
	for (unsigned p = 0; p < SAMPLE_PHASES; p++) {
		w->steps[p] *= by;
		w->step_ns[p] *= by;
		w->tokens[p] *= by;
		w->kernels_run[p] *= by;
		w->launches[p] *= by;
		w->span_ns[p] *= by;
		w->phase_busy_ns[p] *= by;
	}
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		w->group_ns[g] *= by;
	scale_rows(&w->rows, by);
	scale_rows(&w->prefill_rows, by);
	scale_clusters(&w->clusters, by);
	w->cells_rejected *= by;
	w->cells_lost *= by;
	w->bad_steps *= by;
	w->kernels *= by;
	for (unsigned l = 0; l < w->n_layers; l++)
		scale_layer(&w->layers[l], by);
	for (unsigned c = 0; c < w->n_classes; c++)
		scale_class(&w->classes[c], by);
}

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
	c = find_class(&m->part, classes[r->klass].name, group);
	if (c)
		add_class(c,
			  &(struct sample_class){ .calls = (double)r->calls,
						  .sum_ns = (double)r->sum_ns,
						  .union_ns = ns });
	if (!inside)
		return 0;
	grow(&m->part, r->layer + 1u);
	layer = &m->part.layers[r->layer];
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
	};

	/* what no true histogram can be: more singles than active ones, more
	 * active ones than rows or than experts */
	if (!r->window || r->phase >= PHASES || r->layer >= LAYERS_MAX ||
	    !r->experts || r->experts > EXPERTS_MAX || r->active > r->rows ||
	    r->single > r->active || r->twice > r->active - r->single ||
	    r->active > (uint64_t)r->experts * r->cells ||
	    r->max_rows > r->rows || r->sum_squares < r->rows)
		return -EBADMSG;
	open_part(m, r->window);
	m->experts = r->experts;
	if (r->phase == PHASE_DECODE)
		m->totals.cells += r->cells;
	if (r->phase == PHASE_PREFILL) {
		add_rows(&m->part.prefill_rows, &rows);
		return 0;
	}
	grow(&m->part, r->layer + 1u);
	add_rows(&m->part.rows, &rows);
	add_rows(&m->part.layers[r->layer].rows, &rows);
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
	if (!r->window || r->end_ns < r->start_ns)
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
	m->totals.windows++;
	m->totals.cells_rejected += r->cells_rejected;
	m->totals.cells_lost += r->cells_lost;
	m->totals.bad_steps += r->bad_steps;
	add_window(&m->closed, &m->part);
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
	add_clusters(&m->part.clusters, &step);
	return 0;
}

static int take(struct merge *m, const struct record *r)
{
	switch (r->type) {
	case REC_STATUS:
		return take_status(m, &r->status);
	case REC_TICK:
		m->tick = r->tick;
		m->tick_ns = r->time_ns;
		m->have_tick = true;
		return 0;
	case REC_WINDOW:
		return take_window(m, &r->window);
	case REC_LAYER:
		return take_layer(m, &r->layer);
	case REC_ROWS:
		return take_rows(m, &r->rows);
	case REC_EXPERTS:
		return check_experts(&r->experts);
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
