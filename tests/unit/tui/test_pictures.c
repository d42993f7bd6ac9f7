/* The arithmetic behind the pictures: the heat map's cells, the curve's points,
 * the buckets of a histogram on a log axis. */
#include "tests/unit/tui/golden.h"

#include "tui/buckets.h"
#include "tui/curve_plot.h"
#include "tui/heat.h"

#define LAYERS 61u
#define EXPERTS 384u

static uint32_t rows[LAYERS * EXPERTS];
static struct snapshot shot;

static void near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b))))
		fail_msg("%g is not %g", a, b);
}

static struct heat map_of(unsigned layers, unsigned experts, unsigned ranks)
{
	return (struct heat){ .rows = rows,
			      .stride = EXPERTS,
			      .layers = layers,
			      .experts = experts,
			      .ranks = ranks };
}

/* ---- heat map -------------------------------------------------------------- */

/* Every expert has a column of its picture, which leads back to it or to one
 * before it; columns only grow. */
static void check_columns(const struct heat *m, int w)
{
	int last = 0;

	assert_true(m->w >= 1 && m->w <= (w > 1 ? w : 1));
	for (unsigned e = 0; e < m->experts; e++) {
		int x = heat_column(m, e);
		int back = heat_expert_at(m, x);

		assert_true(x >= last && x + m->cell_w <= m->w);
		assert_true(back >= 0 && back <= (int)e);
		assert_true(e - (unsigned)back < m->per_col);
		assert_int_equal(heat_column(m, (unsigned)back), x);
		last = x;
	}
	for (unsigned l = 0; l < m->layers; l++) {
		int y = heat_row(m, l);

		assert_true(y >= 0 && y < m->h);
		assert_true(heat_layer_at(m, y) <= (int)l);
		if (y + 1 < m->h)
			assert_true(heat_layer_at(m, y + 1) > (int)l);
	}
	assert_int_equal(heat_expert_at(m, m->w), -1);
	assert_int_equal(heat_layer_at(m, m->h), -1);
}

