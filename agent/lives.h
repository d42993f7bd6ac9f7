/*
 * lives.h - one life of the agent: how it begins, how it ends
 *
 * A life begins in InitializeInjection or when a collector wakes the stub, and
 * counts from zero.  It ends when the collector sends the agent to sleep, or has
 * been gone for 30 s.  The agent's thread only, except that the first begins in
 * the thread that calls InitializeInjection.
 */
#ifndef MOETOP_AGENT_LIVES_H
#define MOETOP_AGENT_LIVES_H

#include <stdbool.h>
#include <stdint.h>

/* Begin: memory, then lives_connect if CUDA runs. */
void lives_begin(bool cuda_runs);

/* Become CUPTI's client: idle, yielded or disabled afterwards. */
void lives_connect(void);

/*
 * Does CUDA run in this process, or is it clear that it never will (then
 * lives_connect says why)?  Subscribing before would start CUDA in a host that
 * may still fork.  Once it runs, agent.late says whether it did so before.
 */
bool lives_cuda_runs(uint64_t now_ns);

/* A new CUPTI life, since the records of this one are used up. */
void lives_renew(void);

/* End: CUPTI is left, all but the graph map is given back, state stub. */
void lives_end(void);

/* For the stub: has a collector come? */
bool lives_called(uint64_t now_ns);

/* Rise from the stub. */
void lives_rise(void);

#endif
