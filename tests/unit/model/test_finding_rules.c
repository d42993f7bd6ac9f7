/* Every rule once where it must fire and once where it must not, and what all of
 * them say with numbers out of all proportion. */
#include "model/findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct finding found[SNAPSHOT_FINDINGS_MAX];
static unsigned n_found;

static const struct finding *find(const struct finding_facts *a,
				  const char *rule)
{
	n_found = finding_rules(a, found);
	for (unsigned i = 0; i < n_found; i++)
		if (strcmp(found[i].rule, rule) == 0)
			return &found[i];
	return NULL;
}

static struct finding_facts nothing(void)
{
	struct finding_facts a;

	finding_facts_clear(&a);
	return a;
}

static void gains(const struct finding *n, double want)
{
	assert_non_null(n);
	if (!value_known(n->gain) || fabs(n->gain.v - want) > 1e-9) {
		print_error("%s: gain %g, not %g\n", n->rule, n->gain.v, want);
		fail();
	}
	assert_int_equal(n->gain.source, SOURCE_MODELLED);
}

static double evidence(const struct finding *n, const char *key)
{
	for (unsigned i = 0; i < n->n_evidence; i++)
		if (strcmp(n->evidence[i].key, key) == 0)
			return n->evidence[i].v;
	return NAN;
}

static const char *says(const struct finding *n)
{
	static char text[200];

	assert_non_null(n);
	finding_words(n, text, sizeof(text));
	return text;
}

static void nothing_is_found_in_nothing(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	assert_int_equal(finding_rules(&a, found), 0);
	for (unsigned r = 0; r < REGIMES; r++) {
		a.regime = (enum regime)r;
		assert_int_equal(finding_rules(&a, found), 0);
	}
}

/* ---- the valley -------------------------------------------------------- */

static struct finding_facts in_the_valley(enum side side)
{
	struct finding_facts a = nothing();

	a.regime = REGIME_VALLEY;
	a.side = side;
	a.tokens = 14;
	a.single_ratio = 0.59;
	a.expert_share = 0.4;
	a.exit_tokens = 140;
	a.exit_cost_ratio = 0.3;
	return a;
}

static void near_side_merges_only_past_the_exit(void **state)
{
	struct finding_facts a = in_the_valley(SIDE_NEAR);
	const struct finding *n = find(&a, "valley_near");

	(void)state;
	gains(n, 0.7);
	assert_int_equal(n->severity, SEVERITY_WARNING);
	assert_true(evidence(n, "single_row_ratio") == 0.59);
	assert_true(evidence(n, "exit_tokens_per_step") == 140);
	assert_true(isnan(evidence(n, "merge_servers")));
	assert_string_equal(says(n), "Shared from B = 140 on: add load, or "
				     "spread for speed.");
	a.merge = 4;
	a.merge_cost_ratio = 0.4;
	n = find(&a, "valley_near");
	gains(n, 0.6);
	assert_string_equal(says(n), "Merge 4 such servers: experts are shared "
				     "from B = 140.");
	assert_null(find(&a, "valley_far"));
	a.regime = REGIME_SHARED;
	assert_null(find(&a, "valley_near"));
}

static void far_side_adds_load(void **state)
{
	struct finding_facts a = in_the_valley(SIDE_FAR);

	(void)state;
	a.uniform = true;
	assert_string_equal(says(find(&a, "valley_far")),
			    "Add load: experts are shared from B = 140 on.");
	assert_true(evidence(find(&a, "valley_far"), "exit_tokens_at_least") ==
		    140);
	a.merge = 2;
	a.merge_cost_ratio = 0.6;
	gains(find(&a, "valley_far"), 0.4);
	assert_string_equal(says(find(&a, "valley_far")),
			    "Add load, or merge 2 like it: shared from B = 140 "
			    "on.");
	assert_null(find(&a, "valley_near"));
	a.exit_tokens = NAN; /* nothing to say without an exit */
	assert_null(find(&a, "valley_far"));
}

/* ---- roofs and inputs -------------------------------------------------- */

