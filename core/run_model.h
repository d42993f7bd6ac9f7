/*
 * run_model.h - what the agent must know of a model before its server starts
 *
 * Exact rows are placed in graphs while they are captured, when no collector has
 * told the agent anything yet.  Kernels of TensorRT-LLM, and of SGLang's
 * DeepGEMM path, do not say how many experts there are and how many a token
 * takes; the model's config does, where the command names it.
 */
#ifndef MOETOP_CORE_RUN_MODEL_H
#define MOETOP_CORE_RUN_MODEL_H

#include <stddef.h>
#include <stdint.h>

/*
 * The command is argv, or a server started by it ("numactl ... trtllm-serve ...");
 * its model is looked for with our own environment and working directory.
 * 0 and both numbers; 1 they are not needed; -errno with one line in why.
 */
int run_model_find(char *const argv[], uint32_t *experts, uint32_t *top_k,
		   char *why, size_t why_bytes);

/* Put them into the environment, MOETOP_EXPERTS and MOETOP_TOP_K, unless they are
 * there; says so where they cannot be told.  0 or -ENOMEM. */
int run_model_tell(char *const argv[]);

#endif
