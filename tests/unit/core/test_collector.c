/* The collector with sources that do what the test says. */
#include "core/collector.h"
#include "wire/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct source {
	int unused;
};

static struct {
	int open_result, poll_result;
	unsigned opened, polled, sampled, described, closed;
	bool is_open;
} fake;

static int fake_open(struct source **s, const struct target *t,
		     struct source_context *x, char *why, size_t why_bytes,
		     char *fix, size_t fix_bytes)
{
	static struct source one;

	(void)t;
	(void)x;
	fake.opened++;
	if (fake.open_result) {
		snprintf(why, why_bytes, "it is broken");
		snprintf(fix, fix_bytes, "mend it");
		return fake.open_result;
	}
	fake.is_open = true;
	*s = &one;
	return 0;
}

static int fake_fd(struct source *s)
{
	(void)s;
	return -1;
}

static int fake_poll(struct source *s, uint64_t now_ns)
{
	(void)s;
	(void)now_ns;
	assert_true(fake.is_open);
	fake.polled++;
	return fake.poll_result;
}

static void fake_sample(struct source *s, struct sample *out)
{
	(void)s;
	fake.sampled++;
	out->have_requests = true;
	out->waiting = 2;
	out->streaming = 5;
}

static void fake_describe(struct source *s, struct snapshot *out)
{
	(void)s;
	fake.described++;
	source_tier(out, TIER_T1, TIER_OK, "it works", "");
}

static void fake_close(struct source *s)
{
	if (!s)
		return;
	assert_true(fake.is_open);
	fake.is_open = false;
	fake.closed++;
}

static const struct source_ops fake_ops = {
	.name = "fake",
	.tier = TIER_T1,
	.open = fake_open,
	.fd = fake_fd,
	.poll = fake_poll,
	.sample = fake_sample,
	.describe = fake_describe,
	.close = fake_close,
};

static const struct source_ops *const sources[] = { &fake_ops, NULL };
static struct target target;
static struct source_context context;
static struct collector *collector;
static pid_t child;

/* A target that exists: a process of our own that does nothing. */
static int setup(void **state)
{
	const struct collector_config config = { .sources = sources,
						 .target = &target,
						 .context = &context };
	char why[256];

	(void)state;
	memset(&fake, 0, sizeof(fake));
	child = fork();
	if (child == 0) {
		for (;;)
			pause();
	}
	if (target_open(&target, child, NULL, why, sizeof(why)))
		return -1;
	return collector_new(&collector, &config, 0);
}

static int teardown(void **state)
{
	(void)state;
	collector_free(collector);
	assert_false(fake.is_open);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}

static void a_source_is_opened_polled_and_sampled(void **state)
{
	const struct snapshot *s;

	(void)state;
	assert_int_equal(collector_tick(collector, 0), 1);
	assert_int_equal(collector_tick(collector, NS_PER_MS * 100), 1);
	assert_int_equal(fake.opened, 1);
	assert_int_equal(fake.polled, 2);
	s = collector_snapshot(collector, NS_PER_S, 1000.5);
	assert_int_equal(fake.sampled, 1);
	assert_int_equal(fake.described, 1);
	assert_true(s->time == 1000.5 && s->interval_s == 1);
	assert_true(s->sequence == 1);
	assert_true(s->metrics[METRIC_IN_FLIGHT].v == 7);
	assert_int_equal(s->metrics[METRIC_IN_FLIGHT].state, VALUE_OK);
	assert_int_equal(s->health.tiers[TIER_T1].state, TIER_OK);
	assert_int_equal(s->target.pid, child);
}

static void a_source_that_fails_names_why_and_remedy(void **state)
{
	const struct snapshot_tier *t;
	const struct snapshot *s;

	(void)state;
	fake.open_result = -EPERM;
	collector_tick(collector, 0);
	s = collector_snapshot(collector, NS_PER_S, 1);
	t = &s->health.tiers[TIER_T1];
	assert_int_equal(t->state, TIER_MISSING);
	assert_string_equal(t->what, "it is broken");
	assert_string_equal(t->remedy, "mend it");
	assert_string_equal(t->name, "T1");
	assert_int_equal(s->metrics[METRIC_IN_FLIGHT].state, VALUE_NO_DATA);
}

