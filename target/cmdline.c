#include "target/cmdline.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 1024u
#define COUNT_MAX 65536ul

enum {
	VLLM = 1,
	SGLANG = 2,
	TRTLLM = 4,
	SIM = 8,
	ALL = VLLM | SGLANG | TRTLLM | SIM
};

enum option_id {
	OPT_MODEL,
	OPT_SERVED,
	OPT_REVISION,
	OPT_DOWNLOAD_DIR,
	OPT_HF_CONFIG,
	OPT_CONFIG,
	OPT_UDS,
	OPT_GPU,
	OPT_ENGINE,
	OPT_PORT,
	OPT_TP,
	OPT_PP,
	OPT_DP,
	OPT_EP,
	OPT_EP_ON,
	OPT_A2A,
	OPT_NODE_RANK,
	OPT_OVERRIDE,
	OPT_KV_TYPE,
};

/* Options by engine; '_' in a name counts as '-'. */
static const struct option {
	const char *name;
	unsigned engines;
	enum option_id id;
	bool flag; /* takes no value */
} options[] = {
	{ "--model", VLLM | SGLANG | SIM, OPT_MODEL, false },
	{ "--model-path", SGLANG, OPT_MODEL, false },
	{ "--model-tag", VLLM, OPT_MODEL, false },
	{ "--served-model-name", VLLM | SGLANG, OPT_SERVED, false },
	{ "--revision", VLLM | SGLANG, OPT_REVISION, false },
	{ "--download-dir", VLLM | SGLANG, OPT_DOWNLOAD_DIR, false },
	{ "--hf-config-path", VLLM, OPT_HF_CONFIG, false },
	{ "--config", VLLM | SGLANG | TRTLLM, OPT_CONFIG, false },
	{ "--scenario", SIM, OPT_CONFIG, false },
	{ "--uds", VLLM, OPT_UDS, false },
	{ "--gpu", SIM, OPT_GPU, false },
	{ "--engine", SIM, OPT_ENGINE, false },
	{ "--port", ALL, OPT_PORT, false },
	{ "--tensor-parallel-size", VLLM | SGLANG, OPT_TP, false },
	{ "--tp-size", SGLANG | TRTLLM, OPT_TP, false },
	{ "--tp", SGLANG | SIM | VLLM, OPT_TP, false },
	{ "-tp", VLLM, OPT_TP, false },
	{ "--pipeline-parallel-size", VLLM | SGLANG, OPT_PP, false },
	{ "--pp-size", SGLANG | TRTLLM, OPT_PP, false },
	{ "--pp", SGLANG, OPT_PP, false },
	{ "-pp", VLLM, OPT_PP, false },
	{ "--data-parallel-size", VLLM | SGLANG, OPT_DP, false },
	{ "--dp-size", SGLANG, OPT_DP, false },
	{ "--dp", SGLANG | SIM | VLLM, OPT_DP, false },
	{ "-dp", VLLM, OPT_DP, false },
	{ "--expert-parallel-size", SGLANG, OPT_EP, false },
	{ "--ep-size", SGLANG | TRTLLM, OPT_EP, false },
	{ "--ep", SGLANG | SIM, OPT_EP, false },
	{ "--enable-expert-parallel", VLLM | SIM, OPT_EP_ON, true },
	{ "-ep", VLLM, OPT_EP_ON, true },
	{ "--enable-ep-moe", SGLANG, OPT_EP_ON, true },
	{ "--enable-deepep-moe", SGLANG, OPT_EP_ON, true },
	{ "--moe-a2a-backend", SGLANG, OPT_A2A, false },
	{ "--node-rank", VLLM | SGLANG, OPT_NODE_RANK, false },
	{ "--hf-overrides", VLLM, OPT_OVERRIDE, false },
	{ "--json-model-override-args", SGLANG, OPT_OVERRIDE, false },
	{ "--kv-cache-dtype", VLLM | SGLANG, OPT_KV_TYPE, false },
};

static const struct engine {
	const char *name;
	unsigned bit;
	uint32_t port;
} engines[] = {
	{ "vllm", VLLM, 8000 },
	{ "sglang", SGLANG, 30000 },
	{ "trtllm", TRTLLM, 8000 },
};

/* How a server is started: a program or `python -m MODULE`, maybe with a
 * subcommand, without which the program is something else. */
