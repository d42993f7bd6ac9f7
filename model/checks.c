#include "model/checks.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rule {
	const char *name;
	double ratio; /* of the larger one */
	double least; /* never less than this */
	const char *more,
		*less; /* why theirs may be more, or less, than ours */
} rules[CHECK_IDS] = {
	[CHECK_IN_FLIGHT] = { "in_flight", 0.1, 2,
			      "requests by another way, or several sequences "
			      "in one request",
			      "requests still on their way to the engine" },
	[CHECK_RUNNING] = { "running", 0.1, 2,
			    "requests by another way, or several sequences in "
			    "one request",
			    "requests that were preempted, or clients that "
			    "read late" },
	[CHECK_WAITING] = { "waiting", 0.1, 2,
			    "requests by another way, or preempted ones that "
			    "had begun",
			    "" },
	[CHECK_TOKENS] = { "tokens_per_second", 0.15, 2,
			   "prompts' first tokens, or more tokens in a step "
			   "than were seen",
			   "draft tokens refused, or counted only when a "
			   "request ends" },
	[CHECK_PADDED] = { "padded_size", 0.25, 8,
			   "steps of fewer requests than it says are running",
			   "draft tokens, or prompts that ride along" },
	[CHECK_MFU] = { "mfu_ratio", 0.25, 0.002,
			"prompts count in its estimate",
			"a part of the model is not in its estimate" },
	[CHECK_MBU] = { "mbu_ratio", 0.25, 0.02,
			"it lets every token read experts of its own",
			"re-reads and padding are not in its estimate" },
	[CHECK_TTFT] = { "ttft_seconds", 0.25, 0.05,
			 "clients or proxies that hold answers back",
			 "time before the engine has a request, or answers "
			 "that do not stream" },
};

/* Two numbers for one thing; NAN unknown. */
struct pair {
	double ours, theirs;
	enum value_source source; /* of ours */
};

const char *check_name(enum check_id id)
{
	return rules[id].name;
}

double check_tolerance_ratio(enum check_id id)
{
	return rules[id].ratio;
}

double check_tolerance_least(enum check_id id)
{
	return rules[id].least;
}

/* Of ours; the engine's own claim would be checked against itself. */
static struct pair ours_of(const struct snapshot *s, enum metric_id id,
			   double theirs)
{
	struct value v = s->metrics[id];
	bool ours = v.state == VALUE_OK && v.source != SOURCE_SCRAPED;

	return (struct pair){ .ours = ours ? v.v : NAN,
			      .theirs = theirs,
			      .source = v.source };
}

/* NAN in any of them is NAN. */
static double within(double v, double low, double high)
{
	if (isnan(v) || isnan(low) || isnan(high))
		return NAN;
	return fmin(fmax(v, low), high);
}

/* Between bounds is not counted. */
static struct pair requests(enum check_id id, const struct engine_claims *c,
			    const struct snapshot *s)
{
	struct pair p = ours_of(s, METRIC_IN_FLIGHT, c->running + c->waiting);
	double all = p.ours, quiet = ours_of(s, METRIC_WAITING, NAN).ours;

	if (id == CHECK_IN_FLIGHT)
		return p;
	p.source = SOURCE_INFERRED;
	p.theirs = id == CHECK_RUNNING ? c->running : c->waiting;
	p.ours = id == CHECK_RUNNING ? within(c->running, all - quiet, all)
				     : within(c->waiting, 0, quiet);
	return p;
}

static struct pair utilisation(enum check_id id, const struct engine_claims *c,
			       const struct sample *in, const struct gpu *gpu,
			       const struct snapshot *s)
{
	double peak = NAN;
	struct pair p;

	if (id == CHECK_MFU) {
		for (int t = COMPUTE_BF16; gpu && t <= COMPUTE_FP4; t++)
			if (!strcmp(s->compute_type,
				    compute_type_name((enum compute_type)t)))
				peak = gpu_flops(gpu, (enum compute_type)t);
		return ours_of(s, METRIC_MFU, c->flops_per_s / peak);
	}
	if (in->have_peak)
		peak = in->peak_bw;
	else if (gpu)
		peak = gpu->bw;
	p = ours_of(s, METRIC_MBU, c->bytes_per_s / peak);
	if (isnan(p.ours))
		p = ours_of(s, METRIC_USEFUL_MBU, p.theirs);
	return p;
}

/* Requests that do not stream make ours as long as they are. */
static double ours_ttft(const struct sample *in, const struct snapshot *s)
{
	const struct snapshot_hist *h = &s->hists[HISTOGRAM_TTFT];

	if (!in->have_requests || !(h->count.v >= 5) ||
	    h->count.state != VALUE_OK || in->events < 4 * in->completed)
		return NAN;
	return h->sum.v / h->count.v;
}

