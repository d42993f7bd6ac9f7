#include "core/merge_parts.h"
#include "wire/kernel_class.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void merge_add_rows(struct sample_rows *to, const struct sample_rows *from)
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
	to->blocks += from->blocks;
}

void merge_add_clusters(struct sample_clusters *to,
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

/* Add to the class's entry, made if new; what finds no room is in the layer's
 * time all the same. */
void merge_add_layer_class(struct sample_layer *to,
			   const struct sample_layer_class *from)
{
	struct sample_layer_class *c = to->classes;
	unsigned i = 0;

	while (i < to->n_classes && c[i].id != from->id)
		i++;
	if (i == SAMPLE_LAYER_CLASSES_MAX)
		return;
	if (i == to->n_classes)
		c[to->n_classes++] =
			(struct sample_layer_class){ .id = from->id };
	c[i].calls += from->calls;
	c[i].sum_ns += from->sum_ns;
	c[i].union_ns += from->union_ns;
}

static void add_layer(struct sample_layer *to, const struct sample_layer *from)
{
	to->steps += from->steps;
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		to->group_ns[g] += from->group_ns[g];
	to->block_ns += from->block_ns;
	to->before_ns += from->before_ns;
	merge_add_rows(&to->rows, &from->rows);
	for (unsigned i = 0; i < from->n_classes; i++)
		merge_add_layer_class(to, &from->classes[i]);
	if (from->backend[0])
		memcpy(to->backend, from->backend, sizeof(to->backend));
}

void merge_add_class(struct sample_class *to, const struct sample_class *from)
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
void merge_grow(struct sample_window *to, unsigned n_layers)
{
	for (; to->n_layers < n_layers; to->n_layers++)
		to->layers[to->n_layers] =
			(struct sample_layer){ .dram_bytes = NAN };
}

struct sample_class *merge_find_class(struct sample_window *w, const char *name,
				      unsigned group)
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

void merge_add_window(struct sample_window *to,
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
	merge_add_rows(&to->rows, &from->rows);
	merge_add_rows(&to->prefill_rows, &from->prefill_rows);
	merge_add_clusters(&to->clusters, &from->clusters);
	to->cells_rejected += from->cells_rejected;
	to->cells_lost += from->cells_lost;
	to->bad_steps += from->bad_steps;
	to->kernels += from->kernels;
	merge_grow(to, from->n_layers);
	for (unsigned l = 0; l < from->n_layers; l++)
		add_layer(&to->layers[l], &from->layers[l]);
	for (; to->n_draft < from->n_draft; to->n_draft++)
		to->draft[to->n_draft] =
			(struct sample_layer){ .dram_bytes = NAN };
	for (unsigned l = 0; l < from->n_draft; l++)
		add_layer(&to->draft[l], &from->draft[l]);
	if (from->layers_seen)
		to->layers_seen = from->layers_seen;
	for (unsigned c = 0; c < from->n_classes; c++) {
		const struct sample_class *of = &from->classes[c];
		struct sample_class *at =
			merge_find_class(to, of->name, of->group);

		if (at)
			merge_add_class(at, of);
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
	merge_add_window(to, from);
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
	r->blocks *= by;
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
	for (unsigned i = 0; i < l->n_classes; i++) {
		l->classes[i].calls *= by;
		l->classes[i].sum_ns *= by;
		l->classes[i].union_ns *= by;
	}
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
	for (unsigned l = 0; l < w->n_draft; l++)
		scale_layer(&w->draft[l], by);
	for (unsigned c = 0; c < w->n_classes; c++)
		scale_class(&w->classes[c], by);
}

/* ---- draft layers ------------------------------------------------------- */

/* What comes after the first `layers` is a draft model's. */
void merge_split_layers(struct sample_window *w, unsigned layers)
{
	for (unsigned l = layers; l < w->n_layers; l++) {
		struct sample_rows less = w->layers[l].rows;

		scale_rows(&less, -1);
		merge_add_rows(&w->rows, &less);
		if (w->n_draft < SAMPLE_DRAFT_MAX)
			w->draft[w->n_draft++] = w->layers[l];
	}
	if (w->n_layers > layers)
		w->n_layers = layers;
}

void merge_split_draft(struct sample_window *w, unsigned moe_layers,
		       unsigned draft)
{
	if (!moe_layers || !draft || w->layers_seen != moe_layers + draft)
		return;
	merge_split_layers(w, moe_layers);
	w->layers_seen = moe_layers;
}
