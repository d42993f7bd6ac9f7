#include "target/log_line.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 8192u

void log_facts_init(struct log_facts *f)
{
	*f = (struct log_facts){ .running = NAN,
				 .waiting = NAN,
				 .kv_tokens = NAN,
				 .balancedness = NAN };
}

/* ---- words -------------------------------------------------------------- */

/* Printable ASCII without escape sequences; runs of blanks become one. */
static void clean(const char *line, size_t bytes, char *out, size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes && n < room - 1; i++) {
		unsigned char c = (unsigned char)line[i];

		if (c == 0x1b && i + 1 < bytes && line[i + 1] == '[') {
			for (i += 2;
			     i < bytes && !isalpha((unsigned char)line[i]);)
				i++;
			continue;
		}
		if (c == '\t')
			c = ' ';
		if (!isprint(c) || (c == ' ' && n && out[n - 1] == ' '))
			continue;
		out[n++] = (char)c;
	}
	out[n] = '\0';
}

static const char *after(const char *s, const char *words)
{
	const char *p = strstr(s, words);

	return p ? p + strlen(words) : NULL;
}

/* Up to one of `ends`; without quotes around it. */
static bool take(char *out, size_t room, const char *s, const char *ends)
{
	size_t n;

	s += strspn(s, " '\"");
	n = strcspn(s, ends);
	while (n > 0 && strchr(" '\".,", s[n - 1]))
		n--;
	if (n == 0 || n >= room)
		return false;
	memcpy(out, s, n);
	out[n] = '\0';
	return true;
}

/* The number behind the words, with commas between its digits. */
static bool number(const char *s, const char *words, double *out)
{
	const char *p = after(s, words);
	char digits[32];
	size_t n = 0;

	p = p ? p + strspn(p, " ") : "";
	for (; (isdigit((unsigned char)*p) || strchr(".,", *p)) && *p &&
	       n < sizeof(digits) - 1;
	     p++)
		if (*p != ',')
			digits[n++] = *p;
		else if (!isdigit((unsigned char)p[1]))
			break;
	digits[n] = '\0';
	if (!isdigit((unsigned char)digits[0]))
		return false;
	*out = strtod(digits, NULL);
	return true;
}

static bool count(const char *s, const char *words, uint32_t *out)
{
	double v;

	if (!number(s, words, &v) || v < 1 || v > 1e9)
		return false;
	*out = (uint32_t)v;
	return true;
}

/* Text in brackets, a list of numbers. */
static bool take_sizes(struct log_facts *f, const char *s)
{
	const char *open = s + strspn(s, " :'\"");
	size_t n = strcspn(open, "]");

	if (*open != '[' ||
	    !isdigit((unsigned char)open[1 + strspn(open + 1, " ")]))
		return false;
	f->sizes_cut = memmem(open, n, "...", 3) != NULL || open[n] != ']';
	if (n >= sizeof(f->sizes)) {
		n = sizeof(f->sizes) - 1;
		f->sizes_cut = true;
	}
	memcpy(f->sizes, open, n);
	f->sizes[n] = '\0';
	f->graphs = true;
	return true;
}

static void set_engine(struct log_facts *f, const char *engine)
{
	snprintf(f->engine, sizeof(f->engine), "%s", engine);
}

/* ---- kinds of lines ----------------------------------------------------- */

/* "vLLM API server version 0.8.5", a banner's "version 0.25.1", "a V1 LLM
 * engine (v0.9.1) with config: model='a/b'", "server_args=ServerArgs(" */
static bool banner(const char *s, struct log_facts *f)
{
	const char *p = after(s, "vLLM API server version ");
	const char *body = after(s, "] ");
	bool api = strstr(s, "(APIServer") || strstr(s, "api_server.py") ||
		   strstr(s, "api_utils.py");
	bool said = false;

	if (!p)
		p = after(s, "LLM engine (v");
	if (!p && api && body && strncmp(body, "version ", 8) == 0)
		p = body + 8;
	if (p && isdigit((unsigned char)*p)) {
		said = take(f->version, sizeof(f->version), p, " )");
		set_engine(f, "vllm");
	}
	if (api && body && strncmp(body, "model ", 6) == 0)
		said |= take(f->model, sizeof(f->model), body + 6, " ");
	if (strstr(s, "LLM engine (v") && (p = after(s, "model=")))
		said |= take(f->model, sizeof(f->model), p, ",");
	p = after(s, "server_args=ServerArgs(");
	if (p && (p = after(p, "model_path="))) {
		said |= take(f->model, sizeof(f->model), p, ",)");
		set_engine(f, "sglang");
	}
	return said;
}

/* "Capture cuda graph bs [1, 2, 4]", '"cudagraph_capture_sizes": [1, 2]' */
static bool graphs(const char *s, struct log_facts *f)
{
	const char *p = after(s, "Capture cuda graph bs ");

	if (!p)
		p = after(s, "cudagraph_capture_sizes");
	if (p && take_sizes(f, p))
		return true;
	if (strstr(s, "Capture cuda graph begin") ||
	    strstr(s, "Capturing CUDA graph") ||
	    strstr(s, "Graph capturing finished")) {
		f->graphs = true;
		return true;
	}
	return false;
}

