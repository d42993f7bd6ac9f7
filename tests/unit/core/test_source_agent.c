/* What the agent source makes of rings that this test writes. */
#include "tests/unit/core/agents_fixture.h"

static void without_a_ring_it_says_how_to_get_one(void **state)
{
	char why[96], fix[160];

	(void)state;
	target.n_ranks = 0;
	assert_int_equal(source_agent.open(&source, &target, &context, why,
					   sizeof(why), fix, sizeof(fix)),
			 -ENOENT);
	assert_string_equal(why, "no agent in the server");
	assert_non_null(strstr(fix, "moetop run -- CMD"));
}

static void a_ring_that_another_reads_is_left_alone(void **state)
{
	(void)state;
	for (int i = 0; i < RANKS; i++)
		atomic_store(&control(i)->heartbeat_ns, clock_now_ns());
	assert_int_equal(open_source(), -EBUSY);
	assert_true(atomic_load(&control(0)->detach) == 0);
}

static void who_reads_the_ring_already_is_named(void **state)
{
	char why[96] = "", fix[160] = "";

	(void)state;
	for (int i = 0; i < RANKS; i++) {
		atomic_store(&control(i)->heartbeat_ns, clock_now_ns());
		atomic_store(&control(i)->collector_pid, 4711);
	}
	assert_int_equal(source_agent.open(&source, &target, &context, why,
					   sizeof(why), fix, sizeof(fix)),
			 -EBUSY);
	assert_string_equal(why, "another moetop (pid 4711) reads the agent");
}

static void at_the_end_agents_sleep_or_wait(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	source_agent.close(source);
	assert_int_equal(atomic_load(&control(0)->detach), 0);
	context.detach = true;
	assert_int_equal(open_source(), 0);
	source_agent.close(source);
	source = NULL;
	assert_int_equal(atomic_load(&control(0)->detach), 1);
	assert_int_equal(atomic_load(&control(1)->detach), 1);
	assert_true(atomic_load(&control(1)->session) == 0);
}

static void the_header_tells_the_state_before_any_record(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	atomic_store(&rings[0].h->state.state, AGENT_DISABLED);
	atomic_store(&rings[0].h->state.reason, REASON_OTHER_CLIENT);
	atomic_store(&rings[1].h->state.state, 99);
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_string_equal(snapshot.target.ranks[0].agent, "disabled");
	assert_non_null(strstr(snapshot.target.ranks[0].reason, "profiler"));
	assert_string_equal(snapshot.target.ranks[1].agent, "starting");
}

/* ---- windows, rates, rows ----------------------------------------------- */

static void the_agent_is_told_what_it_needs(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	context.decoding = 12;
	poll_and_sample();
	assert_true(atomic_load(&control(1)->heartbeat_ns) == now_ns);
	assert_int_equal(atomic_load(&control(1)->budget_ppm), 10000);
	assert_int_equal(atomic_load(&control(1)->rows_mode), 1);
	assert_int_equal(atomic_load(&control(1)->decode_hint), 12);
	assert_int_equal(atomic_load(&control(1)->collector_pid), getpid());
	source_agent.close(source);
	source = NULL;
	assert_true(atomic_load(&control(1)->heartbeat_ns) == 0);
}

static void
windows_are_wished_at_first_on_keys_and_when_load_changes(void **state)
{
	uint32_t first;

	(void)state;
	context.decoding = 0;
	assert_int_equal(open_source(), 0);
	poll_and_sample();
	first = atomic_load(&control(0)->window_wish);
	assert_true(first >= 1);

	context.window_wish++; /* the user's key works at once */
	poll_and_sample();
	assert_int_equal(atomic_load(&control(0)->window_wish), first + 1);

	context.decoding = 10; /* but our own wishes keep apart */
	poll_and_sample();
	assert_int_equal(atomic_load(&control(0)->window_wish), first + 1);
	now_ns += 3 * NS_PER_S;
	poll_and_sample();
	assert_int_equal(atomic_load(&control(0)->window_wish), first + 2);

	context.decoding = 12; /* 20 % is no change */
	now_ns += 3 * NS_PER_S;
	poll_and_sample();
	assert_int_equal(atomic_load(&control(0)->window_wish), first + 2);
	context.decoding = 13;
	now_ns += 3 * NS_PER_S;
	poll_and_sample();
	assert_int_equal(atomic_load(&control(0)->window_wish), first + 3);
}

