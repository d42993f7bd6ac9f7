#include "target/engine_log.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 16384u

/* vLLM reduced over layers instead of ranks until then. */
#define VLLM_BALANCEDNESS_RIGHT_MINOR 28u

struct rule {
	const char *needle;
	void (*take)(struct engine_log *l, const char *line, const char *at);
};

/* What follows, up to one of the ends; false when it is empty or too long. */
static bool word_to(const char *p, const char *ends, char *out, size_t room)
{
	size_t n;

	p += strspn(p, " \t'\"");
	n = strcspn(p, ends);
	while (n && strchr(" \t'\"", p[n - 1]))
		n--;
	if (n == 0 || n >= room)
		return false;
	memcpy(out, p, n);
	out[n] = '\0';
	return true;
}

/* The number right behind a key, "=", ":" and blanks between. */
static double number_after(const char *line, const char *key)
{
	const char *p = strstr(line, key);
	char *end;
	double v;

	if (!p)
		return NAN;
	p += strlen(key);
	p += strspn(p, " :=");
	if (!isdigit((unsigned char)*p))
		return NAN;
	v = strtod(p, &end);
	return *end == '%' ? v / 100 : v;
}

static double first_known(double a, double b)
{
	return isnan(a) ? b : a;
}

static void set_engine(struct engine_log *l, const char *engine)
{
	snprintf(l->engine, sizeof(l->engine), "%s", engine);
}

/* ---- starting ----------------------------------------------------------- */

/* Only where the word behind it looks like a version. */
static void take_version(struct engine_log *l, const char *line, const char *at)
{
	char word[24];

	at += strspn(at, " v(");
	if (!isdigit((unsigned char)*at) || !strchr(at, '.') ||
	    !word_to(at, " ),;\t", word, sizeof(word)) ||
	    strspn(word, "0123456789.") < 3)
		return;
	if (strstr(line, "APIServer pid=") || strstr(line, "vLLM") ||
	    strstr(line, "LLM engine"))
		set_engine(l, "vllm");
	snprintf(l->version, sizeof(l->version), "%s", word);
}

static void take_model(struct engine_log *l, const char *line, const char *at)
{
	(void)line;
	word_to(at, " ,\t)", l->model, sizeof(l->model));
}

static void take_banner_model(struct engine_log *l, const char *line,
			      const char *at)
{
	/* a banner, not any sentence with the word in it */
	if (strstr(line, "APIServer") && at[0] == ' ' && at[1] == ' ')
		take_model(l, line, at);
}

static void take_device(struct engine_log *l, const char *line, const char *at)
{
	(void)line;
	word_to(at, " ,)", l->device, sizeof(l->device));
}

static void take_server_args(struct engine_log *l, const char *line,
			     const char *at)
{
	const char *p = strstr(at, "model_path=");

	set_engine(l, "sglang");
	if (p)
		take_model(l, line, p + sizeof("model_path=") - 1);
}

static void take_weights(struct engine_log *l, const char *line, const char *at)
{
	const char *dtype = strstr(at, "dtype=");

	(void)line;
	set_engine(l, "sglang");
	word_to(at, ", \t", l->architecture, sizeof(l->architecture));
	if (dtype) {
		dtype += sizeof("dtype=") - 1;
		if (!strncmp(dtype, "torch.", 6))
			dtype += 6;
		word_to(dtype, ", \t", l->dtype, sizeof(l->dtype));
	}
}

/* ---- MoE ---------------------------------------------------------------- */

/* "Using 'TRITON' Fp8 MoE backend out of ...", "Using X MoE backend". */
static void take_backend(struct engine_log *l, const char *line, const char *at)
{
	const char *from = strstr(line, "Using ");
	const char *end = at - (sizeof("MoE backend") - 1);
	char text[sizeof(l->moe_backend)];
	size_t n = 0;

	/* the class that does it repeats what was chosen before */
	if (!from || from >= end || isalnum((unsigned char)*at) ||
	    (l->moe_backend[0] && !strstr(at, "potential backends")))
		return;
	for (from += 6; from < end && n < sizeof(text) - 1; from++)
		if (*from != '\'' && *from != '"')
			text[n++] = (char)tolower((unsigned char)*from);
	text[n] = '\0';
	word_to(text, "", l->moe_backend, sizeof(l->moe_backend));
}

