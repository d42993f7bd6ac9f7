/*
 * callbacks.h - everything that CUPTI calls
 *
 * Each entry saves errno, refuses re-entry, and returns at once when the agent
 * is not live.  Inside: no allocation, no CUDA call, no lock held over a call
 * to CUPTI, no output.
 */
#ifndef MOETOP_AGENT_CALLBACKS_H
#define MOETOP_AGENT_CALLBACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void callback_entry(void *userdata, int domain, uint32_t cbid,
		    const void *data);
void callback_buffer_requested(uint8_t **buffer, size_t *bytes,
			       size_t *max_records);
void callback_buffer_completed(void *context, uint32_t stream, uint8_t *buffer,
			       size_t bytes, size_t valid_bytes);

/* Turn the launch and graph callbacks on or off.  The first error or 0. */
int callbacks_enable(bool on);

#endif