static void windows_of_ranks_become_those_of_the_mean_rank(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	poll_and_sample();
	assert_false(sample.have_window);
	give_window(0, 1, 10);
	give_window(1, 1, 30);
	poll_and_sample();
	assert_true(sample.have_window && sample.window->windows == 1);
	assert_true(sample.window->steps[0] == 20);
	assert_true(sample.window->wall_ns == NS_PER_S);
	assert_true(sample.window->layers[0].block_ns == 2000);
	assert_true(sample.gpus == RANKS);
}

static void the_last_window_stays_until_a_newer_one(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	give_window(0, 1, 10);
	poll_and_sample();
	assert_true(sample.window->windows == 1);
	poll_and_sample();
	assert_true(sample.have_window && sample.window->windows == 0);
	assert_true(sample.window->steps[0] == 10);
	give_window(0, 2, 11);
	poll_and_sample();
	assert_true(sample.window->windows == 1);
	assert_true(sample.window->steps[0] == 11);
}

static void set_state(enum agent_state agent)
{
	for (int i = 0; i < RANKS; i++)
		atomic_store(&rings[i].h->state.state, agent);
}

static void an_agent_without_cupti_counts_nothing(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	set_state(AGENT_YIELDED);
	give_tick(0, now_ns, 0);
	poll_and_sample();
	give_tick(0, now_ns + NS_PER_S / 2, 0);
	poll_and_sample();
	assert_false(sample.have_agent); /* not: zero steps */
}

static void launches_of_unknown_graphs_are_not_zero_steps(void **state)
{
	struct record r = { .type = REC_TICK };

	(void)state;
	assert_int_equal(open_source(), 0);
	set_state(AGENT_IDLE);
	for (unsigned i = 1; i < 3; i++) {
		r.time_ns = now_ns + i * NS_PER_S / 4;
		r.tick.launches = i * 100;
		give(0, r);
		poll_and_sample();
	}
	assert_false(sample.have_agent);
	r.time_ns += NS_PER_S / 4; /* and an idle server has none */
	give(0, r);
	poll_and_sample();
	assert_true(sample.have_agent && sample.d_decode_steps == 0);
}

static void rates_come_from_the_ticks_own_times(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	set_state(AGENT_IDLE);
	give_tick(0, now_ns, 1000);
	poll_and_sample();
	assert_false(sample.have_agent);
	give_tick(0, now_ns + NS_PER_S / 2, 1050); /* 100 a second */
	poll_and_sample();
	assert_true(sample.have_agent);
	assert_true(fabs(sample.d_decode_steps - 100) < 1e-6);
	assert_true(fabs(sample.d_padded_tokens - 1600) < 1e-6);
	assert_true(sample.overhead == 0.0025);
	poll_and_sample(); /* no newer tick: the rate holds */
	assert_true(fabs(sample.d_decode_steps - 100) < 1e-6);
	now_ns += 10 * NS_PER_S; /* silence ends it */
	poll_and_sample();
	assert_false(sample.have_agent);
	assert_true(isnan(sample.overhead));
}

static void a_rank_that_ends_is_let_go_and_its_counts_stay(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	give_window(1, 1, 10);
	poll_and_sample();
	target.n_ranks = 1;
	now_ns += 2 * NS_PER_S;
	poll_and_sample();
	assert_true(atomic_load(&control(1)->heartbeat_ns) == 0);
	source_agent.describe(source, &snapshot);
	assert_int_equal(snapshot.health.windows, 1);
	target.n_ranks = 0;
	now_ns += 2 * NS_PER_S;
	assert_int_equal(source_agent.poll(source, now_ns), -ENODEV);
}

