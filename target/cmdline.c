#include "target/cmdline_parts.h"

#include "target/title.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct engine {
	const char *name;
	unsigned bit;
	uint32_t port;
} engines[] = {
	{ "vllm", VLLM, 8000 },
	{ "sglang", SGLANG, 30000 },
	{ "trtllm", TRTLLM, 8000 },
};

/* What a row of launchers[] says beside the engine. */
enum { PROGRAM, MODULE, FILE_END };
enum { PLAIN, FRONT_END, EMBEDDED };

/* How a server is started: a program or `python -m MODULE`, maybe with a
 * subcommand, without which the program is something else. */
static const struct launcher {
	const char *word; /* last part of the program's path, a module, or the
			     end of a script's path */
	int kind;
	unsigned engine;
	const char *subcommand; /* "" none, "?" it may stand there */
	int how;
} launchers[] = {
	{ "vllm", PROGRAM, VLLM, "serve", PLAIN },
	{ "vllm-omni", PROGRAM, VLLM, "serve", PLAIN },
	{ "vllm-rs", PROGRAM, VLLM, "frontend", FRONT_END },
	{ "vllm", MODULE, VLLM, "serve", PLAIN },
	{ "vllm.entrypoints.cli.main", MODULE, VLLM, "serve", PLAIN },
	{ "vllm.entrypoints.openai.api_server", MODULE, VLLM, "", PLAIN },
	{ "vllm.entrypoints.openai.rpc.server", MODULE, VLLM, "", PLAIN },
	{ "vllm.entrypoints.api_server", MODULE, VLLM, "", PLAIN },
	{ "vllm.entrypoints.grpc_server", MODULE, VLLM, "", PLAIN },
	{ "/vllm/entrypoints/openai/api_server.py", FILE_END, VLLM, "", PLAIN },
	{ "/vllm/entrypoints/api_server.py", FILE_END, VLLM, "", PLAIN },
	{ "/vllm/entrypoints/cli/main.py", FILE_END, VLLM, "serve", PLAIN },
	{ "dynamo.vllm", MODULE, VLLM, "", EMBEDDED },
	{ "sglang", PROGRAM, SGLANG, "serve", PLAIN },
	{ "sglang", MODULE, SGLANG, "serve", PLAIN },
	{ "sglang.cli.main", MODULE, SGLANG, "serve", PLAIN },
	{ "sglang.launch_server", MODULE, SGLANG, "", PLAIN },
	{ "sglang.srt.entrypoints.http_server", MODULE, SGLANG, "", PLAIN },
	{ "sglang_router.launch_server", MODULE, SGLANG, "", PLAIN },
	{ "/sglang/launch_server.py", FILE_END, SGLANG, "", PLAIN },
	{ "dynamo.sglang", MODULE, SGLANG, "", EMBEDDED },
	{ "trtllm-serve", PROGRAM, TRTLLM, "?", PLAIN },
	{ "tensorrt_llm.commands.serve", MODULE, TRTLLM, "?", PLAIN },
	{ "dynamo.trtllm", MODULE, TRTLLM, "", EMBEDDED },
	{ "moetop-sim", PROGRAM, SIM, "", PLAIN },
};

struct args *args_new(const char *text, size_t bytes)
{
	struct args *a = malloc(sizeof(*a));

	if (!a)
		return NULL;
	a->n = a->at = 0;
	a->options_only = false;
	a->copy = malloc(bytes + 1);
	if (!a->copy) {
		free(a);
		return NULL;
	}
	memcpy(a->copy, text, bytes);
	a->copy[bytes] = '\0';
	for (size_t i = 0; i < bytes && a->n < ARGS_MAX;
	     i += strlen(a->copy + i) + 1)
		a->v[a->n++] = a->copy + i;
	return a;
}

