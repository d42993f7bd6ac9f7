/* Injection as the agent source asks for it, with a stand-in for it; ranks that
 * come and go. */
#include "core/agents.h"
#include "target/proc.h"
#include "tests/unit/core/agents_fixture.h"

static enum inject_refusal outcome;
static _Atomic unsigned injections;

/* Two processes with a GPU and no agent; only this one really lives. */
static int stand_in(pid_t pid, const struct inject_image *image,
		    struct inject_report *r)
{
	assert_int_equal(pid, getpid());
	assert_true(image->bytes > 0);
	*r = (struct inject_report){ .refusal = outcome,
				     .thread = 9,
				     .call = 7,
				     .stops = 4,
				     .pause_ns = 310000,
				     .load_ns = 12000000 };
	if (outcome != INJECT_OK) {
		snprintf(r->why, sizeof(r->why), "traced by pid 123");
		snprintf(r->fix, sizeof(r->fix), "end the debugger");
	}
	atomic_fetch_add(&injections, 1);
	return 0;
}

/* This process without a ring, but with a GPU. */
static void lonely(bool with_ring)
{
	struct proc_stat s;

	assert_int_equal(proc_stat_read(getpid(), &s), 0);
	if (!with_ring)
		for (int i = 0; i < RANKS; i++)
			ring_destroy(&rings[i]);
	target.n_ranks = 1;
	target.ranks[0] = (struct target_rank){ .pid = getpid(),
						.start_ticks = s.start_ticks,
						.has_cuda = true,
						.owns_gpu = true };
	snapshot.target.ranks[0].pid = getpid();
	snapshot.target.n_ranks = 1;
	context.inject = stand_in;
	context.agent_path = "/proc/self/exe";
	atomic_store(&injections, 0);
}

static void poll_until_injected(unsigned n)
{
	for (int i = 0; i < 60000 && atomic_load(&injections) < n; i++) {
		assert_int_equal(source_agent.poll(source, now_ns), 0);
		now_ns += NS_PER_MS;
		usleep(1000);
	}
	for (int i = 0; i < 60000 && attach_ended(source->attach) < n; i++)
		usleep(1000); /* until the report is on the board */
	assert_int_equal(atomic_load(&injections), n);
	now_ns = clock_now_ns() + 2 * NS_PER_S;
	assert_int_equal(source_agent.poll(source, now_ns), 0);
}

static void an_agent_is_brought_in_and_read(void **state)
{
	(void)state;
	outcome = INJECT_OK;
	lonely(true);
	assert_int_equal(open_source(), 0);
	poll_until_injected(1);
	assert_true(atomic_load(&control(0)->session) != 0 ||
		    atomic_load(&control(1)->session) != 0);
	source_agent.describe(source, &snapshot);
	assert_true(snapshot.target.ranks[0].attached);
	assert_int_equal(snapshot.target.ranks[0].attach_stops, 4);
	assert_int_equal(snapshot.target.ranks[0].attach_call, 7);
	assert_true(snapshot.target.ranks[0].attach_pause_ns == 310000);
	assert_int_equal(snapshot.health.tiers[TIER_T2].state, TIER_OK);
	assert_non_null(strstr(snapshot.health.message, "4 stops"));
	/* the target does not list the ring yet: it is kept all the same */
	now_ns += 2 * NS_PER_S;
	assert_int_equal(source_agent.poll(source, now_ns), 0);
	assert_int_equal(atomic_load(&injections), 1);
}

static void a_refusal_is_said_with_its_remedy(void **state)
{
	const struct snapshot_tier *t = snapshot.health.tiers;

	(void)state;
	outcome = INJECT_STATIC;
	lonely(false);
	assert_int_equal(open_source(), 0);
	poll_until_injected(1);
	source_agent.describe(source, &snapshot);
	assert_string_equal(snapshot.target.ranks[0].agent, "refused");
	assert_string_equal(snapshot.target.ranks[0].reason,
			    "traced by pid 123");
	assert_false(snapshot.target.ranks[0].attached);
	assert_int_equal(t[TIER_T2].state, TIER_MISSING);
	assert_string_equal(t[TIER_T2].what, "traced by pid 123");
	assert_string_equal(t[TIER_T2].remedy, "end the debugger");
}

static void an_agent_without_a_ring_is_no_start_for_ever(void **state)
{
	const struct snapshot_rank *r = &snapshot.target.ranks[0];

	(void)state;
	outcome = INJECT_PRESENT;
	lonely(false);
	assert_int_equal(open_source(), 0);
	poll_until_injected(1);
	source_agent.describe(source, &snapshot);
	assert_string_equal(r->agent, "starting");
	now_ns += 6 * NS_PER_S;
	assert_int_equal(source_agent.poll(source, now_ns), 0);
	source_agent.describe(source, &snapshot);
	assert_string_equal(r->agent, "refused");
	assert_non_null(strstr(r->reason, "ring cannot be found"));
	assert_non_null(
		strstr(snapshot.health.tiers[TIER_T2].remedy, "moetop run"));
}

static void whom_nvml_does_not_see_is_left_alone(void **state)
{
	(void)state;
	outcome = INJECT_OK;
	lonely(false);
	context.n_gpu_pids = 1;
	context.gpu_pids[0] = 1;
	assert_int_equal(open_source(), 0);
	for (int i = 0; i < 5; i++) {
		now_ns += 2 * NS_PER_S;
		assert_int_equal(source_agent.poll(source, now_ns), 0);
		usleep(2000);
	}
	assert_int_equal(atomic_load(&injections), 0);
	source_agent.describe(source, &snapshot);
	assert_non_null(strstr(snapshot.target.ranks[0].reason, "NVML"));
}

static void a_rank_that_ended_is_shown_until_another_comes(void **state)
{
	(void)state;
	context.inject = stand_in;
	context.agent_path = "/proc/self/exe";
	target.ranks[1].number = 1;
	assert_int_equal(open_source(), 0);
	target.n_ranks = 1;
	now_ns += 2 * NS_PER_S;
	poll_and_sample();
	assert_true(sample.gpus == RANKS);
	snapshot.target.n_ranks = 1;
	source_agent.describe(source, &snapshot);
	assert_int_equal(snapshot.target.n_ranks, 2);
	assert_string_equal(snapshot.target.ranks[1].agent, "gone");
	assert_int_equal(snapshot.target.ranks[1].pid, 101);
	assert_int_equal(snapshot.target.ranks[1].rank, 1);

	target.n_ranks = 2; /* its successor, still without CUDA */
	target.ranks[1] = (struct target_rank){ .pid = 102, .number = 1 };
	now_ns += 2 * NS_PER_S;
	poll_and_sample();
	snapshot.target.n_ranks = 1;
	source_agent.describe(source, &snapshot);
	assert_int_equal(snapshot.target.n_ranks, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_agent_is_brought_in_and_read),
		TEST(a_refusal_is_said_with_its_remedy),
		TEST(an_agent_without_a_ring_is_no_start_for_ever),
		TEST(whom_nvml_does_not_see_is_left_alone),
		TEST(a_rank_that_ended_is_shown_until_another_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
