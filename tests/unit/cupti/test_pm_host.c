/* Which set of metrics is chosen, by a library that this file plays. */
#include "cupti/abi.h"
#include "cupti/pm_host.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the chip at hand has, and in how many passes. */
static struct {
	bool known, no_image;
	const char *passes; /* by set: '0' it has not all of its metrics */
	unsigned open;      /* host objects that are not closed */
	unsigned set;       /* whose configuration is being made */
} chip;

static int play_init(struct pm_host_init *p)
{
	assert_int_equal(p->bytes, offsetof(struct pm_host_init, host) + 8);
	assert_int_equal(p->type, PM_PROFILER_SAMPLING);
	if (!chip.known)
		return 1;
	chip.open++;
	p->host = &chip;
	return CUPTI_OK;
}

static int play_end(struct pm_host *p)
{
	assert_ptr_equal(p->host, &chip);
	chip.open--;
	return CUPTI_OK;
}

static int play_metrics(struct pm_host_metrics *p)
{
	unsigned i = 0;

	while (i < PM_SETS && p->names != pm_sets[i].metrics)
		i++;
	if (i == PM_SETS)
		fail();
	assert_int_equal(p->n, pm_sets[i].n);
	chip.set = i;
	return chip.passes[i] == '0' ? 1 : CUPTI_OK;
}

static int play_size(struct pm_host_size *p)
{
	p->image_bytes = 100;
	return CUPTI_OK;
}

static int play_image(struct pm_host_image *p)
{
	memset(p->image, 1, p->image_bytes);
	return chip.no_image ? 1 : CUPTI_OK;
}

static int play_passes(struct pm_host_passes *p)
{
	assert_int_equal(p->image_bytes, 100);
	p->passes = (size_t)(chip.passes[chip.set] - '0');
	return CUPTI_OK;
}

static const struct pm_api api = { .host_init = play_init,
				   .host_end = play_end,
				   .host_metrics = play_metrics,
				   .host_size = play_size,
				   .host_image = play_image,
				   .host_passes = play_passes };

static int choose(const char *passes, struct pm_choice *c)
{
	memset(&chip, 0, sizeof(chip));
	chip.known = true;
	chip.passes = passes;
	*c = (struct pm_choice){ 0 };
	return pm_choose(&api, "GX100", NULL, c);
}

static void the_first_set_of_one_pass_is_taken(void **state)
{
	static const struct {
		const char *passes, *name;
	} cases[] = {
		{ "11111111", "bytes+tensor" },
		{ "01111111", "op bytes+tensor" },
		{ "20111111", "bytes" },
		{ "20202111", "throughput" },
		{ "00000001", "total" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pm_choice c;

		assert_int_equal(choose(cases[i].passes, &c), 0);
		assert_string_equal(c.set->name, cases[i].name);
		assert_int_equal(chip.open, 1);
		assert_int_equal(c.image_bytes, 100);
		pm_choice_free(&api, &c);
		assert_int_equal(chip.open, 0);
		assert_null(c.image);
	}
}

static void more_passes_are_never_taken(void **state)
{
	struct pm_choice c;

	(void)state;
	assert_int_equal(choose("22202022", &c), -ENOENT);
	assert_int_equal(pm_passes(&api, "GX100", 0), 2);
	assert_int_equal(pm_passes(&api, "GX100", 3), 0);
	assert_int_equal(pm_passes(&api, "GX100", PM_SETS), 0);
	assert_int_equal(chip.open, 0);
}

static void what_the_library_refuses_leaves_nothing_open(void **state)
{
	struct pm_choice c;

	(void)state;
	choose("00000000", &c);
	chip.known = false;
	assert_int_equal(pm_choose(&api, "GX100", NULL, &c), -ENOTSUP);
	assert_int_equal(pm_passes(&api, "GX100", 0), -ENOTSUP);
	chip.known = chip.no_image = true;
	chip.passes = "11111111";
	assert_int_equal(pm_choose(&api, "GX100", NULL, &c), -ENOENT);
	assert_int_equal(chip.open, 0);
	assert_null(c.host);
}

static void every_set_says_what_each_metric_is(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PM_SETS; i++) {
		const struct pm_set *s = &pm_sets[i];
		bool read = false;

		assert_in_range(s->n, 1, PM_METRICS_MAX);
		for (unsigned k = 0; k < s->n; k++) {
			enum pm_role role = s->roles[k];

			assert_non_null(s->metrics[k]);
			read |= role == PM_READ_BYTES || role == PM_READ_PCT ||
				role == PM_BOTH_PCT;
			assert_int_equal(role == PM_TENSOR_PCT,
					 !strncmp(s->metrics[k], "sm__", 4));
		}
		assert_true(read);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_set_of_one_pass_is_taken),
		cmocka_unit_test(more_passes_are_never_taken),
		cmocka_unit_test(what_the_library_refuses_leaves_nothing_open),
		cmocka_unit_test(every_set_says_what_each_metric_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