void args_free(struct args *a)
{
	if (!a)
		return;
	free(a->copy);
	free(a);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- which program ------------------------------------------------------ */

static bool is_python(const char *program)
{
	const char *p = last_part(program);

	return strncmp(p, "python", 6) == 0 || strncmp(p, "pypy", 4) == 0;
}

/* One argument of the interpreter, "-u", "-Xdev", "-um": steps over it and its
 * value.  The module that it names, "" for code in the arguments, or NULL. */
static const char *python_option(struct args *a)
{
	const char *o = a->v[a->at++];

	if (o[1] == '-') {
		a->at += strcmp(o, "--check-hash-based-pycs") == 0;
		return NULL;
	}
	for (o++; *o; o++) {
		if (!strchr("mcXW", *o))
			continue;
		if (*o == 'c')
			return "";
		if (o[1])
			return *o == 'm' ? o + 1 : NULL;
		if (*o != 'm')
			a->at++;
		else if (a->at < a->n)
			return a->v[a->at++];
		return NULL;
	}
	return NULL;
}

/* The program or module that runs, "" for none that has a name. */
static const char *find_word(struct args *a, int *kind)
{
	const char *module = NULL;

	*kind = PROGRAM;
	if (a->n && is_python(a->v[0])) {
		for (a->at = 1; a->at < a->n && a->v[a->at][0] == '-' &&
				a->v[a->at][1] && !module;)
			module = python_option(a);
		*kind = module ? MODULE : PROGRAM;
	}
	if (module)
		return module;
	return a->at < a->n ? a->v[a->at++] : "";
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static bool is_launcher(const struct launcher *l, const char *word, int kind)
{
	if (l->kind == FILE_END)
		return kind == PROGRAM && (ends_with(word, l->word) ||
					   strcmp(word, l->word + 1) == 0);
	return l->kind == kind &&
	       strcmp(kind == MODULE ? word : last_part(word), l->word) == 0;
}

/* Leaves a->at behind the program and its subcommand. */
static const struct launcher *find_launcher(struct args *a)
{
	int kind;
	const char *word = find_word(a, &kind);

	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *l = &launchers[i];
		bool next = a->at < a->n;

		if (!is_launcher(l, word, kind))
			continue;
		/* a router of servers, and none itself */
		if (l->subcommand[0] == '?' && next &&
		    strcmp(a->v[a->at], "disaggregated") == 0)
			return NULL;
		if (l->subcommand[0] == '?')
			a->at += next && strcmp(a->v[a->at], "serve") == 0;
		else if (l->subcommand[0] &&
			 (!next || strcmp(a->v[a->at++], l->subcommand) != 0))
			return NULL;
		return l;
	}
	return NULL;
}

/* ---- parsing ------------------------------------------------------------ */

unsigned engine_bit(const char *name)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (strcmp(engines[i].name, name) == 0)
			return engines[i].bit;
	return 0;
}

void engine_set(struct cmdline *c, unsigned bit)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
		if (engines[i].bit != bit)
			continue;
		set_text(c->engine, sizeof(c->engine), engines[i].name);
		if (!c->port_given)
			c->port = engines[i].port;
	}
}

/* A benchmark, a help text: the launcher's words, and no server. */
static bool asks_for_help(const struct args *a)
{
	for (unsigned i = a->at; i < a->n; i++)
		if (strcmp(a->v[i], "--help") == 0 ||
		    strcmp(a->v[i], "-h") == 0 ||
		    strcmp(a->v[i], "--version") == 0)
			return true;
	return false;
}

int cmdline_parse(const char *args, size_t bytes, struct cmdline *out)
{
	struct cmdline c = { .tp = 1, .pp = 1, .dp = 1, .ep = 1, .nodes = 1 };
	struct args *a = args_new(args, bytes);
	const struct launcher *l = a ? find_launcher(a) : NULL;

	if (!a)
		return -ENOMEM;
	if (l && asks_for_help(a))
		l = NULL;
	if (l) {
		engine_set(&c, l->engine == SIM ? VLLM : l->engine);
		c.simulated = l->engine == SIM;
		c.embedded = l->how == EMBEDDED;
		if (l->how == FRONT_END)
			c.role = CMDLINE_FRONT_END;
		if (l->how != PLAIN)
			c.port = 0;
		if (c.simulated)
			set_text(c.version, sizeof(c.version), "simulated");
		options_take(&c, a, l->engine, 0);
		options_settle(&c);
		*out = c;
	}
	args_free(a);
	return l ? 0 : -ENOENT;
}

void cmdline_embedded(const char *args, size_t bytes, struct cmdline *c)
{
	struct args *a = args_new(args, bytes);

	if (a && engine_bit(c->engine)) {
		a->options_only = true;
		options_take(c, a, engine_bit(c->engine), 0);
		options_settle(c);
	}
	args_free(a);
}

int cmdline_add(struct cmdline *c, const char *args, size_t bytes)
{
	struct args *a = args_new(args, bytes);

	if (!a)
		return -ENOMEM;
	options_take(c, a, c->simulated ? SIM : engine_bit(c->engine),
		     c->given);
	options_settle(c);
	args_free(a);
	return 0;
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

	if (strchr(start, '$')) { /* a script's variable */
		out[0] = '\0';
		return;
	}
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
	struct title t;

	if (title_parse(args, bytes, &t))
		return NULL;
	return t.engine;
}
