/* When our number and the engine's are said to differ. */
#include "model/checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct snapshot s; /* large */
static struct checks c;
static struct engine_claims claims;
static struct sample in;

static int setup(void **state)
{
	(void)state;
	memset(&s, 0, sizeof(s));
	memset(&c, 0, sizeof(c));
	in = (struct sample){ .have_requests = true };
	claims = (struct engine_claims){ .fresh = true,
					 .engine = "vllm",
					 .running = NAN,
					 .waiting = NAN,
					 .tokens_per_s = NAN,
					 .flops_per_s = NAN,
					 .bytes_per_s = NAN,
					 .ttft_s = NAN,
					 .batch = NAN };
	for (unsigned m = 0; m < METRICS; m++)
		s.metrics[m].state = VALUE_NO_DATA;
	return 0;
}

static void ours(enum metric_id id, double v)
{
	s.metrics[id] = value_make(v, SOURCE_MEASURED);
}

static const struct snapshot_check *update(enum check_id id,
					   const struct gpu *gpu)
{
	s.n_findings = 0;
	checks_update(&c, &claims, &in, gpu, &s);
	return &s.checks[id];
}

/* As many reports as it takes. */
static const struct snapshot_check *settle(enum check_id id)
{
	const struct snapshot_check *k = NULL;

	for (unsigned i = 0; i < CHECKS_SAMPLES; i++) {
		claims.report++;
		k = update(id, NULL);
	}
	return k;
}

static void equal_numbers_agree(void **state)
{
	const struct snapshot_check *k;

	(void)state;
	ours(METRIC_IN_FLIGHT, 20);
	ours(METRIC_WAITING, 4);
	claims.running = 16;
	claims.waiting = 4;
	for (enum check_id id = CHECK_IN_FLIGHT; id <= CHECK_WAITING; id++) {
		k = settle(id);
		assert_int_equal(k->state, CHECK_AGREES);
		assert_string_equal(k->name, check_name(id));
		assert_string_equal(k->why, "");
	}
	assert_int_equal(s.n_checks, CHECK_IDS);
	assert_int_equal(s.n_findings, 0);
}

static void a_moment_is_no_alarm(void **state)
{
	(void)state;
	ours(METRIC_IN_FLIGHT, 20);
	claims.running = 20;
	claims.waiting = 0;
	assert_int_equal(settle(CHECK_IN_FLIGHT)->state, CHECK_AGREES);
	for (unsigned turn = 0; turn < 3; turn++) {
		claims.running = 90;
		for (unsigned i = 1; i < CHECKS_SAMPLES; i++) {
			claims.report++;
			assert_int_equal(update(CHECK_IN_FLIGHT, NULL)->state,
					 CHECK_AGREES);
		}
		/* and drawing twice is not seeing twice */
		assert_int_equal(update(CHECK_IN_FLIGHT, NULL)->state,
				 CHECK_AGREES);
		claims.running = 20;
		claims.report++;
		update(CHECK_IN_FLIGHT, NULL);
	}
}

static void what_lasts_is_told_with_its_reason(void **state)
{
	const struct snapshot_check *k;

	(void)state;
	ours(METRIC_IN_FLIGHT, 20);
	ours(METRIC_WAITING, 0);
	claims.running = 90;
	claims.waiting = 0;
	k = settle(CHECK_IN_FLIGHT);
	assert_int_equal(k->state, CHECK_DIFFERS);
	assert_true(k->ours == 20 && k->theirs == 90);
	assert_non_null(strstr(k->why, "another way"));
	assert_int_equal(s.n_findings, 1); /* of several, the first */
	assert_string_equal(s.findings[0].rule, "engine_differs");
	assert_non_null(strstr(s.findings[0].text, "90"));
	/* and takes as long to be over */
	claims.running = 20;
	claims.report++;
	assert_int_equal(update(CHECK_IN_FLIGHT, NULL)->state, CHECK_DIFFERS);
	assert_int_equal(settle(CHECK_IN_FLIGHT)->state, CHECK_AGREES);
}

static void requests_that_do_not_stream_run_all_the_same(void **state)
{
	(void)state;
	/* all ten wait for their answer, as far as we can see */
	ours(METRIC_IN_FLIGHT, 10);
	ours(METRIC_WAITING, 10);
	claims.running = 10;
	claims.waiting = 0;
	assert_int_equal(settle(CHECK_RUNNING)->state, CHECK_AGREES);
	assert_int_equal(settle(CHECK_WAITING)->state, CHECK_AGREES);
	/* but what streams cannot be queued */
	ours(METRIC_WAITING, 1);
	claims.running = 2;
	claims.waiting = 8;
	assert_int_equal(settle(CHECK_RUNNING)->state, CHECK_DIFFERS);
	assert_int_equal(settle(CHECK_WAITING)->state, CHECK_DIFFERS);
	assert_true(s.checks[CHECK_RUNNING].ours == 9);
	assert_true(s.checks[CHECK_WAITING].ours == 1);
}

static void the_tolerance_is_that_of_the_table(void **state)
{
	(void)state;
	for (int step = -1; step <= 1; step += 2) {
		double room = check_tolerance_ratio(CHECK_TOKENS) * 1000;

		setup(NULL);
		claims.tokens_per_s = 1000;
		ours(METRIC_TOKENS, 1000 - room - step);
		assert_int_equal(settle(CHECK_TOKENS)->state,
				 step < 0 ? CHECK_AGREES : CHECK_DIFFERS);
		assert_true(s.checks[CHECK_TOKENS].tolerance_ratio ==
			    check_tolerance_ratio(CHECK_TOKENS));
	}
}

