#include "tests/unit/cupti/check.h"

#include "tests/unit/cupti/layouts.h"

static struct world world;
static struct functions *functions;

static int setup(void **state)
{
	(void)state;
	functions = calloc(1, sizeof(*functions));
	return functions == NULL;
}

static int teardown(void **state)
{
	(void)state;
	free(functions);
	return 0;
}

static const struct {
	uint32_t rows, padding, k, experts;
} shapes[] = { { 1, 0, 2, 8 },   { 1, 0, 8, 64 }, { 2, 0, 2, 8 },
	       { 4, 1, 4, 32 },  { 8, 0, 8, 64 }, { 12, 3, 8, 60 },
	       { 24, 0, 6, 64 }, { 40, 7, 8, 64 } };
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* By itself: others tell something of what these give. */
static bool gives_rows(const struct row_adapter *a)
{
	return a->role == ROLE_COUNT ||
	       ((a->role == ROLE_CHOOSE || a->role == ROLE_READ) &&
		(a->rows || a->numel));
}

/* Some layouts are of launches with one row only. */
static bool fits(const struct row_adapter *a, uint32_t rows)
{
	return a->rows != ARG_ONE || rows == 1;
}

static void each_layout_gives_the_rows_of_its_world(void **state)
{
	const struct row_adapter *a;
	struct call c;
	unsigned right = 0;

	(void)state;
	for (size_t s = 0; s < SHAPES; s++) {
		world_make(&world, 77 + s, shapes[s].rows, shapes[s].padding,
			   shapes[s].k, shapes[s].experts);
		for (size_t i = 0; (a = adapter_at(i)); i++) {
			enum verdict v;

			if (!gives_rows(a) || !fits(a, world.rows))
				continue;
			call_make(&c, &world, a);
			v = call_read(functions, &c, &world);
			if (v != VERDICT_RIGHT)
				fail_msg("%s %s, %u rows: verdict %d", a->name,
					 a->sizes, world.rows, v);
			right++;
		}
	}
	assert_true(right > 250);
}

static void shuffled_layouts_are_refused_or_right(void **state)
{
	const struct row_adapter *a;
	unsigned refused = 0, all = 0;
	struct call c;

	(void)state;
	for (unsigned turn = 0; turn < 6 * SHAPES; turn++) {
		size_t s = turn % SHAPES;

		world_make(&world, 1000 + turn, shapes[s].rows,
			   shapes[s].padding, shapes[s].k, shapes[s].experts);
		for (size_t i = 0; (a = adapter_at(i)); i++) {
			for (unsigned n = 0; n < 12 && fits(a, world.rows);
			     n++) {
				call_make(&c, &world, a);
				for (unsigned x = 0; x <= n % 4; x++)
					call_swap(&c, world_random(&world, 64),
						  world_random(&world, 64));
				switch (call_read(functions, &c, &world)) {
				case VERDICT_WRONG:
					fail_msg("%s %s, turn %u: misread",
						 a->name, a->sizes, turn);
					break;
				case VERDICT_REFUSED:
					refused++;
					break;
				default:
					break;
				}
				all++;
			}
		}
	}
	/* Most shuffles move what matters. */
	assert_true(refused > all / 2);
}

/* The same parameters under a layout that has one more in front. */
static void parameters_that_moved_by_one_are_refused_or_right(void **state)
{
	const struct row_adapter *a;
	struct call c;

	(void)state;
	for (size_t s = 0; s < SHAPES; s++) {
		world_make(&world, 5 + s, shapes[s].rows, shapes[s].padding,
			   shapes[s].k, shapes[s].experts);
		for (size_t i = 0; (a = adapter_at(i)); i++) {
			call_make(&c, &world, a);
			if (c.bytes[0] > 8 || !fits(a, world.rows))
				continue;
			memmove(c.value + 1, c.value, c.n * sizeof(c.value[0]));
			memmove(c.bytes + 1, c.bytes, c.n * sizeof(c.bytes[0]));
			c.value[0] = region_address(REGION_ZEROES);
			c.bytes[0] = 8;
			c.n++;
			if (call_read(functions, &c, &world) == VERDICT_WRONG)
				fail_msg("%s %s: misread", a->name, a->sizes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_layout_gives_the_rows_of_its_world),
		cmocka_unit_test(shuffled_layouts_are_refused_or_right),
		cmocka_unit_test(
			parameters_that_moved_by_one_are_refused_or_right),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