static const struct launcher {
	const char *word; /* last part of the program's path, or a module */
	bool module;
	unsigned engine;
	const char *subcommand; /* "" none, "?" it may stand there */
} launchers[] = {
	{ "vllm", false, VLLM, "serve" },
	{ "vllm", true, VLLM, "serve" },
	{ "vllm.entrypoints.cli.main", true, VLLM, "serve" },
	{ "vllm.entrypoints.openai.api_server", true, VLLM, "" },
	{ "sglang", false, SGLANG, "serve" },
	{ "sglang", true, SGLANG, "serve" },
	{ "sglang.cli.main", true, SGLANG, "serve" },
	{ "sglang.launch_server", true, SGLANG, "" },
	{ "trtllm-serve", false, TRTLLM, "?" },
	{ "tensorrt_llm.commands.serve", true, TRTLLM, "?" },
	{ "moetop-sim", false, SIM, "" },
};

struct args {
	const char *v[ARGS_MAX];
	unsigned n, at;
	char *copy;
};

static int args_split(struct args *a, const char *text, size_t bytes)
{
	a->n = a->at = 0;
	a->copy = malloc(bytes + 1);
	if (!a->copy)
		return -ENOMEM;
	memcpy(a->copy, text, bytes);
	a->copy[bytes] = '\0';
	for (size_t i = 0; i < bytes && a->n < ARGS_MAX;
	     i += strlen(a->copy + i) + 1)
		a->v[a->n++] = a->copy + i;
	return 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void set_text(char *out, size_t room, const char *s)
{
	size_t n = strlen(s);

	if (n >= room) /* half a path or name would be a wrong one */
		n = 0;
	memcpy(out, s, n);
	out[n] = '\0';
}

static uint32_t to_number(const char *s, unsigned long max)
{
	char *end;
	unsigned long v;

	if (!isdigit((unsigned char)*s))
		return 0;
	v = strtoul(s, &end, 10);
	return *end || v > max ? 0 : (uint32_t)v;
}

/* ---- which program ------------------------------------------------------ */

static bool is_python(const char *program)
{
	const char *p = last_part(program);

	return strncmp(p, "python", 6) == 0 || strncmp(p, "pypy", 4) == 0;
}

/* Step over the interpreter's own options; true when -m was among them. */
static bool skip_python(struct args *a)
{
	for (a->at = 1; a->at < a->n && a->v[a->at][0] == '-'; a->at++) {
		const char *o = a->v[a->at];

		if (strcmp(o, "-m") == 0) {
			a->at++;
			return true;
		}
		if (strcmp(o, "-c") == 0) {
			a->at = a->n;
			return false;
		}
		if (strcmp(o, "-X") == 0 || strcmp(o, "-W") == 0)
			a->at++;
	}
	return false;
}

/* Leaves a->at behind the program and its subcommand. */
static const struct launcher *find_launcher(struct args *a)
{
	bool python = a->n && is_python(a->v[0]);
	bool module = python && skip_python(a);
	const char *word;

	if (a->at >= a->n)
		return NULL;
	word = module ? a->v[a->at] : last_part(a->v[a->at]);
	a->at++;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *l = &launchers[i];
		bool next = a->at < a->n;

		if (l->module != module || strcmp(word, l->word) != 0)
			continue;
		if (l->subcommand[0] == '?')
			a->at += next && strcmp(a->v[a->at], "serve") == 0;
		else if (l->subcommand[0] &&
			 (!next || strcmp(a->v[a->at++], l->subcommand) != 0))
			return NULL;
		return l;
	}
	return NULL;
}

/* ---- options ------------------------------------------------------------ */

static const struct engine *engine_find(const char *name, unsigned bit)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if ((name && strcmp(engines[i].name, name) == 0) ||
		    engines[i].bit == bit)
			return &engines[i];
	return NULL;
}

static void set_engine(struct cmdline *c, const struct engine *e)
{
	set_text(c->engine, sizeof(c->engine), e->name);
	if (!c->port_given)
		c->port = e->port;
}

/* Does arg name this option?  *value then stands behind '=', or is NULL. */
static bool option_is(const char *arg, const char *name, const char **value)
{
	for (; *name && *arg; name++, arg++)
		if (*arg != *name && !(*name == '-' && *arg == '_'))
			return false;
	if (*name || (*arg && *arg != '='))
		return false;
	*value = *arg ? arg + 1 : NULL;
	return true;
}

static const struct option *option_find(const char *arg, unsigned engine,
					const char **value)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if ((options[i].engines & engine) &&
		    option_is(arg, options[i].name, value))
			return &options[i];
	return NULL;
}

