/* The process that samples counters, played by this program: whatever it says, or
 * does not, the source goes on, and says why. */
#include "core/counters.h"
#include "core/layer_bytes.h"
#include "core/source.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define S NS_PER_S
#define MS NS_PER_MS
#define PEAK 4e12

/* ---- the child: its part is in the place of the library ------------------- */

static void put(const struct counters_message *m)
{
	if (write(STDOUT_FILENO, m, sizeof(*m)) != (ssize_t)sizeof(*m))
		_exit(0);
}

static void put_status(int error)
{
	struct counters_message m = { .kind = COUNTERS_STATUS };

	m.status.error = error;
	memset(m.status.why, 'w', sizeof(m.status.why)); /* no end */
	memset(m.status.fix, 'f', sizeof(m.status.fix));
	put(&m);
}

static void put_reading(struct pm_reading r)
{
	struct counters_message m = { .kind = COUNTERS_READINGS_ARE, .n = 1 };

	m.readings[0] = r;
	put(&m);
}

/* Of a millisecond, some time ago; 2e12 bytes a second are read. */
static struct pm_reading reading(uint64_t ago_ns)
{
	uint64_t now = clock_now_ns();

	return (struct pm_reading){ .start_ns = now - ago_ns - MS,
				    .end_ns = now - ago_ns,
				    .read_bytes = 2e9,
				    .write_bytes = 1e8,
				    .tensor_ratio = 0.25 };
}

static void put_absurd(void)
{
	struct pm_reading r = reading(9 * MS);

	r.read_bytes = 1e300;
	put_reading(r);
	r.read_bytes = -1;
	put_reading(r);
	r.read_bytes = NAN;
	put_reading(r);
	r = reading(8 * MS);
	r.end_ns = UINT64_MAX;
	put_reading(r);
	r = reading(7 * MS);
	r.start_ns = r.end_ns;
	put_reading(r);
	r = reading(6 * MS);
	r.tensor_ratio = 7;
	put_reading(r);
}

static int play(const char *part)
{
	struct counters_message info = { .kind = COUNTERS_INFO };

	memset(info.info.chip, 'C', sizeof(info.info.chip));
	if (!strcmp(part, "denied"))
		put_status(-EACCES);
	else
		put_status(!strcmp(part, "busy") ? -EBUSY : 0);
	if (!strcmp(part, "garbage"))
		for (int i = 0; i < 20; i++)
			put(&(struct counters_message){ .kind = 0x20202020 });
	if (!strcmp(part, "absurd"))
		put_absurd();
	if (!strcmp(part, "absurd") || !strcmp(part, "runs"))
		put_reading(reading(MS));
	if (!strcmp(part, "silent"))
		for (;;)
			pause();
	while (!strcmp(part, "runs") || !strcmp(part, "absurd")) {
		info.info.overflows++; /* so that each is another one */
		put(&info);            /* ends when nobody reads */
		usleep(10000);
	}
	return 0;
}

/* ---- messages ---------------------------------------------------------------- */

static void a_message_comes_in_pieces(void **state)
{
	struct counters_message sent = { .kind = COUNTERS_INFO, .n = 3 }, got;
	struct counters c = { 0 };
	const char *at = (const char *)&sent;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	c.fd = fds[0];
	assert_int_equal(counters_next(&c, &got), 0);
	for (size_t i = 0; i < sizeof(sent); i++) {
		assert_int_equal(write(fds[1], at + i, 1), 1);
		assert_int_equal(counters_next(&c, &got),
				 i + 1 == sizeof(sent));
	}
	assert_int_equal(got.n, 3);
	sent.n = COUNTERS_READINGS + 1;
	assert_int_equal(write(fds[1], &sent, sizeof(sent)), sizeof(sent));
	assert_int_equal(counters_next(&c, &got), -EPROTO);
	assert_int_equal(write(fds[1], &sent, 10), 10);
	close(fds[1]);
	assert_int_equal(counters_next(&c, &got), -EPIPE); /* half of one */
	close(fds[0]);
}

/* ---- the source ---------------------------------------------------------------- */

static struct target target;
static struct source_context context;
static struct snapshot snapshot;
static uint64_t now_ns;

static struct source *begin(const char *part)
{
	struct source *s = NULL;
	char none[8];

	setenv("MOETOP_CUPTI", part, 1);
	context = (struct source_context){ .gpu_peak_bw = PEAK,
					   .sm_clock_hz = 2e9,
					   .layer_bytes = layer_bytes_new() };
	assert_int_equal(source_counters.open(&s, &target, &context, none,
					      sizeof(none), none, sizeof(none)),
			 0);
	now_ns = clock_now_ns() + 3 * S;
	return s;
}

