/*
 * scrape.h - what the engine itself says, from its metrics page
 *
 * The families of engine_families.h, from text or from JSON that wraps it.
 * Engines of one server (labels engine, dp_rank, ...) are added, and so are
 * models, where a page has several; ranks that repeat one number (tp_rank, ...) are counted once.  Series that split a total
 * (priority, reason) are used only where there is no total beside them.  Shares
 * are the mean of the engines that tell theirs.
 *
 * The KV cache: what decode steps read, else what is in the cache, else the
 * share of it that is in use times its size.  Blocks that requests share count
 * once, though every request reads them.
 *
 * A family whose only samples are NaN, or that has a HELP or TYPE line and no
 * sample, is unknown.  No I/O here.
 */
#ifndef MOETOP_TARGET_SCRAPE_H
#define MOETOP_TARGET_SCRAPE_H

#include <stddef.h>

#include "target/engine_families.h"

#define SCRAPE_BYTES_MAX (16u << 20)

/* Of a histogram as the engine has counted it since it started. */
#define SCRAPE_BUCKETS_MAX 64u
struct scrape_hist {
	double count, sum; /* NAN unknown */
	unsigned n;
	struct {
		double upper, count; /* at most that much: cumulative */
	} buckets[SCRAPE_BUCKETS_MAX];
};

struct scrape {
	double running; /* requests; NAN unknown, like all that follow */
	double waiting; /* requests in the engine's queue */
	double generation_tokens_total; /* since the engine started */
	/* tokens whose KV running requests hold, and room for */
	double kv_tokens, kv_capacity_tokens;
	char engine[16]; /* "vllm", "sglang", ... */
	char model[96];  /* by its labels, "" unknown */
	char kv_dtype[16];
	double block_tokens;          /* of a page of the KV cache */
	double values[ENGINE_VALUES]; /* as exported, merged */
	struct scrape_hist hists[ENGINE_HISTS];
	unsigned known;    /* of the values */
	unsigned overflow; /* of them unknown for too many series */
};

/*
 * text need not be NUL-terminated.  0 when it is the page of a known engine,
 * which may not have counted anything yet (known is 0); -ENODATA when it is
 * not, or empty; -EFBIG beyond SCRAPE_BYTES_MAX, -ENOMEM.  On error *out is
 * unchanged.  Lines that make no sense are skipped.
 */
int scrape_parse(const char *text, size_t bytes, struct scrape *out);

#endif