static void set_count(struct cmdline *c, enum option_id id, const char *v)
{
	uint32_t n = to_number(v, COUNT_MAX);

	switch (id) {
	case OPT_PORT:
		c->port = to_number(v, 65535);
		c->port_given = true;
		break;
	case OPT_TP:
		c->tp = n;
		break;
	case OPT_PP:
		c->pp = n;
		break;
	case OPT_DP:
		c->dp = n;
		break;
	case OPT_EP:
		c->ep = n;
		break;
	case OPT_NODE_RANK:
		c->node_rank = n;
		break;
	default:
		break;
	}
}

/* "auto" and what is not known leave it to the checkpoint. */
static double kv_element_bytes(const char *type)
{
	static const struct {
		const char *start;
		double bytes;
	} types[] = {
		{ "fp8", 1 },
		{ "int8", 1 },
		{ "bf16", 2 },
		{ "bfloat16", 2 },
		{ "float16", 2 },
		{ "fp16", 2 },
		{ "half", 2 },
		{ "fp4", 0.5 + 1.0 / 16 },
		{ "nvfp4", 0.5 + 1.0 / 16 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(type, types[i].start, strlen(types[i].start)) == 0)
			return types[i].bytes;
	return 0;
}

static void set_option(struct cmdline *c, enum option_id id, const char *v)
{
	const struct engine *e;

	switch (id) {
	case OPT_MODEL:
		set_text(c->model, sizeof(c->model), v);
		break;
	case OPT_SERVED:
		set_text(c->served, sizeof(c->served), v);
		break;
	case OPT_REVISION:
		set_text(c->revision, sizeof(c->revision), v);
		break;
	case OPT_DOWNLOAD_DIR:
		set_text(c->download_dir, sizeof(c->download_dir), v);
		break;
	case OPT_HF_CONFIG:
		set_text(c->hf_config_path, sizeof(c->hf_config_path), v);
		break;
	case OPT_CONFIG:
		set_text(c->config_file, sizeof(c->config_file), v);
		break;
	case OPT_UDS:
		set_text(c->uds, sizeof(c->uds), v);
		break;
	case OPT_GPU:
		set_text(c->gpu, sizeof(c->gpu), v);
		break;
	case OPT_ENGINE:
		e = engine_find(v, 0);
		if (e)
			set_engine(c, e);
		break;
	case OPT_EP_ON:
		c->expert_parallel = strcmp(v, "false") != 0;
		break;
	case OPT_A2A: /* these two spread the experts over all of tp */
		c->expert_parallel |=
			strcmp(v, "deepep") == 0 || strcmp(v, "mooncake") == 0;
		break;
	case OPT_OVERRIDE:
		c->config_overridden = true;
		break;
	case OPT_KV_TYPE:
		c->kv_element_bytes = kv_element_bytes(v);
		break;
	default:
		set_count(c, id, v);
	}
	c->given |= 1u << id;
}

/* Flags that a model name may follow; all others may take a value. */
static bool is_flag(const char *arg)
{
	static const char *const starts[] = { "--enable-", "--disable-",
					      "--no-", "--trust-remote-code",
					      "--enforce-eager" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(arg, starts[i], strlen(starts[i])) == 0)
			return true;
	return strchr(arg, '=') != NULL;
}

/* Options whose bit is in `stay` are stepped over. */
static void take_options(struct cmdline *c, struct args *a, unsigned engine,
			 uint32_t stay)
{
	const char *positional = NULL, *value;
	bool may_be_model = true;

	for (; a->at < a->n; a->at++) {
		const char *arg = a->v[a->at];
		const struct option *o = option_find(arg, engine, &value);

		if (!o) {
			if (arg[0] != '-' && may_be_model && !positional)
				positional = arg;
			may_be_model = arg[0] != '-' || is_flag(arg);
			continue;
		}
		if (!value && o->flag)
			value = "true";
		else if (!value && a->at + 1 < a->n)
			value = a->v[++a->at];
		if (value && !(stay & (1u << o->id)))
			set_option(c, o->id, value);
		may_be_model = true;
	}
	if (positional && !c->model[0] && engine != SIM)
		set_option(c, OPT_MODEL, positional);
}

static void settle(struct cmdline *c)
{
	if (c->uds[0])
		c->port = 0;
	/* other nodes than the first have no HTTP server */
	if ((c->given & (1u << OPT_NODE_RANK)) && c->node_rank > 0)
		c->port = 0;
	/* vLLM spreads experts over tp x dp; in SGLang dp lies inside tp */
	if (c->expert_parallel && !(c->given & (1u << OPT_EP)))
		c->ep = strcmp(c->engine, "vllm") == 0 ? c->tp * c->dp : c->tp;
}

int cmdline_parse(const char *args, size_t bytes, struct cmdline *out)
{
	struct cmdline c = { .tp = 1, .pp = 1, .dp = 1, .ep = 1 };
	const struct launcher *l;
	struct args *a = malloc(sizeof(*a));
	int err = a ? args_split(a, args, bytes) : -ENOMEM;

	if (err) {
		free(a);
		return err;
	}
	l = find_launcher(a);
	if (l) {
		set_engine(&c, engine_find(NULL, l->engine == SIM ? VLLM
								  : l->engine));
		c.simulated = l->engine == SIM;
		if (c.simulated)
			set_text(c.version, sizeof(c.version), "simulated");
		take_options(&c, a, l->engine, 0);
		settle(&c);
		*out = c;
	}
	free(a->copy);
	free(a);
	return l ? 0 : -ENOENT;
}

int cmdline_add(struct cmdline *c, const char *args, size_t bytes)
{
	const struct engine *e = engine_find(c->engine, 0);
	struct args *a = malloc(sizeof(*a));
	int err = a ? args_split(a, args, bytes) : -ENOMEM;

	if (!err) {
		take_options(c, a,
			     c->simulated ? SIM
			     : e          ? e->bit
					  : 0,
			     c->given);
		settle(c);
		free(a->copy);
	}
	free(a);
	return err;
}

/* ---- YAML --------------------------------------------------------------- */

/* "key: value  # comment" at the left margin; false for anything else. */
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
		end = strstr(v, " #");
	}
	if (!end)
		end = v + strlen(v);
	*end = '\0';
	while (end > v && isspace((unsigned char)end[-1]))
		*--end = '\0';
	*key = line;
	*value = v;
	return *v != '\0';
}

