/* Plans against tables worked out in Python for eleven published models: every
 * number is compared to the digits that are printed there. */
#include "model/plan.h"
#include "model/valley.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32
#define SCAN_BATCH_MAX 1e4
#define RHO_BATCH_MAX 2e5

/* ---- the models of the tables ------------------------------------------ */

struct counts {
	const char *name;
	uint32_t e, k, moe_layers;
	double d, f;                      /* of an expert: 3 d f weights */
	double weight_bytes, dense_bytes; /* per weight */
	double attention, ffn, head;
	uint32_t shared;
	double kv;
	enum compute_type compute;
};

static const struct counts models[] = {
	{ "Mixtral-8x7B", 8, 2, 32, 4096, 14336, 2, 2, 32 * 41.943e6, 0,
	  32000.0 * 4096, 0, 2 * 8 * 128 * 2 * 32, COMPUTE_BF16 },
	{ "Qwen3-30B-A3B", 128, 8, 48, 2048, 768, 1, 1, 48 * 18.874e6, 0,
	  151936.0 * 2048, 0, 2 * 4 * 128 * 2 * 48, COMPUTE_FP8 },
	{ "Qwen3-235B-A22B", 128, 8, 94, 4096, 1536, 1, 1, 94 * 71.303e6, 0,
	  151936.0 * 4096, 0, 2 * 4 * 128 * 2 * 94, COMPUTE_FP8 },
	{ "DeepSeek-V3", 256, 8, 58, 7168, 2048, 1, 1, 61 * 187.107e6,
	  3 * 3 * 7168 * 18432.0, 129280.0 * 7168, 1, 576 * 2 * 61,
	  COMPUTE_FP8 },
	{ "gpt-oss-120b", 128, 4, 36, 2880, 2880, 0.53125, 2, 36 * 26.542e6, 0,
	  201088.0 * 2880, 0, 2 * 8 * 64 * 2 * 18, COMPUTE_BF16 },
	{ "gpt-oss-20b", 32, 4, 24, 2880, 2880, 0.53125, 2, 24 * 26.542e6, 0,
	  201088.0 * 2880, 0, 2 * 8 * 64 * 2 * 12, COMPUTE_BF16 },
	{ "Kimi-K2", 384, 8, 60, 7168, 2048, 1, 1, 61 * 101.12e6,
	  3 * 7168 * 18432.0, 163840.0 * 7168, 1, 576 * 2 * 61, COMPUTE_FP8 },
	{ "Qwen3.5-397B-A17B", 512, 10, 60, 4096, 1024, 1, 1,
	  45 * 117.4e6 + 15 * 104.9e6, 0, 248320.0 * 4096, 1,
	  2 * 2 * 256 * 2 * 15, COMPUTE_FP8 },
	{ "Qwen3-Next-80B-A3B", 512, 10, 48, 2048, 512, 1, 1,
	  36 * 33.55e6 + 12 * 27.26e6, 0, 151936.0 * 2048, 1,
	  2 * 2 * 256 * 2 * 12, COMPUTE_FP8 },
	{ "Llama-4-Scout", 16, 1, 48, 5120, 8192, 2, 2, 48 * 62.91e6, 0,
	  202048.0 * 5120, 1, 2 * 8 * 128 * 2 * 48, COMPUTE_BF16 },
	{ "Llama-4-Maverick", 128, 1, 24, 5120, 8192, 1, 1, 48 * 62.91e6,
	  24 * 3 * 5120 * 16384.0, 202048.0 * 5120, 1, 2 * 8 * 128 * 2 * 48,
	  COMPUTE_FP8 },
};
#define MODELS (sizeof(models) / sizeof(models[0]))

static struct arch arch_of(const char *name)
{
	const struct counts *c = NULL;
	struct arch a = { 0 };

	for (size_t i = 0; i < MODELS; i++)
		if (!strcmp(models[i].name, name))
			c = &models[i];
	assert_non_null(c);
	snprintf(a.name, sizeof(a.name), "%s", name);
	a.experts = c->e;
	a.top_k = c->k;
	a.layers = a.moe_layers = c->moe_layers;
	a.expert_params = 3 * c->d * c->f;
	a.expert_bytes = a.expert_params * c->weight_bytes;
	a.dense_params = c->attention + c->ffn + c->head +
			 (double)c->moe_layers * c->shared * a.expert_params;
	a.dense_bytes = a.dense_params * c->dense_bytes;
	a.kv_bytes_per_token = c->kv;
	a.compute = c->compute;
	return a;
}

