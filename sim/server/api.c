#include "sim/server/api.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define TOKENS_MAX (1u << 24)

/* ---- requests ------------------------------------------------------------ */

static uint32_t text_tokens(size_t bytes)
{
	size_t n = (bytes + API_TOKEN_BYTES - 1) / API_TOKEN_BYTES;

	return n ? (uint32_t)n : 1;
}

/* An optional number 1..TOKENS_MAX; false when it is there and is none. */
static bool take_count(const json_t *o, const char *key, uint32_t *out)
{
	const json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return true;
	if (!json_is_integer(v) || json_integer_value(v) < 1 ||
	    json_integer_value(v) > TOKENS_MAX)
		return false;
	*out = (uint32_t)json_integer_value(v);
	return true;
}

static bool take_flag(const json_t *o, const char *key, bool *out)
{
	const json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return true;
	if (!json_is_boolean(v))
		return false;
	*out = json_is_true(v);
	return true;
}

/* A string, a list of token ids, or a list of one string; 0: neither. */
static uint32_t prompt_tokens(const json_t *prompt)
{
	size_t n = json_array_size(prompt), i;
	const json_t *v;

	if (json_is_string(prompt))
		return text_tokens(json_string_length(prompt));
	if (n == 1 && json_is_string(json_array_get(prompt, 0)))
		return text_tokens(
			json_string_length(json_array_get(prompt, 0)));
	json_array_foreach(prompt, i, v) if (!json_is_integer(v)) return 0;
	return n <= TOKENS_MAX ? (uint32_t)n : 0;
}

static uint32_t messages_tokens(const json_t *messages)
{
	size_t bytes = 0, i;
	const json_t *m;

	if (!json_array_size(messages))
		return 0;
	json_array_foreach(messages, i, m)
	{
		const json_t *text = json_object_get(m, "content");

		if (!json_is_string(json_object_get(m, "role")))
			return 0;
		if (json_is_string(text))
			bytes += json_string_length(text);
	}
	return text_tokens(bytes);
}

static const char *take_tokens(const json_t *o, struct api_request *q)
{
	switch (q->kind) {
	case API_CHAT:
		q->prompt_tokens =
			messages_tokens(json_object_get(o, "messages"));
		if (!q->prompt_tokens)
			return "messages must be a list of role and content";
		return take_count(o, "max_tokens", &q->max_tokens) &&
				       take_count(o, "max_completion_tokens",
						  &q->max_tokens)
			       ? NULL
			       : "max_tokens must be at least 1";
	case API_GENERATE:
		q->prompt_tokens = prompt_tokens(json_object_get(o, "text"));
		if (!q->prompt_tokens)
			q->prompt_tokens =
				prompt_tokens(json_object_get(o, "input_ids"));
		o = json_object_get(o, "sampling_params");
		if (!q->prompt_tokens)
			return "text or input_ids is required";
		return take_count(o, "max_new_tokens", &q->max_tokens) &&
				       take_flag(o, "ignore_eos",
						 &q->ignore_eos)
			       ? NULL
			       : "bad sampling_params";
	default:
		q->prompt_tokens = prompt_tokens(json_object_get(o, "prompt"));
		if (!q->prompt_tokens)
			return "prompt must be one text or a list of tokens";
		return take_count(o, "max_tokens", &q->max_tokens)
			       ? NULL
			       : "max_tokens must be at least 1";
	}
}

/* NULL, or what is wrong with the request. */
static const char *take_request(const json_t *o, uint32_t max_model_len,
				struct api_request *q)
{
	uint32_t n = 1;
	const char *bad;

