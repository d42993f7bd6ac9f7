/*
 * memory.h - what the agent holds in its host, by how long it is needed
 *
 *	for good   the graph map and the functions that its launches name: what
 *	           was seen at capture is known to the next life too
 *	a life     the launch log, eager launches, buffers of ids, the tables
 *	           that windows are reduced in
 *	windows    CUPTI's buffers, from the first window on
 *
 * docs/OVERHEAD.md states the bytes.  The agent's thread only.
 */
#ifndef MOETOP_AGENT_MEMORY_H
#define MOETOP_AGENT_MEMORY_H

#include <stdbool.h>

/* All that a life needs and that is not there; 0 or -ENOMEM. */
int memory_make(void);

/* The buffers, once.  0, -EINVAL or -ENOMEM. */
int memory_make_buffers(void);

/*
 * Give back what a life needs.  Nothing is given back while a callback is inside
 * or `busy` says that another thread uses it: then the next life finds it.
 * buffers_free: CUPTI holds no buffer; otherwise they stay mapped, without
 * memory behind them.
 */
void memory_release(bool buffers_free, bool busy);

/* The buffers alone. */
void memory_release_buffers(bool buffers_free);

#endif