static void test_every_expert_and_layer_has_its_cell(void **state)
{
	static const unsigned shapes[][3] = {
		{ 48, 128, 0 }, { 61, 256, 8 },  { 61, 384, 0 },
		{ 1, 8, 2 },    { 3, 1, 0 },     { 61, 384, 64 },
		{ 40, 60, 7 },  { 5, 128, 128 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (int w = 1; w < 220; w += 3) {
			struct heat m = map_of(shapes[i][0], shapes[i][1],
					       shapes[i][2]);
			struct heat again = m;

			heat_fit(&m, w, 1 + w % 50);
			check_columns(&m, w);
			/* a click finds the cells as they were drawn */
			heat_fit(&again, m.w, m.h);
			assert_int_equal(again.w, m.w);
			assert_int_equal(again.per_col, m.per_col);
			assert_int_equal(again.cell_w, m.cell_w);
		}
}

static void test_ranks_are_set_apart(void **state)
{
	struct heat m = map_of(10, 128, 8);

	(void)state;
	heat_fit(&m, 71, 10);
	assert_int_equal(m.ranks, 8);
	for (unsigned rank = 1; rank < 8; rank++) {
		int x = heat_column(&m, rank * 16);

		assert_int_equal(heat_expert_at(&m, x - 1), -1);
		assert_true(heat_expert_at(&m, x - 2) >= 0);
	}
	heat_fit(&m, 15, 10); /* too narrow for gaps */
	assert_int_equal(m.ranks, 0);
}

static void test_levels(void **state)
{
	const struct heat_range r = { 10, 110 }, even = { 5, 5 };

	(void)state;
	assert_int_equal(heat_level(0, r), 0);
	assert_int_equal(heat_level(10, r), 1);
	assert_int_equal(heat_level(110, r), HEAT_LEVELS);
	assert_int_equal(heat_level(1e9, r), HEAT_LEVELS);
	assert_int_equal(heat_level(35, r), HEAT_LEVELS / 2); /* sqrt 1/4 */
	assert_int_equal(heat_level(5, even), HEAT_LEVELS / 2);
	for (double x = 10; x < 110; x++)
		assert_true(heat_level(x, r) <= heat_level(x + 1, r));
}

static void test_range_is_that_of_the_means(void **state)
{
	struct heat m = map_of(2, 4, 0);

	(void)state;
	memset(rows, 0, sizeof(rows));
	rows[0] = 8;
	rows[1] = 4;
	rows[EXPERTS + 3] = 2;
	heat_fit(&m, 4, 2);
	near(m.range.top, 8);
	near(m.range.low, 2);
	heat_fit(&m, 2, 1); /* cells of 2 layers and 2 experts */
	near(m.range.top, 3);
	near(m.range.low, 0.5);
}

/* ---- curve ------------------------------------------------------------------ */

static void test_curve_is_that_of_the_what_ifs(void **state)
{
	static struct curve c;
	struct whatif_point p;

	(void)state;
	scene_fill(&shot, SCENE_NEAR);
	memset(&c, 0, sizeof(c));
	curve_find(&c, &shot);
	assert_int_equal(c.basis, CURVE_ROWS);
	assert_true(c.load);
	for (double octaves = 0; octaves <= 10; octaves += 0.5) {
		assert_true(whatif_at(
			&shot.what_if_base,
			&(struct whatif_change){ .batch = exp2(octaves) }, &p));
		near(curve_gain(&c, octaves), p.shares.gain);
	}
	near(c.exit, shot.metrics[METRIC_TRAFFIC_EXIT].v);
	assert_true(c.enter < c.floor && c.floor < c.exit);
	assert_true(c.exit_low < c.exit && c.exit < c.exit_high);
	assert_true(isnan(curve_gain(&c, -1)));
	assert_true(isnan(curve_gain(&c, CURVE_OCTAVES + 1)));
}

/* Screen 1 shows what the snapshot says of the floor: so does the curve. */
static void test_the_floor_is_that_of_the_snapshot(void **state)
{
	static struct curve c;

	(void)state;
	scene_fill(&shot, SCENE_NEAR);
	memset(&c, 0, sizeof(c));
	curve_find(&c, &shot);
	near(c.floor, shot.metrics[METRIC_TRAFFIC_FLOOR].v);
	scene_fill(&shot, SCENE_IDLE);
	assert_false(value_known(shot.metrics[METRIC_TRAFFIC_FLOOR]));
	curve_find(&c, &shot);
	assert_int_equal(c.basis, CURVE_UNIFORM);
	near(c.floor, shot.metrics[METRIC_VALLEY_FLOOR].v);
	curve_find(&c, &shot); /* the same base again */
	near(c.floor, shot.metrics[METRIC_VALLEY_FLOOR].v);
}

/* A recording of another version has no base, but its table. */
static void test_curve_of_an_old_recording(void **state)
{
	static struct curve c;

	(void)state;
	scene_fill(&shot, SCENE_NEAR);
	memset(&shot.what_if_base, 0, sizeof(shot.what_if_base));
	memset(&c, 0, sizeof(c));
	curve_find(&c, &shot);
	assert_int_equal(c.basis, CURVE_TABLE);
	assert_int_equal(c.n, 12);
	for (unsigned i = 0; i < 12; i++)
		near(curve_gain(&c, i), shot.what_if[i].marginal_gain.v);
	near(curve_gain(&c, 2.5), (shot.what_if[2].marginal_gain.v +
				   shot.what_if[3].marginal_gain.v) /
					  2);
	shot.n_what_if = 0;
	curve_find(&c, &shot);
	assert_int_equal(c.basis, CURVE_NONE);
}

static void test_curve_without_a_load(void **state)
{
	static struct curve c;

	(void)state;
	scene_fill(&shot, SCENE_IDLE);
	memset(&c, 0, sizeof(c));
	curve_find(&c, &shot);
	assert_int_equal(c.basis, CURVE_UNIFORM);
	assert_false(c.load);
	assert_true(isfinite(curve_gain(&c, 5)));
}

static void test_places_of_a_plot(void **state)
{
	const struct plot p = { { 10, 5, 61, 11 }, 12 };

	(void)state;
	assert_int_equal(plot_x(&p, 0), 0);
	assert_int_equal(plot_x(&p, 12), 60);
	assert_int_equal(plot_x(&p, 12.1), -1);
	assert_int_equal(plot_x(&p, NAN), -1);
	assert_int_equal(plot_y(&p, 1), 0);
	assert_int_equal(plot_y(&p, 0), 10);
	assert_int_equal(plot_y(&p, -3), 10);
	assert_int_equal(plot_y(&p, NAN), -1);
	for (int x = 0; x < 61; x++)
		assert_int_equal(plot_x(&p, plot_octaves(&p, x)), x);
}

/* ---- histograms ------------------------------------------------------------- */

static void test_buckets_keep_their_counts(void **state)
{
	struct snapshot_hist h;

	(void)state;
	scene_hist(&h, 0.2, 0.6, 5000);
	for (unsigned n = 1; n < 300; n += 7) {
		double out[300], from, to, sum = 0, counted = 0;

		assert_true(buckets_spread(&h, n, out, &from, &to));
		for (unsigned i = 0; i < n; i++)
			sum += out[i];
		for (unsigned i = 0; i < h.n_buckets; i++)
			counted += (double)h.buckets[i].count;
		assert_true(fabs(sum / counted - 1) < 1e-6);
		assert_true(from < h.buckets[0].upper);
		near(to, h.buckets[h.n_buckets - 1].upper);
	}
}

static void test_buckets_that_are_no_use(void **state)
{
	struct snapshot_hist h = { 0 };
	double out[8], from = 1, to = 2;

	(void)state;
	assert_false(buckets_spread(&h, 8, out, &from, &to));
	h.n_buckets = 2;
	h.buckets[0] = (struct snapshot_bucket){ 0, 5 };
	h.buckets[1] = (struct snapshot_bucket){ 1, 0 };
	assert_false(buckets_spread(&h, 8, out, &from, &to));
	assert_true(from == 1 && to == 2);
	h.buckets[1].count = 1; /* one bucket: an octave around it */
	assert_true(buckets_spread(&h, 8, out, &from, &to));
	near(to / from, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_expert_and_layer_has_its_cell),
		cmocka_unit_test(test_ranks_are_set_apart),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_range_is_that_of_the_means),
		cmocka_unit_test(test_curve_is_that_of_the_what_ifs),
		cmocka_unit_test(test_the_floor_is_that_of_the_snapshot),
		cmocka_unit_test(test_curve_of_an_old_recording),
		cmocka_unit_test(test_curve_without_a_load),
		cmocka_unit_test(test_places_of_a_plot),
		cmocka_unit_test(test_buckets_keep_their_counts),
		cmocka_unit_test(test_buckets_that_are_no_use),
	};

	return cmocka_run_group_tests(tests, golden_setup, NULL);
}
