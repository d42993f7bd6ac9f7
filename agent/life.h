/*
 * life.h - the states of the agent, and the ways between them
 *
 *	from        event       to
 *	absent      LIFE_START  starting   InitializeInjection
 *	starting    LIFE_READY  idle       CUDA runs and CUPTI is ours
 *	idle        LIFE_OPEN   window     kernel records are on
 *	window      LIFE_CLOSE  idle       and off
 *	yielded     LIFE_READY  idle       the other client has left
 *	starting, idle, window
 *	            LIFE_YIELD  yielded    another client owns CUPTI
 *	starting, idle, window, yielded
 *	            LIFE_FAIL   disabled   for the rest of this life; counters
 *	                                   go on while CUPTI works
 *	starting, idle, window, yielded, disabled
 *	            LIFE_LEAVE  detaching  the collector says so, or is gone
 *	detaching   LIFE_SLEEP  stub       all is given back
 *	stub        LIFE_START  starting   a collector has come again
 *
 * Nothing else moves it.  A life is the time from one `starting` to the stub;
 * its number is in struct ring_state.
 */
#ifndef MOETOP_AGENT_LIFE_H
#define MOETOP_AGENT_LIFE_H

#include <stdint.h>

#include "wire/record.h"

enum life_event {
	LIFE_START,
	LIFE_READY,
	LIFE_OPEN,
	LIFE_CLOSE,
	LIFE_YIELD,
	LIFE_FAIL,
	LIFE_LEAVE,
	LIFE_SLEEP,
	LIFE_EVENTS
};

/* The state that follows, or -EINVAL when the event has no place there. */
int life_next(enum agent_state from, enum life_event event);

/*
 * Move the agent and tell it in the ring: struct ring_state at once, and one
 * REC_STATUS.  An event that has no place changes nothing.  The thread that
 * writes the ring only.
 */
void life_move(enum life_event event);

/* Stop windows for this life and say why, once: the first reason stays. */
void life_fail(enum agent_reason reason, int32_t detail);

/* Another client owns CUPTI: say so once per episode. */
void life_yield(int32_t detail);

#endif
