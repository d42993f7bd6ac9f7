/*
 * json.c - a snapshot as one line of JSON
 *
 * The keys, their order and their meaning are a contract with scripts:
 * docs/METRICS.md describes it, metrics_doc.c writes that description.
 */
#include "exporter/text.h"

#include "wire/kernel_class.h"

#include <inttypes.h>
#include <string.h>

/* ---- writing ------------------------------------------------------------ */

/* A comma, unless a container or a value begins here. */
static void separate(struct text *t)
{
	if (t->bytes && !strchr("{[:\n", t->data[t->bytes - 1]))
		text_write(t, ",", 1);
}

static void key(struct text *t, const char *name)
{
	separate(t);
	text_printf(t, "\"%s\":", name);
}

static void begin(struct text *t, char bracket)
{
	separate(t);
	text_write(t, &bracket, 1);
}

static void end(struct text *t, char bracket)
{
	text_write(t, &bracket, 1);
}

/* NULL and "" are null: an empty name is an unknown one. */
static void put_string(struct text *t, const char *name, const char *s)
{
	key(t, name);
	if (!s || !*s) {
		text_printf(t, "null");
		return;
	}
	text_write(t, "\"", 1);
	text_json(t, s);
	text_write(t, "\"", 1);
}

static void put_double(struct text *t, const char *name, double v)
{
	key(t, name);
	if (isfinite(v))
		text_number(t, v);
	else
		text_printf(t, "null");
}

static void put_value(struct text *t, const char *name, struct value x)
{
	put_double(t, name, printable(x) ? x.v : NAN);
}

static void put_count(struct text *t, const char *name, uint64_t n)
{
	key(t, name);
	text_printf(t, "%" PRIu64, n);
}

/* A count of which 0 means unknown. */
static void put_known(struct text *t, const char *name, uint64_t n)
{
	if (n)
		put_count(t, name, n);
	else
		put_string(t, name, NULL);
}

static void put_pid(struct text *t, int32_t pid)
{
	put_known(t, "pid", pid > 0 ? (uint64_t)pid : 0);
}

/* ---- the parts ---------------------------------------------------------- */

static void put_gpu(struct text *t, int32_t index, const char *name)
{
	begin(t, '{');
	if (index >= 0)
		put_count(t, "index", (uint64_t)index);
	else
		put_string(t, "index", NULL);
	put_string(t, "name", name);
	end(t, '}');
}

/* Did a rank before this one name the same GPU? */
static bool gpu_seen(const struct snapshot_target *g, unsigned rank)
{
	for (unsigned i = 0; i < rank; i++)
		if (g->ranks[i].gpu_index == g->ranks[rank].gpu_index)
			return true;
	return false;
}

static void put_gpus(struct text *t, const struct snapshot_target *g)
{
	unsigned shown = 0;

	key(t, "gpus");
	begin(t, '[');
	for (unsigned i = 0; i < g->n_ranks && i < SNAPSHOT_RANKS_MAX; i++) {
		const struct snapshot_rank *r = &g->ranks[i];

		if (r->gpu_index < 0 || gpu_seen(g, i))
			continue;
		put_gpu(t, r->gpu_index, r->gpu[0] ? r->gpu : g->gpu);
		shown++;
	}
	for (unsigned i = 0; !shown && g->gpu[0] && i < g->n_gpus; i++)
		put_gpu(t, -1, g->gpu);
	end(t, ']');
}

/* What the injection did, for a rank that this moetop has attached to. */
static void put_attach(struct text *t, const struct snapshot_rank *r)
{
	if (!r->attached) {
		put_string(t, "attach", NULL);
		return;
	}
	key(t, "attach");
	begin(t, '{');
	put_count(t, "thread", (uint64_t)r->attach_thread);
	put_count(t, "call", (uint64_t)r->attach_call);
	put_count(t, "stops", r->attach_stops);
	put_double(t, "pause_us", (double)r->attach_pause_ns / 1e3);
	put_double(t, "load_ms", (double)r->attach_load_ns / 1e6);
	end(t, '}');
}

static void put_rank(struct text *t, const struct snapshot_rank *r)
{
	begin(t, '{');
	put_pid(t, r->pid);
	put_count(t, "rank", r->rank);
	put_string(t, "agent", r->agent);
	put_string(t, "reason", r->reason);
	put_attach(t, r);
	end(t, '}');
}

