/* The truth log is lines of numbers apart by tabs, none lost. */
#include "sim/server/truth.h"

#include <pthread.h>
#include <unistd.h>

#include "tests/unit/sim/server_test.h"

static char path[] = "/tmp/moetop-truth-XXXXXX";
static struct truth *truth;

static int open_log(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return truth_open(&truth, path);
}

static int close_log(void **state)
{
	int err = truth_close(truth);

	(void)state;
	truth = NULL;
	unlink(path);
	strcpy(path + strlen(path) - 6, "XXXXXX");
	return err;
}

static void expect_file(const char *want)
{
	char got[2048];
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	n = fread(got, 1, sizeof(got) - 1, f);
	fclose(f);
	got[n] = 0;
	assert_string_equal(got, want);
}

static void lines_have_the_documented_words(void **state)
{
	const struct truth_step s = { .step = 7,
				      .start_ns = 100,
				      .end_ns = 18446744073709551615u,
				      .tokens = 3,
				      .padded = 4,
				      .graph = true };
	const struct truth_layer l[2] = {
		{ .rows = 24,
		  .active = 20,
		  .single = 17,
		  .block_ns = 5,
		  .expert_ns = 3,
		  .before_ns = 2,
		  .read_bytes = 1e12 },
		{ .rows = 24, .active = 24, .single = 24 },
	};
	const struct truth_totals n = { 9, 8, 1, 77, 2 };

	(void)state;
	truth_step(truth, &s, l, 2);
	truth_in_flight(truth, 5, 2, 1);
	truth_totals(truth, 6, &n);
	assert_int_equal(truth_flush(truth), 0);
	expect_file("S\t7\t100\t18446744073709551615\tdecode\t3\t4\t1\n"
		    "L\t7\t0\t24\t20\t17\t5\t3\t2\t1000000000000\n"
		    "L\t7\t1\t24\t24\t24\t0\t0\t0\t0\n"
		    "F\t5\t2\t1\n"
		    "T\t6\t9\t8\t1\t77\t2\n");
}

static void a_flush_adds_to_the_file(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		truth_in_flight(truth, i, 0, 0);
		assert_int_equal(truth_flush(truth), 0);
	}
	expect_file("F\t0\t0\t0\nF\t1\t0\t0\nF\t2\t0\t0\n");
}

static void *add_many(void *arg)
{
	for (uint64_t i = 0; i < 20000; i++)
		truth_in_flight(arg, i, i, i);
	return NULL;
}

static void threads_may_add_while_one_writes(void **state)
{
	pthread_t t[2];
	char line[128];
	unsigned lines = 0;
	FILE *f;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, add_many, truth),
				 0);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(truth_flush(truth), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(truth_flush(truth), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long a, b, c;

		assert_int_equal(sscanf(line, "F\t%lu\t%lu\t%lu\n", &a, &b, &c),
				 3);
		assert_true(a == b && b == c);
		lines++;
	}
	fclose(f);
	assert_int_equal(lines, 40000);
}

static void a_full_buffer_counts_its_losses(void **state)
{
	char line[128];
	unsigned long kept = 0, lost = 0, now;
	FILE *f;

	(void)state;
	for (uint64_t i = 0; i < 1000000; i++)
		truth_in_flight(truth, 1000000000 + i, i, i);
	assert_int_equal(truth_flush(truth), 0);
	truth_in_flight(truth, 1, 1, 1);
	assert_int_equal(truth_flush(truth), 0);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		kept += *line == 'F';
		if (*line == 'D')
			assert_int_equal(
				sscanf(line, "D\t%lu\t%lu", &now, &lost), 2);
	}
	fclose(f);
	assert_true(lost > 0);
	assert_int_equal(kept + lost, 1000001);
}

static void no_log_is_no_error(void **state)
{
	struct truth *t = NULL;

	(void)state;
	truth_in_flight(NULL, 1, 1, 1);
	assert_int_equal(truth_flush(NULL), 0);
	assert_int_equal(truth_close(NULL), 0);
	assert_int_equal(truth_open(&t, "/nowhere/truth"), -ENOENT);
	assert_null(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines_have_the_documented_words,
						open_log, close_log),
		cmocka_unit_test_setup_teardown(a_flush_adds_to_the_file,
						open_log, close_log),
		cmocka_unit_test_setup_teardown(
			threads_may_add_while_one_writes, open_log, close_log),
		cmocka_unit_test_setup_teardown(a_full_buffer_counts_its_losses,
						open_log, close_log),
		cmocka_unit_test(no_log_is_no_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
