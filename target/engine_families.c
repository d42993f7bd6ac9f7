#include "target/engine_families.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const engines[ENGINES] = { "vllm", "sglang",   "trtllm",
					      "tgi",  "llamacpp", "dynamo" };

/* What stands before the engine's own prefix where metrics are passed on. */
static const char *const before[] = { "ray_" };

static const struct {
	const char *name;
	enum engine_merge merge;
} values[ENGINE_VALUES] = {
	[ENGINE_RUNNING] = { "running", ENGINE_ADD },
	[ENGINE_WAITING] = { "waiting", ENGINE_ADD },
	[ENGINE_PROMPT] = { "prompt_tokens_total", ENGINE_SUM },
	[ENGINE_GENERATED] = { "generation_tokens_total", ENGINE_SUM },
	[ENGINE_DECODED] = { "decoded_tokens_total", ENGINE_SUM },
	[ENGINE_THROUGHPUT] = { "tokens_per_second", ENGINE_ADD },
	[ENGINE_FINISHED] = { "finished_total", ENGINE_SUM },
	[ENGINE_ABORTED] = { "aborted_total", ENGINE_SUM },
	[ENGINE_PREEMPTED] = { "preempted_total", ENGINE_SUM },
	[ENGINE_KV_SHARE] = { "kv_usage_ratio", ENGINE_MEAN },
	[ENGINE_KV_ROOM] = { "kv_capacity_tokens", ENGINE_ADD },
	[ENGINE_KV_USED] = { "kv_used_tokens", ENGINE_ADD },
	[ENGINE_KV_READ] = { "kv_read_tokens", ENGINE_ADD },
	[ENGINE_CACHE_HIT] = { "cache_hit_ratio", ENGINE_MEAN },
	[ENGINE_CACHE_HITS] = { "cache_hit_tokens_total", ENGINE_SUM },
	[ENGINE_CACHE_ASKED] = { "cache_asked_tokens_total", ENGINE_SUM },
	[ENGINE_SPEC_LENGTH] = { "spec_accept_length", ENGINE_MEAN },
	[ENGINE_SPEC_RATE] = { "spec_accept_ratio", ENGINE_MEAN },
	[ENGINE_SPEC_DRAFTS] = { "spec_drafts_total", ENGINE_SUM },
	[ENGINE_SPEC_DRAFTED] = { "spec_drafted_tokens_total", ENGINE_SUM },
	[ENGINE_SPEC_ACCEPTED] = { "spec_accepted_tokens_total", ENGINE_SUM },
	[ENGINE_GRAPH] = { "cuda_graph", ENGINE_MEAN },
	[ENGINE_FLOPS] = { "flops_per_gpu_total", ENGINE_MEAN },
	[ENGINE_READ_BYTES] = { "read_bytes_per_gpu_total", ENGINE_MEAN },
	[ENGINE_WRITE_BYTES] = { "write_bytes_per_gpu_total", ENGINE_MEAN },
};

static const char *const hists[ENGINE_HISTS] = {
	[ENGINE_TTFT] = "ttft_seconds",
	[ENGINE_GAP] = "gap_seconds",
	[ENGINE_DURATION] = "duration_seconds",
	[ENGINE_STEP_TOKENS] = "step_tokens",
};

#define FAMILY(e, n, v, ...)                                            \
	{                                                               \
		.engine = (e), .name = (n), .value = (v), ##__VA_ARGS__ \
	}

