/*
 * loop.h - the agent's thread
 *
 * It looks after everything a hundred times a second in a window, fifty times
 * while a collector is there, ten times otherwise; as a stub it sleeps on the
 * ring's futex and uses no processor.
 */
#ifndef MOETOP_AGENT_LOOP_H
#define MOETOP_AGENT_LOOP_H

#include <stdbool.h>

/* Start the thread, with all signals blocked.  0 or a positive errno. */
int loop_start(void);

/* The process ends: wait, at most 0.4 s, until no thread of the agent is in a
 * call to CUPTI or CUDA, and none begins one any more. */
void loop_leave(void);

/* In fork's child: there is no such thread any more. */
void loop_forget(void);

#endif
