#include "bpf/endpoints.h"

#include <string.h>

#include "bpf/huffman.h"

#define CODED_CHARACTERS_MAX 128u /* of 64 bytes, of 5 bits each at least */

/* Methods of remote calls that the services of both engines have. */
#define CALLS(service)                                          \
	{ service "/Generate", ENDPOINT_GENERATION },           \
		{ service "/Embed", ENDPOINT_POOLING },         \
		{ service "/HealthCheck", ENDPOINT_IGNORED },   \
		{ service "/Abort", ENDPOINT_IGNORED },         \
		{ service "/GetModelInfo", ENDPOINT_IGNORED },  \
		{ service "/GetServerInfo", ENDPOINT_IGNORED }, \
		{ service "/GetLoads", ENDPOINT_IGNORED },      \
		{ service "/GetTokenizer", ENDPOINT_IGNORED },  \
		{ service "/FlushCache", ENDPOINT_IGNORED },    \
		{ service "/StartProfile", ENDPOINT_IGNORED },  \
		{ service "/StopProfile", ENDPOINT_IGNORED },   \
	{                                                       \
		service "/SubscribeKvEvents", ENDPOINT_IGNORED  \
	}
#define SGLANG "/sglang.runtime.v1.SglangService"

static const struct endpoint_path table[] = {
	/* vLLM and SGLang, OpenAI and Anthropic interfaces */
	{ "/v1/completions", ENDPOINT_GENERATION },
	{ "/v1/chat/completions", ENDPOINT_GENERATION },
	{ "/v1/responses", ENDPOINT_GENERATION },
	{ "/v1/messages", ENDPOINT_GENERATION },
	{ "/v1/audio/transcriptions", ENDPOINT_GENERATION },
	{ "/v1/realtime", ENDPOINT_GENERATION },
	{ "/invocations", ENDPOINT_GENERATION },
	/* vLLM */
	{ "/v1/chat/completions/batch", ENDPOINT_GENERATION },
	{ "/v1/audio/translations", ENDPOINT_GENERATION },
	{ "/inference/v1/generate", ENDPOINT_GENERATION },
	{ "/cohere/v2/chat", ENDPOINT_GENERATION },
	{ "/generative_scoring", ENDPOINT_GENERATION },
	/* SGLang */
	{ "/generate", ENDPOINT_GENERATION },
	{ "/api/chat", ENDPOINT_GENERATION },
	{ "/api/generate", ENDPOINT_GENERATION },
	{ "/vertex_generate", ENDPOINT_GENERATION },

	{ "/v1/embeddings", ENDPOINT_POOLING },
	{ "/v2/embed", ENDPOINT_POOLING },
	{ "/pooling", ENDPOINT_POOLING },
	{ "/classify", ENDPOINT_POOLING },
	{ "/score", ENDPOINT_POOLING },
	{ "/v1/score", ENDPOINT_POOLING },
	{ "/rerank", ENDPOINT_POOLING },
	{ "/v1/rerank", ENDPOINT_POOLING },
	{ "/v2/rerank", ENDPOINT_POOLING },
	{ "/encode", ENDPOINT_POOLING },

	/* A probe that generates one token is still a probe. */
	{ "/health_generate", ENDPOINT_IGNORED },
	{ "/health", ENDPOINT_IGNORED },
	{ "/healthz", ENDPOINT_IGNORED },
	{ "/ping", ENDPOINT_IGNORED },
	{ "/metrics", ENDPOINT_IGNORED },
	{ "/load", ENDPOINT_IGNORED },
	{ "/version", ENDPOINT_IGNORED },
	{ "/v1/models", ENDPOINT_IGNORED },
	{ "/tokenize", ENDPOINT_IGNORED },
	{ "/detokenize", ENDPOINT_IGNORED },
	{ "/server_info", ENDPOINT_IGNORED },
	{ "/get_server_info", ENDPOINT_IGNORED },
	{ "/model_info", ENDPOINT_IGNORED },
	{ "/get_model_info", ENDPOINT_IGNORED },
	{ "/v1/loads", ENDPOINT_IGNORED },
	{ "/get_load", ENDPOINT_IGNORED },
	{ "/v1/messages/count_tokens", ENDPOINT_IGNORED },
	{ "/start_profile", ENDPOINT_IGNORED },
	{ "/stop_profile", ENDPOINT_IGNORED },

	/* gRPC, by the names in the engines' .proto files */
	CALLS("/vllm.grpc.engine.VllmEngine"),
	CALLS("/sglang.grpc.scheduler.SglangScheduler"),
	{ SGLANG "/TextGenerate", ENDPOINT_GENERATION },
	{ SGLANG "/Generate", ENDPOINT_GENERATION },
	{ SGLANG "/ChatComplete", ENDPOINT_GENERATION },
	{ SGLANG "/Complete", ENDPOINT_GENERATION },
	{ SGLANG "/TextEmbed", ENDPOINT_POOLING },
	{ SGLANG "/Embed", ENDPOINT_POOLING },
	{ SGLANG "/Classify", ENDPOINT_POOLING },
	{ SGLANG "/OpenAIEmbed", ENDPOINT_POOLING },
	{ SGLANG "/OpenAIClassify", ENDPOINT_POOLING },
	{ SGLANG "/Score", ENDPOINT_POOLING },
	{ SGLANG "/Rerank", ENDPOINT_POOLING },
	{ SGLANG "/Tokenize", ENDPOINT_IGNORED },
	{ SGLANG "/Detokenize", ENDPOINT_IGNORED },
	{ SGLANG "/HealthCheck", ENDPOINT_IGNORED },
	{ SGLANG "/GetModelInfo", ENDPOINT_IGNORED },
	{ SGLANG "/GetServerInfo", ENDPOINT_IGNORED },
	{ SGLANG "/ListModels", ENDPOINT_IGNORED },
	{ SGLANG "/GetLoad", ENDPOINT_IGNORED },
	{ SGLANG "/Abort", ENDPOINT_IGNORED },
	{ "/grpc.health.v1.Health/Check", ENDPOINT_IGNORED },
	{ "/grpc.health.v1.Health/Watch", ENDPOINT_IGNORED },
};

const struct endpoint_path *endpoints_table(size_t *n)
{
	*n = sizeof(table) / sizeof(table[0]);
	return table;
}

uint64_t endpoints_hash(const char *path, size_t bytes)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (unsigned char)path[i]) * 1099511628211u;
	return hash;
}

enum endpoint endpoints_classify(const char *tail, size_t bytes)
{
	enum endpoint best = ENDPOINT_OTHER;
	size_t longest = 0;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		size_t n = strlen(table[i].path);

		if (n <= longest || n > bytes ||
		    memcmp(tail + bytes - n, table[i].path, n) != 0)
			continue;
		longest = n;
		best = table[i].endpoint;
	}
	return best;
}

enum endpoint endpoints_classify_coded(const uint8_t *tail, size_t bytes,
				       bool whole)
{
	char text[CODED_CHARACTERS_MAX];
	enum endpoint e;
	size_t n;

	for (size_t skip = 0; skip < (whole ? 1 : 8); skip++) {
		const char *query;

		if (huffman_decode(tail, bytes, skip, text, sizeof(text), &n))
			continue;
		query = memchr(text, '?', n);
		e = endpoints_classify(text,
				       query ? (size_t)(query - text) : n);
		if (e != ENDPOINT_OTHER)
			return e;
	}
	return ENDPOINT_OTHER;
}
