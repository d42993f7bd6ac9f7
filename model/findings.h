/*
 * findings.h - what a person should know, in the order of importance
 *
 * valley_near, valley_far	the regime; gain: cost per token saved at the
 *				batch where s1 falls to 0.1
 * kv_bound, compute_bound	the regime
 * host_bound			> 0.3 of the step no kernel runs; gain: that share
 * padding			padded rows over real rows > 1.3
 * smbu_impossible		S-MBU > 1.02: the model config, the GPU or the
 *				routing input is wrong
 *
 * A gain is a limit: of a step, only the reads of weights and the arithmetic
 * are taken to grow with the load, KV reads and communication are not.
 *
 * A finding has numbers as evidence and one sentence that says what they mean.
 * The verdict is three lines for the first screen, "" where there is nothing to
 * say.
 */
#ifndef MOETOP_MODEL_FINDINGS_H
#define MOETOP_MODEL_FINDINGS_H

#include "model/state.h"

/* Both read the metrics and the regime in *out, which must be filled. */
void findings_fill(const struct model *m, const struct evidence *e,
		   const struct figures *f, struct snapshot *out);
void verdict_fill(const struct evidence *e, const struct figures *f,
		  const struct arch *arch, struct snapshot *out);

#endif