static void put_target(struct text *t, const struct snapshot *s)
{
	const struct snapshot_target *g = &s->target;

	key(t, "target");
	begin(t, '{');
	put_pid(t, g->pid);
	put_string(t, "engine", g->engine);
	put_string(t, "engine_version", g->engine_version);
	put_string(t, "model", g->model);
	put_known(t, "experts", g->experts);
	put_known(t, "top_k", g->top_k);
	put_known(t, "moe_layers", g->moe_layers);
	put_gpus(t, g);
	key(t, "ranks");
	begin(t, '[');
	for (unsigned i = 0; i < g->n_ranks && i < SNAPSHOT_RANKS_MAX; i++)
		put_rank(t, &g->ranks[i]);
	end(t, ']');
	put_known(t, "port", g->port);
	put_string(t, "compute_type", s->compute_type);
	end(t, '}');
}

/* A name in a list. */
static void put_name(struct text *t, const char *name)
{
	separate(t);
	text_printf(t, "\"%s\"", name);
}

static void put_flags(struct text *t, unsigned flags)
{
	key(t, "flags");
	begin(t, '[');
	for (unsigned i = 0; i < REGIME_FLAGS; i++)
		if (flags & 1u << i)
			put_name(t, regime_flag_name(1u << i));
	end(t, ']');
}

static void put_regime(struct text *t, const struct snapshot *s)
{
	const char *name = regime_name(s->regime);

	key(t, "regime");
	begin(t, '{');
	put_string(t, "value", name);
	put_string(t, "side", name ? side_name(s->side) : NULL);
	put_string(t, "source",
		   name ? value_source_name(s->regime_source) : NULL);
	put_flags(t, s->flags);
	end(t, '}');
}

static void put_metrics(struct text *t, const struct snapshot *s)
{
	key(t, "metrics");
	begin(t, '{');
	for (unsigned i = 0; i < METRICS; i++) {
		key(t, metric_info[i].key);
		begin(t, '{');
		put_value(t, "value", s->metrics[i]);
		put_string(t, "state", value_state_name(s->metrics[i].state));
		put_string(t, "source",
			   value_source_name(s->metrics[i].source));
		end(t, '}');
	}
	end(t, '}');
}

static void put_histograms(struct text *t, const struct snapshot *s)
{
	key(t, "histograms");
	begin(t, '{');
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		const struct snapshot_hist *h = &s->hists[i];

		key(t, histogram_info[i].key);
		begin(t, '{');
		put_value(t, "count", h->count);
		put_value(t, "sum", h->sum);
		put_value(t, "p50", h->p50);
		put_value(t, "p90", h->p90);
		put_value(t, "p99", h->p99);
		end(t, '}');
	}
	end(t, '}');
}

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

	key(t, "classes");
	begin(t, '[');
	for (unsigned i = 0; known && i < l->n_classes; i++) {
		const struct snapshot_layer_class *c = &l->classes[i];

		if (c->id >= CLASSES)
			continue;
		begin(t, '{');
		put_string(t, "class", class_names[c->id]);
		put_double(t, "calls_per_step", (double)c->calls_per_step);
		put_double(t, "seconds_per_step", (double)c->seconds_per_step);
		put_double(t, "sum_seconds_per_step",
			   (double)c->sum_seconds_per_step);
		put_double(t, "share_ratio", (double)c->seconds_per_step / all);
		end(t, '}');
	}
	end(t, ']');
}

static void put_classes(struct text *t, const struct snapshot *s)
{
	key(t, "classes");
	begin(t, '[');
	for (unsigned i = 0; i < s->n_classes && i < SNAPSHOT_CLASSES_MAX;
	     i++) {
		const struct snapshot_class *c = &s->classes[i];

		begin(t, '{');
		put_string(t, "class", c->name);
		put_string(t, "group", group_name(c->group));
		put_value(t, "calls_per_step", c->calls_per_step);
		put_value(t, "seconds_per_step", c->seconds_per_step);
		put_value(t, "sum_seconds_per_step", c->sum_seconds_per_step);
		put_value(t, "share_ratio", c->share);
		end(t, '}');
	}
	end(t, ']');
}

static void put_phase(struct text *t, const char *name,
		      const struct snapshot_step *p)
{
	static const struct snapshot_step none;

	p = p ? p : &none;
	key(t, name);
	begin(t, '{');
	put_value(t, "seconds", p->seconds);
	put_value(t, "busy_seconds", p->busy);
	put_value(t, "gap_seconds", p->gap);
	put_value(t, "between_seconds", p->between);
	put_value(t, "kernels", p->kernels);
	put_value(t, "launches", p->launches);
	end(t, '}');
}

static void put_step(struct text *t, const struct snapshot *s)
{
	key(t, "step");
	begin(t, '{');
	put_phase(t, "decode", s->n_steps > 0 ? &s->steps[0] : NULL);
	put_phase(t, "prefill", s->n_steps > 1 ? &s->steps[1] : NULL);
	end(t, '}');
}