static struct plan_input input_of(const char *name)
{
	return (struct plan_input){ .arch = arch_of(name),
				    .gpu = gpu_find("H100-SXM"),
				    .gpus = 1,
				    .tp = 1,
				    .ep = 1,
				    .skew = VALLEY_SKEW_UNIFORM };
}

/* ---- the tables --------------------------------------------------------- */

static struct table {
	char head[1024], line[1024];
	const char *names[COLUMNS_MAX], *cells[COLUMNS_MAX];
	int columns;
	FILE *f;
} table;

static int split(char *line, const char **out)
{
	char *save = line;
	int n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	for (char *cell; (cell = strsep(&save, ",")) && n < COLUMNS_MAX;)
		out[n++] = cell;
	return n;
}

static void table_open(const char *path)
{
	table.f = fopen(path, "r");
	assert_non_null(table.f);
	assert_non_null(fgets(table.head, sizeof(table.head), table.f));
	table.columns = split(table.head, table.names);
}

static bool table_next(void)
{
	if (fgets(table.line, sizeof(table.line), table.f)) {
		assert_int_equal(split(table.line, table.cells), table.columns);
		return true;
	}
	fclose(table.f);
	return false;
}

static const char *cell(const char *name)
{
	for (int i = 0; i < table.columns; i++)
		if (!strcmp(table.names[i], name))
			return table.cells[i];
	fail_msg("no column %s", name);
	return "";
}

/* The table has six digits; below `noise` they are rounding errors. */
static void is_above(double noise, const char *column, double got)
{
	const char *text = cell(column);
	double want = strtod(text, NULL);
	double digit = want == 0 ? 0 : pow(10, floor(log10(fabs(want))) - 5);

	if (fabs(got - want) <= fmax(0.500001 * digit, noise))
		return;
	print_error("%s, %s: got %.9g, want %s\n", table.cells[0], column, got,
		    text);
	fail();
}

static void is(const char *column, double got)
{
	is_above(0, column, got);
}

/* ---- points ------------------------------------------------------------- */

static void point_is(const struct plan_point *p, const struct plan_point *p4k)
{
	is("U", p->active);
	is("coverage", p->coverage_ratio);
	is("rows_per_active", 1 / p->fragmentation_ratio);
	is_above(1e-300, "single_row_share", p->single_row_ratio);
	is("fragmentation", p->fragmentation_ratio);
	is("V", p->valley_index);
	is_above(1e-14, "eta_expert", 1 - p->single_row_ratio);
	is("eta_sys_ctx0", p->shares.gain);
	is("eta_sys_ctx4k", p4k->shares.gain);
	is("routed_GB_step", p->cost.routed_bytes / 1e9);
	is("dense_GB_step", p->cost.dense_bytes / 1e9);
	is("kv_GB_step", p4k->cost.kv_bytes / 1e9);
	is("MB_per_token_routed", p->cost.routed_bytes / p->batch / 1e6);
	is("MB_per_token_total_ctx0", p->bytes_per_token / 1e6);
	is("MB_per_token_total_ctx4k", p4k->bytes_per_token / 1e6);
}

/* eta of the table counts bytes only: a GPU whose arithmetic costs nothing. */
static void points_match_the_table(void **state)
{
	const struct gpu bytes_only = { .name = "bytes", .bw = 3352e9 };
	unsigned rows = 0;

	(void)state;
	table_open("tests/data/valley_tables.csv");
	for (; table_next(); rows++) {
		struct plan_input in = input_of(cell("model"));
		double batch = strtod(cell("B"), NULL);
		struct plan_point p, p4k;

		in.gpu = &bytes_only;
		plan_point_at(&in, batch, &p);
		in.context_tokens = 4096;
		plan_point_at(&in, batch, &p4k);
		point_is(&p, &p4k);
		is("x", batch * in.arch.top_k / in.arch.experts);
	}
	assert_int_equal(rows, MODELS * 22);
}

/* ---- boundaries --------------------------------------------------------- */