	if (!json_is_object(o))
		return "the body is not a JSON object";
	q->max_tokens = q->kind == API_COMPLETION ? API_MAX_TOKENS_DEFAULT : 0;
	bad = take_tokens(o, q);
	if (bad)
		return bad;
	if (!take_flag(o, "stream", &q->stream) ||
	    !take_flag(o, "ignore_eos", &q->ignore_eos))
		return "stream and ignore_eos must be true or false";
	if (!take_count(o, "stream_interval", &q->stream_interval))
		return "stream_interval must be at least 1";
	if (!take_flag(json_object_get(o, "stream_options"), "include_usage",
		       &q->include_usage))
		return "include_usage must be true or false";
	if (!take_count(o, "n", &n) || n != 1)
		return "only n = 1 is simulated";
	if (q->prompt_tokens >= max_model_len)
		return "the prompt is longer than the model's context";
	if (!q->max_tokens)
		q->max_tokens = max_model_len - q->prompt_tokens;
	if (q->max_tokens > max_model_len - q->prompt_tokens)
		return "prompt and max_tokens exceed the model's context";
	return NULL;
}

int api_parse(enum api_kind kind, const char *body, size_t bytes,
	      uint32_t max_model_len, struct api_request *out, char *why,
	      size_t why_bytes)
{
	struct api_request q = { .kind = kind };
	json_error_t error;
	json_t *root = json_loadb(body, bytes, 0, &error);
	const char *bad;

	if (!root) {
		snprintf(why, why_bytes, "the body is not JSON: line %d: %s",
			 error.line, error.text);
		return -EINVAL;
	}
	bad = take_request(root, max_model_len, &q);
	json_decref(root);
	if (bad) {
		snprintf(why, why_bytes, "%s", bad);
		return -EINVAL;
	}
	*out = q;
	return 0;
}

/* ---- responses ----------------------------------------------------------- */

void api_escape(const char *text, char *out, size_t bytes)
{
	size_t n = 0;

	for (; *text && n + 7 < bytes; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20) {
			n += (size_t)snprintf(out + n, bytes - n, "\\u%04x", c);
			continue;
		}
		if (c == '"' || c == '\\')
			out[n++] = '\\';
		out[n++] = (char)c;
	}
	out[n] = 0;
}

/* Text under construction; what does not fit is left out. */
struct text {
	char *p;
	size_t used, bytes;
};

static void put(struct text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->used + n >= t->bytes)
		return;
	memcpy(t->p + t->used, s, n + 1);
	t->used += n;
}

static void put_number(struct text *t, uint64_t v)
{
	char digits[21];
	size_t at = sizeof(digits) - 1;

	digits[at] = 0;
	do
		digits[--at] = (char)('0' + v % 10);
	while (v /= 10);
	put(t, digits + at);
}

static void put_tokens(struct text *t, uint32_t first, uint32_t n)
{
	static const char *const words[] = {
		" the",     " model",   " routes", " each",  " token",
		" to",      " a",       " few",    " of",    " its",
		" many",    " experts", " and",    " reads", " only",
		" their",   " weights", ".",       " So",    " small",
		" batches", " cost",    " as",     " much",  " memory",
		" time",    " per",     " answer", " large", " ones",
	};
	const size_t words_n = sizeof(words) / sizeof(words[0]);

	for (uint32_t i = 0; i < n; i++)
		put(t, words[(first + i) % words_n]);
}

static void put_finish(struct text *t, const char *finish)
{
	if (!finish) {
		put(t, "null");
		return;
	}
	put(t, "\"");
	put(t, finish);
	put(t, "\"");
}

static void put_head(struct text *t, const struct api_response *r, bool chunk)
{
	put(t, "{\"id\":\"");
	put(t, r->id);
	put(t, "\",\"object\":\"");
	if (r->request->kind == API_CHAT)
		put(t, chunk ? "chat.completion.chunk" : "chat.completion");
	else
		put(t, "text_completion");
	put(t, "\",\"created\":");
	put_number(t, r->created);
	put(t, ",\"model\":\"");
	put(t, r->model);
	put(t, "\",\"choices\":[");
}

static void put_usage(struct text *t, const struct api_response *r,
		      uint32_t tokens)
{
	put(t, "\"usage\":{\"prompt_tokens\":");
	put_number(t, r->request->prompt_tokens);
	put(t, ",\"total_tokens\":");
	put_number(t, (uint64_t)r->request->prompt_tokens + tokens);
	put(t, ",\"completion_tokens\":");
	put_number(t, tokens);
	put(t, "}");
}