static void end(struct source *s)
{
	source_counters.close(s);
	assert_false(context.spans);
	layer_bytes_free(context.layer_bytes);
	/* nothing is left behind */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static const struct snapshot_tier *tier(struct source *s)
{
	source_tier(&snapshot, TIER_C, TIER_OK, "GPM", "");
	source_counters.describe(s, &snapshot);
	return &snapshot.health.tiers[TIER_C];
}

/* At a time that stands still, until the tier says this. */
static bool says(struct source *s, const char *word)
{
	for (int i = 0; i < 60000; i++) {
		source_counters.poll(s, now_ns);
		if (strstr(tier(s)->what, word))
			return true;
		usleep(1000);
	}
	return false;
}

static void it_samples_until_it_is_ended(void **state)
{
	struct sample out = { .gpus = 2 };
	struct source *s = begin("runs");

	(void)state;
	assert_true(says(s, "PM sampling of CCCCCCCCCCCCCCC ("));
	assert_true(context.spans);
	source_counters.sample(s, &out);
	assert_true(out.have_dram);
	assert_true(fabs(out.dram_read / 4e12 - 1) < 1e-9);
	assert_true(fabs(out.dram_write / 2e11 - 1) < 1e-9);
	assert_true(fabs(out.tensor_active - 0.25) < 1e-9);
	/* no reading since: not zero */
	out = (struct sample){ .gpus = 2 };
	source_counters.sample(s, &out);
	assert_false(out.have_dram);
	end(s);
}

static void what_cannot_be_is_left_out(void **state)
{
	struct sample out = { .gpus = 1 };
	struct layer_bytes_counts c;
	struct source *s = begin("absurd");

	(void)state;
	assert_true(says(s, "6 bad samples"));
	assert_true(says(s, "CCC"));
	source_counters.sample(s, &out);
	assert_true(fabs(out.dram_read / 2e12 - 1) < 1e-9);
	/* none of them was later than the good one */
	layer_bytes_count(context.layer_bytes, &c);
	assert_int_equal(c.samples_lost, 0);
	end(s);
}

static void a_right_is_not_asked_for_again(void **state)
{
	struct source *s = begin("denied");

	(void)state;
	assert_true(says(s, "GPM; www"));
	assert_int_equal(tier(s)->state, TIER_OK);
	assert_int_equal(tier(s)->remedy[0], 'f');
	setenv("MOETOP_CUPTI", "runs", 1);
	now_ns += 3600 * S;
	for (int i = 0; i < 20; i++)
		source_counters.poll(s, now_ns);
	assert_non_null(strstr(tier(s)->what, "GPM; www"));
	end(s);
}

static void a_busy_counter_is_asked_for_again(void **state)
{
	struct source *s = begin("busy");

	(void)state;
	assert_true(says(s, "GPM; www"));
	setenv("MOETOP_CUPTI", "runs", 1);
	now_ns += 29 * S;
	source_counters.poll(s, now_ns);
	assert_non_null(strstr(tier(s)->what, "GPM; www"));
	now_ns += 2 * S;
	assert_true(says(s, "PM sampling of"));
	end(s);
}

static void a_death_and_nonsense_are_told_and_tried_again(void **state)
{
	static const char *const parts[] = { "dies", "garbage" };
	static const char *const told[] = { "ended by itself", "no message" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct source *s = begin(parts[i]);

		assert_true(says(s, told[i]));
		assert_false(context.spans);
		setenv("MOETOP_CUPTI", "runs", 1);
		now_ns += 31 * S;
		assert_true(says(s, "PM sampling of"));
		end(s);
	}
}

static void silence_is_not_waited_for(void **state)
{
	struct source *s = begin("silent");

	(void)state;
	assert_true(says(s, "PM sampling of"));
	now_ns += 4 * S;
	source_counters.poll(s, now_ns);
	assert_true(context.spans);
	now_ns += 2 * S;
	source_counters.poll(s, now_ns); /* and is killed */
	assert_non_null(strstr(tier(s)->what, "does not answer"));
	end(s);
}

/* Until its next words have come, or it is ended. */
static void hear(struct source *s)
{
	char before[sizeof(tier(s)->what)];

	snprintf(before, sizeof(before), "%s", tier(s)->what);
	for (int i = 0; i < 60000 && context.spans; i++) {
		source_counters.poll(s, now_ns);
		if (strcmp(tier(s)->what, before))
			return;
		usleep(1000);
	}
}

static void run_with_clock(struct source *s, double hz, uint64_t ns)
{
	context.sm_clock_hz = hz;
	for (uint64_t t = 0; t < ns; t += 500 * MS) {
		now_ns += 500 * MS;
		hear(s);
	}
}

static void a_locked_clock_ends_it_and_a_dip_does_not(void **state)
{
	struct source *s = begin("runs");

	(void)state;
	assert_true(says(s, "PM sampling of"));
	run_with_clock(s, 1.5e9, 2 * S);
	run_with_clock(s, 1.95e9, 1 * S);
	run_with_clock(s, 1.2e9, 5 * S); /* it may have its own reasons */
	assert_true(context.spans);
	end(s);
	s = begin("runs");
	assert_true(says(s, "PM sampling of"));
	run_with_clock(s, 1.2e9, 4 * S);
	assert_non_null(strstr(tier(s)->what, "fall from 2000 to 1200 MHz"));
	end(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_comes_in_pieces),
		cmocka_unit_test(it_samples_until_it_is_ended),
		cmocka_unit_test(what_cannot_be_is_left_out),
		cmocka_unit_test(a_right_is_not_asked_for_again),
		cmocka_unit_test(a_busy_counter_is_asked_for_again),
		cmocka_unit_test(a_death_and_nonsense_are_told_and_tried_again),
		cmocka_unit_test(silence_is_not_waited_for),
		cmocka_unit_test(a_locked_clock_ends_it_and_a_dip_does_not),
	};

	signal(SIGPIPE, SIG_IGN);
	if (argc > 2 && !strcmp(argv[1], COUNTERS_WORD))
		return play(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
