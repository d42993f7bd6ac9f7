/*
 * scrape.h - what the engine itself says, from its Prometheus text
 *
 * Reads the text exposition format 0.0.4 and OpenMetrics far enough for a few
 * numbers.  Engines of one server (labels engine, engine_index, dp_rank) are
 * added; ranks that repeat one number (tp_rank, ...) are counted once.  Series
 * with a priority are used only when there is no total beside them.  The names:
 *
 *	vLLM    vllm:num_requests_running, vllm:num_requests_waiting,
 *		vllm:generation_tokens_total
 *	SGLang  sglang:num_running_reqs, sglang:num_queue_reqs,
 *		sglang:generation_tokens_total
 *
 * and of the KV cache: kv_cache_usage_perc times num_gpu_blocks and block_size
 * of cache_config_info; decode_sum_seq_lens, num_used_tokens,
 * max_total_num_tokens. Blocks that requests share count once, though every
 * request reads them.
 *
 * A metric whose only samples are NaN, or that has a HELP line and no sample,
 * is unknown.  No I/O here.
 */
#ifndef MOETOP_TARGET_SCRAPE_H
#define MOETOP_TARGET_SCRAPE_H

#include <stddef.h>

#define SCRAPE_BYTES_MAX (16u << 20)

struct scrape {
	double running; /* requests; NAN unknown, like the next two */
	double waiting; /* requests in the engine's queue */
	double generation_tokens_total; /* since the engine started */
	/* tokens whose KV running requests hold, and room for; NAN unknown */
	double kv_tokens, kv_capacity_tokens;
	char engine[16]; /* "vllm", "sglang" */
};

/*
 * text need not be NUL-terminated.  0 when at least one of the first three is
 * known, -ENODATA when it is not the text of a known engine or holds no
 * numbers, -EFBIG beyond SCRAPE_BYTES_MAX, -ENOMEM.  On error *out is
 * unchanged.  Lines that make no sense are skipped.
 */
int scrape_parse(const char *text, size_t bytes, struct scrape *out);

#endif
