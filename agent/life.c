#include "agent/life.h"

#include <errno.h>

#include "agent/publish.h"
#include "agent/state.h"

/* 0, AGENT_ABSENT, is no target: nothing leads there. */
static const uint8_t next[AGENT_STATES][LIFE_EVENTS] = {
	[AGENT_ABSENT] = { [LIFE_START] = AGENT_STARTING },
	[AGENT_STARTING] = { [LIFE_READY] = AGENT_IDLE,
			     [LIFE_YIELD] = AGENT_YIELDED,
			     [LIFE_FAIL] = AGENT_DISABLED,
			     [LIFE_LEAVE] = AGENT_DETACHING },
	[AGENT_IDLE] = { [LIFE_OPEN] = AGENT_WINDOW,
			 [LIFE_YIELD] = AGENT_YIELDED,
			 [LIFE_FAIL] = AGENT_DISABLED,
			 [LIFE_LEAVE] = AGENT_DETACHING },
	[AGENT_WINDOW] = { [LIFE_CLOSE] = AGENT_IDLE,
			   [LIFE_YIELD] = AGENT_YIELDED,
			   [LIFE_FAIL] = AGENT_DISABLED,
			   [LIFE_LEAVE] = AGENT_DETACHING },
	[AGENT_YIELDED] = { [LIFE_READY] = AGENT_IDLE,
			    [LIFE_FAIL] = AGENT_DISABLED,
			    [LIFE_LEAVE] = AGENT_DETACHING },
	[AGENT_DISABLED] = { [LIFE_LEAVE] = AGENT_DETACHING },
	[AGENT_DETACHING] = { [LIFE_SLEEP] = AGENT_STUB },
	[AGENT_STUB] = { [LIFE_START] = AGENT_STARTING },
};

int life_next(enum agent_state from, enum life_event event)
{
	uint8_t to;

	if ((unsigned)from >= AGENT_STATES || (unsigned)event >= LIFE_EVENTS)
		return -EINVAL;
	to = next[from][event];
	return to ? to : -EINVAL;
}

static const char *reason_text(enum agent_reason reason)
{
	static const char *const text[REASONS] = {
		[REASON_NO_CUPTI] = "no libcupti in this process and none "
				    "beside its CUDA libraries",
		[REASON_CUPTI_VERSION] = "this version of CUPTI is not known",
		[REASON_NO_DRIVER] = "no CUDA driver in this process",
		[REASON_OTHER_CLIENT] = "another profiler owns CUPTI",
		[REASON_CUPTI_ERROR] = "CUPTI error",
		[REASON_FATAL] = "CUPTI reported a fatal error",
		[REASON_RECORD_CAP] = "kernel records of this CUPTI life are "
				      "used up; counters go on",
		[REASON_BUDGET] = "windows cost four times the budget; "
				  "counters go on",
		[REASON_BAD_RECORDS] = "kernel records of an unknown layout",
		[REASON_RESOURCES] = "no memory, thread or descriptor",
	};

	return text[reason] ? text[reason] : "";
}

/* The ring has no records while the agent sleeps. */
static void tell(void)
{
	struct ring_state *s = &agent.ring.h->state;

	atomic_store(&s->reason, agent.reason);
	atomic_store(&s->late, atomic_load(&agent.late));
	atomic_store(&s->lives, agent.lives);
	if (agent.state != AGENT_STUB)
		publish_status();
	atomic_store(&s->state, agent.state);
}

void life_move(enum life_event event)
{
	int to = life_next(agent.state, event);

	if (to < 0)
		return;
	agent.state = (enum agent_state)to;
	if (event == LIFE_START || event == LIFE_READY) {
		agent.reason = REASON_NONE;
		agent.detail = 0;
	}
	tell();
}

void life_fail(enum agent_reason reason, int32_t detail)
{
	if (life_next(agent.state, LIFE_FAIL) < 0)
		return;
	agent.reason = reason;
	agent.detail = detail;
	publish_text(TEXT_ERROR, "disabled: %s (%d)", reason_text(reason),
		     detail);
	life_move(LIFE_FAIL);
}

void life_yield(int32_t detail)
{
	if (life_next(agent.state, LIFE_YIELD) < 0)
		return;
	agent.reason = REASON_OTHER_CLIENT;
	agent.detail = detail;
	publish_text(TEXT_WARNING,
		     "yields: another profiler owns CUPTI (%d); it tries "
		     "again while it is watched",
		     detail);
	life_move(LIFE_YIELD);
}