static void roofs_by_the_regime(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.kv_share = 0.6;
	a.compute_share = 0.7;
	a.regime = REGIME_KV;
	assert_non_null(strstr(says(find(&a, "kv_bound")), "60 %"));
	assert_null(find(&a, "compute_bound"));
	a.regime = REGIME_COMPUTE;
	assert_non_null(strstr(says(find(&a, "compute_bound")), "70 %"));
	assert_null(find(&a, "kv_bound"));
	a.compute_share = NAN;
	assert_null(find(&a, "compute_bound"));
}

static void more_than_the_peak_is_wrong(void **state)
{
	struct finding_facts a = in_the_valley(SIDE_NEAR);

	(void)state;
	a.useful_mbu = 1.02;
	assert_null(find(&a, "smbu_impossible"));
	a.useful_mbu = 1.03;
	assert_non_null(find(&a, "smbu_impossible"));
	assert_string_equal(found[0].rule, "smbu_impossible"); /* first */
	assert_non_null(strstr(says(&found[0]), "103 %"));
}

/* ---- kernels ----------------------------------------------------------- */

static void experts_read_once_per_row(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.tokens = 16;
	a.rows_per_active = 1.5;
	a.reads_per_expert = 1.45;
	a.expert_time_ratio = 0.6;
	gains(find(&a, "per_row_reads"), 0.6 * (1 - 1 / 1.45));
	assert_string_equal(says(find(&a, "per_row_reads")),
			    "Each row reads its expert anew: 1.4 reads of "
			    "each, not 1.");
	a.reads_per_expert = 1.1; /* a little amplification is usual */
	assert_null(find(&a, "per_row_reads"));
	a.reads_per_expert = 1.5;
	a.tokens = 64; /* no such kernel there */
	assert_null(find(&a, "per_row_reads"));
	a.tokens = 4;
	a.rows_per_active = 1.05; /* too few rows to tell */
	a.reads_per_expert = 1.3;
	assert_null(find(&a, "per_row_reads"));
}

/* The published case: 40.44 us against a floor of 11.26 at B = 1. */
static void kernels_far_from_their_floor(void **state)
{
	struct finding_facts a = nothing();
	double factor = 40.44 / 11.26;

	(void)state;
	a.tokens = 1;
	a.floor_ratio = factor;
	a.expert_time_ratio = 0.5;
	gains(find(&a, "kernel_floor"), 0.5 * (1 - 1 / (0.85 * factor)));
	assert_string_equal(says(find(&a, "kernel_floor")),
			    "Expert kernels take 3.6 x their read time: try a "
			    "GEMV.");
	a.tokens = 9; /* a GEMV is of no use there */
	assert_null(find(&a, "kernel_floor"));
	a.tokens = 8;
	a.floor_ratio = 1.9;
	assert_null(find(&a, "kernel_floor"));
}

/* ---- speculation ------------------------------------------------------- */

static void drafts_that_cost_more_than_they_save(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.verified = 4;
	a.kept = 1.6;
	a.draft_step_ratio = 2.0; /* the step takes twice as long */
	gains(find(&a, "speculation_costs"), 0.2);
	assert_string_equal(says(find(&a, "speculation_costs")),
			    "Drafts cost more than they save: 4.0 verified, "
			    "1.6 kept.");
	a.kept = 2.4;
	assert_null(find(&a, "speculation_costs"));
	a.kept = 1.6;
	a.draft_step_ratio = NAN;
	assert_null(find(&a, "speculation_costs"));
}

/* ---- balance ----------------------------------------------------------- */

static void ranks_out_of_balance(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.regime = REGIME_VALLEY;
	a.straggler = 0.3;
	a.rank_active = 1.26; /* explains most of it */
	a.expert_time_ratio = 0.5;
	assert_true(evidence(find(&a, "ep_imbalance"), "eplb_helps") == 0);
	assert_false(value_known(find(&a, "ep_imbalance")->gain));
	assert_string_equal(says(find(&a, "ep_imbalance")),
			    "The slowest rank adds 30 %: by chance; EPLB would "
			    "not help.");
	a.rank_active = 1.02; /* all are active: rows make the difference */
	assert_true(evidence(find(&a, "ep_imbalance"), "eplb_helps") == 1);
	gains(find(&a, "ep_imbalance"), 0.5 * 0.3 / 1.3);
	assert_non_null(strstr(says(find(&a, "ep_imbalance")), "would help"));
	a.rank_active = NAN; /* not told apart: by the regime */
	assert_true(evidence(find(&a, "ep_imbalance"), "eplb_helps") == 0);
	a.regime = REGIME_COMPUTE;
	assert_true(evidence(find(&a, "ep_imbalance"), "eplb_helps") == 1);
	a.straggler = 0.14;
	assert_null(find(&a, "ep_imbalance"));
}