static double index_at(const struct arch *a, double b)
{
	double u = valley_active(a->experts, a->top_k, b);

	return u * u / (a->experts * b * a->top_k);
}

/* Where V is y between lo and hi, on a side where it only rises or falls. */
static double batch_of_index(const struct arch *a, double y, double lo,
			     double hi)
{
	bool rises = index_at(a, lo) < index_at(a, hi);

	for (int i = 0; i < 300; i++) {
		double mid = (lo + hi) / 2;

		if ((index_at(a, mid) < y) == rises)
			lo = mid;
		else
			hi = mid;
	}
	return (lo + hi) / 2;
}

static void index_boundaries_are(const struct arch *a)
{
	double floor = valley_floor(a->experts, a->top_k);

	is("V_max", index_at(a, floor));
	is("V_max", valley_peak(a->experts, a->top_k));
	is("B_V025_in", batch_of_index(a, 0.25, 1e-6, floor));
	is("B_V025_out", batch_of_index(a, 0.25, floor, 1e7));
	is("B_V020_in", batch_of_index(a, 0.20, 1e-6, floor));
	is("B_V020_out", batch_of_index(a, 0.20, floor, 1e7));
}

/* The minimum of the marginal gain, by the continuous derivative of U. */
static void gain_minimum_is(const struct arch *a)
{
	double e = a->experts, per_token = -log1p(-(a->top_k / e));
	double routed = a->moe_layers * e * a->expert_bytes;
	double delta = a->dense_bytes / routed, best = 0, best_batch = 0;

	is("delta", delta);
	for (double b = 0.2; b < SCAN_BATCH_MAX; b *= 1.003) {
		double u = valley_active(e, a->top_k, b);
		double slope = per_token * (e - u);
		double paid = b * slope / (delta * e + u);

		if (paid > best) {
			best = paid;
			best_batch = b;
		}
	}
	is("B_eta_min", best_batch);
	is("eta_sys_min", 1 - best);
}

/* Time of a dense model of sqrt(total x active) weights over that of this one,
 * both at the data sheet's rates. */
static double against_dense(const struct arch *a, const struct machine *m,
			    double b)
{
	double routed = a->moe_layers * a->expert_params;
	double weights = sqrt((routed * a->experts + a->dense_params) *
			      (routed * a->top_k + a->dense_params));
	struct step_cost c, dense = { .dense_bytes = weights * a->expert_bytes /
						     a->expert_params,
				      .dense_flop = 2 * b * weights };

	economics_cost(a, b, valley_active(a->experts, a->top_k, b), 0, &c);
	return economics_step_seconds(&dense, m) /
	       economics_step_seconds(&c, m);
}

static void dense_boundaries_are(const struct arch *a, const struct machine *m)
{
	double b = 1, now = against_dense(a, m, b), lost = 0, won = 0;

	while (b < RHO_BATCH_MAX) {
		double next = b * 1.02, then = against_dense(a, m, next);

		if (now >= 1 && then < 1 && !(lost > 0))
			lost = next;
		if (now < 1 && then >= 1)
			won = next;
		b = next;
		now = then;
	}
	is("B_moe_loses", lost);
	is("B_moe_wins_again", won);
}

static void context_boundaries_are(struct plan_input in)
{
	static const struct {
		const char *column;
		double batch;
	} at[] = { { "ctx_kv_eq_weights_B1", 1 },
		   { "ctx_kv_eq_weights_B32", 32 },
		   { "ctx_kv_eq_weights_B256", 256 } };
	struct plan_point p;

	in.context_tokens = 1;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		plan_point_at(&in, at[i].batch, &p);
		is(at[i].column, (p.cost.routed_bytes + p.cost.dense_bytes) /
					 p.cost.kv_bytes);
	}
}

