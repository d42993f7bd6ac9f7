#include "target/title.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TITLE_BYTES 256u
#define COMM_BYTES 15u
#define PREFIX_MAX 32u

/* What stands behind "PREFIX::".  A title is one of these words, and may go on
 * with '_', ':', digits or a dot, or be cut anywhere in it. */
static const struct word {
	const char *engine, *word;
	enum title_role role;
} words[] = {
	{ "vllm", "Worker", TITLE_RANK },
	{ "vllm", "EngineCore", TITLE_CORE },
	{ "vllm", "APIServer", TITLE_HTTP },
	{ "vllm", "DPCoordinator", TITLE_HELPER },
	{ "vllm", "DPSupervisor", TITLE_HELPER },
	{ "sglang", "scheduler", TITLE_RANK },
	{ "sglang", "detokenizer", TITLE_HELPER },
	{ "sglang", "data_parallel_controller", TITLE_HELPER },
	{ "sglang", "tokenizer_worker", TITLE_HTTP },
	{ "sglang", "http_worker", TITLE_HTTP },
};

/* Titles without "::", of older releases and of Ray. */
static const struct whole {
	const char *title, *engine;
	enum title_role role;
	bool ray;
} wholes[] = {
	{ "VLLMWorker", "vllm", TITLE_RANK, false },
	{ "VLLMEngineCore", "vllm", TITLE_CORE, false },
	{ "VllmWorkerProcess", "vllm", TITLE_RANK, false },
	{ "MQLLMEngine", "vllm", TITLE_CORE, false },
	{ "ray::RayWorkerWrapper", "vllm", TITLE_RANK, true },
	{ "ray::RayWorkerProc", "vllm", TITLE_RANK, true },
	{ "ray::EngineCoreActor", "vllm", TITLE_CORE, true },
	{ "ray::DPEngineCoreActor", "vllm", TITLE_CORE, true },
	{ "ray::DPMoEEngineCoreActor", "vllm", TITLE_CORE, true },
	{ "ray::SGLangEngine", "sglang", TITLE_HTTP, true },
	{ "ray::SchedulerActor", "sglang", TITLE_RANK, true },
};

int title_part(const char *title, const char *name)
{
	size_t len = strlen(name);
	long n;

	for (const char *p = title; (p = strchr(p, '_'));) {
		/* MOE_DPn and ATTN_CPn are other groups than DPn and CPn */
		bool other = (p - title >= 4 && !strncmp(p - 4, "_MOE", 4)) ||
			     (p - title >= 5 && !strncmp(p - 5, "_ATTN", 5));

		p++;
		if (other || strncasecmp(p, name, len) ||
		    !isdigit((unsigned char)p[len]))
			continue;
		n = strtol(p + len, NULL, 10);
		return n < 1 << 20 ? (int)n : -1;
	}
	return -1;
}

/* May a title go on like this behind its word? */
static bool is_end(const char *rest)
{
	return !*rest || strchr("_:. (", *rest) ||
	       isdigit((unsigned char)*rest);
}

static void set_parts(struct title *t, const char *title)
{
	t->dp = title_part(title, "DP");
	t->pp = title_part(title, "PP");
	t->tp = title_part(title, "TP");
	t->ep = title_part(title, "EP");
	t->gpu = title_part(title, "gpu");
}

/* "sglang", "VLLM" or the word of VLLM_PROCESS_NAME_PREFIX. */
static bool is_prefix(const char *title, size_t n, const char *engine)
{
	if (n == 0 || n > PREFIX_MAX)
		return false;
	if (strcmp(engine, "sglang") == 0)
		return n == 6 && strncmp(title, "sglang", 6) == 0;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)title[i]) &&
		    !strchr("-_.", title[i]))
			return false;
	return strncmp(title, "sglang", n) != 0 &&
	       strncmp(title, "ray", n) != 0;
}

/* A title that is cut: the word begins with all that is there. */
static bool is_cut(const char *text, const char *word, bool may_be_cut)
{
	size_t n = strlen(text);

	return may_be_cut && n < strlen(word) && strncmp(word, text, n) == 0;
}

static int parse_word(const char *title, size_t prefix, bool may_be_cut,
		      struct title *out)
{
	const char *text = title + prefix + 2;
	bool vllm = prefix == 4 && strncmp(title, "VLLM", 4) == 0;
	bool known = vllm || strncmp(title, "sglang::", 8) == 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const struct word *w = &words[i];
		size_t len = strlen(w->word);
		bool whole =
			strncmp(text, w->word, len) == 0 && is_end(text + len);

		if (!is_prefix(title, prefix, w->engine))
			continue;
		/* a prefix of its own is believed with a whole word only */
		if (!whole && !(known && is_cut(text, w->word, may_be_cut)))
			continue;
		*out = (struct title){ .engine = w->engine,
				       .role = w->role,
				       .cut = !whole,
				       .foreign = !known };
		if (!whole && strlen(text) < 2)
			out->role = TITLE_UNKNOWN;
		set_parts(out, title);
		return 0;
	}
	return -ENOENT;
}

static int parse_whole(const char *title, bool may_be_cut, struct title *out)
{
	for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
		const struct whole *w = &wholes[i];
		size_t len = strlen(w->title);
		bool all = strncmp(title, w->title, len) == 0 &&
			   is_end(title + len);
		/* "ray::RayWorkerW" of comm, and not an actor of anybody's
		 * class Scheduler; "VLLMWorker_TP" has its word */
		bool cut = strlen(title) >= (w->ray ? COMM_BYTES : 10) &&
			   is_cut(title, w->title, may_be_cut);

		if (!all && !cut)
			continue;
		*out = (struct title){ .engine = w->engine,
				       .role = w->role,
				       .ray = w->ray,
				       .cut = !all };
		set_parts(out, title);
		return 0;
	}
	return -ENOENT;
}

static int parse(const char *title, bool may_be_cut, struct title *out)
{
	const char *colons = strstr(title, "::");

	if (parse_whole(title, may_be_cut, out) == 0)
		return 0;
	return colons ? parse_word(title, (size_t)(colons - title), may_be_cut,
				   out)
		      : -ENOENT;
}

int title_parse(const char *args, size_t bytes, struct title *out)
{
	char title[TITLE_BYTES];
	size_t n = 0;

	/* the title is all that there is: padding may follow, no argument */
	while (n < bytes && n < sizeof(title) - 1 && args[n])
		n++;
	for (size_t i = n; i < bytes; i++)
		if (args[i] && args[i] != ' ')
			return -ENOENT;
	memcpy(title, args, n);
	while (n > 0 && title[n - 1] == ' ')
		n--;
	title[n] = '\0';
	if (n == 0 || strchr(title, '/'))
		return -ENOENT;
	return parse(title, true, out);
}

int title_parse_comm(const char *comm, struct title *out)
{
	return parse(comm, strlen(comm) >= COMM_BYTES, out);
}
