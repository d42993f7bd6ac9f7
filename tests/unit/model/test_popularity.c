/* Popularity from a file: what is understood, what is refused, what it means. */
#include "model/popularity.h"

#include "tests/unit/model/plan_models.h"

static char why[160];

static int parse(const char *text, uint32_t e, double k, struct popularity **p)
{
	why[0] = '\0';
	return popularity_parse(text, strlen(text), e, k, p, why, sizeof(why));
}

static void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fabs(want))
		return;
	print_error("got %.17g, want %.17g\n", got, want);
	fail();
}

/* Chances, counts and shares mean the same; so do separators and comments. */
static void forms_of_a_file(void **state)
{
	static const char *const texts[] = {
		"0.5,0.25,0.25,1\n1,0.5,0.25,0.25\n",
		"# layer by layer\n2 1 1 4\r\n\n100;50;25;25",
		"1e2\t50.0\t50\t200\n0.5,0.25,0.125,0.125,\n",
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct popularity *p = NULL;

		assert_int_equal(parse(texts[i], 4, 2, &p), 0);
		assert_int_equal(p->layers, 2);
		near(p->chance[0], 0.5, 1e-12);
		near(p->chance[3], 1, 1e-12);
		near(p->chance[4], 1, 1e-12);
		near(popularity_active(p, 1), 2, 1e-12);
		near(popularity_single(p, 1), 2, 1e-12);
		near(popularity_active(p, 2),
		     (1 + 0.75 + 2 * 0.4375 + 1 + 0.75 + 2 * 0.4375) / 2,
		     1e-12);
		near(popularity_single(p, 2), 0.5 + 2 * 0.375, 1e-12);
		free(p);
	}
}

static void equal_chances_are_uniform(void **state)
{
	struct popularity *p = NULL;
	char text[1024] = "";

	(void)state;
	for (unsigned e = 0; e < 128; e++)
		strcat(text, "1,");
	assert_int_equal(parse(text, 128, 8, &p), 0);
	for (double b = 1; b < 1e6; b *= 7) {
		near(popularity_active(p, b), valley_active(128, 8, b), 1e-12);
		assert_true(fabs(popularity_single(p, b) -
				 valley_single(128, 8, b)) < 1e-9);
	}
	free(p);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "", "0 lines" },
		{ "# nothing\n\n", "0 lines" },
		{ "1,2,3\n", "line 1: 3 numbers" },
		{ "1,2,3,4,5\n", "line 1: 5 numbers" },
		{ "1,2,3,4\n\n1,2,3\n", "line 3: 3 numbers" },
		{ "1,2,x,4\n", "line 1: 'x' is not" },
		{ "1,2,-3,4\n", "line 1: '-3' is not" },
		{ "1,2,nan,4\n", "line 1: 'nan' is not" },
		{ "1,2,inf,4\n", "line 1: 'inf' is not" },
		{ "e0,e1,e2,e3\n", "line 1: 'e0' is not" },
		{ "1,\033[2J,1,1\n", "line 1: '?[2J' is not" },
		{ "0,0,0,0\n", "line 1: all chances are 0" },
		{ "9,1,1,1\n", "line 1: expert 0 would be picked 1.50 times" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct popularity *p = (struct popularity *)why;

		assert_int_equal(parse(bad[i].text, 4, 2, &p), -EINVAL);
		assert_ptr_equal(p, why);
		if (!strstr(why, bad[i].why)) {
			print_error("%s\n", why);
			fail();
		}
	}
}

static void too_many_are_refused(void **state)
{
	char text[2 * 1100 + 1];
	struct popularity *p = NULL;

	(void)state;
	for (unsigned i = 0; i < 1100; i++)
		memcpy(text + 2 * i, "1\n", 3);
	assert_int_equal(parse(text, 1, 1, &p), -EINVAL);
	assert_non_null(strstr(why, "1100 lines"));
	assert_int_equal(parse(text, 0, 0, &p), -EINVAL);
	assert_int_equal(parse("1\n", 2000000, 1, &p), -EINVAL);
	assert_null(p);
}

static char *read_all(const char *path, size_t *n)
{
	char *text = malloc(1 << 20);
	FILE *f = fopen(path, "re");

	assert_non_null(f);
	assert_non_null(text);
	*n = fread(text, 1, 1 << 20, f);
	fclose(f);
	return text;
}

/* Qwen3-235B's measured popularity: the figures that were published with it,
 * and a valley that ends later than that of uniform routing. */
static void measured_popularity(void **state)
{
	static const struct {
		double b, active, single_ratio;
	} table[] = { { 1, 8, 1 },
		      { 4, 26.57, 0.821 },
		      { 8, 43.46, 0.669 },
		      { 16, 64.12, 0.496 },
		      { 32, 84.61, 0.329 },
		      { 64, 100.77, 0.192 },
		      { 128, 111.37, 0.108 },
		      { 256, 118.01, 0.065 } };
	struct plan_input in = input_of("Qwen3-235B-A22B");
	struct plan_valley v, uniform;
	struct popularity *p = NULL;
	size_t n;
	char *text = read_all("tests/data/expert_popularity.csv", &n);

	(void)state;
	assert_int_equal(
		popularity_parse(text, n, 128, 8, &p, why, sizeof(why)), 0);
	free(text);
	assert_int_equal(p->layers, 94);
	plan_valley_of(&in, &uniform);
	in.popularity = p;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct plan_point x;

		plan_point_at(&in, table[i].b, &x);
		assert_true(fabs(x.active - table[i].active) < 0.0051);
		assert_true(fabs(x.single_row_ratio - table[i].single_ratio) <
			    0.00051);
	}
	plan_valley_of(&in, &v);
	assert_true(v.exit > 135 && v.exit < 145);
	assert_true(v.floor > 14.5 && v.floor < 15);
	assert_true(v.enter < uniform.enter && v.exit > 2 * uniform.exit);
	free(p);
}

/* Two kinds of experts: s1 falls, rises again, and the last fall counts. */
static void s1_may_rise_again(void **state)
{
	struct plan_input in = input_of("Mixtral-8x7B");
	struct popularity *p = NULL;
	struct plan_valley v;

	(void)state;
	assert_int_equal(
		parse("1,0.9999,1e-4,1e-4,1e-4,1e-4,1e-4,1e-4", 8, 2, &p), 0);
	in.popularity = p;
	plan_valley_of(&in, &v);
	assert_true(v.exit > 1e4);
	assert_true(v.enter < 3);
	assert_true(v.floor >= v.enter && v.floor <= v.exit);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_of_a_file),
		cmocka_unit_test(equal_chances_are_uniform),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(too_many_are_refused),
		cmocka_unit_test(measured_popularity),
		cmocka_unit_test(s1_may_rise_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
