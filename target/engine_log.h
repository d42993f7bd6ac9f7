/*
 * engine_log.h - what the log of a server says of its configuration
 *
 * Some choices are told nowhere else: the MoE backend that was chosen, the
 * batch sizes that were captured.  The lines are vLLM's and SGLang's, of
 * releases from 2024 to 2026.  What a line does not say for sure stays unknown:
 * sizes of a list that is cut, the width of an expert by the name of a tuning
 * file, a balancedness that was computed wrong.  No I/O.
 */
#ifndef MOETOP_TARGET_ENGINE_LOG_H
#define MOETOP_TARGET_ENGINE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum engine_log_known { ENGINE_LOG_UNKNOWN, ENGINE_LOG_NO, ENGINE_LOG_YES };

struct engine_log {
	char engine[16];  /* whose lines they are, "" not known */
	char version[24]; /* of the banner or the first lines */
	char model[256];
	char architecture[64]; /* "DeepseekV2ForCausalLM" */
	char dtype[16];
	char device[16];       /* "cuda", "cpu" */
	char moe_backend[48];  /* "triton", "marlin W4A16" */
	char tuned_config[96]; /* of the Triton kernels; "default": none fits */
	uint32_t experts;      /* by the name of that file; 0 unknown */

	enum engine_log_known captured; /* CUDA graphs */
	char capture_sizes[512];        /* "1, 2, 4, ..."; "" not told */
	bool capture_cut;               /* the list goes on */
	uint32_t capture_max;           /* the largest one told; 0 */

	/* the newest line about the load; NAN unknown */
	double running, waiting, tokens_per_s, kv_share;
	enum engine_log_known cuda_graph; /* of that batch */

	double balancedness; /* of expert load, mean over max; NAN unknown */
	bool balancedness_trusted;
	uint64_t lines;
};

void engine_log_init(struct engine_log *l);

/* Any bytes; lines end in LF, CR (of progress bars) or at the end.  May be
 * called again with more, cut at lines. */
void engine_log_add(struct engine_log *l, const char *text, size_t bytes);

#endif