/* "Decode batch. #running-req: 3, ...", "Running: 3 reqs, Waiting: 0 reqs" */
static bool load(const char *s, struct log_facts *f)
{
	bool said;

	if (strstr(s, "Decode batch")) {
		set_engine(f, "sglang");
		said = number(s, "#running-req: ", &f->running);
		return number(s, "#queue-req: ", &f->waiting) || said;
	}
	if (!strstr(s, "Running: ") || !strstr(s, "Waiting: "))
		return false;
	set_engine(f, "vllm");
	said = number(s, "Running: ", &f->running);
	return number(s, "Waiting: ", &f->waiting) || said;
}

/* ".../configs/E=256,N=14336,device_name=NVIDIA_H100.json" */
static bool tuned(const char *s, struct log_facts *f)
{
	const char *p = after(s, "/E=");

	if (!strstr(s, "MoE"))
		return false;
	if (!p)
		return false;
	if (!count(p - 2, "E=", &f->experts))
		return false;
	p = after(p, "device_name=");
	if (p)
		take(f->device, sizeof(f->device), p, ",");
	if (strlen(f->device) > 5 &&
	    strcmp(f->device + strlen(f->device) - 5, ".json") == 0)
		f->device[strlen(f->device) - 5] = '\0';
	return true;
}

/* "Using CompressedTensorsWNA16MarlinMoEMethod": the words in such a name. */
static bool method(const char *name, struct log_facts *f)
{
	static const char *const kernels[] = { "Marlin", "Cutlass",
					       "FlashInfer", "Triton",
					       "DeepGemm" };
	static const char *const types[] = { "WNA16",     "W8A8Fp8", "W8A8Int8",
					     "W4A4Nvfp4", "W4A8Fp8", "W4A4" };
	const char *kernel = "", *type = "";
	char word[96], text[96];
	size_t n;

	if (!take(word, sizeof(word), name, " .(") ||
	    !strstr(word, "MoEMethod"))
		return false;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (strstr(word, kernels[i]))
			kernel = kernels[i];
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !*type; i++)
		if (strstr(word, types[i]))
			type = types[i];
	n = (size_t)snprintf(text, sizeof(text), "%s%s%s", kernel,
			     *kernel && *type ? " " : "", type);
	if (n == 0) /* "Fp8MoEMethod": its name is all that is known */
		snprintf(text, sizeof(text), "%s", word);
	if (*kernel)
		text[0] = (char)tolower((unsigned char)text[0]);
	snprintf(f->moe_backend, sizeof(f->moe_backend), "%.47s", text);
	return true;
}

/* "Using FLASHINFER_CUTLASS Fp8 MoE backend out of potential backends: [...]",
 * "Using Flash Attention backend", "Use fa3 backend by default" */
static bool backend(const char *s, struct log_facts *f)
{
	const char *using = after(s, "Using "), *end;
	char word[64];

	if (using && method(using, f))
		return true;
	end = using ? strstr(using, " MoE backend") : NULL;
	if (end && take(word, sizeof(word), using, " '\""))
		return take(f->moe_backend, sizeof(f->moe_backend), word, " ");
	end = using ? strstr(using, "ttention backend") : NULL;
	if (end && end - using < 40)
		return take(f->attention_backend, sizeof(f->attention_backend),
			    using, " '\"");
	using = after(s, "Attention backend not set. Use ");
	return using && take(f->attention_backend, sizeof(f->attention_backend),
			     using, " ");
}

static bool balance(const char *s, struct log_facts *f)
{
	double avg, max, v;

	if (number(s, "current_pass_balancedness=", &v)) {
		set_engine(f, "sglang");
		f->balancedness = v;
		f->balancedness_trusted = true;
		return true;
	}
	if (!strstr(s, "EPLB"))
		return false;
	if (number(s, "avg_tokens=", &avg) && number(s, "max_tokens=", &max) &&
	    max > 0) {
		f->balancedness = avg / max;
		f->balancedness_trusted = true;
		return true;
	}
	if (!number(s, "balancedness=", &v) &&
	    !number(s, "balancedness logged ", &v))
		return false;
	f->balancedness = v;
	f->balancedness_trusted = false;
	return true;
}

static bool sizes(const char *s, struct log_facts *f)
{
	const char *p = after(s, "Load weight end. type=");
	bool said = p && take(f->architecture, sizeof(f->architecture), p, ",");

	if (p)
		set_engine(f, "sglang");
	said |= number(s, "GPU KV cache size: ", &f->kv_tokens);
	said |= number(s, "max_total_num_tokens=", &f->kv_tokens);
	/* "Local/global number of experts: 16/128" */
	p = after(s, "Local/global number of experts: ");
	if (p && (p = strchr(p, '/')))
		said |= count(p, "/", &f->experts);
	p = after(s, "running on http://");
	if (!p)
		p = strstr(s, "Starting vLLM API server") ? after(s, "http://")
							  : NULL;
	if (p && (p = strchr(p, ':')))
		said |= count(p, ":", &f->port);
	return said;
}

bool log_line_read(const char *line, size_t bytes, struct log_facts *f)
{
	static bool (*const kinds[])(const char *s, struct log_facts *f) = {
		banner, graphs, load, tuned, backend, balance, sizes
	};
	char text[LINE_BYTES];
	bool said = false;

	clean(line, bytes, text, sizeof(text));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		said |= kinds[i](text, f);
	return said;
}
