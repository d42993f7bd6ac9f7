/*
 * findings.h - what a person should know, in the order of importance
 *
 * Three steps, apart from one another: facts are gathered from an update, rules
 * judge the facts, words say what a rule found from its evidence alone.
 *
 *	rule			found when			gain
 *	smbu_impossible		S-MBU > 1.02, U measured
 *	valley_near, _far	the regime; merging N servers	cost per token saved
 *				passes the exit, or not		by that, or there
 *	per_row_reads		B <= 32, R/U > 1.2: each expert	the reads that are
 *				is read about R/U times		too many
 *	kernel_floor		B <= 8: expert kernels take >	what 0.85 of the
 *				2 x U w / data-sheet bandwidth	bandwidth would save
 *	speculation_costs	tokens kept per request < T /	cost per token saved
 *				T with one token per request	without drafts
 *	ep_imbalance		slowest rank > 0.15 above the	EPLB helps: its part
 *				mean; EPLB helps when rows, not	of the step
 *				active experts, differ
 *	straggler_experts	fullest expert's rows > ridge
 *				and 1.5 x those of chance
 *	host_bound		> 0.3 of a step no kernel runs	that share
 *	padding			rows or tokens padded > 1.3 x
 *	dense_bound		dense weights > 0.5 of a step's	half of it where they
 *				bytes, and not bound elsewhere	have > 1.5 bytes each
 *	kv_bound, compute_bound	the regime
 *	skewed_experts		N2/E < 0.6
 *
 * The thresholds stand in one table in finding_rules.c.  A gain is the share of
 * the cost per token that could be saved, a limit rather than a promise.
 *
 * The verdict is three lines for the first screen, "" where there is nothing to
 * say.  At 80 columns each fits two rows of 76, a finding one of 74, or of 60
 * with a gain beside it.
 *
 * Sources: the rules are those of the research notes on the batch valley; EPLB
 * after the occupancy of ranks (balance.h); the low-batch rules after published
 * kernel times, 3.6 x the floor at B = 1 on H100.
 */
#ifndef MOETOP_MODEL_FINDINGS_H
#define MOETOP_MODEL_FINDINGS_H

#include "model/state.h"

#define FINDING_COLUMNS 74u      /* of a sentence */
#define FINDING_GAIN_COLUMNS 60u /* beside a gain */
#define VERDICT_COLUMNS 76u      /* of a row of the verdict */
#define VERDICT_ROWS 2u          /* of each of its lines */

/* What rules look at; NAN: not known. */
struct finding_facts {
	enum regime regime;
	enum side side;
	bool uniform;  /* exit_tokens is that of uniform routing: at least */
	double tokens; /* B */
	double single_ratio;                          /* s1 */
	double expert_share, kv_share, compute_share; /* sigmas */
	double exit_tokens, exit_cost_ratio;
	/* servers like this one that, merged, pass the exit; cost per token
	 * then, over now; whichever of 2, 4, 8 is the least */
	double merge, merge_cost_ratio;
	double useful_mbu; /* S-MBU with U measured */
	double idle_ratio; /* of step time */
	double launches;   /* of the host, per decode step */
	double padded_ratio;
	double expert_time_ratio; /* of step time, expert kernels */
	double floor_ratio;       /* their time over that of U w at the peak */
	double reads_per_expert;  /* DRAM reads of experts over U w */
	double rows_per_active;   /* R/U */
	double straggler;         /* slowest rank over the mean, - 1 */
	double rank_active;       /* I_U */
	double excess_imbalance, max_rows, ridge_rows;
	double verified, kept;   /* tokens per request and step */
	double draft_step_ratio; /* T over T with one token per request */
	double dense_ratio;      /* of a step's bytes */
	double dense_bytes_per_weight;
	double experts, effective; /* E, N2 */
};

/* All fields NAN, nothing known. */
void finding_facts_clear(struct finding_facts *a);

/* Judge; at most SNAPSHOT_FINDINGS_MAX findings, sorted, without text.  Returns
 * their number. */
unsigned finding_rules(const struct finding_facts *a, struct finding *out);

/* The sentence of a rule, from its evidence; "" for a rule that is not known. */
void finding_words(const struct finding *n, char *text, size_t bytes);

/* Both read the metrics, what-ifs and the regime in *out, which must be
 * filled. */
void findings_fill(const struct model *m, const struct evidence *e,
		   const struct figures *f, const struct arch *arch,
		   struct snapshot *out);
void verdict_fill(const struct evidence *e, const struct figures *f,
		  const struct arch *arch, struct snapshot *out);

#endif