static void experts_that_set_the_pace(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.max_rows = 400;
	a.ridge_rows = 295;
	a.excess_imbalance = 2;
	assert_non_null(strstr(says(find(&a, "straggler_experts")),
			       "400 rows, 2.0 x its due"));
	a.max_rows = 100; /* reads set the pace, and those are alike */
	assert_null(find(&a, "straggler_experts"));
	a.max_rows = 400;
	a.excess_imbalance = 1.1;
	assert_null(find(&a, "straggler_experts"));
}

static void skew_is_said(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.effective = 62;
	a.experts = 128;
	assert_int_equal(find(&a, "skewed_experts")->severity, SEVERITY_INFO);
	assert_non_null(
		strstr(says(find(&a, "skewed_experts")), "62 of 128 experts"));
	a.effective = 80;
	assert_null(find(&a, "skewed_experts"));
}

/* ---- host, padding, dense weights -------------------------------------- */

static void host_that_is_late(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.idle_ratio = 0.4;
	gains(find(&a, "host_bound"), 0.4);
	assert_string_equal(says(find(&a, "host_bound")),
			    "No kernel runs for 40 % of a step: the host is "
			    "late.");
	a.launches = 1200;
	assert_non_null(strstr(says(find(&a, "host_bound")),
			       "1200 launches in it: use CUDA graphs"));
	a.launches = 3; /* replays */
	assert_true(
		isnan(evidence(find(&a, "host_bound"), "launches_per_step")));
	a.idle_ratio = 0.3;
	assert_null(find(&a, "host_bound"));
}

static void padded_steps(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.padded_ratio = 1.5;
	a.tokens = 17;
	assert_non_null(
		strstr(says(find(&a, "padding")), "1.5 times: capture"));
	a.padded_ratio = 1.3;
	assert_null(find(&a, "padding"));
}

static void dense_weights_that_dominate(void **state)
{
	struct finding_facts a = nothing();

	(void)state;
	a.regime = REGIME_SOLO;
	a.dense_ratio = 0.6;
	a.dense_bytes_per_weight = 1;
	assert_false(value_known(find(&a, "dense_bound")->gain));
	a.dense_bytes_per_weight = 2;
	gains(find(&a, "dense_bound"), 0.3);
	assert_non_null(strstr(says(find(&a, "dense_bound")), "60 %"));
	a.regime = REGIME_KV; /* something else rules */
	assert_null(find(&a, "dense_bound"));
	a.regime = REGIME_SOLO;
	a.dense_ratio = 0.4;
	assert_null(find(&a, "dense_bound"));
}

/* ---- all of them ------------------------------------------------------- */

static void warnings_and_gains_come_first(void **state)
{
	struct finding_facts a = in_the_valley(SIDE_FAR);

	(void)state;
	a.idle_ratio = 0.9;
	a.padded_ratio = 2;
	a.effective = 10;
	a.experts = 128;
	n_found = finding_rules(&a, found);
	assert_int_equal(n_found, 4);
	assert_string_equal(found[0].rule, "host_bound"); /* 0.9 of 0.7 */
	assert_string_equal(found[1].rule, "valley_far");
	assert_string_equal(found[2].rule, "padding");
	assert_string_equal(found[3].rule, "skewed_experts");
}

/* Facts of which each is x, or one that makes a rule fire. */
static struct finding_facts all_at(double x)
{
	struct finding_facts a = nothing();
	double *v = &a.tokens;