static void put_layers(struct text *t, const char *name,
		       const struct snapshot_layer *layers, unsigned n)
{
	key(t, name);
	begin(t, '[');
	for (unsigned i = 0; i < n; i++) {
		const struct snapshot_layer *l = &layers[i];

		begin(t, '{');
		put_count(t, "layer", i);
		put_value(t, "seconds_per_step", l->seconds_per_step);
		put_value(t, "rows", l->rows);
		put_value(t, "active_experts", l->active_experts);
		put_value(t, "single_row_experts", l->single_row_experts);
		put_value(t, "dram_bytes_per_step", l->dram_bytes_per_step);
		put_string(t, "backend", l->backend);
		put_value(t, "before_seconds_per_step",
			  l->before_seconds_per_step);
		put_value(t, "expert_seconds_per_step",
			  l->expert_seconds_per_step);
		put_value(t, "fragmentation_ratio", l->fragmentation);
		put_value(t, "share_ratio", l->share);
		put_layer_classes(t, l);
		end(t, '}');
	}
	end(t, ']');
}

static void put_evidence(struct text *t, const struct finding *f)
{
	key(t, "evidence");
	begin(t, '{');
	for (unsigned i = 0; i < f->n_evidence && i < 4; i++) {
		if (!f->evidence[i].key[0])
			continue;
		separate(t);
		text_write(t, "\"", 1);
		text_json(t, f->evidence[i].key);
		text_write(t, "\":", 2);
		if (isfinite(f->evidence[i].v))
			text_number(t, f->evidence[i].v);
		else
			text_printf(t, "null");
	}
	end(t, '}');
}

static void put_findings(struct text *t, const struct snapshot *s)
{
	static const char *const severities[] = {
		[SEVERITY_INFO] = "info",
		[SEVERITY_NOTICE] = "notice",
		[SEVERITY_WARNING] = "warning",
	};

	key(t, "findings");
	begin(t, '[');
	for (unsigned i = 0; i < s->n_findings && i < SNAPSHOT_FINDINGS_MAX;
	     i++) {
		const struct finding *f = &s->findings[i];

		begin(t, '{');
		put_string(t, "rule", f->rule);
		put_string(t, "severity",
			   (unsigned)f->severity <= SEVERITY_WARNING
				   ? severities[f->severity]
				   : NULL);
		put_evidence(t, f);
		put_value(t, "gain_ratio", f->gain);
		put_string(t, "text", f->text);
		end(t, '}');
	}
	end(t, ']');
}

/* {"value":, "low":, "high":} */
static void put_between(struct text *t, const char *name, struct value x,
			struct value low, struct value high)
{
	key(t, name);
	begin(t, '{');
	put_value(t, "value", x);
	put_value(t, "low", low);
	put_value(t, "high", high);
	end(t, '}');
}

static void put_what_if(struct text *t, const struct snapshot_what_if *w)
{
	bool beyond = w->limit != WHATIF_WITHIN;

	begin(t, '{');
	put_string(t, "kind", what_if_kind_name(w->kind));
	put_double(t, "amount", w->amount);
	put_string(t, "name", w->name);
	put_value(t, "tokens_per_step", w->tokens_per_step);
	put_value(t, "active_experts", w->active_experts);
	put_value(t, "single_row_ratio", w->single_row);
	put_value(t, "marginal_gain_ratio", w->marginal_gain);
	put_between(t, "step_seconds", w->step_s, w->step_s_low,
		    w->step_s_high);
	put_between(t, "tokens_per_second", w->tokens_per_s,
		    w->tokens_per_s_low, w->tokens_per_s_high);
	put_between(t, "cost_usd_per_million_tokens", w->usd_per_mtok,
		    w->usd_per_mtok_low, w->usd_per_mtok_high);
	put_between(t, "cost_ratio", w->cost_ratio, w->cost_ratio_low,
		    w->cost_ratio_high);
	key(t, "out_of_range");
	text_printf(t, beyond ? "true" : "false");
	put_string(t, "limit", whatif_limit_name(w->limit));
	end(t, '}');
}

static void put_what_ifs(struct text *t, const struct snapshot *s)
{
	key(t, "what_if");
	begin(t, '[');
	for (unsigned i = 0; i < s->n_what_if && i < SNAPSHOT_WHAT_IF_MAX; i++)
		put_what_if(t, &s->what_if[i]);
	end(t, ']');
}

