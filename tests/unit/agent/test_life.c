#include "agent/life.h"

#include <errno.h>

#include "agent/state.h"

#include "tests/unit/agent/check.h"

/* The arrows of agent/life.h, written down a second time. */
static const struct arrow {
	enum agent_state from;
	enum life_event event;
	enum agent_state to;
} arrows[] = {
	{ AGENT_ABSENT, LIFE_START, AGENT_STARTING },
	{ AGENT_STARTING, LIFE_READY, AGENT_IDLE },
	{ AGENT_IDLE, LIFE_OPEN, AGENT_WINDOW },
	{ AGENT_WINDOW, LIFE_CLOSE, AGENT_IDLE },
	{ AGENT_YIELDED, LIFE_READY, AGENT_IDLE },
	{ AGENT_STARTING, LIFE_YIELD, AGENT_YIELDED },
	{ AGENT_IDLE, LIFE_YIELD, AGENT_YIELDED },
	{ AGENT_WINDOW, LIFE_YIELD, AGENT_YIELDED },
	{ AGENT_STARTING, LIFE_FAIL, AGENT_DISABLED },
	{ AGENT_IDLE, LIFE_FAIL, AGENT_DISABLED },
	{ AGENT_WINDOW, LIFE_FAIL, AGENT_DISABLED },
	{ AGENT_YIELDED, LIFE_FAIL, AGENT_DISABLED },
	{ AGENT_STARTING, LIFE_LEAVE, AGENT_DETACHING },
	{ AGENT_IDLE, LIFE_LEAVE, AGENT_DETACHING },
	{ AGENT_WINDOW, LIFE_LEAVE, AGENT_DETACHING },
	{ AGENT_YIELDED, LIFE_LEAVE, AGENT_DETACHING },
	{ AGENT_DISABLED, LIFE_LEAVE, AGENT_DETACHING },
	{ AGENT_DETACHING, LIFE_SLEEP, AGENT_STUB },
	{ AGENT_STUB, LIFE_START, AGENT_STARTING },
};
#define ARROWS (sizeof(arrows) / sizeof(arrows[0]))

static int expected(unsigned from, unsigned event)
{
	for (size_t i = 0; i < ARROWS; i++)
		if (arrows[i].from == from && arrows[i].event == event)
			return (int)arrows[i].to;
	return -EINVAL;
}

static void every_pair_of_state_and_event(void **state)
{
	(void)state;
	for (unsigned s = 0; s < AGENT_STATES; s++)
		for (unsigned e = 0; e < LIFE_EVENTS; e++)
			assert_int_equal(life_next((enum agent_state)s,
						   (enum life_event)e),
					 expected(s, e));
}

static void numbers_out_of_range_lead_nowhere(void **state)
{
	(void)state;
	assert_int_equal(life_next(AGENT_STATES, LIFE_START), -EINVAL);
	assert_int_equal(life_next(AGENT_IDLE, LIFE_EVENTS), -EINVAL);
	assert_int_equal(life_next((enum agent_state) - 1, LIFE_START),
			 -EINVAL);
}

/* From any state in which it is at work, to sleep and back. */
static void every_state_can_fall_asleep_and_rise(void **state)
{
	(void)state;
	for (unsigned s = AGENT_STARTING; s < AGENT_DETACHING; s++) {
		int at = life_next((enum agent_state)s, LIFE_LEAVE);

		at = life_next((enum agent_state)at, LIFE_SLEEP);
		assert_int_equal(at, AGENT_STUB);
		assert_int_equal(life_next(AGENT_STUB, LIFE_START),
				 AGENT_STARTING);
	}
}

/* ---- in the ring ------------------------------------------------------------ */

static struct ring_reader reader;
static struct record got[64];

static int setup(void **state)
{
	(void)state;
	agent.state = AGENT_ABSENT;
	agent.reason = REASON_NONE;
	agent.lives = 3;
	return ring_create(&agent.ring, 64) ||
	       ring_open(&reader, agent.ring.fd, 1);
}

static int teardown(void **state)
{
	(void)state;
	ring_close(&reader, false);
	ring_destroy(&agent.ring);
	return 0;
}

static int count(int n, enum record_type type)
{
	int found = 0;

	for (int i = 0; i < n; i++)
		found += got[i].type == (uint32_t)type;
	return found;
}

static void a_move_is_in_the_header_and_in_one_status(void **state)
{
	int n;

	(void)state;
	life_move(LIFE_START);
	life_move(LIFE_READY);
	assert_int_equal(ring_agent_state(&reader), AGENT_IDLE);
	assert_int_equal(reader.h->state.lives, 3);
	n = ring_read(&reader, got, 64);
	assert_int_equal(count(n, REC_STATUS), 2);
	assert_int_equal(got[n - 1].status.state, AGENT_IDLE);
}

static void an_event_without_a_place_moves_nothing(void **state)
{
	(void)state;
	life_move(LIFE_CLOSE);
	life_move(LIFE_SLEEP);
	life_fail(REASON_FATAL, 1);
	life_yield(39);
	assert_int_equal(agent.state, AGENT_ABSENT);
	assert_int_equal(agent.reason, REASON_NONE);
	assert_int_equal(ring_read(&reader, got, 64), 0);
}

static void the_first_reason_stays(void **state)
{
	int n;

	(void)state;
	life_move(LIFE_START);
	life_fail(REASON_BUDGET, 7);
	life_fail(REASON_FATAL, 8);
	assert_int_equal(agent.reason, REASON_BUDGET);
	assert_int_equal(reader.h->state.reason, REASON_BUDGET);
	n = ring_read(&reader, got, 64);
	assert_int_equal(count(n, REC_TEXT), 1);
	assert_int_equal(got[n - 1].status.detail, 7);
}

static void yielding_is_said_once_an_episode(void **state)
{
	int n;

	(void)state;
	life_move(LIFE_START);
	life_yield(39);
	life_yield(39);
	n = ring_read(&reader, got, 64);
	assert_int_equal(count(n, REC_TEXT), 1);
	assert_int_equal(reader.h->state.reason, REASON_OTHER_CLIENT);
	life_move(LIFE_READY);
	assert_int_equal(reader.h->state.reason, REASON_NONE);
	life_yield(39);
	n = ring_read(&reader, got, 64);
	assert_int_equal(count(n, REC_TEXT), 1);
}

static void the_stub_writes_no_record(void **state)
{
	(void)state;
	life_move(LIFE_START);
	life_move(LIFE_LEAVE);
	ring_read(&reader, got, 64);
	life_move(LIFE_SLEEP);
	assert_int_equal(ring_agent_state(&reader), AGENT_STUB);
	assert_int_equal(ring_read(&reader, got, 64), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair_of_state_and_event),
		cmocka_unit_test(numbers_out_of_range_lead_nowhere),
		cmocka_unit_test(every_state_can_fall_asleep_and_rise),
		cmocka_unit_test_setup_teardown(
			a_move_is_in_the_header_and_in_one_status, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			an_event_without_a_place_moves_nothing, setup,
			teardown),
		cmocka_unit_test_setup_teardown(the_first_reason_stays, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			yielding_is_said_once_an_episode, setup, teardown),
		cmocka_unit_test_setup_teardown(the_stub_writes_no_record,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
