/*
 * engine_families.h - what the metrics of each engine mean
 *
 * One table: names, renames and labels of every version that is known, and how
 * series of one name go together.  docs/ENGINES.md shows it to users.  Sources:
 * vLLM v1/metrics/loggers.py and v1/metrics/perf.py (0.4 to 0.32), SGLang
 * srt/observability/metrics_collector.py (0.3 to 0.5), llama.cpp tools/server,
 * text-generation-inference docs, TensorRT-LLM's metrics collector.
 */
#ifndef MOETOP_TARGET_ENGINE_FAMILIES_H
#define MOETOP_TARGET_ENGINE_FAMILIES_H

#include <stdbool.h>
#include <stddef.h>

/* What an engine may tell of itself. */
enum engine_value {
	ENGINE_RUNNING,    /* requests in its batches */
	ENGINE_WAITING,    /* requests in its queue */
	ENGINE_PROMPT,     /* prompt tokens, since it started */
	ENGINE_GENERATED,  /* generated tokens, since it started */
	ENGINE_DECODED,    /* the same, counted while requests run */
	ENGINE_THROUGHPUT, /* generated tokens per second, by its own clock */
	ENGINE_FINISHED,   /* requests, since it started */
	ENGINE_ABORTED,    /* of them broken off */
	ENGINE_PREEMPTED,  /* times that a request lost its place */
	ENGINE_KV_SHARE,   /* 0..1 of the cache in use */
	ENGINE_KV_ROOM,    /* tokens that it has room for */
	ENGINE_KV_USED,    /* tokens in it */
	ENGINE_KV_READ,    /* tokens that a decode step reads */
	ENGINE_CACHE_HIT,  /* 0..1 of prompt tokens found in the cache */
	ENGINE_CACHE_HITS, /* the same as two counters */
	ENGINE_CACHE_ASKED,
	ENGINE_SPEC_LENGTH,  /* tokens per step of a request */
	ENGINE_SPEC_RATE,    /* 0..1 of draft tokens accepted */
	ENGINE_SPEC_DRAFTS,  /* verify steps of requests */
	ENGINE_SPEC_DRAFTED, /* draft tokens */
	ENGINE_SPEC_ACCEPTED,
	ENGINE_GRAPH,       /* 1 the last batch was replayed, 0 not */
	ENGINE_FLOPS,       /* of one GPU, estimated by the engine */
	ENGINE_READ_BYTES,  /* of one GPU, estimated by the engine */
	ENGINE_WRITE_BYTES, /* of one GPU, estimated by the engine */
	ENGINE_VALUES
};

enum engine_hist {
	ENGINE_TTFT,        /* seconds */
	ENGINE_GAP,         /* seconds between tokens of a request */
	ENGINE_DURATION,    /* seconds of a request */
	ENGINE_STEP_TOKENS, /* tokens of a step, prompts included */
	ENGINE_HISTS
};

/* How the series of one name make one number. */
enum engine_merge {
	ENGINE_ADD,  /* a gauge: engines are added, other labels repeat it */
	ENGINE_MEAN, /* a gauge: the mean of the engines, others repeat it */
	ENGINE_SUM   /* a counter: all series are added, ranks repeat it */
};

struct engine_family {
	const char *engine; /* "vllm" */
	const char *name;   /* after the prefix, without _total */
	enum engine_value value;
	const char *label, *is; /* counts only where this label is so; NULL */
	const char *split; /* label that splits a total named elsewhere; NULL */
};

struct engine_hist_family {
	const char *engine, *name;
	enum engine_hist hist;
};

/* "requests_running", for docs and tests. */
const char *engine_value_name(enum engine_value v);
const char *engine_hist_name(enum engine_hist h);
enum engine_merge engine_value_merge(enum engine_value v);

/* Engines, the surest first: a page may hold families of several. */
#define ENGINES 6u
/* "vllm"...; NULL beyond the last. */
const char *engine_name(unsigned engine);

/*
 * Which engine's family a name is, "vllm:x", or "vllm_x" where a collector has
 * renamed it, with what a cluster puts before it ("ray_").  Returns the index
 * for engine_name and *rest, what follows the prefix; or -1.
 */
int engine_of_name(const char *name, const char **rest);

/*
 * The family of a sample, name as engine_of_name's *rest.  The next one after
 * `after` (NULL: the first) that has this name; NULL none.
 */
const struct engine_family *
engine_family_find(unsigned engine, const char *rest,
		   const struct engine_family *after);

/* A histogram's family by a sample's name: *suffix is "_bucket", "_sum" or
 * "_count".  NULL none. */
const struct engine_hist_family *
engine_hist_find(unsigned engine, const char *rest, const char **suffix);

/* Labels that tell engines of one server apart, and those of ranks that all
 * report the same. */
bool engine_label_is_part(const char *label);
bool engine_label_is_copy(const char *label);

#endif
