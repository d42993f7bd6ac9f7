#include "model/findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Every threshold of every rule. */
static const struct {
	double smbu; /* S-MBU that cannot be */
	double per_row_batch, per_row_rows, per_row_reads;
	double floor_batch, floor_ratio;
	double straggler, by_chance; /* of it, that I_U - 1 explains */
	double excess;               /* of the fullest expert */
	double idle, padded;
	double launches; /* per step: more is no CUDA graph */
	double dense, dense_bytes;
	double skew;    /* N2/E */
	double reached; /* of the peak bandwidth, by good kernels */
	double saved;   /* a gain below is not worth a line */
} limit = {
	.smbu = 1.02,
	.per_row_batch = 32,
	.per_row_rows = 1.2,
	.per_row_reads = 0.7,
	.floor_batch = 8.5,
	.floor_ratio = 2,
	.straggler = 0.15,
	.by_chance = 0.5,
	.excess = 1.5,
	.idle = 0.3,
	.padded = 1.3,
	.launches = 50,
	.dense = 0.5,
	.dense_bytes = 1.5,
	.skew = 0.6,
	.reached = 0.85,
	.saved = 0.02,
};

struct list {
	struct finding *at;
	unsigned n;
};

static struct finding *add(struct list *l, const char *rule,
			   enum severity severity, double gain)
{
	struct finding *n;

	if (l->n == SNAPSHOT_FINDINGS_MAX)
		return NULL;
	n = &l->at[l->n++];
	*n = (struct finding){ .severity = severity,
			       .gain = { .state = VALUE_NO_DATA } };
	snprintf(n->rule, sizeof(n->rule), "%s", rule);
	if (gain >= limit.saved && gain <= 1)
		n->gain = value_make(gain, SOURCE_MODELLED);
	return n;
}

/* What is not known is not cited. */
static void cite(struct finding *n, const char *key, double v)
{
	if (!n || !isfinite(v) ||
	    n->n_evidence == sizeof(n->evidence) / sizeof(n->evidence[0]))
		return;
	snprintf(n->evidence[n->n_evidence].key, sizeof(n->evidence[0].key),
		 "%s", key);
	n->evidence[n->n_evidence++].v = v;
}

static void judge_valley(const struct finding_facts *a, struct list *l)
{
	bool near = a->side == SIDE_NEAR;
	double cost = a->merge >= 2 ? a->merge_cost_ratio : a->exit_cost_ratio;
	struct finding *n;

	if (a->regime != REGIME_VALLEY || !(a->exit_tokens > 0))
		return;
	n = add(l, near ? "valley_near" : "valley_far", SEVERITY_WARNING,
		1 - cost);
	cite(n, "single_row_ratio", a->single_ratio);
	cite(n, "tokens_per_step", a->tokens);
	cite(n, a->uniform ? "exit_tokens_at_least" : "exit_tokens_per_step",
	     a->exit_tokens);
	cite(n, "merge_servers", a->merge);
	cite(n, "expert_share_ratio", a->expert_share);
}

static void judge_roofs(const struct finding_facts *a, struct list *l)
{
	if (a->regime == REGIME_KV && a->kv_share > 0)
		cite(add(l, "kv_bound", SEVERITY_NOTICE, NAN), "kv_share_ratio",
		     a->kv_share);
	if (a->regime == REGIME_COMPUTE && a->compute_share > 0)
		cite(add(l, "compute_bound", SEVERITY_INFO, NAN),
		     "compute_share_ratio", a->compute_share);
}

static void judge_inputs(const struct finding_facts *a, struct list *l)
{
	if (a->useful_mbu > limit.smbu)
		cite(add(l, "smbu_impossible", SEVERITY_WARNING, NAN),
		     "useful_mbu_ratio", a->useful_mbu);
}

/* A kernel that gives each row a block of its own reads an expert once for each
 * of its rows. */
static bool reads_per_row(const struct finding_facts *a)
{
	return a->tokens <= limit.per_row_batch &&
	       a->rows_per_active > limit.per_row_rows &&
	       a->reads_per_expert - 1 >
		       limit.per_row_reads * (a->rows_per_active - 1);
}

static void judge_kernels(const struct finding_facts *a, struct list *l)
{
	struct finding *n;

	if (reads_per_row(a)) {
		n = add(l, "per_row_reads", SEVERITY_WARNING,
			a->expert_time_ratio * (1 - 1 / a->reads_per_expert));
		cite(n, "reads_per_active_expert", a->reads_per_expert);
		cite(n, "rows_per_active_expert", a->rows_per_active);
		cite(n, "tokens_per_step", a->tokens);
	}
	if (a->tokens <= limit.floor_batch &&
	    a->floor_ratio > limit.floor_ratio) {
		n = add(l, "kernel_floor", SEVERITY_NOTICE,
			a->expert_time_ratio *
				(1 - 1 / (limit.reached * a->floor_ratio)));
		cite(n, "kernel_over_floor_ratio", a->floor_ratio);
		cite(n, "tokens_per_step", a->tokens);
		cite(n, "expert_time_ratio", a->expert_time_ratio);
	}
}

