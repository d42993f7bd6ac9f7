/*
 * json.c - a snapshot as one line of JSON
 *
 * The keys, their order and their meaning are a contract with scripts:
 * docs/METRICS.md describes it, metrics_doc.c writes that description.
 */
#include "exporter/json_write.h"

static void put_metrics(struct text *t, const struct snapshot *s)
{
	jput_key(t, "metrics");
	jput_begin(t, '{');
	for (unsigned i = 0; i < METRICS; i++) {
		jput_key(t, metric_info[i].key);
		jput_begin(t, '{');
		jput_value(t, "value", s->metrics[i]);
		jput_string(t, "state", value_state_name(s->metrics[i].state));
		jput_string(t, "source",
			    value_source_name(s->metrics[i].source));
		jput_end(t, '}');
	}
	jput_end(t, '}');
}

static void put_histograms(struct text *t, const struct snapshot *s)
{
	jput_key(t, "histograms");
	jput_begin(t, '{');
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		const struct snapshot_hist *h = &s->hists[i];

		jput_key(t, histogram_info[i].key);
		jput_begin(t, '{');
		jput_value(t, "count", h->count);
		jput_value(t, "sum", h->sum);
		jput_value(t, "p50", h->p50);
		jput_value(t, "p90", h->p90);
		jput_value(t, "p99", h->p99);
		jput_end(t, '}');
	}
	jput_end(t, '}');
}

static void put_evidence(struct text *t, const struct finding *f)
{
	jput_key(t, "evidence");
	jput_begin(t, '{');
	for (unsigned i = 0; i < f->n_evidence && i < 4; i++) {
		if (!f->evidence[i].key[0])
			continue;
		jput_separate(t);
		text_write(t, "\"", 1);
		text_json(t, f->evidence[i].key);
		text_write(t, "\":", 2);
		if (isfinite(f->evidence[i].v))
			text_number(t, f->evidence[i].v);
		else
			text_printf(t, "null");
	}
	jput_end(t, '}');
}

static void put_findings(struct text *t, const struct snapshot *s)
{
	static const char *const severities[] = {
		[SEVERITY_INFO] = "info",
		[SEVERITY_NOTICE] = "notice",
		[SEVERITY_WARNING] = "warning",
	};

	jput_key(t, "findings");
	jput_begin(t, '[');
	for (unsigned i = 0; i < s->n_findings && i < SNAPSHOT_FINDINGS_MAX;
	     i++) {
		const struct finding *f = &s->findings[i];

		jput_begin(t, '{');
		jput_string(t, "rule", f->rule);
		jput_string(t, "severity",
			    (unsigned)f->severity <= SEVERITY_WARNING
				    ? severities[f->severity]
				    : NULL);
		put_evidence(t, f);
		jput_value(t, "gain_ratio", f->gain);
		jput_string(t, "text", f->text);
		jput_end(t, '}');
	}
	jput_end(t, ']');
}

/* {"value":, "low":, "high":} */
static void put_between(struct text *t, const char *name, struct value x,
			struct value low, struct value high)
{
	jput_key(t, name);
	jput_begin(t, '{');
	jput_value(t, "value", x);
	jput_value(t, "low", low);
	jput_value(t, "high", high);
	jput_end(t, '}');
}

static void put_what_if(struct text *t, const struct snapshot_what_if *w)
{
	bool beyond = w->limit != WHATIF_WITHIN;

	jput_begin(t, '{');
	jput_string(t, "kind", what_if_kind_name(w->kind));
	jput_double(t, "amount", w->amount);
	jput_string(t, "name", w->name);
	jput_value(t, "tokens_per_step", w->tokens_per_step);
	jput_value(t, "active_experts", w->active_experts);
	jput_value(t, "single_row_ratio", w->single_row);
	jput_value(t, "marginal_gain_ratio", w->marginal_gain);
	put_between(t, "step_seconds", w->step_s, w->step_s_low,
		    w->step_s_high);
	put_between(t, "tokens_per_second", w->tokens_per_s,
		    w->tokens_per_s_low, w->tokens_per_s_high);
	put_between(t, "cost_usd_per_million_tokens", w->usd_per_mtok,
		    w->usd_per_mtok_low, w->usd_per_mtok_high);
	put_between(t, "cost_ratio", w->cost_ratio, w->cost_ratio_low,
		    w->cost_ratio_high);
	jput_key(t, "out_of_range");
	text_printf(t, beyond ? "true" : "false");
	jput_string(t, "limit", whatif_limit_name(w->limit));
	jput_end(t, '}');
}

static void put_what_ifs(struct text *t, const struct snapshot *s)
{
	jput_key(t, "what_if");
	jput_begin(t, '[');
	for (unsigned i = 0; i < s->n_what_if && i < SNAPSHOT_WHAT_IF_MAX; i++)
		put_what_if(t, &s->what_if[i]);
	jput_end(t, ']');
}

static void put_checks(struct text *t, const struct snapshot *s)
{
	static const char *const states[] = { "unknown", "agrees", "differs" };

	jput_key(t, "checks");
	jput_begin(t, '[');
	for (unsigned i = 0; i < s->n_checks && i < SNAPSHOT_CHECKS_MAX; i++) {
		const struct snapshot_check *c = &s->checks[i];

		jput_begin(t, '{');
		jput_string(t, "name", c->name);
		jput_string(t, "state", states[c->state]);
		jput_double(t, "ours", c->ours);
		jput_string(t, "ours_source",
			    isfinite(c->ours) ? value_source_name(c->source)
					      : NULL);
		jput_double(t, "theirs", c->theirs);
		jput_double(t, "tolerance_ratio", c->tolerance_ratio);
		jput_string(t, "why", c->why);
		jput_end(t, '}');
	}
	jput_end(t, ']');
}

static void json_write(struct text *t, const struct snapshot *s)
{
	struct c_locale l;

	c_locale_enter(&l);
	jput_begin(t, '{');
	jput_double(t, "time", s->time);
	jput_double(t, "interval_seconds", s->interval_s);
	json_put_target(t, s);
	json_put_regime(t, s);
	put_metrics(t, s);
	put_histograms(t, s);
	json_put_layers(t, "layers", s->layers,
			s->n_layers < SNAPSHOT_LAYERS_MAX
				? s->n_layers
				: SNAPSHOT_LAYERS_MAX);
	put_findings(t, s);
	put_what_ifs(t, s);
	json_put_health(t, s);
	json_put_step(t, s);
	json_put_bytes(t, &s->bytes);
	json_put_classes(t, s);
	json_put_layers(t, "draft_layers", s->draft,
			s->n_draft < SNAPSHOT_DRAFT_MAX ? s->n_draft
							: SNAPSHOT_DRAFT_MAX);
	json_put_requests(t, &s->requests);
	put_checks(t, s);
	jput_end(t, '}');
	text_write(t, "\n", 1);
	c_locale_leave(&l);
}

const struct format format_json = {
	.name = "json",
	.content_type = "application/json",
	.write = json_write,
};