/* SGLang's own: the whole text so far, and the counts beside it. */
static void put_generate(struct text *t, const struct api_response *r,
			 uint32_t tokens, const char *finish)
{
	put(t, "{\"text\":\"");
	put_tokens(t, 0, tokens);
	put(t, "\",\"meta_info\":{\"id\":\"");
	put(t, r->id);
	put(t, "\",\"finish_reason\":");
	if (finish) {
		put(t, "{\"type\":");
		put_finish(t, finish);
		put(t, "}");
	} else {
		put(t, "null");
	}
	put(t, ",\"prompt_tokens\":");
	put_number(t, r->request->prompt_tokens);
	put(t, ",\"completion_tokens\":");
	put_number(t, tokens);
	put(t, "}}");
}

size_t api_event(const struct api_response *r, uint32_t first, uint32_t tokens,
		 const char *finish, char *out, size_t bytes)
{
	struct text t = { .p = out, .bytes = bytes };
	bool chat = r->request->kind == API_CHAT;

	put(&t, "data: ");
	if (r->request->kind == API_GENERATE) {
		put_generate(&t, r, first + tokens, finish);
		put(&t, "\n\n");
		return t.used;
	}
	put_head(&t, r, true);
	put(&t, chat ? "{\"index\":0,\"delta\":{\"content\":\""
		     : "{\"index\":0,\"text\":\"");
	put_tokens(&t, first, tokens);
	put(&t, chat ? "\"},\"logprobs\":null,\"finish_reason\":"
		     : "\",\"logprobs\":null,\"finish_reason\":");
	put_finish(&t, finish);
	put(&t, ",\"stop_reason\":null}],\"usage\":null}\n\n");
	return t.used;
}

size_t api_role_event(const struct api_response *r, char *out, size_t bytes)
{
	struct text t = { .p = out, .bytes = bytes };

	put(&t, "data: ");
	put_head(&t, r, true);
	put(&t, "{\"index\":0,\"delta\":{\"role\":\"assistant\","
		"\"content\":\"\"},\"logprobs\":null,"
		"\"finish_reason\":null}]}\n\n");
	return t.used;
}

size_t api_usage_event(const struct api_response *r, uint32_t tokens, char *out,
		       size_t bytes)
{
	struct text t = { .p = out, .bytes = bytes };

	put(&t, "data: ");
	put_head(&t, r, true);
	put(&t, "],");
	put_usage(&t, r, tokens);
	put(&t, "}\n\n");
	return t.used;
}

size_t api_whole(const struct api_response *r, uint32_t tokens,
		 const char *finish, char *out, size_t bytes)
{
	struct text t = { .p = out, .bytes = bytes };
	bool chat = r->request->kind == API_CHAT;

	if (r->request->kind == API_GENERATE) {
		put_generate(&t, r, tokens, finish);
		return t.used;
	}
	put_head(&t, r, false);
	put(&t, chat ? "{\"index\":0,\"message\":{\"role\":\"assistant\","
		       "\"content\":\""
		     : "{\"index\":0,\"text\":\"");
	put_tokens(&t, 0, tokens);
	put(&t, chat ? "\"}" : "\"");
	put(&t, ",\"logprobs\":null,\"finish_reason\":");
	put_finish(&t, finish);
	put(&t, ",\"stop_reason\":null}],");
	put_usage(&t, r, tokens);
	put(&t, "}");
	return t.used;
}

size_t api_error(int status, const char *message, char *out, size_t bytes)
{
	struct text t = { .p = out, .bytes = bytes };
	char escaped[512];

	api_escape(message, escaped, sizeof(escaped));
	put(&t, "{\"error\":{\"message\":\"");
	put(&t, escaped);
	put(&t, status == 404 ? "\",\"type\":\"NotFoundError\""
			      : "\",\"type\":\"BadRequestError\"");
	put(&t, ",\"param\":null,\"code\":");
	put_number(&t, (uint64_t)status);
	put(&t, "}}");
	return t.used;
}