static void boundaries_match_the_table(void **state)
{
	unsigned rows = 0;

	(void)state;
	table_open("tests/data/boundaries.csv");
	for (; table_next(); rows++) {
		struct plan_input in = input_of(cell("model"));
		const struct arch *a = &in.arch;
		struct plan_valley v;
		struct machine m;
		double ridge;

		plan_valley_of(a, in.skew, &v);
		is("E", a->experts);
		is("k", a->top_k);
		is("B_floor", v.floor);
		is("B_s1_090", v.enter);
		is("B_s1_010", v.exit);
		is("B_s1_050",
		   valley_batch_at(a->experts, a->top_k, in.skew, 0.5));
		index_boundaries_are(a);
		gain_minimum_is(a);
		economics_machine(in.gpu, 1, 0, a->compute, &m);
		ridge = economics_ridge_rows(&m, a->expert_bytes /
							 a->expert_params);
		is("m_ridge", ridge);
		is("B_ridge", ridge * a->experts / a->top_k);
		m.bw_achieved = m.bw;
		m.flops_achieved = m.flops;
		dense_boundaries_are(a, &m);
		context_boundaries_are(in);
	}
	assert_int_equal(rows, MODELS);
}

/* ---- laws --------------------------------------------------------------- */

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fabs(want))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

static void a_step_is_the_sum_of_its_parts(void **state)
{
	struct plan_input in = input_of("DeepSeek-V3");
	const double bw = 0.85 * 8 * 4800e9, flops = 0.6 * 8 * 1978.9e12;
	struct plan_point p;

	(void)state;
	in.gpu = gpu_find("H200");
	in.gpus = in.tp = 8;
	in.context_tokens = 4096;
	in.usd_per_gpu_hour = 3;
	plan_point_at(&in, 32, &p);
	near(p.cost.routed_bytes, 417157641650.9707, 1e-12);
	near(p.cost.kv_bytes, 9210691584, 1e-12);
	near(p.step_s,
	     (417157641650.9707 + in.arch.dense_bytes + 9210691584) / bw,
	     1e-12);
	near(p.tokens_per_s, 32 / p.step_s, 1e-12);
	near(p.usd_per_mtok, 8 * 3 / 3600.0 * p.step_s / 32 * 1e6, 1e-12);

	plan_point_at(&in, 65536, &p); /* both parts at their compute roof */
	near(p.step_s,
	     2 * 65536 * (58 * 8 * 44040192.0 + in.arch.dense_params) / flops +
		     65536.0 * 4096 * 70272 / bw,
	     1e-12);
	near(p.shares.expert, 0, 0);
}

static void every_copy_of_the_dense_weights_is_read(void **state)
{
	struct plan_input in = input_of("DeepSeek-V3");
	struct plan_point shared, copies;

	(void)state;
	in.gpus = in.ep = 8;
	in.tp = 8;
	plan_point_at(&in, 64, &shared);
	in.tp = 1;
	plan_point_at(&in, 64, &copies);
	near(copies.cost.dense_bytes, 8 * shared.cost.dense_bytes, 1e-15);
	near(copies.cost.routed_bytes, shared.cost.routed_bytes, 0);
	near(copies.step_s - shared.step_s,
	     7 * in.arch.dense_bytes / (0.85 * 8 * 3352e9), 1e-9);
}

static void layouts_are_completed(void **state)
{
	static const struct {
		double gpus, tp, ep, want_gpus, want_tp, want_ep;
	} good[] = {
		{ 0, 0, 0, 1, 1, 1 }, { 8, 0, 0, 8, 8, 1 },
		{ 0, 4, 0, 4, 4, 1 }, { 0, 0, 8, 8, 8, 8 },
		{ 0, 1, 8, 8, 1, 8 }, { 16, 8, 4, 16, 8, 4 },
	};
	double gpus = 6, tp = 4, ep = 0;

	(void)state;
	assert_int_equal(plan_layout(&gpus, &tp, &ep), -EINVAL);
	near(gpus + tp + ep, 10, 0);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		gpus = good[i].gpus, tp = good[i].tp, ep = good[i].ep;
		assert_int_equal(plan_layout(&gpus, &tp, &ep), 0);
		near(gpus, good[i].want_gpus, 0);
		near(tp, good[i].want_tp, 0);
		near(ep, good[i].want_ep, 0);
	}
}

