/* Plans against tables worked out in Python for eleven published models: every
 * column is compared to the digits that are printed there. */
#include "tests/unit/model/plan_models.h"

#define COLUMNS_MAX 32
#define SCAN_BATCH_MAX 1e4
#define RHO_BATCH_MAX 2e5

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

/* Rows that tiles of `height` rows make of a step's, one tile or more for each
 * active expert: E x the mean of ceil(r / height), r binomial. */
static double tiled_rows(const struct arch *a, double b, int height)
{
	double p = (double)a->top_k / a->experts, tiles = 0;
	double ln_b = lgamma(b + 1);

	for (double r = 1; r <= b; r++) {
		double ln_r = ln_b - lgamma(r + 1) - lgamma(b - r + 1) +
			      r * log(p) + (b - r) * log1p(-p);

		if (ln_r > -60)
			tiles += exp(ln_r) * ceil(r / height);
	}
	return a->experts * tiles * height;
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

/* What a model with other weights would read, or pay, in its place. */
static void comparisons_are(const struct arch *a, const struct plan_point *p)
{
	double alone =
		a->moe_layers * a->top_k * a->expert_bytes + a->dense_bytes;
	double rows = p->batch * a->top_k;
	struct machine m;

	is("vs_active_dense", p->active / a->top_k);
	is("vs_total_dense", p->active / a->experts);
	is("amortisation_vs_dense", p->bytes_per_token / alone * p->batch);
	/* sums of thousands of exponentials: their last digit may differ */
	is_above(1e-5, "row_pad16", 1 - rows / tiled_rows(a, p->batch, 16));
	is_above(1e-5, "row_pad64", 1 - rows / tiled_rows(a, p->batch, 64));
	economics_machine(gpu_find("H100-SXM"), 1, 0, a->compute, &m);
	m.bw_achieved = m.bw;
	m.flops_achieved = m.flops;
	is("rho_gm", against_dense(a, &m, p->batch));
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
		comparisons_are(&in.arch, &p);
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

		plan_valley_of(&in, &v);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_match_the_table),
		cmocka_unit_test(boundaries_match_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
