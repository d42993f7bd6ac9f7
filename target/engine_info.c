#include "target/engine_info.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

const struct engine_info_page engine_info_pages[] = {
	{ "/version", "vllm", NULL },
	{ "/v1/models", NULL, NULL },
	{ "/model_info", "sglang", "/get_model_info" },
	{ "/server_info", "sglang", "/get_server_info" },
	{ "/server_info?config_format=json", "vllm", NULL },
	{ NULL, NULL, NULL },
};

/* How a value is shown, and which ones are not worth showing. */
enum kind {
	WORD, /* text or a number above 0; not null, "auto", "none" */
	MANY, /* a number above 1 */
	TRUE, /* "on" when true */
	SIZES /* a list of batch sizes */
};

static const struct key {
	const char *path; /* members, apart by dots */
	enum launch_id id;
	enum kind kind;
} keys[] = {
	/* SGLang, /server_info */
	{ "tp_size", LAUNCH_TP, MANY },
	{ "pp_size", LAUNCH_PP, MANY },
	{ "dp_size", LAUNCH_DP, MANY },
	{ "ep_size", LAUNCH_EP, MANY },
	{ "enable_dp_attention", LAUNCH_DP_ATTENTION, TRUE },
	{ "quantization", LAUNCH_QUANT, WORD },
	{ "kv_cache_dtype", LAUNCH_KV_TYPE, WORD },
	{ "moe_runner_backend", LAUNCH_MOE_BACKEND, WORD },
	{ "moe_a2a_backend", LAUNCH_A2A_BACKEND, WORD },
	{ "attention_backend", LAUNCH_ATTENTION, WORD },
	{ "disable_cuda_graph", LAUNCH_EAGER, TRUE },
	{ "cuda_graph_bs", LAUNCH_CAPTURE, SIZES },
	{ "cuda_graph_bs_decode", LAUNCH_CAPTURE, SIZES },
	{ "speculative_algorithm", LAUNCH_SPECULATIVE, WORD },
	{ "speculative_num_draft_tokens", LAUNCH_DRAFT_TOKENS, WORD },
	{ "speculative_num_steps", LAUNCH_DRAFT_STEPS, WORD },
	{ "speculative_eagle_topk", LAUNCH_DRAFT_TOPK, WORD },
	{ "speculative_draft_model_path", LAUNCH_DRAFT_MODEL, WORD },
	{ "enable_eplb", LAUNCH_EPLB, TRUE },
	{ "ep_num_redundant_experts", LAUNCH_REDUNDANT, WORD },
	{ "stream_interval", LAUNCH_STREAM_INTERVAL, MANY },
	{ "max_running_requests", LAUNCH_MAX_SEQS, WORD },
	{ "max_prefill_tokens", LAUNCH_MAX_TOKENS, WORD },
	{ "chunked_prefill_size", LAUNCH_CHUNKED, WORD },
	{ "disaggregation_mode", LAUNCH_DISAGGREGATION, WORD },
	{ "context_length", LAUNCH_CONTEXT, WORD },
	{ "page_size", LAUNCH_BLOCK, WORD },
	{ "mem_fraction_static", LAUNCH_MEMORY, WORD },
	{ "dtype", LAUNCH_DTYPE, WORD },
	{ "load_format", LAUNCH_LOAD_FORMAT, WORD },
	{ "nnodes", LAUNCH_NODES, MANY },
	{ "node_rank", LAUNCH_NODE_RANK, WORD },
	{ "tokenizer_worker_num", LAUNCH_API_SERVERS, MANY },
	{ "expert_distribution_recorder_mode", LAUNCH_RECORDER, WORD },
	/* vLLM, /server_info */
	{ "vllm_config.parallel_config.tensor_parallel_size", LAUNCH_TP, MANY },
	{ "vllm_config.parallel_config.pipeline_parallel_size", LAUNCH_PP,
	  MANY },
	{ "vllm_config.parallel_config.data_parallel_size", LAUNCH_DP, MANY },
	{ "vllm_config.parallel_config.all2all_backend", LAUNCH_A2A_BACKEND,
	  WORD },
	{ "vllm_config.parallel_config.enable_eplb", LAUNCH_EPLB, TRUE },
	{ "vllm_config.model_config.quantization", LAUNCH_QUANT, WORD },
	{ "vllm_config.model_config.enforce_eager", LAUNCH_EAGER, TRUE },
	{ "vllm_config.model_config.dtype", LAUNCH_DTYPE, WORD },
	{ "vllm_config.model_config.max_model_len", LAUNCH_CONTEXT, WORD },
	{ "vllm_config.cache_config.cache_dtype", LAUNCH_KV_TYPE, WORD },
	{ "vllm_config.cache_config.block_size", LAUNCH_BLOCK, WORD },
	{ "vllm_config.cache_config.gpu_memory_utilization", LAUNCH_MEMORY,
	  WORD },
	{ "vllm_config.scheduler_config.max_num_seqs", LAUNCH_MAX_SEQS, WORD },
	{ "vllm_config.scheduler_config.max_num_batched_tokens",
	  LAUNCH_MAX_TOKENS, WORD },
	{ "vllm_config.scheduler_config.stream_interval",
	  LAUNCH_STREAM_INTERVAL, MANY },
	{ "vllm_config.compilation_config.cudagraph_capture_sizes",
	  LAUNCH_CAPTURE, SIZES },
	{ "vllm_config.compilation_config.cudagraph_mode", LAUNCH_GRAPH_MODE,
	  WORD },
	{ "vllm_config.speculative_config.method", LAUNCH_SPECULATIVE, WORD },
	{ "vllm_config.speculative_config.num_speculative_tokens",
	  LAUNCH_DRAFT_TOKENS, WORD },
	{ "vllm_config.load_config.load_format", LAUNCH_LOAD_FORMAT, WORD },
};