static void its_own_number_is_no_witness(void **state)
{
	const struct snapshot_check *k;

	(void)state;
	claims.tokens_per_s = 1000;
	s.metrics[METRIC_TOKENS] = value_make(1, SOURCE_SCRAPED);
	k = settle(CHECK_TOKENS);
	assert_int_equal(k->state, CHECK_UNKNOWN);
	assert_true(isnan(k->ours));
	assert_string_equal(k->why, "not known to us");
}

static void estimates_are_over_the_same_peaks(void **state)
{
	const struct gpu *h100 = gpu_find("H100");
	const struct snapshot_check *k;

	(void)state;
	assert_non_null(h100);
	snprintf(s.compute_type, sizeof(s.compute_type), "%s",
		 compute_type_name(COMPUTE_FP8));
	ours(METRIC_MFU, 0.1);
	ours(METRIC_MBU, 0.2);
	claims.flops_per_s = 0.1 * gpu_flops(h100, COMPUTE_FP8);
	claims.bytes_per_s = 0.6 * h100->bw;
	for (unsigned i = 0; i < CHECKS_SAMPLES; i++) {
		claims.report++;
		k = update(CHECK_MFU, h100);
	}
	assert_int_equal(k->state, CHECK_AGREES);
	k = &s.checks[CHECK_MBU];
	assert_int_equal(k->state, CHECK_DIFFERS);
	assert_true(fabs(k->theirs - 0.6) < 1e-9);
	assert_non_null(strstr(k->why, "experts of its own"));
	snprintf(claims.engine, sizeof(claims.engine), "sglang");
	claims.report++;
	update(CHECK_MBU, h100);
	assert_non_null(strstr(s.checks[CHECK_MBU].why, "dense"));
	claims.bytes_per_s = NAN;
	update(CHECK_MBU, h100);
	assert_non_null(
		strstr(s.checks[CHECK_MBU].why, "--enable-mfu-metrics"));
}

static void an_old_report_is_not_compared(void **state)
{
	(void)state;
	ours(METRIC_IN_FLIGHT, 1);
	claims.running = 50;
	claims.waiting = 0;
	assert_int_equal(settle(CHECK_IN_FLIGHT)->state, CHECK_DIFFERS);
	claims.fresh = false;
	update(CHECK_IN_FLIGHT, NULL);
	assert_int_equal(s.n_checks, 0);
	assert_int_equal(s.n_findings, 0);
	/* and begins anew when it is back */
	claims.fresh = true;
	claims.report++;
	assert_int_equal(update(CHECK_IN_FLIGHT, NULL)->state, CHECK_UNKNOWN);
}

/* A number says where it is from here, too. */
static void ours_keep_their_source(void **state)
{
	(void)state;
	ours(METRIC_IN_FLIGHT, 20);
	ours(METRIC_WAITING, 4);
	claims.running = 16;
	claims.waiting = 4;
	assert_int_equal(settle(CHECK_IN_FLIGHT)->source, SOURCE_MEASURED);
	assert_int_equal(settle(CHECK_RUNNING)->source, SOURCE_INFERRED);
	assert_int_equal(settle(CHECK_WAITING)->source, SOURCE_INFERRED);
	s.metrics[METRIC_IN_FLIGHT].source = SOURCE_INFERRED;
	assert_int_equal(settle(CHECK_IN_FLIGHT)->source, SOURCE_INFERRED);
	s.metrics[METRIC_USEFUL_MBU] = value_make(0.3, SOURCE_MODELLED);
	assert_int_equal(settle(CHECK_MBU)->source, SOURCE_MODELLED);
	assert_true(settle(CHECK_MBU)->ours == 0.3);
	ours(METRIC_MBU, 0.4);
	assert_int_equal(settle(CHECK_MBU)->source, SOURCE_MEASURED);
	s.metrics[METRIC_TOKENS] = value_make(900, SOURCE_SCRAPED);
	assert_true(isnan(settle(CHECK_TOKENS)->ours));
}

static void the_padded_size_is_the_next_captured_one(void **state)
{
	(void)state;
	assert_true(checks_batch("1, 2, 4, 8, 16", 5) == 8);
	assert_true(checks_batch("[16,8,4,2,1]", 8) == 8);
	assert_true(isnan(checks_batch("1 2 4", 5)));
	assert_true(isnan(checks_batch("", 1)));
	in.have_agent = true;
	in.d_decode_steps = 10;
	in.d_padded_tokens = 160;
	claims.batch = 16;
	assert_int_equal(settle(CHECK_PADDED)->state, CHECK_AGREES);
	claims.batch = 64;
	assert_int_equal(settle(CHECK_PADDED)->state, CHECK_DIFFERS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, setup)
	const struct CMUnitTest tests[] = {
		TEST(equal_numbers_agree),
		TEST(a_moment_is_no_alarm),
		TEST(what_lasts_is_told_with_its_reason),
		TEST(requests_that_do_not_stream_run_all_the_same),
		TEST(the_tolerance_is_that_of_the_table),
		TEST(its_own_number_is_no_witness),
		TEST(estimates_are_over_the_same_peaks),
		TEST(an_old_report_is_not_compared),
		TEST(ours_keep_their_source),
		TEST(the_padded_size_is_the_next_captured_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
