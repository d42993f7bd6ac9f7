/*
 * The model runner on the simulated GPU: the truth log keeps its identities, and
 * device memory holds what the log says.
 */
#include "sim/server/runner_parts.h"

#include <unistd.h>

#include "tests/unit/sim/server_model.h"
#include "tests/unit/sim/server_test.h"

static struct shape shape;
static struct routing *routing;
static struct truth *truth;
static struct runner *runner;
static char path[] = "/tmp/moetop-truth-XXXXXX";

static int open_runner(void **state)
{
	const struct routing_options ro = { .kind = ROUTING_UNIFORM,
					    .seed = 3 };
	struct runner_options o = {
		.shape = &shape,
		.gpu = "H200",
		.limits = { .max_seqs = 16, .max_tokens = 64 },
		.graphs = true,
		.seed = 5,
	};
	char why[256] = "";
	int fd = mkstemp(path);

	(void)state;
	shape = small_shape();
	if (fd < 0 || close(fd) || truth_open(&truth, path) ||
	    routing_new(&routing, &ro, LAYERS, EXPERTS, TOP_K, why,
			sizeof(why)))
		return -1;
	o.routing = routing;
	o.truth = truth;
	if (runner_open(&runner, &o, why, sizeof(why))) {
		print_error("%s\n", why);
		return -1;
	}
	return 0;
}

static int close_runner(void **state)
{
	(void)state;
	runner_close(runner);
	routing_free(routing);
	truth_close(truth);
	return unlink(path);
}

/* One decode step of n sequences; its truth is in *s and layer. */
static void decode(unsigned n, bool prefill, struct truth_step *s,
		   const struct truth_layer **layer)
{
	struct seq q[64];
	struct sched_item items[64];
	const struct sched_step step = {
		.items = items, .items_n = n, .tokens = n, .prefill = prefill
	};

	memset(q, 0, sizeof(q));
	for (unsigned i = 0; i < n; i++) {
		q[i].id = i + 1;
		items[i] = (struct sched_item){ .seq = &q[i],
						.first = 10 + i,
						.count = 1,
						.samples = true };
	}
	assert_int_equal(runner_step(runner, &step), 0);
	*layer = device_take(s);
}

static void check_identities(unsigned n, const struct truth_step *s,
			     const struct truth_layer *layer)
{
	uint64_t sum = 0;

	assert_int_equal(s->tokens, n);
	assert_true(s->padded >= n);
	assert_true(s->end_ns > s->start_ns);
	for (unsigned i = 0; i < LAYERS; i++) {
		const struct truth_layer *l = &layer[i];

		assert_int_equal(l->rows, n * TOP_K);
		assert_true(l->active && l->active <= l->rows);
		assert_true(l->active <= EXPERTS && l->single <= l->active);
		assert_true(l->expert_ns && l->expert_ns < l->block_ns);
		assert_true(l->before_ns > 0);
		assert_true(l->read_bytes >=
			    l->active * shape.arch.expert_bytes);
		sum += l->block_ns + l->before_ns;
	}
	/* The head and the sampling come after. */
	assert_true(sum < s->end_ns - s->start_ns);
}

static void identities_hold_in_graphs_and_without(void **state)
{
	static const unsigned sizes[] = { 1, 2, 3, 5, 9, 16 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct truth_layer *layer;
		struct truth_step s = { 0 };

		decode(sizes[i], false, &s, &layer);
		check_identities(sizes[i], &s, layer);
		assert_int_equal(s.padded, sched_graph_pad(sizes[i], 16));
		decode(sizes[i], true, &s, &layer);
		check_identities(sizes[i], &s, layer);
		assert_int_equal(s.padded, sizes[i]);
	}
}

/* The same tokens of the same sequences take the same experts however they are
 * launched. */
static void routing_does_not_depend_on_the_launch(void **state)
{
	const struct truth_layer *layer;
	struct truth_step s = { 0 };
	uint32_t active[LAYERS];

	(void)state;
	decode(9, false, &s, &layer);
	for (unsigned i = 0; i < LAYERS; i++)
		active[i] = layer[i].active;
	decode(9, true, &s, &layer);
	for (unsigned i = 0; i < LAYERS; i++)
		assert_int_equal(layer[i].active, active[i]);
}