static void a_ring_that_makes_no_sense_is_dropped_and_counted(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	poll_and_sample();
	atomic_store(&rings[0].h->head, UINT64_MAX / 2);
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_int_equal(snapshot.health.lost_ring, 1);
}

static void records_that_make_no_sense_are_counted(void **state)
{
	(void)state;
	assert_int_equal(open_source(), 0);
	give(0, (struct record){ .type = 77 });
	give(0, (struct record){ .type = REC_LAYER,
				 .layer = { .window = 1, .layer = 4000 } });
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_int_equal(snapshot.health.lost_ring, 2);
}

static void tiers_follow_the_state_of_the_agents(void **state)
{
	const struct snapshot_tier *t = snapshot.health.tiers;

	(void)state;
	assert_int_equal(open_source(), 0);
	for (int i = 0; i < RANKS; i++)
		give(i, (struct record){ .type = REC_STATUS,
					 .status = { .state = AGENT_IDLE } });
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_int_equal(t[TIER_T2].state, TIER_OK);
	assert_int_equal(t[TIER_T3].state, TIER_MISSING);
	assert_string_equal(snapshot.target.ranks[1].agent, "idle");

	for (int i = 0; i < RANKS; i++)
		give(i, (struct record){
				.type = REC_STATUS,
				.status = { .state = AGENT_DISABLED,
					    .reason = REASON_OTHER_CLIENT } });
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_int_equal(t[TIER_T2].state, TIER_MISSING);
	assert_string_equal(t[TIER_T2].what, "agent is disabled");
	assert_non_null(strstr(t[TIER_T2].remedy, "another profiler"));
}

static void sampled_steps_are_written_as_json_lines(void **state)
{
	char *text = NULL;
	size_t bytes = 0;

	(void)state;
	context.sampled_steps = open_memstream(&text, &bytes);
	assert_int_equal(open_source(), 0);
	give(0, (struct record){ .type = REC_STEP_ROWS,
				 .step_rows = { .window = 3,
						.cells = 2,
						.start_ns = 123456789012,
						.layer_mask = { 0x8001, 0 },
						.rows = 256,
						.active = 90,
						.single = 40 } });
	poll_and_sample();
	fclose(context.sampled_steps);
	context.sampled_steps = NULL;
	assert_string_equal(text,
			    "{\"start_ns\":123456789012,\"window\":3,"
			    "\"phase\":0,\"cells\":2,"
			    "\"layer_mask\":[\"8001\",\"0\"],\"rows\":256,"
			    "\"active\":90,\"single\":40,\"pid\":100}\n");
	free(text);
}

static void give_rows(int ring, uint32_t experts)
{
	give(ring, (struct record){ .type = REC_ROWS,
				    .rows = { .window = 1,
					      .cells = 2,
					      .experts = experts,
					      .rows = 64,
					      .active = 32,
					      .single = 8,
					      .sum_squares = 200,
					      .max_rows = 9,
					      .tokens = 16 } });
	give_window(ring, 1, 10);
}

static void ranks_that_see_all_experts_count_rows_once(void **state)
{
	(void)state;
	target.have_arch = true;
	target.arch.experts = 48;
	assert_int_equal(open_source(), 0);
	give_rows(0, 48);
	give_rows(1, 48);
	poll_and_sample();
	assert_true(sample.window->rows.rows / sample.window->rows.cells == 32);
}

static void ranks_that_see_their_own_experts_add_up(void **state)
{
	(void)state;
	target.have_arch = true;
	target.arch.experts = 48;
	assert_int_equal(open_source(), 0);
	give_rows(0, 24);
	give_rows(1, 24);
	poll_and_sample();
	assert_true(sample.window->rows.rows / sample.window->rows.cells == 64);
	assert_true(sample.window->layers[0].rows.active /
			    sample.window->layers[0].rows.cells ==
		    32);
	assert_true(sample.window->rows.experts / sample.window->rows.cells ==
		    48);
}

