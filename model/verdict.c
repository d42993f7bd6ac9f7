#include "model/findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Numbers that would break the box: what is beyond is said as these. */
#define USERS_MAX 9999999.0
#define USD_MAX 99999.99
/* A move that saves less is not worth a sentence. */
#define MOVE_COST_MAX 0.9

/* A queue that is more than arrivals on their way in. */
#define QUEUED_MIN 2
#define QUEUED_RATIO 0.1

/* "14 users", or "14 tokens per step" where requests are not seen. */
static void say_load(const struct evidence *e, const struct snapshot *out,
		     char *text, size_t bytes)
{
	struct value users = out->metrics[METRIC_IN_FLIGHT];

	if (value_known(users) && users.v >= 0.5)
		snprintf(text, bytes, "%.0f user%s", fmin(users.v, USERS_MAX),
			 users.v < 1.5 ? "" : "s");
	else
		snprintf(text, bytes, "%.0f token%s per step",
			 fmin(e->tokens.v, USERS_MAX),
			 e->tokens.v < 1.5 ? "" : "s");
}

static void say_experts(const struct evidence *e, const struct figures *f,
			const struct arch *arch, const char *head,
			struct snapshot *out)
{
	bool measured = e->active_source == SOURCE_MEASURED;
	const char *about = measured ? "" : f->uniform ? "at most " : "about ";
	char load[48];
	bool one;

	say_load(e, out, load, sizeof(load));
	one = strncmp(load, "1 ", 2) == 0;
	snprintf(out->verdict[0], sizeof(out->verdict[0]),
		 "%s  %s read%s %s%.0f of %u experts per layer, %s%.0f %% of "
		 "them for a single row.",
		 head, load, one ? "s" : "", about, e->active, arch->experts,
		 measured ? "" : "about ",
		 e->active > 0 ? e->single / e->active * 100 : 0);
}

/* Where the valley ends, seen from here; NULL: not in sight. */
static const char *way_out(const struct evidence *e, const struct figures *f,
			   enum regime regime)
{
	if (!(f->exit_tokens > e->tokens.v))
		return NULL;
	if (regime == REGIME_VALLEY)
		return f->uniform ? "ends at the earliest near" : "ends near";
	if (regime == REGIME_SOLO)
		return f->uniform ? "lies ahead, at least up to"
				  : "lies ahead, up to about";
	return NULL;
}

/* The end of the sentence: between what the exit is in nine of ten cases. */
static void say_interval(const struct snapshot *out, char *text, size_t bytes)
{
	struct value low = out->metrics[METRIC_TRAFFIC_EXIT_LOW];
	struct value high = out->metrics[METRIC_TRAFFIC_EXIT_HIGH];

	if (value_known(low) && value_known(high) && high.v > low.v)
		snprintf(text, bytes, " (%.0f to %.0f).",
			 fmin(low.v, USERS_MAX), fmin(high.v, USERS_MAX));
	else
		snprintf(text, bytes, ".");
}

/* Of a decode step: where prompts rule it says nothing.  KV reads that are not
 * known can only make the next request dearer. */
static void say_gain(const struct evidence *e, const struct figures *f,
		     struct snapshot *out)
{
	struct value queued = out->metrics[METRIC_SCRAPED_WAITING];
	bool kv = value_known(out->metrics[METRIC_KV_SHARE]);
	const char *way = way_out(e, f, out->regime);
	char *line = out->verdict[1];
	int n;

	if (!f->have_shares || out->regime == REGIME_PREFILL ||
	    (out->regime == REGIME_KV && !kv))
		return;
	if (queued.state == VALUE_OK && queued.v >= QUEUED_MIN &&
	    queued.v > QUEUED_RATIO * e->tokens.v)
		n = snprintf(line, sizeof(out->verdict[1]),
			     "One more request would wait: %.0f are queued.",
			     fmin(queued.v, USERS_MAX));
	else
		n = snprintf(line, sizeof(out->verdict[1]),
			     "One more request is %s%.0f %% free%s.",
			     kv ? "" : "up to ", f->shares.gain * 100,
			     kv ? "" : " (KV reads not known)");
	if (way)
		n += snprintf(line + n, sizeof(out->verdict[1]) - (size_t)n,
			      "  The valley %s %.0f tokens per step", way,
			      fmin(f->exit_tokens, USERS_MAX));
	if (way)
		say_interval(out, line + n,
			     sizeof(out->verdict[1]) - (size_t)n);
}

/* Of dollars: a cheap token is not free. */
static int decimals(double usd)
{
	return usd < 0.0995 ? 4 : 2;
}

static const struct snapshot_what_if *best_move(const struct snapshot *out)
{
	const struct snapshot_what_if *best = NULL;

	for (unsigned i = 0; i < out->n_what_if; i++) {
		const struct snapshot_what_if *w = &out->what_if[i];
		bool layout = w->kind == WHAT_IF_MERGE ||
			      w->kind == WHAT_IF_TP || w->kind == WHAT_IF_EP;

		if (layout && w->limit == WHATIF_WITHIN &&
		    value_known(w->cost_ratio) &&
		    w->cost_ratio.v <
			    (best ? best->cost_ratio.v : MOVE_COST_MAX))
			best = w;
	}
	return best;
}

