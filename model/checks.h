/*
 * checks.h - our numbers against what the engine says of itself
 *
 * A check compares two independent numbers for one thing.  They differ for a
 * moment for many reasons (one is older, a batch ends), so a state changes only
 * after CHECKS_SAMPLES new reports of the engine in a row that all say the
 * same.  The names and what may differ are one table, in checks.c:
 *
 *	in_flight	requests that we see in flight; running + waiting
 *	running		of those in flight, at least those that stream;
 *			running
 *	waiting		at most those without a body byte; waiting
 *	tokens_per_second
 *			B times steps; generated tokens by its counters
 *	padded_size	tokens of a replayed step; the smallest captured batch
 *			size that holds its running requests
 *	mfu_ratio, mbu_ratio
 *			ours; its estimate of one GPU's operations and bytes
 *			over the same peaks
 *	ttft_seconds	mean time to the first body byte; to the first token
 *
 * What we only know to lie between two bounds is shown as the value between
 * them that is nearest to the engine's.
 */
#ifndef MOETOP_MODEL_CHECKS_H
#define MOETOP_MODEL_CHECKS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/hw.h"
#include "model/sample.h"
#include "model/snapshot.h"

#define CHECKS_SAMPLES 3u

/* What the engine says; NAN what it does not. */
struct engine_claims {
	uint64_t report; /* grows with each new one; 0 none yet */
	bool fresh;
	char engine[16];
	double running, waiting;         /* requests */
	double tokens_per_s;             /* generated */
	double flops_per_s, bytes_per_s; /* its estimate, of one GPU */
	double ttft_s;                   /* mean, of the last seconds */
	double batch; /* captured size for what runs, NAN unknown */
};

enum check_id {
	CHECK_IN_FLIGHT,
	CHECK_RUNNING,
	CHECK_WAITING,
	CHECK_TOKENS,
	CHECK_PADDED,
	CHECK_MFU,
	CHECK_MBU,
	CHECK_TTFT,
	CHECK_IDS
};
_Static_assert(CHECK_IDS <= SNAPSHOT_CHECKS_MAX, "all checks are shown");

/* All zero at first. */
struct checks {
	uint64_t report; /* the last one compared */
	struct {
		enum check_state state, next; /* next: what the streak is of */
		unsigned streak;
	} list[CHECK_IDS];
};

/*
 * Fill s->checks from s, which model_update has filled, and add a finding for
 * the first check that differs, other than an estimate.  gpu may be NULL.
 */
void checks_update(struct checks *c, const struct engine_claims *claims,
		   const struct sample *in, const struct gpu *gpu,
		   struct snapshot *s);

/* "in_flight", ... and what may be off: a share of the larger one, and as much
 * in its unit whatever the share is. */
const char *check_name(enum check_id id);
double check_tolerance_ratio(enum check_id id);
double check_tolerance_least(enum check_id id);

/* The smallest of the sizes that holds n; NAN none does.  sizes as text, apart
 * by anything that is no digit. */
double checks_batch(const char *sizes, double n);

#endif
