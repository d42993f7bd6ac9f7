/*
 * config.h - where a server's config.json is, seen from outside
 *
 * Looked for in the server's own file system (/proc/PID/root, which symbolic
 * links cannot leave), first match:
 *
 *	1. --hf-config-path, a directory or a file
 *	2. the model argument, if it is a directory or a .json file
 *	3. the Hugging Face cache: --download-dir, HF_HUB_CACHE,
 *	   HUGGINGFACE_HUB_CACHE, HF_HOME/hub, TRANSFORMERS_CACHE,
 *	   XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub;
 *	   snapshot of refs/REVISION, or REVISION itself, or the only
 *	   snapshot there is
 *	4. the ModelScope cache: MODELSCOPE_CACHE, ~/.cache/modelscope
 *
 * The environment is the server's, as it was when it started.  What may not be
 * seen is taken to be as it is here: the root, the working directory.
 */
#ifndef MOETOP_TARGET_CONFIG_H
#define MOETOP_TARGET_CONFIG_H

#include <stddef.h>
#include <sys/types.h>

#include "target/cmdline.h"

struct config_file {
	char path[256];   /* in the server's file system */
	char origin[128]; /* in words: "Hugging Face cache of the server" */
	char *json;       /* owned; config_file_free */
	size_t json_bytes;
	char *quant; /* hf_quant_config.json beside it, or NULL; owned */
	size_t quant_bytes;
};

/*
 * -ENOENT not found, -EACCES the server's files may not be seen, -EFBIG,
 * -errno.  On error *out is unchanged.
 */
int config_file_find(pid_t pid, const struct cmdline *c,
		     struct config_file *out);

void config_file_free(struct config_file *f); /* all zero is legal */

/*
 * One regular file of the server, at most max bytes, with a NUL behind it.  A
 * relative path starts in the server's working directory.  *data is owned by
 * the caller.  0, -ENOENT, -EACCES, -EFBIG, -EINVAL not a file, -errno.
 */
int server_file_load(pid_t pid, const char *path, size_t max, char **data,
		     size_t *bytes);

#endif
