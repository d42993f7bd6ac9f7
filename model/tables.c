#include "model/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct value per_step(double ns, double steps, bool stale)
{
	struct value v = value_ratio(ns / 1e9, steps, SOURCE_MEASURED);

	if (stale && v.state == VALUE_OK)
		v.state = VALUE_STALE;
	return v;
}

static void fill_layer_classes(const struct sample_layer *in,
			       struct snapshot_layer *out)
{
	if (!(in->steps > 0))
		return;
	for (unsigned i = 0; i < in->n_classes; i++) {
		const struct sample_layer_class *c = &in->classes[i];

		out->classes[i] = (struct snapshot_layer_class){
			.id = c->id,
			.calls_per_step = (float)(c->calls / in->steps),
			.seconds_per_step =
				(float)(c->union_ns / 1e9 / in->steps),
			.sum_seconds_per_step =
				(float)(c->sum_ns / 1e9 / in->steps),
		};
	}
	out->n_classes = in->n_classes;
}

/* What is the same for all layers of a window. */
struct whole {
	double all_ns, expert_bytes; /* of blocks; of one expert, 0 unknown */
	bool bytes, stale;           /* bytes of layers are known */
};

/* Bytes are inferred, and without rows so are the experts that they are of. */
static void fill_layer_bytes(const struct sample_layer *in,
			     const struct whole *all,
			     struct snapshot_layer *out)
{
	double steps = in->steps;

	if (!all->bytes || !(steps > 0))
		return;
	out->dram_bytes_per_step =
		value_ratio(in->dram_bytes, steps, SOURCE_INFERRED);
	out->expert_bytes_per_step =
		value_ratio(in->expert_bytes, steps, SOURCE_INFERRED);
	if (!value_known(out->active_experts) && all->expert_bytes > 0)
		out->active_experts =
			value_ratio(in->expert_bytes, steps * all->expert_bytes,
				    SOURCE_INFERRED);
}

static void fill_layer(const struct sample_layer *in, const struct whole *all,
		       struct snapshot_layer *out)
{
	bool stale = all->stale;
	const struct sample_rows *r = &in->rows;
	struct row_ratios q;

	rows_ratios(r, SOURCE_MEASURED, &q);
	*out = (struct snapshot_layer){
		.seconds_per_step = per_step(in->block_ns, in->steps, stale),
		.before_seconds_per_step =
			per_step(in->before_ns, in->steps, stale),
		.expert_seconds_per_step = per_step(
			in->group_ns[GROUP_OF_EXPERTS], in->steps, stale),
		.rows = rows_mean(r, r->rows, SOURCE_MEASURED),
		.active_experts = rows_mean(r, r->active, SOURCE_MEASURED),
		.single_row_experts = rows_mean(r, r->single, SOURCE_MEASURED),
		.fragmentation = q.fragmentation,
		.share =
			value_ratio(in->block_ns, all->all_ns, SOURCE_MEASURED),
	};
	fill_layer_bytes(in, all, out);
	fill_layer_classes(in, out);
	memcpy(out->backend, in->backend, sizeof(out->backend));
	out->backend[sizeof(out->backend) - 1] = '\0';
	if (stale) {
		struct value *v[] = { &out->rows,
				      &out->active_experts,
				      &out->single_row_experts,
				      &out->fragmentation,
				      &out->share,
				      &out->dram_bytes_per_step,
				      &out->expert_bytes_per_step };

		for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++)
			if (v[i]->state == VALUE_OK)
				v[i]->state = VALUE_STALE;
	}
}

static void fill_layers(const struct sample_window *w, const struct arch *arch,
			bool stale, struct snapshot *out)
{
	struct whole all = {
		.expert_bytes = arch ? arch->expert_bytes : 0,
		.bytes = w->bytes.method >= BYTES_GROUPS,
		.stale = stale,
	};
	unsigned n = w->n_layers < SNAPSHOT_LAYERS_MAX ? w->n_layers
						       : SNAPSHOT_LAYERS_MAX;

	for (unsigned l = 0; l < n; l++)
		all.all_ns += w->layers[l].block_ns;
	for (unsigned l = 0; l < n; l++)
		fill_layer(&w->layers[l], &all, &out->layers[l]);
	all.bytes = false;
	out->n_layers = n;
	out->n_draft = w->n_draft < SNAPSHOT_DRAFT_MAX ? w->n_draft
						       : SNAPSHOT_DRAFT_MAX;
	for (unsigned l = 0; l < out->n_draft; l++)
		fill_layer(&w->draft[l], &all, &out->draft[l]);
}

static void fill_classes(const struct sample_window *w, bool stale,
			 struct snapshot *out)
{
	unsigned n = w->n_classes < SNAPSHOT_CLASSES_MAX ? w->n_classes
							 : SNAPSHOT_CLASSES_MAX;
	double steps = w->steps[0];

