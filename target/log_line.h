/*
 * log_line.h - what a line of an engine's log says
 *
 * Engines print some facts once and nowhere else: the kernels that they chose
 * for the experts, the batch sizes that they captured.  A line is matched by its
 * words, wherever its prefix (time, process, rank, colours, a banner drawn with
 * blocks) ends.  What a line does not say stays as it is.  No I/O.
 *
 * Not taken: N of a tuned kernel's file name (of quantised weights it is that
 * of the packed ones, no width of an expert), pids (they are the container's).
 */
#ifndef MOETOP_TARGET_LOG_LINE_H
#define MOETOP_TARGET_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_facts {
	char engine[16]; /* "vllm", "sglang"; "" cannot be told */
	char version[24];
	char model[256];
	char architecture[64]; /* "DeepseekV2ForCausalLM" */
	char moe_backend[48];  /* "FLASHINFER_CUTLASS", "marlin WNA16" */
	char attention_backend[32];
	char device[48];  /* GPU that a kernel was to be tuned for */
	uint32_t experts; /* of a MoE layer; 0 not said */
	bool graphs;      /* CUDA graphs are captured */
	/* the batch sizes, "[1, 2, 4]", of which sizes_cut says that there are
	 * more; "" not said */
	char sizes[256];
	bool sizes_cut;
	uint32_t port;
	double running, waiting; /* requests; NAN not said */
	double kv_tokens;        /* room in the KV cache; NAN not said */
	/* mean over maximal load of the ranks; NAN not said.  vLLM's own figure
	 * was reduced over layers in place of ranks until August 2026: it is
	 * not trusted, unless the tokens beside it give it anew. */
	double balancedness;
	bool balancedness_trusted;
};

void log_facts_init(struct log_facts *f); /* nothing said */

/* One line, without its end.  True when it said something. */
bool log_line_read(const char *line, size_t bytes, struct log_facts *f);

#endif
