/*
 * exact.h - graphs that keep a copy of their rows: --rows=exact
 *
 * When the capture of a graph has ended, and before the host instantiates it, a
 * copy node is put behind the kernel that finishes each MoE layer's routing: it
 * runs after that kernel and before all that came after it.  It copies what the
 * adapters find there into a place of its own, its stage, in device memory of the
 * agent's.  So each replay leaves the rows of all its layers, and the sampler may
 * read them until the next replay.
 *
 * These are the only calls into CUDA that the agent makes from a callback, and
 * only where the user has asked for it: at the exit of cuStreamEndCapture, in
 * the host's thread, on a graph that nobody else has seen yet.  They change
 * that graph and nothing else: no stream, no memory, no waiting.  A graph in which
 * anything is unusual (edges of programmatic launches, a call that fails) is left
 * as it was, and its rows are sampled.
 *
 * Stages are believed once copies of the buffers themselves, taken at the same
 * time, have said the same (rows.h); if one differs, nothing is placed any more
 * and rows are sampled.  What graphs hold already goes on copying to memory that
 * is therefore never given back.
 */
#ifndef MOETOP_AGENT_EXACT_H
#define MOETOP_AGENT_EXACT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/rows.h"
#include "cupti/abi.h"

enum exact_state {
	EXACT_OFF,     /* nobody wants it, or there is no memory yet */
	EXACT_PLACING, /* copies are placed; they are compared, not used */
	EXACT_PROVEN,  /* and used */
	EXACT_FAILED,  /* rows are sampled */
};

enum exact_reason {
	EXACT_OK,
	EXACT_NO_CALLS,   /* this driver lacks a call */
	EXACT_NO_MEMORY,  /* detail: CUresult */
	EXACT_CUDA_ERROR, /* a graph could not be changed; detail: CUresult */
	EXACT_DIFFERS,    /* a stage holds other rows than the buffer */
	EXACT_NO_ROWS,    /* a stage holds what cannot be rows */
};

struct exact {
	_Atomic int state;
	_Atomic bool wanted; /* by whoever started the server, or looks on */
	_Atomic int reason, detail;
	_Atomic(void *) context; /* whose memory it is */
	uint64_t base;
	size_t used;                     /* under the lock of exact.c */
	_Atomic uint32_t graphs, layers; /* that have stages */
	/* Graphs with edges that are not understood, without adapters that are
	 * validated, or too large. */
	_Atomic uint32_t left;
	uint32_t agree; /* the agent's thread's: of the self-test */
	int told;       /* state that was last reported */
};

/* The agent's thread, each turn: make ready if it is wanted. */
void exact_prepare(bool wanted);

/* At the exit of cuStreamEndCapture, in a callback. */
void exact_place(const struct cupti_callback_data *d);

/* What a window says of stages. */
void exact_judge(const struct rows_result *rows);

/* Do stages count? */
bool exact_is_proven(void);

/* Shall this turn of the sampler copy stages, where there are any? */
bool exact_turn(uint64_t random);

#endif
