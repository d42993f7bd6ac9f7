#include "model/findings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define HOST_IDLE_MIN 0.3
#define PADDING_MIN 1.3
#define SMBU_MAX 1.02

static struct finding *add(struct snapshot *out, const char *rule,
			   enum severity severity, struct value gain,
			   const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* NULL when there is no room left. */
static struct finding *add(struct snapshot *out, const char *rule,
			   enum severity severity, struct value gain,
			   const char *fmt, ...)
{
	struct finding *f;
	va_list ap;

	if (out->n_findings == SNAPSHOT_FINDINGS_MAX)
		return NULL;
	f = &out->findings[out->n_findings++];
	*f = (struct finding){ .severity = severity, .gain = gain };
	snprintf(f->rule, sizeof(f->rule), "%s", rule);
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return f;
}

static void cite(struct finding *f, const char *key, double v)
{
	if (!f || f->n_evidence == sizeof(f->evidence) / sizeof(f->evidence[0]))
		return;
	snprintf(f->evidence[f->n_evidence].key, sizeof(f->evidence[0].key),
		 "%s", key);
	f->evidence[f->n_evidence++].v = v;
}

static const struct value unknown = { .state = VALUE_NO_DATA };

static void find_valley(const struct evidence *e, const struct figures *f,
			struct snapshot *out)
{
	bool near = out->side == SIDE_NEAR;
	struct value gain = unknown;
	double s1 = e->active > 0 ? e->single / e->active : 0;
	struct finding *n;

	if (out->regime != REGIME_VALLEY || !f->have_shares)
		return;
	if (f->exit_cost_ratio > 0 && f->exit_cost_ratio < 1)
		gain = value_make(1 - f->exit_cost_ratio, SOURCE_MODELLED);
	n = add(out, near ? "valley_near" : "valley_far", SEVERITY_WARNING,
		gain,
		near ? "A little more load mostly reads more experts; they are "
		       "shared from %s %.0f tokens per step on (now %.0f %% of "
		       "those read serve a single row)."
		     : "More load is shared better and better, up to %s %.0f "
		       "tokens per step (now %.0f %% of the experts read serve "
		       "a single row).",
		f->uniform ? "at least" : "about", f->exit_tokens, s1 * 100);
	cite(n, "single_row_ratio", s1);
	cite(n, "expert_share_ratio", f->shares.expert);
	cite(n, "tokens_per_step", e->tokens.v);
	cite(n, "exit_tokens_per_step", f->exit_tokens);
}

static void find_roofs(const struct figures *f, struct snapshot *out)
{
	if (out->regime == REGIME_KV && f->shares.kv > 0)
		cite(add(out, "kv_bound", SEVERITY_NOTICE, unknown,
			 "Attention takes %.0f %% of a step: reading the KV "
			 "cache, not the experts, sets the price of a token.",
			 f->shares.kv * 100),
		     "kv_share_ratio", f->shares.kv);
	if (out->regime == REGIME_COMPUTE && f->shares.compute > 0)
		cite(add(out, "compute_bound", SEVERITY_INFO, unknown,
			 "%.0f %% of a step is bound by arithmetic: the "
			 "weights are well shared.",
			 f->shares.compute * 100),
		     "compute_share_ratio", f->shares.compute);
}

static void find_idle_steps(const struct model *m, const struct evidence *e,
			    struct snapshot *out)
{
	const struct sample_window *w = &m->window;
	double steps_ns = w->step_ns[0] + w->step_ns[1];
	double idle = steps_ns > 0 ? 1 - w->busy_ns / steps_ns : 0;

	if (!e->agrees || e->idle || idle <= HOST_IDLE_MIN)
		return;
	cite(add(out, "host_bound", SEVERITY_WARNING,
		 value_make(idle, SOURCE_MODELLED),
		 "No kernel runs for %.0f %% of a step: the GPU waits for the "
		 "host (launches, scheduling, sampling).",
		 idle * 100),
	     "idle_ratio", idle);
}

/* The kernels run with more rows than there are tokens. */
static void find_padding(const struct model *m, const struct evidence *e,
			 struct snapshot *out)
{
	const struct sample_window *w = &m->window;
	const struct sample_rows *r = &w->rows;
	double padded = r->rows > 0 ? (r->rows + r->padded_rows) / r->rows : 0;
	struct finding *n;

	if (!e->classify || e->idle)
		return;
	if (r->rows > 0 && w->steps[0] > 0 && e->tokens.v > 0)
		padded = fmax(padded, w->tokens[0] / w->steps[0] / e->tokens.v);
	if (padded <= PADDING_MIN)
		return;
	n = add(out, "padding", SEVERITY_NOTICE, unknown,
		"Steps are padded to %.1f times their tokens: capture a CUDA "
		"graph nearer to %.0f tokens.",
		padded, e->tokens.v);
	cite(n, "padded_over_real_ratio", padded);
	cite(n, "tokens_per_step", e->tokens.v);
}

static void find_impossible(const struct evidence *e, struct snapshot *out)
{
	struct value s = out->metrics[METRIC_USEFUL_MBU];

	if (s.state != VALUE_OK || s.v <= SMBU_MAX ||
	    e->active_source != SOURCE_MEASURED)
		return;
	cite(add(out, "smbu_impossible", SEVERITY_WARNING, unknown,
		 "The bytes that a step needs take %.0f %% of the peak "
		 "bandwidth, which cannot be: the model config, the GPU or "
		 "the number of GPUs is wrong.",
		 s.v * 100),
	     "useful_mbu_ratio", s.v);
}

void findings_fill(const struct model *m, const struct evidence *e,
		   const struct figures *f, struct snapshot *out)
{
	out->n_findings = 0;
	find_impossible(e, out);
	find_valley(e, f, out);
	find_roofs(f, out);
	find_idle_steps(m, e, out);
	find_padding(m, e, out);
}
