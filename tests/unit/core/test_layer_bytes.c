#include "core/layer_bytes.h"
#include "wire/kernel_class.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LAYERS 6u
#define WINDOW_NS 300000000u
#define S 1000000000u

/* A GPU whose expert kernels read 3000 bytes a nanosecond, and 100 more from
 * layer to layer; attention reads 1000. */
struct gpu {
	struct layer_bytes *bytes;
	uint64_t now;
	uint32_t window;
	struct rec_spans record;
	struct bytes_sample sample;
	double group_ns[LAYERS][GROUPS];
};

static uint64_t seed = 12345;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / 9007199254740992.0;
}

static double rate(unsigned layer, unsigned group)
{
	return group == GROUP_EXPERT ? 3000 + 100.0 * layer : 1000;
}

/* The counter's clock is ours; a sample ends somewhere after 0.2 ms. */
static void count(struct gpu *g, uint64_t from, uint64_t to, double bytes_ns)
{
	while (from < to) {
		uint64_t end = g->sample.end_ns < to ? g->sample.end_ns : to;

		g->sample.dram_bytes += bytes_ns * (double)(end - from);
		from = end;
		if (end < g->sample.end_ns)
			continue;
		layer_bytes_sample(g->bytes, &g->sample);
		g->sample = (struct bytes_sample){
			.start_ns = end,
			.end_ns = end + 200000 + (uint64_t)(10000 * uniform()),
		};
	}
}

static void flush(struct gpu *g)
{
	if (g->record.count)
		layer_bytes_spans(g->bytes, &g->record);
	g->record =
		(struct rec_spans){ .window = g->window, .base_ns = g->now };
}

static void run(struct gpu *g, unsigned layer, unsigned group, uint64_t ns)
{
	struct rec_spans *r = &g->record;

	if (r->count == SPANS_PER_RECORD)
		flush(g);
	r->span[r->count].start_ns = (uint32_t)(g->now - r->base_ns);
	r->span[r->count].length_ns = (uint32_t)ns;
	r->span[r->count].layer = (uint16_t)layer;
	r->span[r->count++].group = (uint16_t)group;
	count(g, g->now, g->now + ns, rate(layer, group));
	count(g, g->now + ns, g->now + ns + 2000, 0);
	g->now += ns + 2000;
	g->group_ns[layer][group] += (double)ns;
}

static void window(struct gpu *g)
{
	struct rec_window w = { .window = ++g->window, .layers_seen = LAYERS };
	uint64_t end = g->now + WINDOW_NS;

	if (!g->sample.end_ns)
		g->sample = (struct bytes_sample){ .start_ns = g->now,
						   .end_ns = g->now + 200000 };
	g->record =
		(struct rec_spans){ .window = g->window, .base_ns = g->now };
	while (g->now < end)
		for (unsigned l = 0; l < LAYERS; l++) {
			run(g, l, GROUP_ATTENTION,
			    15000 + (uint64_t)(5000 * uniform()));
			run(g, l, GROUP_EXPERT,
			    30000 + (uint64_t)(20000 * uniform()));
		}
	flush(g);
	layer_bytes_window(g->bytes, &w, g->now);
	/* the samples of its end come a little later */
	count(g, g->now, g->now + 1000000, 0);
	g->now += 1000000;
	layer_bytes_poll(g->bytes, g->now);
}

/* What a sample's window of the same kernels says. */
static void fill(const struct gpu *g, double gpus, struct sample_window *w)
{
	memset(w, 0, sizeof(*w));
	w->n_layers = LAYERS;
	for (unsigned l = 0; l < LAYERS; l++) {
		w->layers[l].dram_bytes = NAN;
		for (unsigned k = 0; k < GROUPS; k++)
			w->layers[l].group_ns[k] = g->group_ns[l][k];
	}
	layer_bytes_fill(g->bytes, gpus, w);
}