static const struct engine_family families[] = {
	/* vLLM */
	FAMILY("vllm", "num_requests_running", ENGINE_RUNNING),
	FAMILY("vllm", "num_requests_waiting", ENGINE_WAITING),
	FAMILY("vllm", "num_requests_waiting_by_reason", ENGINE_WAITING,
	       .split = "reason"),
	FAMILY("vllm", "prompt_tokens", ENGINE_PROMPT),
	FAMILY("vllm", "generation_tokens", ENGINE_GENERATED),
	FAMILY("vllm", "generation_tokens", ENGINE_DECODED),
	FAMILY("vllm", "request_success", ENGINE_FINISHED),
	FAMILY("vllm", "request_success", ENGINE_ABORTED,
	       .label = "finished_reason", .is = "abort"),
	FAMILY("vllm", "num_preemptions", ENGINE_PREEMPTED),
	FAMILY("vllm", "kv_cache_usage_perc", ENGINE_KV_SHARE),
	FAMILY("vllm", "cache_config_info", ENGINE_KV_ROOM),
	FAMILY("vllm", "prefix_cache_hits", ENGINE_CACHE_HITS),
	FAMILY("vllm", "prefix_cache_queries", ENGINE_CACHE_ASKED),
	FAMILY("vllm", "spec_decode_num_drafts", ENGINE_SPEC_DRAFTS),
	FAMILY("vllm", "spec_decode_num_draft_tokens", ENGINE_SPEC_DRAFTED),
	FAMILY("vllm", "spec_decode_num_accepted_tokens", ENGINE_SPEC_ACCEPTED),
	FAMILY("vllm", "estimated_flops_per_gpu", ENGINE_FLOPS),
	FAMILY("vllm", "estimated_read_bytes_per_gpu", ENGINE_READ_BYTES),
	FAMILY("vllm", "estimated_write_bytes_per_gpu", ENGINE_WRITE_BYTES),
	/* vLLM before 0.9 */
	FAMILY("vllm", "gpu_cache_usage_perc", ENGINE_KV_SHARE),
	FAMILY("vllm", "avg_generation_throughput_toks_per_s",
	       ENGINE_THROUGHPUT),
	FAMILY("vllm", "gpu_prefix_cache_hit_rate", ENGINE_CACHE_HIT),
	FAMILY("vllm", "gpu_prefix_cache_hits", ENGINE_CACHE_HITS),
	FAMILY("vllm", "gpu_prefix_cache_queries", ENGINE_CACHE_ASKED),
	FAMILY("vllm", "spec_decode_draft_acceptance_rate", ENGINE_SPEC_RATE),
	/* SGLang; it counts generated tokens when a request ends */
	FAMILY("sglang", "num_running_reqs", ENGINE_RUNNING),
	FAMILY("sglang", "num_queue_reqs", ENGINE_WAITING),
	FAMILY("sglang", "prompt_tokens", ENGINE_PROMPT),
	FAMILY("sglang", "generation_tokens", ENGINE_GENERATED),
	FAMILY("sglang", "realtime_tokens", ENGINE_DECODED, .label = "mode",
	       .is = "decode"),
	FAMILY("sglang", "gen_throughput", ENGINE_THROUGHPUT),
	FAMILY("sglang", "num_requests", ENGINE_FINISHED),
	FAMILY("sglang", "num_aborted_requests", ENGINE_ABORTED),
	FAMILY("sglang", "num_retracted_requests", ENGINE_PREEMPTED),
	FAMILY("sglang", "token_usage", ENGINE_KV_SHARE),
	FAMILY("sglang", "max_total_num_tokens", ENGINE_KV_ROOM),
	FAMILY("sglang", "num_used_tokens", ENGINE_KV_USED),
	FAMILY("sglang", "decode_sum_seq_lens", ENGINE_KV_READ),
	FAMILY("sglang", "cache_hit_rate", ENGINE_CACHE_HIT),
	FAMILY("sglang", "spec_accept_length", ENGINE_SPEC_LENGTH),
	FAMILY("sglang", "spec_accept_rate", ENGINE_SPEC_RATE),
	FAMILY("sglang", "is_cuda_graph", ENGINE_GRAPH),
	FAMILY("sglang", "estimated_flops_per_gpu", ENGINE_FLOPS),
	FAMILY("sglang", "estimated_read_bytes_per_gpu", ENGINE_READ_BYTES),
	FAMILY("sglang", "estimated_write_bytes_per_gpu", ENGINE_WRITE_BYTES),
	/* TensorRT-LLM */
	FAMILY("trtllm", "num_requests_running", ENGINE_RUNNING),
	FAMILY("trtllm", "num_requests_waiting", ENGINE_WAITING),
	FAMILY("trtllm", "request_success", ENGINE_FINISHED),
	FAMILY("trtllm", "kv_cache_utilization", ENGINE_KV_SHARE),
	FAMILY("trtllm", "kv_cache_hit_rate", ENGINE_CACHE_HIT),
	/* text-generation-inference */
	FAMILY("tgi", "batch_current_size", ENGINE_RUNNING),
	FAMILY("tgi", "queue_size", ENGINE_WAITING),
	FAMILY("tgi", "request_generated_tokens_sum", ENGINE_GENERATED),
	FAMILY("tgi", "request_success", ENGINE_FINISHED),
	/* llama.cpp; its _seconds are rates, "tokens per second" */
	FAMILY("llamacpp", "requests_processing", ENGINE_RUNNING),
	FAMILY("llamacpp", "requests_deferred", ENGINE_WAITING),
	FAMILY("llamacpp", "prompt_tokens", ENGINE_PROMPT),
	FAMILY("llamacpp", "tokens_predicted", ENGINE_GENERATED),
	FAMILY("llamacpp", "tokens_predicted", ENGINE_DECODED),
	FAMILY("llamacpp", "predicted_tokens_seconds", ENGINE_THROUGHPUT),
	FAMILY("llamacpp", "kv_cache_usage_ratio", ENGINE_KV_SHARE),
	FAMILY("llamacpp", "kv_cache_tokens", ENGINE_KV_USED),
};

