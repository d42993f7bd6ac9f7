/*
 * bench_model.c - what a snapshot and its what-ifs cost
 *
 *	make bench
 *
 * 61 layers of 256 experts, 9 of 10 snapshots without a new window, rows of the
 * last minute for every layer and expert.  Best and worst of many,
 * microseconds; exit status 1 beyond the budget.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/bytes.h"
#include "model/hw.h"
#include "model/sample.h"
#include "model/snapshot.h"

#define LAYERS 61u
#define EXPERTS 256u
#define SNAPSHOTS 400u
#define WINDOW_EVERY 10u
#define SNAPSHOT_BUDGET_US 2000.0
#define TABLE_BUDGET_US 5000.0
#define BYTES_KINDS 6u
#define BYTES_BUDGET_US 1000.0

/* DeepSeek-V3 in FP8. */
static const struct arch arch = {
	.experts = EXPERTS,
	.top_k = 8,
	.layers = LAYERS,
	.moe_layers = LAYERS,
	.shared_experts = 1,
	.expert_params = 44040192,
	.expert_bytes = 44040192,
	.dense_params = 16.1e9,
	.dense_bytes = 16.1e9,
	.kv_bytes_per_token = 70272,
	.compute = COMPUTE_FP8,
};

static uint32_t rows[LAYERS * EXPERTS];
static struct sample_window window;
static struct sample sample;
static struct snapshot snapshot;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others may run */
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void fill_rows(void)
{
	uint64_t x = 12345;

	for (unsigned i = 0; i < LAYERS * EXPERTS; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		rows[i] = (uint32_t)(20000 *
				     pow((double)(x >> 40) / (1 << 24), 3));
	}
}

static void fill_window(double tokens, double active, double single)
{
	double cells = LAYERS * 50;

	window = (struct sample_window){
		.windows = 1,
		.wall_ns = 1e9,
		.busy_ns = 0.9e9,
		.steps = { 60 },
		.step_ns = { 1e9 },
		.tokens = { 60 * tokens },
		.group_ns = { 7e8, 0.5e8, 0.8e8, 0.5e8 },
		.rows = { .cells = cells,
			  .rows = cells * tokens * 8,
			  .active = cells * active,
			  .single = cells * single,
			  .sum_squares = cells * tokens * 8 * 2,
			  .max_rows = cells * 8,
			  .experts = cells * EXPERTS },
		.n_layers = LAYERS,
		.end_ns = sample.now_ns,
	};
	for (unsigned l = 0; l < LAYERS; l++) {
		window.layers[l].steps = 60;
		window.layers[l].block_ns = 1e7;
		window.layers[l].group_ns[0] = 8e6;
		window.layers[l].rows = window.rows;
	}
}

struct cost {
	double best, worst, sum;
	unsigned n;
};

static void count(struct cost *c, double us)
{
	if (!c->n || us < c->best)
		c->best = us;
	if (us > c->worst)
		c->worst = us;
	c->sum += us;
	c->n++;
}

static int tell(const char *what, const struct cost *c, double budget)
{
	double mean = c->sum / c->n;

	printf("%-40s best %7.0f us, mean %7.0f us, worst %7.0f us\n", what,
	       c->best, mean, c->worst);
	return mean > budget;
}

/* Counters at 1 ms, a dozen layers in each sample. */
static void feed(struct bytes *b, unsigned round)
{
	struct bytes_part parts[12 * BYTES_KINDS];

	for (unsigned t = 0; t < 500; t++) {
		double sum = 0;

		for (unsigned i = 0; i < 12 * BYTES_KINDS; i++) {
			unsigned layer = (t * 7 + i / BYTES_KINDS) % LAYERS;
			double ns =
				2000 + (t * 131 + i * 977 + round * 31) % 20000;

			parts[i] = (struct bytes_part){ layer, i % BYTES_KINDS,
							ns };
			sum += ns * (500 + 600 * (i % BYTES_KINDS) + layer);
		}
		bytes_add(b, sum, 1e6, parts, 12 * BYTES_KINDS);
	}
}

static int bench_bytes(void)
{
	struct bytes *b = bytes_new(LAYERS, BYTES_KINDS, 1);
	struct cost update = { 0 }, errors = { 0 };
	struct bytes_estimate e;
	int over;

	if (!b)
		return 1;
	for (unsigned w = 0; w < 40; w++) {
		double start;

		feed(b, w);
		start = now_us();
		bytes_solve(b, false, &e);
		count(&update, now_us() - start);
		start = now_us();
		bytes_solve(b, true, &e);
		count(&errors, now_us() - start);
		bytes_fade(b, 0.9);
	}
	over = tell("bytes, 61 layers x 6 groups", &update, BYTES_BUDGET_US);
	tell("the same with errors, once a window", &errors, INFINITY);
	bytes_free(b);
	return over;
}

int main(void)
{
	struct model *m = model_new(&(struct model_settings){ 3 });
	struct cost plain = { 0 }, fresh = { 0 }, table = { 0 };
	int over = 0;

	if (!m)
		return 1;
	fill_rows();
	sample = (struct sample){ .time = 1000,
				  .now_ns = 5e12,
				  .interval_s = 1,
				  .have_requests = true,
				  .streaming = 32,
				  .have_agent = true,
				  .d_decode_steps = 60,
				  .d_padded_tokens = 60 * 32,
				  .overhead = NAN,
				  .running = NAN,
				  .queued = NAN,
				  .d_generated_tokens = NAN,
				  .have_window = true,
				  .window = &window,
				  .gpus = 8,
				  .expert_rows = rows,
				  .expert_rows_n = EXPERTS };
	snapshot.target.tp = snapshot.target.ep = 8;
	for (unsigned i = 0; i < SNAPSHOTS; i++) {
		bool new_window = i % WINDOW_EVERY == 0;
		double start;

		if (new_window)
			fill_window(32, 120 + i % 7, 60);
		start = now_us();
		model_update(m, &sample, &arch, gpu_find("H200"), &snapshot);
		count(new_window ? &fresh : &plain, now_us() - start);
		window.windows = 0;
		sample.time += 1;
		sample.now_ns += 1e9;
	}
	for (unsigned i = 0; i < SNAPSHOTS / 10; i++) {
		struct whatif_point p;
		double start = now_us();

		for (unsigned j = 0; j < snapshot.n_what_if; j++)
			whatif_at(&snapshot.what_if_base,
				  &(struct whatif_change){ .batch = 1 + 7 * j },
				  &p);
		count(&table, now_us() - start);
	}
	over |= tell("snapshot, 61 layers x 256 experts", &plain,
		     SNAPSHOT_BUDGET_US);
	over |= tell("snapshot with a new window", &fresh, SNAPSHOT_BUDGET_US);
	printf("%u what-ifs:\n", snapshot.n_what_if);
	over |= tell("the table of what-ifs", &table, TABLE_BUDGET_US);
	over |= bench_bytes();
	model_free(m);
	return over;
}