static void put_tiers(struct text *t, const struct snapshot_health *h)
{
	key(t, "tiers");
	begin(t, '{');
	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++) {
		const struct snapshot_tier *tier = &h->tiers[i];

		if (!tier->name[0])
			continue;
		key(t, tier->name);
		begin(t, '{');
		put_string(t, "state", tier_state_name(tier->state));
		put_string(t, "what", tier->what);
		put_string(t, "remedy", tier->remedy);
		end(t, '}');
	}
	end(t, '}');
}

/* Does a step have as many MoE layers as the model? */
static void put_period(struct text *t, const struct snapshot *s)
{
	uint32_t seen = s->health.layers_seen, want = s->target.moe_layers;

	key(t, "layers");
	begin(t, '{');
	put_known(t, "seen", seen);
	put_known(t, "expected", want);
	put_count(t, "draft", s->n_draft);
	key(t, "holds");
	text_printf(t, "%s",
		    !seen || !want ? "null"
				   : (seen == want ? "true" : "false"));
	end(t, '}');
}

static void put_health(struct text *t, const struct snapshot *s)
{
	const struct snapshot_health *h = &s->health;

	key(t, "health");
	begin(t, '{');
	put_tiers(t, h);
	key(t, "lost");
	begin(t, '{');
	put_count(t, "ring", h->lost_ring);
	put_count(t, "records", h->lost_records);
	put_count(t, "requests", h->lost_requests);
	put_count(t, "desyncs", h->desyncs);
	put_count(t, "bad_steps", h->bad_steps);
	end(t, '}');
	key(t, "agents");
	begin(t, '[');
	for (unsigned i = 0; i < s->target.n_ranks && i < SNAPSHOT_RANKS_MAX;
	     i++) {
		const struct snapshot_rank *r = &s->target.ranks[i];

		begin(t, '{');
		put_pid(t, r->pid);
		put_count(t, "rank", r->rank);
		put_string(t, "state", r->agent);
		put_string(t, "reason", r->reason);
		end(t, '}');
	}
	end(t, ']');
	key(t, "rows");
	begin(t, '{');
	put_string(t, "method", h->rows_method);
	put_count(t, "cells", h->cells_sampled);
	put_count(t, "rejected", h->cells_rejected);
	put_count(t, "lost", h->cells_lost);
	put_count(t, "windows", h->windows);
	end(t, '}');
	put_period(t, s);
	key(t, "target_gone");
	text_printf(t, h->target_gone ? "true" : "false");
	put_string(t, "message", h->message);
	end(t, '}');
}

static void put_requests(struct text *t, const struct snapshot_requests *r)
{
	static const char *const classes[] = { "other", "generation", "pooling",
					       "ignored" };
	static const char *const names[REQUEST_COUNTS] = {
		"waiting",        "streaming",  "guessed",    "started",
		"completed",      "failed_4xx", "failed_5xx", "client_aborted",
		"server_aborted", "events"
	};

	if (!r->known) {
		put_string(t, "requests", NULL);
		return;
	}
	key(t, "requests");
	begin(t, '{');
	for (unsigned e = 0; e < SNAPSHOT_ENDPOINTS; e++) {
		key(t, classes[e]);
		begin(t, '{');
		for (unsigned i = 0; i < REQUEST_COUNTS; i++)
			put_count(t, names[i], r->counts[e][i]);
		end(t, '}');
	}
	put_double(t, "unread_bytes",
		   r->have_queues ? (double)r->unread_bytes : NAN);
	put_double(t, "not_accepted",
		   r->have_queues ? (double)r->not_accepted : NAN);
	put_double(t, "oldest_seconds", r->oldest_seconds);
	end(t, '}');
}

static void json_write(struct text *t, const struct snapshot *s)
{
	struct c_locale l;

	c_locale_enter(&l);
	begin(t, '{');
	put_double(t, "time", s->time);
	put_double(t, "interval_seconds", s->interval_s);
	put_target(t, s);
	put_regime(t, s);
	put_metrics(t, s);
	put_histograms(t, s);
	put_layers(t, "layers", s->layers,
		   s->n_layers < SNAPSHOT_LAYERS_MAX ? s->n_layers
						     : SNAPSHOT_LAYERS_MAX);
	put_findings(t, s);
	put_what_ifs(t, s);
	put_health(t, s);
	put_step(t, s);
	put_classes(t, s);
	put_layers(t, "draft_layers", s->draft,
		   s->n_draft < SNAPSHOT_DRAFT_MAX ? s->n_draft
						   : SNAPSHOT_DRAFT_MAX);
	put_requests(t, &s->requests);
	end(t, '}');
	text_write(t, "\n", 1);
	c_locale_leave(&l);
}

const struct format format_json = {
	.name = "json",
	.content_type = "application/json",
	.write = json_write,
};