static void layers_get_the_bytes_of_their_kernels(void **state)
{
	static struct sample_window w;
	struct gpu g = { .bytes = layer_bytes_new(), .now = 5ull * S };
	struct layer_bytes_counts c;

	(void)state;
	fill(&g, 1, &w);
	assert_int_equal(w.bytes.method, BYTES_NOTHING);
	assert_true(isnan(w.layers[0].dram_bytes));
	for (int i = 0; i < 4; i++)
		window(&g);
	fill(&g, 2, &w);
	assert_int_equal(w.bytes.method, BYTES_LAYERS);
	for (unsigned l = 0; l < LAYERS; l++) {
		double expert =
			2 * rate(l, GROUP_EXPERT) * g.group_ns[l][GROUP_EXPERT];
		double all = expert + 2 * rate(l, GROUP_ATTENTION) *
					      g.group_ns[l][GROUP_ATTENTION];

		assert_true(fabs(w.layers[l].expert_bytes / expert - 1) < 0.02);
		assert_true(fabs(w.layers[l].dram_bytes / all - 1) < 0.02);
	}
	/* a window whose samples never came has the rates for a while */
	w.end_ns = (double)(g.now + LAYER_BYTES_KEEP_NS / 2);
	layer_bytes_fill(g.bytes, 2, &w);
	assert_int_equal(w.bytes.method, BYTES_LAYERS);
	w.end_ns = (double)(g.now + LAYER_BYTES_KEEP_NS + 1000);
	layer_bytes_fill(g.bytes, 2, &w);
	assert_int_equal(w.bytes.method, BYTES_NOTHING);
	layer_bytes_count(g.bytes, &c);
	assert_int_equal(c.windows, 4);
	assert_true(c.samples_used > 3000);
	assert_true(c.spans_lost == 0 && c.samples_lost == 0);
	layer_bytes_free(g.bytes);
}

/* A window whose samples never come must not stop those after it. */
static void window_without_samples_is_let_go(void **state)
{
	struct layer_bytes *b = layer_bytes_new();
	struct rec_spans r = { .window = 1, .count = 1, .base_ns = 10ull * S };
	struct rec_window w = { .window = 1, .layers_seen = 3 };
	struct layer_bytes_counts c;

	(void)state;
	r.span[0].length_ns = 1000;
	layer_bytes_spans(b, &r);
	layer_bytes_forget_window(b);
	layer_bytes_window(b, &w, 11ull * S);
	layer_bytes_poll(b, 11ull * S + LAYER_BYTES_WAIT_NS);
	layer_bytes_count(b, &c);
	assert_true(c.windows == 0 && c.spans_lost == 1);
	layer_bytes_spans(b, &r);
	layer_bytes_window(b, &w, 11ull * S);
	layer_bytes_count(b, &c);
	assert_int_equal(c.windows, 0);
	layer_bytes_poll(b, 11ull * S + LAYER_BYTES_WAIT_NS);
	layer_bytes_count(b, &c);
	assert_int_equal(c.windows, 1);
	assert_int_equal(c.samples_used, 0);
	layer_bytes_free(b);
}

static void what_makes_no_sense_is_counted(void **state)
{
	struct layer_bytes *b = layer_bytes_new();
	struct bytes_sample s = { .start_ns = 5, .end_ns = 5 };
	struct rec_spans r = { .window = 1, .count = 2, .base_ns = S };
	struct rec_window w = { .window = 1,
				.layers_seen = LAYERS_MAX,
				.draft_layers = 1 };
	struct layer_bytes_counts c;

	(void)state;
	layer_bytes_sample(b, &s);
	s = (struct bytes_sample){ .start_ns = 10, .end_ns = 20 };
	layer_bytes_sample(b, &s);
	layer_bytes_sample(b, &s);
	r.span[0].start_ns = 100;
	layer_bytes_spans(b, &r); /* the second begins before the first */
	layer_bytes_window(b, &w, S);
	layer_bytes_poll(b, 100ull * S);
	layer_bytes_count(b, &c);
	assert_int_equal(c.samples_lost, 2);
	assert_int_equal(c.spans_lost, 1);
	assert_int_equal(c.windows, 0);
	for (uint64_t i = 0; i < 3 * LAYER_BYTES_SAMPLES_MAX; i++)
		layer_bytes_sample(
			b, &(struct bytes_sample){ .start_ns = 100 + 10 * i,
						   .end_ns = 110 + 10 * i });
	layer_bytes_free(b);
	layer_bytes_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_get_the_bytes_of_their_kernels),
		cmocka_unit_test(window_without_samples_is_let_go),
		cmocka_unit_test(what_makes_no_sense_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