	for (unsigned i = 0; i < n; i++) {
		const struct sample_class *c = &w->classes[i];
		struct snapshot_class *o = &out->classes[i];

		*o = (struct snapshot_class){
			.group = c->group,
			.calls_per_step =
				per_step(c->calls * 1e9, steps, stale),
			.seconds_per_step = per_step(c->union_ns, steps, stale),
			.sum_seconds_per_step =
				per_step(c->sum_ns, steps, stale),
			.share = per_step(c->union_ns * 1e9, w->step_ns[0],
					  stale),
		};
		memcpy(o->name, c->name, sizeof(o->name));
		o->name[sizeof(o->name) - 1] = '\0';
	}
	out->n_classes = n;
}

/* Groups may overlap on two streams; idle is what none of them covers. */
static void fill_groups(const struct sample_window *w, bool stale,
			struct snapshot *out)
{
	double step = w->step_ns[0], sum = 0;

	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		sum += w->group_ns[g];
	if (sum > step)
		step = w->step_ns[0] > 0 ? sum : 0;
	for (unsigned g = 0; g < SAMPLE_GROUPS; g++)
		out->group_share[g] =
			per_step(w->group_ns[g] * 1e9, step, stale);
	out->group_share[SAMPLE_GROUPS] =
		per_step((step - sum) * 1e9, step, stale);
}

static void fill_step(const struct sample_window *w, unsigned phase, bool stale,
		      struct snapshot_step *out)
{
	double steps = w->steps[phase], span = w->span_ns[phase];
	double busy = w->phase_busy_ns[phase];

	*out = (struct snapshot_step){
		.seconds = per_step(w->step_ns[phase], steps, stale),
	};
	/* An agent that does not tell. */
	if (!(span > 0))
		return;
	out->busy = per_step(busy, steps, stale);
	out->gap = per_step(span - busy, steps, stale);
	out->between =
		per_step(fmax(w->step_ns[phase] - span, 0), steps, stale);
	out->kernels = per_step(w->kernels_run[phase] * 1e9, steps, stale);
	out->launches = per_step(w->launches[phase] * 1e9, steps, stale);
}

/* As many layers as there is room for, whole. */
static void fill_experts(const struct model *m, const struct sample *in,
			 struct snapshot_experts *out)
{
	unsigned n = in->expert_rows_n, layers = 0;

	out->n_layers = out->n_experts = 0;
	if (!in->expert_rows || !n || !m->have_window)
		return;
	layers = m->window.n_layers < SAMPLE_LAYERS_MAX ? m->window.n_layers
							: SAMPLE_LAYERS_MAX;
	if (layers > SNAPSHOT_EXPERT_CELLS_MAX / n)
		layers = SNAPSHOT_EXPERT_CELLS_MAX / n;
	out->n_layers = layers;
	out->n_experts = layers ? n : 0;
	memcpy(out->rows, in->expert_rows,
	       sizeof(out->rows[0]) * layers * (size_t)n);
}

static struct value of_window(double x, enum value_source source, bool stale)
{
	struct value v = value_make(x, source);

	if (stale && v.state == VALUE_OK)
		v.state = VALUE_STALE;
	return v;
}

static void fill_bytes(const struct bytes_estimate *e, bool stale,
		       struct snapshot_bytes *out)
{
	static const char *const method[] = {
		[BYTES_NOTHING] = "",
		[BYTES_TOTAL] = "total",
		[BYTES_GROUPS] = "groups",
		[BYTES_LAYERS] = "layers",
	};

	*out = (struct snapshot_bytes){ 0 };
	if (e->method == BYTES_NOTHING || e->method > BYTES_LAYERS)
		return;
	snprintf(out->method, sizeof(out->method), "%s", method[e->method]);
	out->samples = e->samples;
	out->offset_ns = e->offset_ns;
	if (e->method == BYTES_TOTAL)
		return;
	out->residual_ratio =
		of_window(e->residual_ratio, SOURCE_MEASURED, stale);
	out->condition = of_window(e->condition, SOURCE_MEASURED, stale);
	if (e->method == BYTES_LAYERS)
		out->layer_error_ratio =
			of_window(e->layer_error_ratio, SOURCE_INFERRED, stale);
}

void tables_fill(const struct model *m, const struct sample *in,
		 const struct evidence *e, const struct arch *arch,
		 struct snapshot *out)
{
	bool stale = !e->agrees || e->idle;

	out->n_layers = out->n_classes = out->n_draft = 0;
	out->n_steps = 0;
	fill_experts(m, in, &out->experts);
	fill_bytes(&m->window.bytes, stale, &out->bytes);
	for (unsigned g = 0; g <= SAMPLE_GROUPS; g++)
		out->group_share[g] = (struct value){ 0 };
	if (!m->have_window)
		return;
	fill_layers(&m->window, arch, stale, out);
	fill_classes(&m->window, stale, out);
	fill_groups(&m->window, stale, out);
	for (unsigned p = 0; p < SNAPSHOT_PHASES; p++)
		fill_step(&m->window, p, stale, &out->steps[p]);
	out->n_steps = SNAPSHOT_PHASES;
}
