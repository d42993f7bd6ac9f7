/*
 * cmdline.h - what a server's command line says
 *
 * Knows how vLLM, SGLang, TensorRT-LLM and moetop-sim are started and which
 * of their options matter here; see options[] in cmdline_options.c.  No I/O.
 */
#ifndef MOETOP_TARGET_CMDLINE_H
#define MOETOP_TARGET_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/launch.h"

#define OVERRIDES_MAX 2048u

/* What a process with such a command line does. */
enum cmdline_role {
	CMDLINE_SERVER,    /* starts a server, and all its processes */
	CMDLINE_FRONT_END, /* speaks HTTP for a server that another started */
	CMDLINE_WORKERS,   /* starts workers and no HTTP server (--headless) */
};

/* Counts: 1 when not given, 0 when given but not a number in 1..65536. */
struct cmdline {
	char engine[16];  /* "vllm", "sglang", "trtllm" */
	char version[24]; /* "simulated", or "" */
	enum cmdline_role role;
	bool simulated;  /* moetop-sim: it plays the engine */
	bool embedded;   /* the engine runs inside another program */
	char model[256]; /* as given: a path or ORG/NAME; "" none */
	char served[96]; /* --served-model-name, the first one */
	char revision[96];
	char download_dir[256];
	char hf_config_path[256];
	char config_file[256]; /* more options: YAML; moetop-sim --scenario */
	char uds[108];         /* listens on this path and on no port */
	char gpu[48];          /* moetop-sim --gpu */
	char host[64];         /* it listens there; "" all, or not given */
	uint32_t port;         /* --port or the engine's default; 0: none */
	bool port_given;
	uint32_t tp, pp;
	uint32_t dp;
	uint32_t ep; /* GPUs that share the experts of one layer */
	uint32_t dcp;
	bool dp_attention;   /* SGLang: dp lies inside tp */
	bool one_rank_of_dp; /* the other ranks are servers of their own */
	uint32_t dp_rank;    /* where one_rank_of_dp */
	uint32_t nodes, node_rank;
	uint32_t gpus; /* of all nodes and ranks together; 0: not known */
	uint32_t api_servers; /* processes that share the port */
	bool ray;             /* workers are actors, not descendants */
	bool no_weights;      /* --load-format dummy */
	bool tls;
	double kv_element_bytes; /* of the KV cache, where told; 0: not */
	bool expert_parallel;    /* asked for without a number */
	/* what is to be changed in config.json: a JSON object, "" none */
	char overrides[OVERRIDES_MAX];
	bool overrides_unknown; /* there are some that cannot be told */
	struct launch launch;
	uint64_t given; /* bits of options seen, for cmdline_yaml */
};

/*
 * args is the content of /proc/PID/cmdline: arguments separated by NUL.
 * 0, or -ENOENT when it starts no inference server (a shell, a benchmark, a
 * worker that has changed its title); *out is unchanged then.
 */
int cmdline_parse(const char *args, size_t bytes, struct cmdline *out);

/* Of a program that starts an engine in itself, c->engine: the options that it
 * may share with the engine's own launcher, and no default port. */
void cmdline_embedded(const char *args, size_t bytes, struct cmdline *c);

/* Add more arguments, options only; what was given before stays.  0, -ENOMEM. */
int cmdline_add(struct cmdline *c, const char *args, size_t bytes);

/*
 * Add what a YAML file of options says ("key: value" lines, and those one level
 * below a key); what the command line gave stays.
 */
void cmdline_yaml(struct cmdline *c, const char *text, size_t bytes);

/* Add what the server's environment says, "NAME=value" separated by NUL;
 * what the command line gave stays. */
void cmdline_environ(struct cmdline *c, const char *text, size_t bytes);

/*
 * A name of the model for people: "ORG/NAME" as it is; of a path the last part,
 * of a path into a Hugging Face cache the repository.  "" when unknown.
 */
void cmdline_model_name(const struct cmdline *c, char *out, size_t room);

/*
 * The engine whose worker process gave itself this title ("VLLM::Worker_TP0",
 * "sglang::scheduler"), or NULL.  title.h tells more.
 */
const char *cmdline_worker(const char *args, size_t bytes);

#endif