static void yaml_option(struct cmdline *c, const char *key, const char *value)
{
	char arg[64] = "--";
	const char *unused;
	const struct option *o;
	const struct engine *e = engine_find(c->engine, 0);

	if (!e || strlen(key) > sizeof(arg) - 3)
		return;
	strcpy(arg + 2, key);
	o = option_find(arg, e->bit, &unused);
	if (o && !(c->given & (1u << o->id)))
		set_option(c, o->id, value);
}

void cmdline_yaml(struct cmdline *c, const char *text, size_t bytes)
{
	const char *end = text + bytes;
	char line[512];

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((eol ? eol : end) - text);
		const char *key, *value;

		if (n < sizeof(line)) {
			memcpy(line, text, n);
			line[n] = '\0';
			if (yaml_line(line, &key, &value))
				yaml_option(c, key, value);
		}
		text = eol ? eol + 1 : end;
	}
	settle(c);
}

/* models--ORG--NAME to ORG/NAME; n characters of s. */
static void hub_name(const char *s, size_t n, char *out, size_t room)
{
	const char *sep = memmem(s, n, "--", 2);

	if (n >= room)
		n = room - 1;
	memcpy(out, s, n);
	out[n] = '\0';
	if (sep && sep < s + n - 1) {
		char *at = out + (sep - s);

		*at = '/';
		memmove(at + 1, at + 2, strlen(at + 2) + 1);
	}
}

void cmdline_model_name(const struct cmdline *c, char *out, size_t room)
{
	const char *hub = strstr(c->model, "/models--"), *start = c->model;
	size_t n = strlen(start);
	const char *slash;

	if (hub) {
		hub += strlen("/models--");
		hub_name(hub, strcspn(hub, "/"), out, room);
		return;
	}
	while (n > 1 && start[n - 1] == '/')
		n--;
	if (n > 5 && memcmp(start + n - 5, ".json", 5) == 0)
		n -= 5;
	slash = memrchr(start, '/', n);
	if (slash && (n < strlen(start) || strchr("/.~", start[0]))) {
		n -= (size_t)(slash + 1 - start);
		start = slash + 1;
	}
	if (n >= room)
		n = room - 1;
	memcpy(out, start, n);
	out[n] = '\0';
}

const char *cmdline_worker(const char *args, size_t bytes)
{
	static const struct {
		const char *prefix, *engine;
	} titles[] = { { "VLLM::", "vllm" }, { "sglang::", "sglang" } };

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		size_t n = strlen(titles[i].prefix);

		if (bytes > n && memcmp(args, titles[i].prefix, n) == 0)
			return titles[i].engine;
	}
	return NULL;
}