static void weights_follow_their_type(void **state)
{
	const struct arch plain = arch_of("Mixtral-8x7B");
	static const struct {
		enum plan_dtype type;
		double expert, dense;
		enum compute_type compute;
	} want[] = {
		{ PLAN_DTYPE_CONFIG, 2, 2, COMPUTE_BF16 },
		{ PLAN_DTYPE_BF16, 2, 2, COMPUTE_BF16 },
		{ PLAN_DTYPE_FP8, 1.000244140625, 1.000244140625, COMPUTE_FP8 },
		{ PLAN_DTYPE_FP4, 0.5625, 2, COMPUTE_FP4 },
		{ PLAN_DTYPE_INT4, 0.515625, 2, COMPUTE_BF16 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct arch a = plain;

		plan_store_as(&a, want[i].type);
		near(a.expert_bytes, want[i].expert * a.expert_params, 1e-15);
		near(a.dense_bytes, want[i].dense * a.dense_params, 1e-15);
		assert_int_equal(a.compute, want[i].compute);
	}
}

static double skewed_index(const struct arch *a, double skew, double b)
{
	double u = valley_skewed_active(a->experts, a->top_k, skew, b);

	return u * u / b;
}

static void skew_makes_the_valley_longer(void **state)
{
	const struct arch a = arch_of("Qwen3-235B-A22B");
	struct plan_valley uniform, skewed, almost;

	(void)state;
	plan_valley_of(&a, VALLEY_SKEW_UNIFORM, &uniform);
	plan_valley_of(&a, 0.855, &skewed);
	assert_true(skewed.enter < uniform.enter);
	assert_true(skewed.floor < uniform.floor);
	assert_true(skewed.exit > 2 * uniform.exit);
	for (double off = 0.9; off < 1.15; off += 0.1)
		assert_true(skewed_index(&a, 0.855, skewed.floor) >=
			    skewed_index(&a, 0.855, skewed.floor * off) -
				    1e-12);
	assert_true(skewed_index(&a, 0.855, skewed.floor) >
		    skewed_index(&a, 0.855, skewed.floor * 1.1));
	plan_valley_of(&a, 0.99 * VALLEY_SKEW_UNIFORM, &almost);
	near(almost.floor, uniform.floor, 1e-3);
	plan_valley_of(&a, VALLEY_SKEW_MIN, &skewed);
	assert_true(skewed.enter >= 1);
	assert_true(skewed.floor >= skewed.enter);
	assert_true(skewed.exit >= skewed.floor);
}

static void all_experts_for_each_token_is_no_valley(void **state)
{
	struct plan_input in = input_of("Mixtral-8x7B");
	struct plan_valley v;
	struct plan_point p;

	(void)state;
	in.arch.top_k = in.arch.experts;
	plan_valley_of(&in.arch, in.skew, &v);
	near(v.enter + v.floor + v.exit, 0, 0);
	plan_point_at(&in, 4, &p);
	near(p.active, 8, 1e-15);
	near(p.single_row_ratio, 0, 0);
}

static void what_cannot_be_planned_is_refused(void **state)
{
	const double good[] = { 1, 8 }, bad[] = { 8, 0.5 };
	static struct model_plan p;
	struct plan_input in = input_of("Mixtral-8x7B"), odd = in;

	(void)state;
	p.n_points = 77;
	assert_int_equal(plan_make(&in, good, 0, &p), -EINVAL);
	assert_int_equal(plan_make(&in, good, PLAN_POINTS_MAX + 1, &p),
			 -EINVAL);
	assert_int_equal(plan_make(&in, bad, 2, &p), -EINVAL);
	odd.arch.experts = 0;
	assert_int_equal(plan_make(&odd, good, 2, &p), -ENOTSUP);
	odd = in;
	odd.arch.expert_bytes = 0;
	assert_int_equal(plan_make(&odd, good, 2, &p), -ENODATA);
	odd = in;
	odd.arch.kv_bytes_per_token = 0;
	odd.context_tokens = 1;
	assert_int_equal(plan_make(&odd, good, 2, &p), -ENODATA);
	assert_int_equal(p.n_points, 77);
	odd.context_tokens = 0;
	assert_int_equal(plan_make(&odd, good, 2, &p), 0);
	assert_int_equal(p.n_points, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_match_the_table),
		cmocka_unit_test(boundaries_match_the_table),
		cmocka_unit_test(a_step_is_the_sum_of_its_parts),
		cmocka_unit_test(every_copy_of_the_dense_weights_is_read),
		cmocka_unit_test(layouts_are_completed),
		cmocka_unit_test(weights_follow_their_type),
		cmocka_unit_test(skew_makes_the_valley_longer),
		cmocka_unit_test(all_experts_for_each_token_is_no_valley),
		cmocka_unit_test(what_cannot_be_planned_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