static void rows_per_expert_reach_the_sample(void **state)
{
	struct record r = {
		.type = REC_EXPERTS,
		.experts = { .window = 1, .layer = 1, .first = 24, .count = 24 }
	};

	(void)state;
	target.have_arch = true;
	target.arch.experts = 48;
	r.experts.rows[3] = 9;
	assert_int_equal(open_source(), 0);
	poll_and_sample();
	assert_null(sample.expert_rows);
	give(0, r);
	poll_and_sample();
	assert_non_null(sample.expert_rows);
	assert_int_equal(sample.expert_rows[48 + 27], 9);
}

/* 49 experts where the model has 48: the last one is shared. */
static void a_fused_shared_expert_has_a_place(void **state)
{
	struct record rows = { .type = REC_ROWS,
			       .rows = { .window = 1,
					 .cells = 1,
					 .experts = 49,
					 .rows = 9,
					 .active = 9,
					 .sum_squares = 9,
					 .max_rows = 1 } };
	struct record r = {
		.type = REC_EXPERTS,
		.experts = { .window = 1, .layer = 1, .first = 25, .count = 24 }
	};

	(void)state;
	target.have_arch = true;
	target.arch.experts = 48;
	r.experts.rows[22] = 9;
	r.experts.rows[23] = 7;
	assert_int_equal(open_source(), 0);
	give(0, rows);
	give(0, r);
	poll_and_sample();
	assert_int_equal(sample.expert_rows_n, 49);
	assert_int_equal(sample.expert_rows[49 + 47], 9);
	assert_int_equal(sample.expert_rows[49 + 48], 7);
}

static void layers_unlike_the_models_are_said(void **state)
{
	struct record w = { .type = REC_WINDOW,
			    .window = { .window = 1,
					.phase_steps = { 5 },
					.layers_seen = 22,
					.end_ns = 1000 } };

	(void)state;
	target.have_arch = true;
	target.arch.experts = 8;
	target.arch.moe_layers = 43;
	assert_int_equal(open_source(), 0);
	give_tick(0, now_ns, 1);
	give_tick(1, now_ns, 1);
	give(0, w);
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_int_equal(snapshot.health.layers_seen, 22);
	assert_non_null(strstr(snapshot.health.tiers[TIER_T2].what,
			       "22 MoE layers in a step, but 43"));
	w.window.window = 2;
	w.window.layers_seen = 43;
	give(0, w);
	poll_and_sample();
	source_agent.describe(source, &snapshot);
	assert_null(strstr(snapshot.health.tiers[TIER_T2].what, "MoE layers"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_a_ring_it_says_how_to_get_one),
		TEST(a_ring_that_another_reads_is_left_alone),
		TEST(who_reads_the_ring_already_is_named),
		TEST(at_the_end_agents_sleep_or_wait),
		TEST(the_header_tells_the_state_before_any_record),
		TEST(the_agent_is_told_what_it_needs),
		TEST(windows_are_wished_at_first_on_keys_and_when_load_changes),
		TEST(windows_of_ranks_become_those_of_the_mean_rank),
		TEST(the_last_window_stays_until_a_newer_one),
		TEST(an_agent_without_cupti_counts_nothing),
		TEST(launches_of_unknown_graphs_are_not_zero_steps),
		TEST(rates_come_from_the_ticks_own_times),
		TEST(a_rank_that_ends_is_let_go_and_its_counts_stay),
		TEST(a_ring_that_makes_no_sense_is_dropped_and_counted),
		TEST(records_that_make_no_sense_are_counted),
		TEST(tiers_follow_the_state_of_the_agents),
		TEST(sampled_steps_are_written_as_json_lines),
		TEST(ranks_that_see_all_experts_count_rows_once),
		TEST(ranks_that_see_their_own_experts_add_up),
		TEST(rows_per_expert_reach_the_sample),
		TEST(a_fused_shared_expert_has_a_place),
		TEST(layers_unlike_the_models_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
