/*
 * engine_info.h - what a server tells of its configuration, over HTTP
 *
 * Pages that only report: never a POST, never one that makes the engine work.
 * They are read once.  Each names the engines that have it:
 *
 *	/version	vLLM's release
 *	/v1/models	name and path of the model, context length
 *	/model_info	SGLang: path of the model (older: /get_model_info)
 *	/server_info	SGLang: its arguments, as they came to be (older:
 *			/get_server_info); vLLM: the same, where
 *			VLLM_SERVER_DEV_MODE is set
 *
 * Only the keys of the table in engine_info.c are kept: a server's arguments
 * may hold secrets.  No I/O here.
 */
#ifndef MOETOP_TARGET_ENGINE_INFO_H
#define MOETOP_TARGET_ENGINE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/launch.h"

struct engine_info {
	char engine[16];          /* that said so itself; "" not known */
	char version[24];         /* "" unknown, like the next two */
	char model[96];           /* the name that requests use */
	char model_path[256];     /* as the server was told */
	uint32_t context_tokens;  /* 0 unknown */
	uint32_t tp, pp, dp, ep;  /* 0 unknown */
	struct launch launch;     /* what it runs with, defaults left out */
	char capture_sizes[1024]; /* all of them, "[1,2,4]"; "" unknown */
};

struct engine_info_page {
	const char *path;
	const char *engine;  /* whose page it is; NULL any */
	const char *instead; /* the older name of the same; NULL none */
};

/* In the order to be asked in; ends with path NULL. */
extern const struct engine_info_page engine_info_pages[];

/* Add what the body of a page says.  0, or -EPROTO when it is not the JSON
 * object that it should be; *i is then as it was. */
int engine_info_add(struct engine_info *i, const struct engine_info_page *page,
		    const char *body, size_t bytes);

#endif
