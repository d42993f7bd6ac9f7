/*
 * layer_bytes.h - kernel spans of an agent and samples of a counter, joined
 *
 * Two sources that know nothing of each other meet here: the agent source hands
 * in when the kernels of each layer ran (SPANS records, a window at a time), the
 * counter source how many bytes its GPU moved every millisecond or so.  Both are
 * of one GPU.  Out comes what each layer moves per step, model/bytes.h.
 *
 * Everything is bounded; what finds no room is counted.  One thread.
 */
#ifndef MOETOP_CORE_LAYER_BYTES_H
#define MOETOP_CORE_LAYER_BYTES_H

#include <stdint.h>

#include "model/bytes.h"
#include "model/sample.h"
#include "wire/record.h"

#define LAYER_BYTES_SPANS_MAX 32768u
#define LAYER_BYTES_SAMPLES_MAX 8192u
/* A window's last samples are waited for this long. */
#define LAYER_BYTES_WAIT_NS 3000000000ull

/* Rates hold for windows that end no later than this after the last samples. */
#define LAYER_BYTES_KEEP_NS 60000000000ull

struct layer_bytes;

struct layer_bytes_counts {
	uint64_t windows;                  /* joined */
	uint64_t samples_used;             /* that told something of a layer */
	uint64_t spans_lost, samples_lost; /* for want of room, or order */
};

struct layer_bytes *layer_bytes_new(void); /* NULL: no memory */
void layer_bytes_free(struct layer_bytes *b);

/* One sample of the counter, later than the one before; CLOCK_MONOTONIC as well
 * as the counters can tell. */
void layer_bytes_sample(struct layer_bytes *b, const struct bytes_sample *s);

/* A SPANS record that merge_record took; those of an older window are dropped. */
void layer_bytes_spans(struct layer_bytes *b, const struct rec_spans *r);

/* Spans of the window that is open were lost, and what ran then would pass for
 * nothing: it is not joined. */
void layer_bytes_forget_window(struct layer_bytes *b);

/* The WINDOW record after them.  layers: of the model, draft ones too; another
 * number than before starts anew. */
void layer_bytes_window(struct layer_bytes *b, const struct rec_window *r,
			uint64_t now_ns);

/* Join the window that waits, when its samples have come or will not. */
void layer_bytes_poll(struct layer_bytes *b, uint64_t now_ns);

/*
 * Fill dram_bytes and expert_bytes of w's layers, and w->bytes: by the rates
 * known, for the time that w's kernels took, times the GPUs.  While no rate is
 * known, or the last samples are too old, w->bytes is BYTES_NOTHING and the layers
 * are not touched.
 */
void layer_bytes_fill(const struct layer_bytes *b, double gpus,
		      struct sample_window *w);

void layer_bytes_count(const struct layer_bytes *b,
		       struct layer_bytes_counts *out);

#endif