static const struct engine_hist_family hist_families[] = {
	{ "vllm", "time_to_first_token_seconds", ENGINE_TTFT },
	{ "vllm", "inter_token_latency_seconds", ENGINE_GAP },
	{ "vllm", "time_per_output_token_seconds", ENGINE_GAP },
	{ "vllm", "e2e_request_latency_seconds", ENGINE_DURATION },
	{ "vllm", "iteration_tokens_total", ENGINE_STEP_TOKENS },
	{ "sglang", "time_to_first_token_seconds", ENGINE_TTFT },
	{ "sglang", "inter_token_latency_seconds", ENGINE_GAP },
	{ "sglang", "time_per_output_token_seconds", ENGINE_GAP },
	{ "sglang", "e2e_request_latency_seconds", ENGINE_DURATION },
	{ "trtllm", "time_to_first_token_seconds", ENGINE_TTFT },
	{ "trtllm", "time_per_output_token_seconds", ENGINE_GAP },
	{ "trtllm", "e2e_request_latency_seconds", ENGINE_DURATION },
	{ "tgi", "request_duration", ENGINE_DURATION },
	{ "dynamo", "frontend_time_to_first_token_seconds", ENGINE_TTFT },
	{ "dynamo", "frontend_inter_token_latency_seconds", ENGINE_GAP },
	{ "dynamo", "frontend_request_duration_seconds", ENGINE_DURATION },
};

static const char *const part_labels[] = {
	"engine",  "engine_index", "engine_id", "dp_rank",     "dp",
	"worker",  "server",       "worker_id", "worker_addr", "ReplicaId",
	"replica", "pod",          "instance"
};

static const char *const copy_labels[] = { "tp_rank",      "pp_rank",
					   "moe_ep_rank",  "ep_rank",
					   "attn_cp_rank", "moe_dp_rank",
					   "attn_tp_rank", "pid" };

static bool in(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(word, words[i]))
			return true;
	return false;
}

bool engine_label_is_part(const char *label)
{
	return in(label, part_labels, COUNT(part_labels));
}

bool engine_label_is_copy(const char *label)
{
	return in(label, copy_labels, COUNT(copy_labels));
}

const char *engine_value_name(enum engine_value v)
{
	return (unsigned)v < ENGINE_VALUES ? values[v].name : NULL;
}

const char *engine_hist_name(enum engine_hist h)
{
	return (unsigned)h < ENGINE_HISTS ? hists[h] : NULL;
}

enum engine_merge engine_value_merge(enum engine_value v)
{
	return values[v].merge;
}

const char *engine_name(unsigned engine)
{
	return engine < ENGINES ? engines[engine] : NULL;
}

int engine_of_name(const char *name, const char **rest)
{
	for (size_t i = 0; i < COUNT(before); i++)
		if (!strncmp(name, before[i], strlen(before[i])))
			name += strlen(before[i]);
	for (unsigned i = 0; i < ENGINES; i++) {
		size_t n = strlen(engines[i]);

		if (strncmp(name, engines[i], n) != 0 ||
		    (name[n] != ':' && name[n] != '_'))
			continue;
		*rest = name + n + 1;
		return (int)i;
	}
	return -1;
}

/* The same, or with the ending that counters get. */
static bool same_name(const char *name, const char *family)
{
	size_t n = strlen(family);

	return !strncmp(name, family, n) &&
	       (!name[n] || !strcmp(name + n, "_total"));
}

const struct engine_family *
engine_family_find(unsigned engine, const char *rest,
		   const struct engine_family *after)
{
	size_t from = after ? (size_t)(after - families) + 1 : 0;

	for (size_t i = from; i < COUNT(families); i++)
		if (!strcmp(families[i].engine, engines[engine]) &&
		    same_name(rest, families[i].name))
			return &families[i];
	return NULL;
}

const struct engine_hist_family *
engine_hist_find(unsigned engine, const char *rest, const char **suffix)
{
	static const char *const ends[] = { "_bucket", "_sum", "_count" };

	for (size_t i = 0; i < COUNT(hist_families); i++) {
		size_t n = strlen(hist_families[i].name);

		if (strcmp(hist_families[i].engine, engines[engine]) != 0 ||
		    strncmp(rest, hist_families[i].name, n) != 0)
			continue;
		if (!in(rest + n, ends, COUNT(ends)))
			continue;
		*suffix = rest + n;
		return &hist_families[i];
	}
	return NULL;
}