/* Values that say: whatever the engine thinks is best. */
static const char *const defaults[] = { "",     "auto", "none", "null",
					"None", "NONE", "off" };

static json_t *find(json_t *o, const char *path)
{
	char name[64];

	while (o) {
		size_t n = strcspn(path, ".");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		o = json_object_get(o, name);
		if (!path[n])
			break;
		path += n + 1;
	}
	return o;
}

static void put_text(char *out, size_t room, json_t *v)
{
	if (json_is_string(v) && json_string_length(v))
		snprintf(out, room, "%s", json_string_value(v));
}

static uint32_t number_of(json_t *v)
{
	json_int_t n = json_is_integer(v) ? json_integer_value(v) : 0;

	return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

static bool is_default(const char *word)
{
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (!strcmp(word, defaults[i]))
			return true;
	return false;
}

static void set_word(struct launch *l, enum launch_id id, json_t *v)
{
	char text[48];

	if (json_is_string(v) && !is_default(json_string_value(v))) {
		launch_set(l, id, json_string_value(v));
	} else if (json_is_integer(v) && json_integer_value(v) > 0) {
		snprintf(text, sizeof(text), "%lld",
			 (long long)json_integer_value(v));
		launch_set(l, id, text);
	} else if (json_is_real(v)) {
		snprintf(text, sizeof(text), "%.4g", json_real_value(v));
		launch_set(l, id, text);
	}
}

static void set_sizes(struct engine_info *i, json_t *v)
{
	char *text;

	if (!json_is_array(v) || !json_array_size(v))
		return;
	text = json_dumps(v, JSON_COMPACT);
	if (!text)
		return;
	launch_set_sizes(&i->launch, text);
	if (strlen(text) < sizeof(i->capture_sizes))
		memcpy(i->capture_sizes, text, strlen(text) + 1);
	free(text);
}

static void set_key(struct engine_info *i, const struct key *k, json_t *v)
{
	switch (k->kind) {
	case MANY:
		if (json_integer_value(v) > 1)
			set_word(&i->launch, k->id, v);
		break;
	case WORD:
		set_word(&i->launch, k->id, v);
		break;
	case TRUE:
		if (json_is_true(v))
			launch_set(&i->launch, k->id, "on");
		break;
	case SIZES:
		set_sizes(i, v);
		break;
	}
}

static void read_models(struct engine_info *i, json_t *doc)
{
	json_t *first = json_array_get(json_object_get(doc, "data"), 0);
	const char *owner =
		json_string_value(json_object_get(first, "owned_by"));

	if (owner && (!strcmp(owner, "vllm") || !strcmp(owner, "sglang")))
		snprintf(i->engine, sizeof(i->engine), "%s", owner);
	put_text(i->model, sizeof(i->model), json_object_get(first, "id"));
	put_text(i->model_path, sizeof(i->model_path),
		 json_object_get(first, "root"));
	if (number_of(json_object_get(first, "max_model_len")))
		i->context_tokens =
			number_of(json_object_get(first, "max_model_len"));
}

/* "0.28.1", "v0.28.1", "0.28.1rc2.dev3+g1234567"; not "latest". */
static void read_version(struct engine_info *i, json_t *v)
{
	const char *s = json_string_value(v);

	if (s && s[0] == 'v')
		s++;
	if (s && s[0])
		snprintf(i->version, sizeof(i->version), "%.23s", s);
}

static void read_arguments(struct engine_info *i, json_t *doc)
{
	static const struct {
		const char *path;
		size_t at;
	} counts[] = {
		{ "tp_size", offsetof(struct engine_info, tp) },
		{ "pp_size", offsetof(struct engine_info, pp) },
		{ "dp_size", offsetof(struct engine_info, dp) },
		{ "ep_size", offsetof(struct engine_info, ep) },
		{ "vllm_config.parallel_config.tensor_parallel_size",
		  offsetof(struct engine_info, tp) },
		{ "vllm_config.parallel_config.pipeline_parallel_size",
		  offsetof(struct engine_info, pp) },
		{ "vllm_config.parallel_config.data_parallel_size",
		  offsetof(struct engine_info, dp) },
	};

	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
		set_key(i, &keys[k], find(doc, keys[k].path));
	for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		uint32_t n = number_of(find(doc, counts[k].path));

		if (n)
			memcpy((char *)i + counts[k].at, &n, sizeof(n));
	}
}

int engine_info_add(struct engine_info *i, const struct engine_info_page *page,
		    const char *body, size_t bytes)
{
	json_t *doc = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, NULL);

	if (!json_is_object(doc)) {
		json_decref(doc);
		return -EPROTO;
	}
	if (page->engine && strcmp(page->engine, "vllm") != 0)
		snprintf(i->engine, sizeof(i->engine), "%s", page->engine);
	if (!strcmp(page->path, "/v1/models"))
		read_models(i, doc);
	else
		read_arguments(i, doc);
	read_version(i, json_object_get(doc, "version"));
	put_text(i->model_path, sizeof(i->model_path),
		 json_object_get(doc, "model_path"));
	put_text(i->model, sizeof(i->model),
		 json_object_get(doc, "served_model_name"));
	json_decref(doc);
	return 0;
}