static void device_memory_holds_the_ids_of_the_last_layer(void **state)
{
	int32_t ids[16 * TOP_K];
	uint32_t count[EXPERTS] = { 0 }, active = 0, single = 0;
	const struct truth_layer *layer;
	struct truth_step s = { 0 };

	(void)state;
	decode(9, false, &s, &layer);
	assert_int_equal(
		cuMemcpyDtoH_v2(ids, runner->mem.topk_ids, sizeof(ids)),
		CUDA_SUCCESS);
	for (unsigned i = 0; i < 16 * TOP_K; i++) {
		if (i >= 9 * TOP_K) {
			assert_int_equal(ids[i], -1);
			continue;
		}
		assert_in_range(ids[i], 0, EXPERTS - 1);
		count[ids[i]]++;
	}
	for (unsigned e = 0; e < EXPERTS; e++) {
		active += count[e] > 0;
		single += count[e] == 1;
	}
	assert_int_equal(active, layer[LAYERS - 1].active);
	assert_int_equal(single, layer[LAYERS - 1].single);
}

static void cumsum_ends_where_an_expert_does(void **state)
{
	int32_t sum[EXPERTS + 1];
	const struct truth_layer *layer;
	struct truth_step s = { 0 };
	uint32_t active = 0, rows = 0;

	(void)state;
	decode(16, false, &s, &layer);
	assert_int_equal(cuMemcpyDtoH_v2(sum, runner->mem.cumsum, sizeof(sum)),
			 CUDA_SUCCESS);
	/* Experts begin at whole blocks of 16. */
	for (unsigned e = 0, at = 0; e < EXPERTS; e++) {
		uint32_t n = (uint32_t)sum[e] - at;

		rows += n;
		active += n > 0;
		at += (n + 15) / 16 * 16;
	}
	assert_int_equal(rows, 16 * TOP_K);
	assert_int_equal(active, layer[LAYERS - 1].active);
}

/* Leading 8-byte parameters of fused_moe_kernel: what tells expert_ids and
 * num_tokens_post_padded apart from outside. */
static unsigned leading_pointers(CUfunction f)
{
	unsigned n = 0;
	size_t at, bytes;

	while (!cuFuncGetParamInfo(f, n, &at, &bytes) && bytes == 8)
		n++;
	return n;
}

static unsigned find_layout(const char *layout)
{
	unsigned i = 0;

	while (i < runner->seq.lines &&
	       strcmp(runner->seq.line[i].layout, layout))
		i++;
	assert_true(i < runner->seq.lines);
	return i;
}

static void expert_gemms_have_the_layouts_of_vllm(void **state)
{
	static const struct {
		const char *layout;
		unsigned pointers;
	} cases[] = {
		{ "w13", 6 }, { "w13_naive", 5 }, { "w2", 7 }, { "w2_naive", 6 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct runner_call c = {
			.line = find_layout(cases[i].layout),
			.rows = 2,
		};
		const char *name;
		CUfunction f = runner_function(runner, &c);

		assert_int_equal(cuFuncGetName(&name, f), CUDA_SUCCESS);
		assert_string_equal(name, "fused_moe_kernel");
		assert_int_equal(leading_pointers(f), cases[i].pointers);
	}
}

static void log_has_a_line_for_every_layer_of_every_step(void **state)
{
	const struct truth_layer *layer;
	struct truth_step s = { 0 };
	unsigned steps = 0, layers = 0;
	char line[256];
	FILE *f;

	(void)state;
	decode(3, false, &s, &layer);
	assert_int_equal(truth_flush(truth), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		steps += *line == 'S';
		layers += *line == 'L';
	}
	fclose(f);
	assert_true(steps >= 2); /* the warm-up and ours */
	assert_int_equal(layers, steps * LAYERS);
}

static void parts_of_a_model_add_up(void **state)
{
	double sum;

	(void)state;
	sum = (LAYERS + DENSE) * (shape.qkv_bytes + shape.output_bytes) +
	      LAYERS * (shape.router_bytes + shape.shared_bytes) +
	      DENSE * shape.mlp_bytes + shape.head_bytes;
	assert_near(sum, shape.arch.dense_bytes, 1e-9);
	assert_near((LAYERS + DENSE) * shape.kv_bytes,
		    shape.arch.kv_bytes_per_token, 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identities_hold_in_graphs_and_without),
		cmocka_unit_test(routing_does_not_depend_on_the_launch),
		cmocka_unit_test(device_memory_holds_the_ids_of_the_last_layer),
		cmocka_unit_test(cumsum_ends_where_an_expert_does),
		cmocka_unit_test(expert_gemms_have_the_layouts_of_vllm),
		cmocka_unit_test(log_has_a_line_for_every_layer_of_every_step),
		cmocka_unit_test(parts_of_a_model_add_up),
	};

	return cmocka_run_group_tests(tests, open_runner, close_runner);
}