/* "Using CompressedTensorsWNA16MarlinMoEMethod": the class tells. */
static void take_method(struct engine_log *l, const char *line, const char *at)
{
	static const struct {
		const char *part, *name;
	} parts[] = {
		{ "WNA16Marlin", "marlin W4A16" },
		{ "Marlin", "marlin" },
		{ "CutlassExperts", "cutlass" },
		{ "Cutlass", "cutlass" },
		{ "FlashInfer", "flashinfer" },
		{ "DeepGemm", "deep_gemm" },
		{ "DeepEP", "deepep" },
		{ "Triton", "triton" },
		{ "WNA16", "W4A16" },
		{ "W8A8Fp8", "fp8" },
		{ "W4A4Nvfp4", "nvfp4" },
	};
	const char *from = strstr(line, "Using ");
	char class[64];

	if (!from || from > at ||
	    !word_to(from + 6, " \t.,", class, sizeof(class)) ||
	    !strstr(class, "MoEMethod") || l->moe_backend[0])
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(class, parts[i].part)) {
			snprintf(l->moe_backend, sizeof(l->moe_backend), "%s",
				 parts[i].name);
			return;
		}
}

/* The number of experts is right; "N" is a width of packed weights. */
static void take_tuning(struct engine_log *l, const char *line, const char *at)
{
	const char *file = strstr(at, "E=");
	char name[96];

	(void)line;
	if (!file || !strstr(file, ".json"))
		return;
	l->experts = (uint32_t)strtoul(file + 2, NULL, 10);
	if (word_to(file, " \t", name, sizeof(name)))
		snprintf(l->tuned_config, sizeof(l->tuned_config), "%s", name);
}

static void take_no_tuning(struct engine_log *l, const char *line,
			   const char *at)
{
	take_tuning(l, line, at);
	snprintf(l->tuned_config, sizeof(l->tuned_config), "default");
}

/* ---- CUDA graphs -------------------------------------------------------- */

/* Up to the last number that is there whole. */
static void keep_sizes(struct engine_log *l, const char *list, size_t n)
{
	bool cut = n >= sizeof(l->capture_sizes);
	char *comma;

	if (cut)
		n = sizeof(l->capture_sizes) - 1;
	memcpy(l->capture_sizes, list, n);
	l->capture_sizes[n] = '\0';
	comma = strrchr(l->capture_sizes, ',');
	if (cut && comma)
		*comma = '\0';
	l->capture_cut = l->capture_cut || cut;
}

static void take_sizes(struct engine_log *l, const char *line, const char *at)
{
	const char *open = strchr(at, '['), *close;
	size_t n;

	(void)line;
	if (!open || strspn(at, " :='\"") != (size_t)(open - at))
		return;
	close = strchr(open, ']');
	n = close ? (size_t)(close - open) - 1 : strlen(open + 1);
	l->captured = n ? ENGINE_LOG_YES : ENGINE_LOG_NO;
	l->capture_cut = !close || memmem(open, n + 1, "...", 3);
	keep_sizes(l, open + 1, n);
	l->capture_max = 0;
	for (char *p = l->capture_sizes; *p; p++) {
		unsigned long v;

		if (!isdigit((unsigned char)*p))
			continue;
		v = strtoul(p, &p, 10);
		if (v > l->capture_max && v <= 1u << 20)
			l->capture_max = (uint32_t)v;
		if (!*p)
			break;
	}
}

static void take_capture(struct engine_log *l, const char *line, const char *at)
{
	(void)line, (void)at;
	l->captured = ENGINE_LOG_YES;
}

/* ---- load --------------------------------------------------------------- */

/* "Decode batch. ..." and "Decode batch, ...". */
static void take_decode(struct engine_log *l, const char *line, const char *at)
{
	const char *graph = strstr(at, "cuda graph:");

	if (!strstr(at, "#running-req"))
		return;
	set_engine(l, "sglang");
	l->running = number_after(at, "#running-req");
	l->waiting = number_after(at, "#queue-req");
	l->kv_share = number_after(at, "token usage");
	l->tokens_per_s = number_after(at, "gen throughput (token/s)");
	if (!graph)
		graph = strstr(at, "cuda graph =");
	if (graph)
		l->cuda_graph =
			strstr(graph, "True") ? ENGINE_LOG_YES : ENGINE_LOG_NO;
	(void)line;
}

