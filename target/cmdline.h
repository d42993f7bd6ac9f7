/*
 * cmdline.h - what a server's command line says
 *
 * Knows how vLLM, SGLang, TensorRT-LLM and moetop-sim are started and which
 * of their options matter here; see options[] in cmdline.c.  No I/O.
 */
#ifndef MOETOP_TARGET_CMDLINE_H
#define MOETOP_TARGET_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts: 1 when not given, 0 when given but not a number in 1..65536. */
struct cmdline {
	char engine[16];  /* "vllm", "sglang", "trtllm" */
	char version[24]; /* "simulated", or "" */
	bool simulated;   /* moetop-sim: it plays the engine */
	char model[256];  /* as given: a path or ORG/NAME; "" none */
	char served[96];  /* --served-model-name, the first one */
	char revision[96];
	char download_dir[256];
	char hf_config_path[256];
	char config_file[256]; /* more options: YAML; moetop-sim --scenario */
	char uds[108];         /* listens on this path and on no port */
	char gpu[48];          /* moetop-sim --gpu */
	uint32_t port;         /* --port or the engine's default; 0: none */
	bool port_given;
	uint32_t tp, pp;
	uint32_t dp;
	uint32_t ep; /* GPUs that share the experts of one layer */
	uint32_t node_rank;
	double kv_element_bytes; /* of the KV cache, where told; 0: not */
	bool expert_parallel;    /* asked for without a number */
	bool config_overridden;  /* options change what config.json says */
	uint32_t given;          /* bits of options seen, for cmdline_yaml */
};

/*
 * args is the content of /proc/PID/cmdline: arguments separated by NUL.
 * 0, or -ENOENT when it starts no inference server (a shell, a benchmark, a
 * worker that has changed its title); *out is unchanged then.
 */
int cmdline_parse(const char *args, size_t bytes, struct cmdline *out);

/* Add more arguments, options only; what was given before stays.  0, -ENOMEM. */
int cmdline_add(struct cmdline *c, const char *args, size_t bytes);

/*
 * Add what a YAML file of options says (flat "key: value" lines); what the
 * command line gave stays.
 */
void cmdline_yaml(struct cmdline *c, const char *text, size_t bytes);

/*
 * A name of the model for people: "ORG/NAME" as it is; of a path the last part,
 * of a path into a Hugging Face cache the repository.  "" when unknown.
 */
void cmdline_model_name(const struct cmdline *c, char *out, size_t room);

/*
 * The engine whose worker process gave itself this title ("VLLM::Worker_TP0",
 * "sglang::scheduler"), or NULL.
 */
const char *cmdline_worker(const char *args, size_t bytes);

#endif