static void a_failing_source_is_tried_with_growing_pauses(void **state)
{
	(void)state;
	fake.open_result = -EPERM;
	for (uint64_t ms = 0; ms < 60000; ms += 100)
		collector_tick(collector, ms * NS_PER_MS);
	/* at 0, 1, 3, 7, 15, 31 s */
	assert_int_equal(fake.opened, 6);
	fake.open_result = 0;
	collector_tick(collector, 63 * NS_PER_S);
	assert_true(fake.is_open);
}

static void a_source_that_waits_is_tried_every_second(void **state)
{
	(void)state;
	fake.open_result = -ENOENT;
	for (uint64_t ms = 0; ms < 10000; ms += 100)
		collector_tick(collector, ms * NS_PER_MS);
	assert_int_equal(fake.opened, 10);
}

static void a_source_that_breaks_is_closed_and_opened_again(void **state)
{
	(void)state;
	collector_tick(collector, 0);
	fake.poll_result = -EIO;
	collector_tick(collector, NS_PER_MS);
	assert_int_equal(fake.closed, 1);
	fake.poll_result = 0;
	collector_tick(collector, 2 * NS_PER_MS);
	assert_int_equal(fake.opened, 1); /* not in a hurry */
	collector_tick(collector, 2 * NS_PER_S);
	assert_int_equal(fake.opened, 2);
	assert_true(fake.is_open);
}

static void
a_source_that_breaks_at_once_is_tried_with_growing_pauses(void **state)
{
	(void)state;
	fake.poll_result = -EIO;
	for (uint64_t ms = 0; ms < 60000; ms += 100)
		collector_tick(collector, ms * NS_PER_MS);
	/* at 0, 1, 3, 7, 15, 31 s */
	assert_int_equal(fake.opened, 6);
	assert_int_equal(fake.closed, 6);
	/* and after a long time of work from the beginning */
	fake.poll_result = 0;
	collector_tick(collector, 63 * NS_PER_S);
	assert_true(fake.is_open);
	fake.poll_result = -EIO;
	collector_tick(collector, 100 * NS_PER_S);
	collector_tick(collector, 101 * NS_PER_S);
	assert_int_equal(fake.opened, 8);
}

static void tiers_without_a_source_are_off(void **state)
{
	const struct snapshot *s;

	(void)state;
	collector_tick(collector, 0);
	s = collector_snapshot(collector, NS_PER_S, 1);
	assert_int_equal(s->health.tiers[TIER_T0].state, TIER_OK);
	assert_int_equal(s->health.tiers[TIER_T2].state, TIER_OFF);
	assert_int_equal(s->health.tiers[TIER_C].state, TIER_OFF);
	for (int t = 0; t < (int)SNAPSHOT_TIERS; t++)
		assert_true(s->health.tiers[t].name[0]);
}

static void a_target_that_ends_leaves_its_last_state(void **state)
{
	const struct snapshot *s;

	(void)state;
	collector_tick(collector, 0);
	collector_snapshot(collector, NS_PER_S, 1);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(collector_tick(collector, 2 * NS_PER_S), 0);
	s = collector_gone(collector, 77);
	assert_false(fake.is_open);
	assert_true(s->health.target_gone);
	assert_true(s->health.target_gone_seconds == 77);
	assert_true(s->metrics[METRIC_IN_FLIGHT].v == 7);
	assert_int_equal(s->metrics[METRIC_IN_FLIGHT].state, VALUE_STALE);
	assert_int_equal(s->metrics[METRIC_ROWS].state, VALUE_NO_DATA);
	assert_int_equal(collector_tick(collector, 3 * NS_PER_S), 0);
	assert_ptr_equal(collector_snapshot(collector, 4 * NS_PER_S, 78), s);
	assert_int_equal(fake.sampled, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_source_is_opened_polled_and_sampled),
		TEST(a_source_that_fails_names_why_and_remedy),
		TEST(a_failing_source_is_tried_with_growing_pauses),
		TEST(a_source_that_waits_is_tried_every_second),
		TEST(a_source_that_breaks_is_closed_and_opened_again),
		TEST(a_source_that_breaks_at_once_is_tried_with_growing_pauses),
		TEST(tiers_without_a_source_are_off),
		TEST(a_target_that_ends_leaves_its_last_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