	for (; v <= &a.effective; v++)
		*v = x;
	a.regime = REGIME_VALLEY;
	a.side = SIDE_NEAR;
	return a;
}

static unsigned columns(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* Rules that may put a gain beside their sentence. */
static bool may_gain(const struct finding *n)
{
	static const char rules[] =
		"valley_near valley_far per_row_reads kernel_floor "
		"speculation_costs host_bound dense_bound";

	return strstr(rules, n->rule) != NULL || evidence(n, "eplb_helps") == 1;
}

static void fits(const struct finding *found_one)
{
	struct finding copy = *found_one;
	const struct finding *n = &copy;
	const char *text;
	unsigned room = may_gain(n) ? FINDING_GAIN_COLUMNS : FINDING_COLUMNS;

	if (may_gain(n)) /* the longest form: "saves <= 100 %" */
		copy.gain = value_make(1, SOURCE_MODELLED);
	text = says(n);
	if (columns(text) > room || columns(text) < 20 ||
	    text[strlen(text) - 1] != '.' || strstr(text, "nan") ||
	    strstr(text, "inf")) {
		print_error("%s: %u columns of %u: %s\n", n->rule,
			    columns(text), room, text);
		fail();
	}
}

/* Every sentence, with a gain and without, in one row of 80 columns. */
static void sentences_keep_their_row(void **state)
{
	static const char *const rules[] = {
		"valley_near",       "valley_far",      "per_row_reads",
		"kernel_floor",      "ep_imbalance",    "straggler_experts",
		"skewed_experts",    "host_bound",      "padding",
		"speculation_costs", "dense_bound",     "kv_bound",
		"compute_bound",     "smbu_impossible",
	};
	static const double numbers[] = { 1e-9, 1, 1.5, 1e7, 1e300, INFINITY };
	struct finding_facts all = all_at(1e300);

	(void)state;
	assert_true(finding_rules(&all, found) <= SNAPSHOT_FINDINGS_MAX);
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		for (unsigned j = 0; j < 6; j++) {
			struct finding_facts a = all_at(numbers[j]);
			const struct finding *n;

			/* what must be small for some rule to fire */
			if (strcmp(rules[i], "per_row_reads") == 0 ||
			    strcmp(rules[i], "kernel_floor") == 0)
				a.tokens = 8;
			if (strcmp(rules[i], "skewed_experts") == 0)
				a.effective = numbers[j] / 4;
			if (strcmp(rules[i], "straggler_experts") == 0)
				a.ridge_rows = 37;
			if (strcmp(rules[i], "speculation_costs") == 0)
				a.kept = 0.5 * fmin(numbers[j], 1e299);
			if (strcmp(rules[i], "kv_bound") == 0)
				a.regime = REGIME_KV;
			if (strcmp(rules[i], "compute_bound") == 0)
				a.regime = REGIME_COMPUTE;
			if (strcmp(rules[i], "valley_far") == 0)
				a.side = SIDE_FAR;
			a.merge = j % 2 ? 8 : NAN;
			a.exit_cost_ratio = a.merge_cost_ratio = 0.5;
			n = find(&a, rules[i]);
			if (n)
				fits(n);
			else
				assert_true(numbers[j] < 2 ||
					    isinf(numbers[j]));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_found_in_nothing),
		cmocka_unit_test(near_side_merges_only_past_the_exit),
		cmocka_unit_test(far_side_adds_load),
		cmocka_unit_test(roofs_by_the_regime),
		cmocka_unit_test(more_than_the_peak_is_wrong),
		cmocka_unit_test(experts_read_once_per_row),
		cmocka_unit_test(kernels_far_from_their_floor),
		cmocka_unit_test(drafts_that_cost_more_than_they_save),
		cmocka_unit_test(ranks_out_of_balance),
		cmocka_unit_test(experts_that_set_the_pace),
		cmocka_unit_test(skew_is_said),
		cmocka_unit_test(host_that_is_late),
		cmocka_unit_test(padded_steps),
		cmocka_unit_test(dense_weights_that_dominate),
		cmocka_unit_test(warnings_and_gains_come_first),
		cmocka_unit_test(sentences_keep_their_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
