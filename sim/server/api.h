/*
 * api.h - the bodies of requests, and what is sent back
 *
 * Reads the OpenAI-compatible JSON of /v1/completions and /v1/chat/completions
 * and SGLang's /generate, and writes the JSON of their responses.  A prompt is
 * counted as one token per API_TOKEN_BYTES bytes, or one per element when it is
 * a list of token ids.  Pure, but for memory that jansson takes.
 */
#ifndef MOETOP_SIM_SERVER_API_H
#define MOETOP_SIM_SERVER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_TOKEN_BYTES 4u
#define API_MAX_TOKENS_DEFAULT 16u /* of /v1/completions */

enum api_kind { API_COMPLETION, API_CHAT, API_GENERATE };

struct api_request {
	enum api_kind kind;
	uint32_t prompt_tokens; /* >= 1 */
	uint32_t max_tokens;    /* >= 1 */
	bool stream, ignore_eos, include_usage;
	uint32_t stream_interval; /* 0: the server's */
};

/*
 * max_model_len bounds prompt plus output.  0, or -EINVAL and one line in why:
 * that is the client's mistake, status 400.
 */
int api_parse(enum api_kind kind, const char *body, size_t bytes,
	      uint32_t max_model_len, struct api_request *out, char *why,
	      size_t why_bytes);

/* What every event of one response has in common. */
struct api_response {
	const struct api_request *request;
	const char *id, *model; /* model is already escaped for JSON */
	uint64_t created;       /* UNIX seconds */
};

#define API_TEXT_BYTES 16u    /* of one token, at most */
#define API_EVENT_BYTES 1024u /* of one event without its text */

/*
 * One server-sent event, "data: {...}\n\n", into out (NUL-terminated, bytes is
 * enough if it is API_EVENT_BYTES + tokens x API_TEXT_BYTES + the model's
 * length).  first: the index of the first token; tokens: how many it carries;
 * finish: NULL or "length", "stop".  Returns the length.
 */
size_t api_event(const struct api_response *r, uint32_t first, uint32_t tokens,
		 const char *finish, char *out, size_t bytes);
/* The event with the role that opens a chat; the one with the usage. */
size_t api_role_event(const struct api_response *r, char *out, size_t bytes);
size_t api_usage_event(const struct api_response *r, uint32_t tokens, char *out,
		       size_t bytes);
/* The whole response of a request that does not stream. */
size_t api_whole(const struct api_response *r, uint32_t tokens,
		 const char *finish, char *out, size_t bytes);
size_t api_error(int status, const char *message, char *out, size_t bytes);

/* Escape text for use inside a JSON string; cut where out ends. */
void api_escape(const char *text, char *out, size_t bytes);

#endif