/* What to change, when that is worth it. */
static void say_move(const struct snapshot *out, char *line, size_t bytes)
{
	const struct snapshot_what_if *w = best_move(out);
	size_t n = strlen(line);
	char move[40];

	if (!w)
		return;
	if (w->kind == WHAT_IF_MERGE)
		snprintf(move, sizeof(move), "merge %.0f such servers",
			 fmin(w->amount, 99));
	else
		snprintf(move, sizeof(move), "%s %.0f",
			 w->kind == WHAT_IF_TP ? "TP" : "EP",
			 fmin(w->amount, 9999));
	snprintf(line + n, bytes - n, "%sBest move: %s (-%.0f %%).",
		 n ? "  " : "", move, (1 - w->cost_ratio.v) * 100);
}

/* What is not experts' or dense reads is taken not to grow with the load: a
 * limit, not a promise; where KV, arithmetic or prompts rule, not even that. */
static void say_cost(const struct figures *f, struct snapshot *out)
{
	struct value cost = out->metrics[METRIC_COST];
	double usd = fmin(cost.v, USD_MAX), there = usd * f->exit_cost_ratio;
	double exit_tokens = fmin(f->exit_tokens, USERS_MAX);
	char *line = out->verdict[2];
	size_t bytes = sizeof(out->verdict[2]);
	bool reads = out->regime == REGIME_SOLO ||
		     out->regime == REGIME_VALLEY ||
		     out->regime == REGIME_SHARED;
	bool ahead = reads && f->exit_cost_ratio > 0 && f->exit_cost_ratio < 1;

	if (value_known(cost) && ahead)
		snprintf(line, bytes,
			 "Now $%.*f per M tokens; at %.0f tokens per step "
			 "as low as $%.*f (-%.0f %%).",
			 decimals(usd), usd, exit_tokens, decimals(there),
			 there, (1 - f->exit_cost_ratio) * 100);
	else if (value_known(cost))
		snprintf(line, bytes, "Now $%.*f per M tokens.", decimals(usd),
			 usd);
	else if (ahead)
		snprintf(line, bytes,
			 "At %.0f tokens per step a token could cost up to "
			 "%.0f %% less.",
			 exit_tokens, (1 - f->exit_cost_ratio) * 100);
	if (reads)
		say_move(out, line, bytes);
}

static void say(struct snapshot *out, const char *text)
{
	snprintf(out->verdict[0], sizeof(out->verdict[0]), "%s", text);
}

/* The regime is held from before, without figures of the present. */
static void say_held(struct snapshot *out)
{
	static const char *const words[REGIMES] = {
		[REGIME_COMPUTE] = "COMPUTE-BOUND.",
		[REGIME_KV] = "KV-BOUND.",
		[REGIME_VALLEY] = "IN THE VALLEY.",
		[REGIME_SHARED] = "SHARED.",
	};

	if (words[out->regime])
		say(out, words[out->regime]);
}

static const char *why_unknown(const struct evidence *e,
			       const struct figures *f, const struct arch *arch)
{
	if (!arch)
		return "No verdict: the shape of the model is not known; name "
		       "its config.json with --model.";
	if (e->have_active && !f->have_cost)
		return "No verdict: the config does not tell how many bytes an "
		       "expert takes.";
	if (e->have_active && !f->have_shares)
		return "No verdict: the peak bandwidth of this GPU is not "
		       "known.";
	return "No verdict yet: waiting for the first figures.";
}

static void say_head(const struct evidence *e, const struct figures *f,
		     const struct arch *arch, struct snapshot *out)
{
	char *line = out->verdict[0];
	size_t bytes = sizeof(out->verdict[0]);

	switch (out->regime) {
	case REGIME_IDLE:
		say(out, "IDLE.  Nothing runs.");
		break;
	case REGIME_PREFILL:
		say(out, "PREFILL.  Most of the step time goes to prompts, not "
			 "to generated tokens.");
		break;
	case REGIME_COMPUTE:
		if (f->shares.compute > 0)
			snprintf(line, bytes,
				 "COMPUTE-BOUND.  %.0f %% of a step is "
				 "arithmetic: the weights are well shared.",
				 f->shares.compute * 100);
		break;
	case REGIME_KV:
		if (f->shares.kv > 0)
			snprintf(line, bytes,
				 "KV-BOUND.  Attention takes %.0f %% of a "
				 "step.",
				 f->shares.kv * 100);
		break;
	case REGIME_SOLO:
		if (e->have_active && arch)
			say_experts(e, f, arch, "SOLO.", out);
		else
			say(out, "SOLO.  One stream at a time.");
		break;
	case REGIME_VALLEY:
		if (e->have_active && arch)
			say_experts(e, f, arch,
				    out->side == SIDE_NEAR
					    ? "IN THE VALLEY, near side."
					    : "IN THE VALLEY, far side.",
				    out);
		break;
	case REGIME_SHARED:
		if (e->have_active && arch)
			say_experts(e, f, arch, "SHARED.", out);
		break;
	case REGIME_UNKNOWN:
	case REGIMES:
		say(out, why_unknown(e, f, arch));
		break;
	}
}

void verdict_fill(const struct evidence *e, const struct figures *f,
		  const struct arch *arch, struct snapshot *out)
{
	for (unsigned i = 0; i < 3; i++)
		out->verdict[i][0] = '\0';
	if (arch && !arch_is_moe(arch)) {
		say(out, "This model has no experts: every step reads all of "
			 "its weights, and there is no valley.");
		return;
	}
	say_head(e, f, arch, out);
	if (!out->verdict[0][0])
		say_held(out);
	if (out->regime == REGIME_IDLE || out->regime == REGIME_UNKNOWN)
		return;
	say_gain(e, f, out);
	say_cost(f, out);
}
