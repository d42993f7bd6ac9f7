#include "target/cmdline_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_ 64u

/* "key: value  # comment"; false for what is no such line.  *value may be "". */
static bool yaml_line(char *line, const char **key, const char **value)
{
	char *colon = strchr(line, ':'), *v, *end;

	if (!colon || !isalpha((unsigned char)*line))
		return false;
	*colon = '\0';
	v = colon + 1 + strspn(colon + 1, " \t");
	if (*v == '"' || *v == '\'') {
		end = strchr(v + 1, *v);
		v++;
	} else {
		end = *v == '#' ? v : strstr(v, " #");
	}
	if (!end)
		end = v + strlen(v);
	*end = '\0';
	while (end > v && isspace((unsigned char)end[-1]))
		*--end = '\0';
	*key = line;
	*value = v;
	return true;
}

/* One line of the file; above: the key that it may lie below, "" none. */
static void take_line(struct cmdline *c, char *line, char above[NAME_MAX_],
		      uint64_t stay)
{
	unsigned engine = engine_bit(c->engine);
	size_t indent = strspn(line, " ");
	char name[2 * NAME_MAX_ + 4];
	const char *key, *value;

	if (indent == 0 && !isspace((unsigned char)*line) && *line != '-')
		above[0] = '\0';
	if (!yaml_line(line + indent, &key, &value))
		return;
	if (indent == 0 && !*value) {
		snprintf(above, NAME_MAX_, "%.63s", key);
		return;
	}
	if ((indent > 0 && !above[0]) || strlen(key) >= NAME_MAX_ || !*value)
		return;
	snprintf(name, sizeof(name), "--%s%s%s", indent ? above : "",
		 indent ? "." : "", key);
	options_set(c, engine, name, value, stay);
}

void cmdline_yaml(struct cmdline *c, const char *text, size_t bytes)
{
	const char *end = text + bytes;
	uint64_t stay = c->given;
	char line[1024], above[NAME_MAX_] = "";

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((eol ? eol : end) - text);

		if (n < sizeof(line)) {
			memcpy(line, text, n);
			line[n] = '\0';
			take_line(c, line, above, stay);
		}
		text = eol ? eol + 1 : end;
	}
	options_settle(c);
}

/* ---- the environment ---------------------------------------------------- */

/* Variables that stand for an option, and those that are shown. */
static const struct variable {
	const char *name, *option;
	enum launch_id show;
	const char *when_on; /* shown in place of "1" */
} variables[] = {
	{ "VLLM_ATTENTION_BACKEND", "--attention-backend", LAUNCH_IDS, NULL },
	{ "VLLM_ALL2ALL_BACKEND", "--all2all-backend", LAUNCH_IDS, NULL },
	{ "VLLM_DP_RANK", "--data-parallel-rank", LAUNCH_IDS, NULL },
	{ "VLLM_USE_DEEP_GEMM", NULL, LAUNCH_DEEP_GEMM, "on" },
	{ "VLLM_MOE_USE_DEEP_GEMM", NULL, LAUNCH_DEEP_GEMM, "on" },
	{ "SGLANG_ENABLE_JIT_DEEPGEMM", NULL, LAUNCH_DEEP_GEMM, "on" },
	{ "VLLM_USE_FLASHINFER_MOE_FP16", NULL, LAUNCH_MOE_BACKEND,
	  "flashinfer" },
	{ "VLLM_USE_FLASHINFER_MOE_FP8", NULL, LAUNCH_MOE_BACKEND,
	  "flashinfer" },
	{ "VLLM_USE_FLASHINFER_MOE_FP4", NULL, LAUNCH_MOE_BACKEND,
	  "flashinfer" },
	{ "VLLM_USE_RUST_FRONTEND", NULL, LAUNCH_FRONT_END, "Rust" },
	{ "SGLANG_RUST_SERVER", NULL, LAUNCH_FRONT_END, "Rust" },
	{ "CUDA_VISIBLE_DEVICES", NULL, LAUNCH_DEVICES, NULL },
};

static void take_variable(struct cmdline *c, const struct variable *v,
			  const char *value, uint64_t stay)
{
	bool off = strcmp(value, "0") == 0 || strcmp(value, "false") == 0;

	if (v->option) {
		options_set(c, engine_bit(c->engine), v->option, value, stay);
		return;
	}
	if (launch_find(&c->launch, v->show))
		return;
	if (!v->when_on)
		launch_set(&c->launch, v->show, value);
	else if (!off)
		launch_set(&c->launch, v->show, v->when_on);
	else if (v->show == LAUNCH_DEEP_GEMM)
		launch_set(&c->launch, v->show, "off");
}

void cmdline_environ(struct cmdline *c, const char *text, size_t bytes)
{
	uint64_t stay = c->given;

	for (size_t at = 0; at < bytes;) {
		size_t n = strnlen(text + at, bytes - at);
		char one[256];

		if (n && n < sizeof(one)) {
			memcpy(one, text + at, n);
			one[n] = '\0';
			for (size_t i = 0;
			     i < sizeof(variables) / sizeof(variables[0]);
			     i++) {
				size_t len = strlen(variables[i].name);

				if (strncmp(one, variables[i].name, len) == 0 &&
				    one[len] == '=' && one[len + 1])
					take_variable(c, &variables[i],
						      one + len + 1, stay);
			}
		}
		at += n + 1;
	}
	options_settle(c);
}
