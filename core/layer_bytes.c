#include "core/layer_bytes.h"
#include "wire/kernel_class.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what is remembered when a window comes: some twenty windows count. */
#define KEEP_PER_WINDOW 0.95

_Static_assert(GROUPS <= BYTES_GROUPS_MAX, "room for every group");
_Static_assert(GROUPS == SAMPLE_GROUPS, "the groups of a sample");

struct layer_bytes {
	struct bytes *fit; /* NULL: no window yet */
	unsigned layers;   /* that fit is of */
	struct bytes_estimate estimate;
	struct layer_bytes_counts counts;
	uint32_t window;    /* that spans[] is of, 0 none */
	uint64_t due_ns;    /* closed and waiting until then; 0: open */
	uint64_t newest_ns; /* end of the last window that had samples */
	unsigned n_spans, n_samples;
	struct bytes_span spans[LAYER_BYTES_SPANS_MAX];
	struct bytes_sample samples[LAYER_BYTES_SAMPLES_MAX];
};

struct layer_bytes *layer_bytes_new(void)
{
	return calloc(1, sizeof(struct layer_bytes));
}

void layer_bytes_free(struct layer_bytes *b)
{
	if (!b)
		return;
	bytes_free(b->fit);
	free(b);
}

void layer_bytes_sample(struct layer_bytes *b, const struct bytes_sample *s)
{
	unsigned half = LAYER_BYTES_SAMPLES_MAX / 2;

	if (s->end_ns <= s->start_ns ||
	    (b->n_samples &&
	     s->start_ns < b->samples[b->n_samples - 1].end_ns)) {
		b->counts.samples_lost++;
		return;
	}
	if (b->n_samples == LAYER_BYTES_SAMPLES_MAX) {
		memmove(b->samples, b->samples + half,
			(b->n_samples - half) * sizeof(b->samples[0]));
		b->n_samples -= half;
	}
	b->samples[b->n_samples++] = *s;
}

/* A window that still waits is joined with what there is. */
static void join(struct layer_bytes *b)
{
	unsigned used = bytes_window(b->fit, b->spans, b->n_spans, b->samples,
				     b->n_samples);

	b->counts.samples_used += used;
	if (used)
		b->newest_ns = b->spans[b->n_spans - 1].end_ns;
	b->counts.windows++;
	bytes_solve(b->fit, true, &b->estimate);
	bytes_fade(b->fit, KEEP_PER_WINDOW);
	b->due_ns = 0;
	b->window = 0;
	b->n_spans = 0;
}

/* In order, and no instant in two: what is not so would also make the joining
 * slow. */
static void add_span(struct layer_bytes *b, const struct bytes_span *given)
{
	const struct bytes_span *last =
		b->n_spans ? &b->spans[b->n_spans - 1] : NULL;
	struct bytes_span s = *given;

	if (b->n_spans == LAYER_BYTES_SPANS_MAX || s.end_ns < s.start_ns ||
	    (last && s.start_ns < last->start_ns)) {
		b->counts.spans_lost++;
		return;
	}
	if (last && s.start_ns < last->end_ns)
		s.start_ns = last->end_ns;
	if (s.end_ns >= s.start_ns)
		b->spans[b->n_spans++] = s;
}

void layer_bytes_spans(struct layer_bytes *b, const struct rec_spans *r)
{
	if (b->due_ns)
		join(b);
	if (r->window != b->window) {
		b->window = r->window;
		b->n_spans = 0;
	}
	for (unsigned i = 0; i < r->count && i < SPANS_PER_RECORD; i++) {
		uint64_t start = r->base_ns + r->span[i].start_ns;
		const struct bytes_span s = {
			.layer = r->span[i].layer,
			.group = r->span[i].group,
			.start_ns = start,
			.end_ns = start + r->span[i].length_ns,
		};

		add_span(b, &s);
	}
}

void layer_bytes_forget_window(struct layer_bytes *b)
{
	if (b->due_ns)
		return;
	b->counts.spans_lost += b->n_spans;
	b->n_spans = 0;
}

void layer_bytes_window(struct layer_bytes *b, const struct rec_window *r,
			uint64_t now_ns)
{
	unsigned layers = r->layers_seen + r->draft_layers;

	if (b->due_ns || r->window != b->window || !b->n_spans)
		return;
	if (!layers || layers > LAYERS_MAX)
		return;
	if (layers != b->layers) {
		bytes_free(b->fit);
		b->fit = bytes_new(layers, GROUPS, GROUP_EXPERT);
		b->layers = b->fit ? layers : 0;
		b->estimate = (struct bytes_estimate){ 0 };
	}
	if (b->fit)
		b->due_ns = now_ns + LAYER_BYTES_WAIT_NS;
	layer_bytes_poll(b, now_ns);
}

void layer_bytes_poll(struct layer_bytes *b, uint64_t now_ns)
{
	uint64_t end;

	if (!b->due_ns)
		return;
	end = b->spans[b->n_spans - 1].end_ns;
	if (now_ns >= b->due_ns ||
	    (b->n_samples && b->samples[b->n_samples - 1].end_ns >= end))
		join(b);
}

/* What the kernels of one group and layer moved in this time; NAN unknown. */
static double moved(const struct layer_bytes *b, unsigned layer, unsigned group,
		    double ns)
{
	return ns > 0 ? ns * bytes_rate(b->fit, layer, group) : 0;
}

/* Rates that no sample has confirmed for long are not those of this window.  One
 * whose samples are still to come is given the benefit of the doubt. */
static bool is_old(const struct layer_bytes *b, const struct sample_window *w)
{
	return !b->due_ns &&
	       w->end_ns > (double)(b->newest_ns + LAYER_BYTES_KEEP_NS);
}

void layer_bytes_fill(const struct layer_bytes *b, double gpus,
		      struct sample_window *w)
{
	w->bytes = (struct bytes_estimate){ 0 };
	if (!b->fit || b->estimate.method == BYTES_NOTHING || is_old(b, w))
		return;
	w->bytes = b->estimate;
	if (b->estimate.method == BYTES_TOTAL)
		return;
	for (unsigned l = 0; l < w->n_layers && l < b->layers; l++) {
		struct sample_layer *at = &w->layers[l];

		at->dram_bytes = 0;
		for (unsigned g = 0; g < GROUPS; g++)
			at->dram_bytes +=
				gpus * moved(b, l, g, at->group_ns[g]);
		at->expert_bytes = gpus * moved(b, l, GROUP_EXPERT,
						at->group_ns[GROUP_EXPERT]);
	}
}

void layer_bytes_count(const struct layer_bytes *b,
		       struct layer_bytes_counts *out)
{
	*out = b->counts;
}
