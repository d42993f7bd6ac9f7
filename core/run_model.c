#include "core/run_model.h"
#include "core/say.h"
#include "target/cmdline.h"
#include "target/config.h"
#include "target/model_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPERTS "MOETOP_EXPERTS"
#define TOP_K "MOETOP_TOP_K"

/* The words as /proc/PID/cmdline has them; NULL: no memory.  To be freed. */
static char *join(char *const argv[], size_t *bytes)
{
	char *text, *to;
	size_t n = 0;

	for (unsigned i = 0; argv[i]; i++)
		n += strlen(argv[i]) + 1;
	text = to = malloc(n + 1);
	for (unsigned i = 0; text && argv[i]; i++)
		to = stpcpy(to, argv[i]) + 1;
	*bytes = n;
	return text;
}

/* The first words that start a server: others start those. */
static int find_server(char *const argv[], struct cmdline *out)
{
	size_t bytes, at = 0;
	char *text = join(argv, &bytes);
	int err = text ? -ENOENT : -ENOMEM;

	while (err == -ENOENT && at < bytes) {
		err = cmdline_parse(text + at, bytes - at, out);
		at += strlen(text + at) + 1;
	}
	free(text);
	return err;
}

static int read_arch(const struct cmdline *c, struct arch *out, char *why,
		     size_t why_bytes)
{
	struct config_file f;
	int err = config_file_find(getpid(), c, &f);

	if (err) {
		snprintf(why, why_bytes,
			 err == -ENOENT ? "no config.json of %.100s is here yet"
					: "the config.json of %.100s cannot "
					  "be read",
			 c->model[0] ? c->model : "its model");
		return err;
	}
	err = model_config_parse(f.json, f.json_bytes, f.quant, f.quant_bytes,
				 out, why, why_bytes);
	config_file_free(&f);
	return err;
}

int run_model_find(char *const argv[], uint32_t *experts, uint32_t *top_k,
		   char *why, size_t why_bytes)
{
	struct cmdline c;
	struct arch arch;
	int err = find_server(argv, &c);

	if (err) {
		snprintf(why, why_bytes, "%.60s starts no server that is known",
			 argv[0]);
		return err;
	}
	if (strcmp(c.engine, "trtllm") && strcmp(c.engine, "sglang"))
		return 1;
	err = read_arch(&c, &arch, why, why_bytes);
	if (err)
		return err;
	if (!arch_is_moe(&arch))
		return 1;
	*experts = arch.experts;
	*top_k = arch.top_k;
	return 0;
}

static int set_number(const char *name, uint32_t n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	return setenv(name, text, 0) ? -ENOMEM : 0;
}

int run_model_tell(char *const argv[])
{
	uint32_t experts = 0, top_k = 0;
	char why[256] = "";
	int err;

	if (getenv(EXPERTS) && getenv(TOP_K))
		return 0;
	err = run_model_find(argv, &experts, &top_k, why, sizeof(why));
	if (err < 0)
		say(STATUS_OK,
		    "--rows=exact: %s: graphs whose kernels do not tell the "
		    "experts (TensorRT-LLM's, SGLang's DeepGEMM) will have no "
		    "exact rows; set " EXPERTS " and " TOP_K,
		    why);
	if (err)
		return 0;
	err = set_number(EXPERTS, experts);
	return err ? err : set_number(TOP_K, top_k);
}