static struct pair pair_of(enum check_id id, const struct engine_claims *c,
			   const struct sample *in, const struct gpu *gpu,
			   const struct snapshot *s)
{
	switch (id) {
	case CHECK_IN_FLIGHT:
	case CHECK_RUNNING:
	case CHECK_WAITING:
		return requests(id, c, s);
	case CHECK_TOKENS:
		return ours_of(s, METRIC_TOKENS, c->tokens_per_s);
	case CHECK_PADDED:
		return (struct pair){ in->have_agent && in->d_decode_steps >= 1
					      ? in->d_padded_tokens /
							in->d_decode_steps
					      : NAN,
				      c->batch, SOURCE_MEASURED };
	case CHECK_MFU:
	case CHECK_MBU:
		return utilisation(id, c, in, gpu, s);
	default:
		return (struct pair){ ours_ttft(in, s), c->ttft_s,
				      SOURCE_MEASURED };
	}
}

static enum check_state compare(const struct rule *r, struct pair p)
{
	double room;

	if (!isfinite(p.ours) || !isfinite(p.theirs))
		return CHECK_UNKNOWN;
	room = fmax(r->ratio * fmax(p.ours, p.theirs), r->least);
	return fabs(p.ours - p.theirs) <= room ? CHECK_AGREES : CHECK_DIFFERS;
}

/* The first verdict takes as long as any other: a start is a busy moment. */
static void advance(struct checks *c, enum check_id id, enum check_state now)
{
	if (now == CHECK_UNKNOWN || now != c->list[id].next) {
		c->list[id].next = now;
		c->list[id].streak = 0;
	}
	if (now != CHECK_UNKNOWN)
		c->list[id].streak++;
	if (c->list[id].streak >= CHECKS_SAMPLES)
		c->list[id].state = now;
}

static const char *why_of(enum check_id id, const struct engine_claims *c,
			  struct pair p)
{
	bool estimate = id == CHECK_MFU || id == CHECK_MBU;

	if (isnan(p.ours) && isnan(p.theirs))
		return "neither is known";
	if (isnan(p.ours))
		return "not known to us";
	if (isnan(p.theirs))
		return estimate ? "start it with --enable-mfu-metrics"
				: "the engine does not say";
	if (estimate && !strcmp(c->engine, "sglang"))
		return "SGLang's estimate is of a dense model: no experts, no "
		       "quantisation";
	if (p.theirs > p.ours)
		return rules[id].more;
	return p.theirs < p.ours ? rules[id].less : "";
}

static void add_finding(struct snapshot *s, enum check_id id, struct pair p,
			const char *why)
{
	struct finding *f;

	if (s->n_findings == SNAPSHOT_FINDINGS_MAX)
		return;
	f = &s->findings[s->n_findings++];
	*f = (struct finding){ .rule = "engine_differs",
			       .severity = SEVERITY_NOTICE,
			       .gain = { .state = VALUE_NO_DATA },
			       .n_evidence = 2,
			       .evidence = { { "ours", p.ours },
					     { "theirs", p.theirs } } };
	snprintf(f->text, sizeof(f->text),
		 "The engine says %.4g of %s, moetop %.4g: %s.", p.theirs,
		 rules[id].name, p.ours, why[0] ? why : "one of them is wrong");
}

static void put(struct snapshot_check *out, enum check_id id,
		enum check_state state, struct pair p, const char *why)
{
	*out = (struct snapshot_check){
		.state = state,
		.ours = p.ours,
		.theirs = p.theirs,
		.source = p.source,
		.tolerance_ratio = rules[id].ratio,
	};
	snprintf(out->name, sizeof(out->name), "%s", rules[id].name);
	snprintf(out->why, sizeof(out->why), "%s", why);
}

void checks_update(struct checks *c, const struct engine_claims *claims,
		   const struct sample *in, const struct gpu *gpu,
		   struct snapshot *s)
{
	bool is_new = claims->fresh && claims->report != c->report;
	bool told = false;

	s->n_checks = claims->fresh ? CHECK_IDS : 0;
	for (enum check_id id = 0; id < s->n_checks; id++) {
		struct pair p = pair_of(id, claims, in, gpu, s);
		enum check_state now = compare(&rules[id], p);
		const char *why = why_of(id, claims, p);

		if (is_new)
			advance(c, id, now);
		if (now == CHECK_UNKNOWN)
			c->list[id].state = now;
		put(&s->checks[id], id, c->list[id].state, p,
		    now == CHECK_UNKNOWN || c->list[id].state == CHECK_DIFFERS
			    ? why
			    : "");
		/* estimates differ by what they leave out: no news */
		if (c->list[id].state == CHECK_DIFFERS && !told &&
		    id != CHECK_MFU && id != CHECK_MBU) {
			add_finding(s, id, p, why);
			told = true;
		}
	}
	if (!claims->fresh)
		memset(c->list, 0, sizeof(c->list));
	c->report = claims->report;
}

double checks_batch(const char *sizes, double n)
{
	double best = NAN;
	char *end;

	for (const char *p = sizes; *p; p = end) {
		double v;

		end = (char *)p + 1;
		if (!isdigit((unsigned char)*p))
			continue;
		v = (double)strtoul(p, &end, 10);
		if (v >= n && !(best <= v))
			best = v;
	}
	return best;
}
