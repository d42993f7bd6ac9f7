/* Layers, kernel classes and the mean step. */
#include "exporter/json_write.h"

#include "wire/kernel_class.h"

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

static const char *group_name(unsigned group)
{
	static const char *const names[GROUPS] = {
		[GROUP_EXPERT] = "experts",      [GROUP_ROUTE] = "routing",
		[GROUP_ATTENTION] = "attention", [GROUP_DENSE] = "dense",
		[GROUP_COMM] = "comm",           [GROUP_OTHER] = "other",
	};

	return group < GROUPS ? names[group] : NULL;
}

static void put_layer_classes(struct text *t, const struct snapshot_layer *l)
{
	bool known = printable(l->seconds_per_step);
	double all = l->seconds_per_step.v + l->before_seconds_per_step.v;

	jput_key(t, "classes");
	jput_begin(t, '[');
	for (unsigned i = 0; known && i < l->n_classes; i++) {
		const struct snapshot_layer_class *c = &l->classes[i];

		if (c->id >= CLASSES)
			continue;
		jput_begin(t, '{');
		jput_string(t, "class", class_names[c->id]);
		jput_double(t, "calls_per_step", (double)c->calls_per_step);
		jput_double(t, "seconds_per_step", (double)c->seconds_per_step);
		jput_double(t, "sum_seconds_per_step",
			    (double)c->sum_seconds_per_step);
		jput_double(t, "share_ratio",
			    (double)c->seconds_per_step / all);
		jput_end(t, '}');
	}
	jput_end(t, ']');
}

void json_put_classes(struct text *t, const struct snapshot *s)
{
	jput_key(t, "classes");
	jput_begin(t, '[');
	for (unsigned i = 0; i < s->n_classes && i < SNAPSHOT_CLASSES_MAX;
	     i++) {
		const struct snapshot_class *c = &s->classes[i];

		jput_begin(t, '{');
		jput_string(t, "class", c->name);
		jput_string(t, "group", group_name(c->group));
		jput_value(t, "calls_per_step", c->calls_per_step);
		jput_value(t, "seconds_per_step", c->seconds_per_step);
		jput_value(t, "sum_seconds_per_step", c->sum_seconds_per_step);
		jput_value(t, "share_ratio", c->share);
		jput_end(t, '}');
	}
	jput_end(t, ']');
}

static void put_phase(struct text *t, const char *name,
		      const struct snapshot_step *p)
{
	static const struct snapshot_step none;

	p = p ? p : &none;
	jput_key(t, name);
	jput_begin(t, '{');
	jput_value(t, "seconds", p->seconds);
	jput_value(t, "busy_seconds", p->busy);
	jput_value(t, "gap_seconds", p->gap);
	jput_value(t, "between_seconds", p->between);
	jput_value(t, "kernels", p->kernels);
	jput_value(t, "launches", p->launches);
	jput_end(t, '}');
}

void json_put_step(struct text *t, const struct snapshot *s)
{
	jput_key(t, "step");
	jput_begin(t, '{');
	put_phase(t, "decode", s->n_steps > 0 ? &s->steps[0] : NULL);
	put_phase(t, "prefill", s->n_steps > 1 ? &s->steps[1] : NULL);
	jput_end(t, '}');
}

void json_put_bytes(struct text *t, const struct snapshot_bytes *b)
{
	bool any = b->method[0];

	jput_key(t, "bytes");
	jput_begin(t, '{');
	jput_string(t, "method", b->method);
	jput_double(t, "samples", any ? b->samples : NAN);
	jput_value(t, "residual_ratio", b->residual_ratio);
	jput_value(t, "condition", b->condition);
	jput_value(t, "layer_error_ratio", b->layer_error_ratio);
	jput_double(t, "clock_offset_seconds", any ? b->offset_ns / 1e9 : NAN);
	jput_end(t, '}');
}

void json_put_layers(struct text *t, const char *name,
		     const struct snapshot_layer *layers, unsigned n)
{
	jput_key(t, name);
	jput_begin(t, '[');
	for (unsigned i = 0; i < n; i++) {
		const struct snapshot_layer *l = &layers[i];

		jput_begin(t, '{');
		jput_count(t, "layer", i);
		jput_value(t, "seconds_per_step", l->seconds_per_step);
		jput_value(t, "rows", l->rows);
		jput_value(t, "active_experts", l->active_experts);
		jput_string(
			t, "active_experts_source",
			value_known(l->active_experts)
				? value_source_name(l->active_experts.source)
				: "");
		jput_value(t, "single_row_experts", l->single_row_experts);
		jput_value(t, "dram_bytes_per_step", l->dram_bytes_per_step);
		jput_value(t, "expert_bytes_per_step",
			   l->expert_bytes_per_step);
		jput_string(t, "backend", l->backend);
		jput_value(t, "before_seconds_per_step",
			   l->before_seconds_per_step);
		jput_value(t, "expert_seconds_per_step",
			   l->expert_seconds_per_step);
		jput_value(t, "fragmentation_ratio", l->fragmentation);
		jput_value(t, "share_ratio", l->share);
		put_layer_classes(t, l);
		jput_end(t, '}');
	}
	jput_end(t, ']');
}
