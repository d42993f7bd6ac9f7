/* What findings say to people: short enough for one row of an 80-column screen,
 * whatever the numbers are. */
#include "model/findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* NAN when the finding does not cite it. */
static double of(const struct finding *n, const char *key)
{
	for (unsigned i = 0; i < n->n_evidence; i++)
		if (strcmp(n->evidence[i].key, key) == 0)
			return n->evidence[i].v;
	return NAN;
}

static double percent(const struct finding *n, const char *key)
{
	return fmin(of(n, key) * 100, 999);
}

/* Of a factor, that it stays short. */
static double times(const struct finding *n, const char *key)
{
	return fmin(of(n, key), 999);
}

/* Of a batch or a count. */
static double count(const struct finding *n, const char *key)
{
	return fmin(of(n, key), 99999999);
}

static double exit_of(const struct finding *n)
{
	double known = count(n, "exit_tokens_per_step");

	/* fmin takes the other for a NAN */
	return isnan(of(n, "exit_tokens_per_step"))
		       ? count(n, "exit_tokens_at_least")
		       : known;
}

static void say_near(const struct finding *n, char *text, size_t bytes)
{
	double merge = of(n, "merge_servers");

	if (merge >= 2)
		snprintf(text, bytes,
			 "Merge %.0f such servers: experts are shared from B = "
			 "%.0f.",
			 merge, exit_of(n));
	else
		snprintf(text, bytes,
			 "Shared from B = %.0f on: add load, or spread for "
			 "speed.",
			 exit_of(n));
}

static void say_far(const struct finding *n, char *text, size_t bytes)
{
	double merge = of(n, "merge_servers");

	if (merge >= 2)
		snprintf(text, bytes,
			 "Add load, or merge %.0f like it: shared from B = "
			 "%.0f on.",
			 merge, exit_of(n));
	else
		snprintf(text, bytes,
			 "Add load: experts are shared from B = %.0f on.",
			 exit_of(n));
}

static void say_host(const struct finding *n, char *text, size_t bytes)
{
	double launches = of(n, "launches_per_step");

	if (launches > 0)
		snprintf(
			text, bytes,
			"Idle %.0f %% of a step, %.0f launches in it: use CUDA "
			"graphs.",
			percent(n, "idle_ratio"), fmin(launches, 99999));
	else
		snprintf(text, bytes,
			 "No kernel runs for %.0f %% of a step: the host is "
			 "late.",
			 percent(n, "idle_ratio"));
}

static void say_balance(const struct finding *n, char *text, size_t bytes)
{
	bool helps = of(n, "eplb_helps") > 0;

	snprintf(text, bytes, "The slowest rank adds %.0f %%: %s.",
		 percent(n, "straggler_share_ratio"),
		 helps ? "its rows; EPLB would help"
		       : "by chance; EPLB would not help");
}

static void say_dense(const struct finding *n, char *text, size_t bytes)
{
	if (value_known(n->gain))
		snprintf(text, bytes,
			 "Dense weights are %.0f %% of the bytes: FP8 would "
			 "halve them.",
			 percent(n, "dense_bytes_ratio"));
	else
		snprintf(text, bytes,
			 "Dense weights (attention, shared experts, head) are "
			 "%.0f %% of the bytes.",
			 percent(n, "dense_bytes_ratio"));
}

static void say_per_row(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "Each row reads its expert anew: %.1f reads of each, not 1.",
		 times(n, "reads_per_active_expert"));
}

static void say_floor(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "Expert kernels take %.1f x their read time: try a GEMV.",
		 times(n, "kernel_over_floor_ratio"));
}

static void say_speculation(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "Drafts cost more than they save: %.1f verified, %.1f kept.",
		 times(n, "verified_tokens"), times(n, "kept_tokens"));
}

static void say_straggler(const struct finding *n, char *text, size_t bytes)
{
	snprintf(
		text, bytes,
		"The fullest expert has %.0f rows, %.1f x its due: it sets the "
		"pace.",
		count(n, "max_rows"), times(n, "excess_imbalance_ratio"));
}

static void say_skew(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "Rows go to %.0f of %.0f experts in effect: a longer "
		 "valley.",
		 count(n, "effective_experts"), count(n, "experts"));
}

static void say_padding(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "Steps are padded %.1f times: capture a CUDA graph nearer "
		 "B = %.0f.",
		 times(n, "padded_over_real_ratio"),
		 count(n, "tokens_per_step"));
}

static void say_kv(const struct finding *n, char *text, size_t bytes)
{
	snprintf(
		text, bytes,
		"The KV cache takes %.0f %% of a step: shorter contexts or FP8 "
		"help.",
		percent(n, "kv_share_ratio"));
}

static void say_compute(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "Arithmetic takes %.0f %% of a step: the weights are well "
		 "shared.",
		 percent(n, "compute_share_ratio"));
}

static void say_impossible(const struct finding *n, char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "S-MBU of %.0f %% cannot be: config, GPU or number of GPUs is "
		 "wrong.",
		 percent(n, "useful_mbu_ratio"));
}

void finding_words(const struct finding *n, char *text, size_t bytes)
{
	static const struct {
		const char *rule;
		void (*say)(const struct finding *n, char *text, size_t bytes);
	} table[] = {
		{ "valley_near", say_near },
		{ "valley_far", say_far },
		{ "per_row_reads", say_per_row },
		{ "kernel_floor", say_floor },
		{ "speculation_costs", say_speculation },
		{ "ep_imbalance", say_balance },
		{ "straggler_experts", say_straggler },
		{ "skewed_experts", say_skew },
		{ "host_bound", say_host },
		{ "padding", say_padding },
		{ "dense_bound", say_dense },
		{ "kv_bound", say_kv },
		{ "compute_bound", say_compute },
		{ "smbu_impossible", say_impossible },
	};

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(n->rule, table[i].rule) == 0)
			table[i].say(n, text, bytes);
}