/* Tokens that are thrown away have read their experts. */
static void judge_speculation(const struct finding_facts *a, struct list *l)
{
	struct finding *n;

	if (!(a->verified > 1) || !(a->kept < a->draft_step_ratio))
		return;
	n = add(l, "speculation_costs", SEVERITY_WARNING,
		1 - a->kept / a->draft_step_ratio);
	cite(n, "verified_tokens", a->verified);
	cite(n, "kept_tokens", a->kept);
	cite(n, "draft_step_ratio", a->draft_step_ratio);
}

static void judge_balance(const struct finding_facts *a, struct list *l)
{
	double chance = (a->rank_active - 1) / a->straggler;
	bool helps = chance < limit.by_chance;
	struct finding *n;

	if (a->straggler > limit.straggler) {
		if (isnan(chance)) /* not told apart: rows rule past the valley */
			helps = a->regime == REGIME_COMPUTE ||
				a->regime == REGIME_SHARED;
		n = add(l, "ep_imbalance", SEVERITY_WARNING,
			helps ? a->expert_time_ratio * a->straggler /
					(1 + a->straggler)
			      : NAN);
		cite(n, "straggler_share_ratio", a->straggler);
		cite(n, "eplb_helps", helps);
		cite(n, "rank_active_imbalance_ratio", a->rank_active);
	}
	if (a->excess_imbalance > limit.excess && a->ridge_rows > 0 &&
	    a->max_rows > a->ridge_rows) {
		n = add(l, "straggler_experts", SEVERITY_NOTICE, NAN);
		cite(n, "max_rows", a->max_rows);
		cite(n, "excess_imbalance_ratio", a->excess_imbalance);
		cite(n, "ridge_rows", a->ridge_rows);
	}
	if (a->effective < limit.skew * a->experts) {
		n = add(l, "skewed_experts", SEVERITY_INFO, NAN);
		cite(n, "effective_experts", a->effective);
		cite(n, "experts", a->experts);
	}
}

static void judge_host(const struct finding_facts *a, struct list *l)
{
	struct finding *n;

	if (a->idle_ratio > limit.idle) {
		n = add(l, "host_bound", SEVERITY_WARNING, a->idle_ratio);
		cite(n, "idle_ratio", a->idle_ratio);
		if (a->launches > limit.launches)
			cite(n, "launches_per_step", a->launches);
	}
	if (a->padded_ratio > limit.padded) {
		n = add(l, "padding", SEVERITY_NOTICE, NAN);
		cite(n, "padded_over_real_ratio", a->padded_ratio);
		cite(n, "tokens_per_step", a->tokens);
	}
}

static void judge_dense(const struct finding_facts *a, struct list *l)
{
	bool wide = a->dense_bytes_per_weight > limit.dense_bytes;
	struct finding *n;

	if (!(a->dense_ratio > limit.dense) || a->regime == REGIME_KV ||
	    a->regime == REGIME_COMPUTE || a->regime == REGIME_PREFILL)
		return;
	n = add(l, "dense_bound", SEVERITY_INFO,
		wide ? a->dense_ratio / 2 : NAN);
	cite(n, "dense_bytes_ratio", a->dense_ratio);
	cite(n, "dense_bytes_per_weight", a->dense_bytes_per_weight);
}

/* What is wrong before what is worth most; else in the order of the rules. */
static bool comes_first(const struct finding *a, const struct finding *b)
{
	double gain_a = value_known(a->gain) ? a->gain.v : 0;
	double gain_b = value_known(b->gain) ? b->gain.v : 0;
	bool wrong = strcmp(a->rule, "smbu_impossible") == 0;

	if (wrong != (strcmp(b->rule, "smbu_impossible") == 0))
		return wrong;
	if (a->severity != b->severity)
		return a->severity > b->severity;
	return gain_a > gain_b;
}

static void sort(struct list *l)
{
	for (unsigned i = 1; i < l->n; i++) {
		struct finding moved = l->at[i];
		unsigned j = i;

		for (; j > 0 && comes_first(&moved, &l->at[j - 1]); j--)
			l->at[j] = l->at[j - 1];
		l->at[j] = moved;
	}
}

unsigned finding_rules(const struct finding_facts *a, struct finding *out)
{
	struct list l = { .at = out };

	judge_inputs(a, &l);
	judge_valley(a, &l);
	judge_kernels(a, &l);
	judge_speculation(a, &l);
	judge_balance(a, &l);
	judge_host(a, &l);
	judge_dense(a, &l);
	judge_roofs(a, &l);
	sort(&l);
	return l.n;
}

void finding_facts_clear(struct finding_facts *a)
{
	*a = (struct finding_facts){
		.tokens = NAN,
		.single_ratio = NAN,
		.expert_share = NAN,
		.kv_share = NAN,
		.compute_share = NAN,
		.exit_tokens = NAN,
		.exit_cost_ratio = NAN,
		.merge = NAN,
		.merge_cost_ratio = NAN,
		.useful_mbu = NAN,
		.idle_ratio = NAN,
		.launches = NAN,
		.padded_ratio = NAN,
		.expert_time_ratio = NAN,
		.floor_ratio = NAN,
		.reads_per_expert = NAN,
		.rows_per_active = NAN,
		.straggler = NAN,
		.rank_active = NAN,
		.excess_imbalance = NAN,
		.max_rows = NAN,
		.ridge_rows = NAN,
		.verified = NAN,
		.kept = NAN,
		.draft_step_ratio = NAN,
		.dense_ratio = NAN,
		.dense_bytes_per_weight = NAN,
		.experts = NAN,
		.effective = NAN,
	};
}
