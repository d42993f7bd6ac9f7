/*
 * title.h - the name that a process of a server gave itself
 *
 * vLLM's and SGLang's processes overwrite their arguments, and with them their
 * environment, by a title: "VLLM::Worker_TP0_EP0", "sglang::scheduler_DP1_TP1".
 * A title may be padded with blanks or NULs, cut where the arguments were
 * shorter ("VLLM::En", "VLLMWorker_TP"), or be known only by the 15 characters
 * of /proc/PID/comm.  It is a hint: whoever owns a GPU or listens is told by
 * descriptors (ranks.h, sockets.h).  No I/O.
 */
#ifndef MOETOP_TARGET_TITLE_H
#define MOETOP_TARGET_TITLE_H

#include <stdbool.h>
#include <stddef.h>

enum title_role {
	TITLE_RANK,    /* runs the model on a GPU: a worker, a scheduler */
	TITLE_CORE,    /* vLLM's engine core: on the GPU if it has no workers */
	TITLE_HTTP,    /* accepts requests: an API server, a tokenizer worker */
	TITLE_HELPER,  /* detokenizer, router, coordinator, controller */
	TITLE_UNKNOWN, /* of the engine; cut before it says what */
};

struct title {
	const char *engine; /* "vllm", "sglang" */
	enum title_role role;
	int dp, pp, tp, ep; /* places in these groups; -1 not told */
	int gpu;            /* "scheduler_gpu1_tp1"; -1 not told */
	bool ray;           /* an actor of Ray: no descendant of its server */
	bool cut;
	bool foreign; /* of a prefix of its own (VLLM_PROCESS_NAME_PREFIX):
			 believe it below a server only */
};

/* args: content of /proc/PID/cmdline.  0, or -ENOENT when it is no title;
 * *out is unchanged then. */
int title_parse(const char *args, size_t bytes, struct title *out);

/* The same from /proc/PID/comm, for a process whose arguments are empty. */
int title_parse_comm(const char *comm, struct title *out);

/* n of the part "_<NAME>n" of a title, in upper or lower case, or -1. */
int title_part(const char *title, const char *name);

#endif
