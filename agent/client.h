/*
 * client.h - the agent as a client of CUPTI, from subscription to teardown
 *
 * CUPTI is taken down by cuptiFinalize at the exit of one of the host's own
 * CUDA calls, as NVIDIA asks, in the host's thread and without holding up
 * another.  While the host makes no call, the agent's thread waits for the
 * device and does it.  Never while a graph is being captured (it would spoil
 * the capture), before CUDA 12.5 (it crashed with graphs) or after a fatal
 * error.  Where CUPTI has other clients beside us, it stays up for them.
 *
 * The agent's thread only, but for client_at_callback.
 */
#ifndef MOETOP_AGENT_CLIENT_H
#define MOETOP_AGENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cupti/abi.h"

/* Find the libraries and look at CUPTI's version: true, or life_fail was told
 * why not. */
bool client_find(void);

/* Subscribe and turn the cheap callbacks on: CUPTI_OK or a CUptiResult, and
 * then no callback comes. */
int client_subscribe(void);

/* Tell what an error of CUPTI means: yielded for 39, else disabled. */
void client_failed(int err);

/* No callback starts any more; CUPTI is free for others. */
void client_unsubscribe(void);

/*
 * Unsubscribe and take CUPTI down.  Takes up to 2 s when the host makes no call,
 * longer while it captures.  True: CUPTI is down and holds no buffer of ours;
 * false: only unsubscribed.  Kernel records must be off.
 */
bool client_finalize(void);

/* Is a CUDA graph being captured, as far as callbacks tell? */
bool client_capturing(uint64_t now_ns);

/* For callbacks, on any thread: the start and the end of a capture, or a node of
 * one; and any callback while the agent is not live. */
void client_note_capture(uint32_t cbid, const struct cupti_callback_data *d);
void client_note_node(uint64_t now_ns);
void client_at_callback(int domain, uint32_t cbid, const void *data);

/* The process ends: start no teardown; is one under way in a host's thread? */
void client_leave(void);
bool client_in_teardown(void);

/* In fork's child. */
void client_forget(void);

#endif