/* vLLM: "... Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%". */
static void take_status(struct engine_log *l, const char *line, const char *at)
{
	if (!strstr(at, "Running:"))
		return;
	set_engine(l, "vllm");
	l->running = number_after(at, "Running");
	l->waiting = first_known(number_after(at, "Waiting"),
				 number_after(at, "Pending"));
	l->kv_share = number_after(at, "KV cache usage");
	l->tokens_per_s = number_after(line, "generation throughput");
}

static bool vllm_is_right(const char *version)
{
	unsigned major = 0, minor = 0;

	return sscanf(version, "%u.%u", &major, &minor) == 2 &&
	       (major > 0 || minor >= VLLM_BALANCEDNESS_RIGHT_MINOR);
}

/* SGLang says current_pass_balancedness; vLLM's was wrong for long. */
static void take_balance(struct engine_log *l, const char *line, const char *at)
{
	double sglang = number_after(line, "current_pass_balancedness");
	const char *p = at + strcspn(at, "0123456789");

	if (!isnan(sglang)) {
		set_engine(l, "sglang");
		l->balancedness = sglang;
		l->balancedness_trusted = true;
		return;
	}
	if (!*p || p - at > 16)
		return;
	l->balancedness = strtod(p, NULL);
	l->balancedness_trusted = vllm_is_right(l->version);
}

static const struct rule rules[] = {
	{ "version ", take_version },
	{ "LLM engine (v", take_version },
	{ "model=", take_model },
	{ "  model ", take_banner_model },
	{ "device_config=", take_device },
	{ "server_args=", take_server_args },
	{ "Load weight end. type=", take_weights },
	{ "MoE backend", take_backend },
	{ "MoEMethod", take_method },
	{ "Using configuration from ", take_tuning },
	{ "Using MoE kernel config from ", take_tuning },
	{ "Using default MoE config", take_no_tuning },
	{ "Using default MoE kernel config", take_no_tuning },
	{ "Capture cuda graph bs", take_sizes },
	{ "cudagraph_capture_sizes", take_sizes },
	{ "cuda_graph_bs=", take_sizes },
	{ "Capture cuda graph begin", take_capture },
	{ "Capturing CUDA graph", take_capture },
	{ "Graph capturing finished", take_capture },
	{ "Decode batch", take_decode },
	{ "generation throughput:", take_status },
	{ "balancedness", take_balance },
};

/* By its form: "[2026-05-24 00:52:54 TP0] ..." is SGLang's, "(Worker pid=5)
 * INFO 08-10 23:01:05 [file.py:339] ..." vLLM's. */
static void take_form(struct engine_log *l, const char *line)
{
	const char *py = strstr(line, ".py:");

	if (l->engine[0])
		return;
	if (line[0] == '[' && isdigit((unsigned char)line[1]))
		set_engine(l, "sglang");
	else if (py && isdigit((unsigned char)py[4]) &&
		 memchr(line, '[', (size_t)(py - line)) &&
		 (strstr(line, " INFO ") || strstr(line, " WARNING ") ||
		  !strncmp(line, "INFO ", 5) || !strncmp(line, "WARNING ", 8)))
		set_engine(l, "vllm");
}

static void take_line(struct engine_log *l, const char *line)
{
	l->lines++;
	take_form(l, line);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		const char *at = strstr(line, rules[i].needle);

		if (at)
			rules[i].take(l, line, at + strlen(rules[i].needle));
	}
}

void engine_log_init(struct engine_log *l)
{
	*l = (struct engine_log){ .running = NAN,
				  .waiting = NAN,
				  .tokens_per_s = NAN,
				  .kv_share = NAN,
				  .balancedness = NAN };
}

void engine_log_add(struct engine_log *l, const char *text, size_t bytes)
{
	char line[LINE_MAX_BYTES];
	size_t at = 0;

	while (at < bytes) {
		size_t n = 0;

		for (; at < bytes && text[at] != '\n' && text[at] != '\r'; at++)
			if (n < sizeof(line) - 1 && text[at])
				line[n++] = text[at];
		at++;
		line[n] = '\0';
		if (n)
			take_line(l, line);
	}
}
