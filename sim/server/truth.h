/*
 * truth.h - the truth log: what the simulated server and GPU really did
 *
 * Tests compare it with what moetop reports.  Lines of words apart by tabs;
 * times are CLOCK_MONOTONIC, durations nanoseconds of the simulated device:
 *
 *   S step start_ns end_ns decode|prefill tokens padded graph
 *	one step, from the start of its first kernel to the end of its last
 *	one; tokens are real rows of the batch, padded the rows that the kernels
 *	ran with, graph 1 when the step was a replay.  Steps of the start-up
 *	(before the server listens) are logged too.
 *   L step layer rows active single block_ns expert_ns before_ns read_bytes
 *	one MoE layer of that step.  rows: (token, expert) pairs; active:
 *	experts with a row; single: with exactly one; padding left out.
 *	block_ns, before_ns: time covered by kernels in the two parts of a layer
 *	(enum layer_part), gaps left out; an instant belongs to the kernel that
 *	started first.  expert_ns and read_bytes: duration and DRAM bytes read
 *	by the expert GEMMs.  Layers of a draft model follow the main ones.
 *   C step class calls sum_ns union_ns
 *	all kernels of one class (wire/kernel_class.def) in that step: how many,
 *	durations added up, time covered.
 *   F time_ns in_flight waiting
 *	at each change of the server's own count of generation requests.  One is
 *	counted from when the server has read the whole request until its
 *	response was handed to the kernel or its connection ended; waiting until
 *	the first byte of the response body.
 *   T time_ns started completed aborted events failed
 *	totals, once a second and at the end.  events: SSE events sent; failed:
 *	completed with a status >= 400.
 *   D time_ns lost
 *	lines that found the buffer full, if any.
 *
 * Lines of one kind are in order of time.  Any thread may add lines; one thread
 * writes them, at least once a second.
 */
#ifndef MOETOP_SIM_SERVER_TRUTH_H
#define MOETOP_SIM_SERVER_TRUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/kernel_class.h"
#include "wire/record.h"

struct truth;

struct truth_class {
	uint32_t calls;
	uint64_t sum_ns, union_ns;
};

struct truth_step {
	uint64_t step, start_ns, end_ns;
	uint32_t tokens, padded;
	bool prefill, graph;
	struct truth_class klass[CLASSES];
};

struct truth_layer {
	uint32_t rows, active, single;
	uint64_t block_ns, expert_ns, before_ns;
	double read_bytes;
};

/* One kernel of a step, as planned. */
struct truth_kernel {
	uint64_t start_ns, end_ns;
	uint16_t layer; /* that was open when it was launched */
	uint8_t klass;  /* enum kernel_class */
	bool opens, closes, expert;
};

#define TRUTH_KERNELS_MAX 16384u
struct truth_kernels {
	uint32_t n;
	struct truth_kernel v[TRUTH_KERNELS_MAX];
};

struct truth_totals {
	uint64_t started, completed, aborted, events, failed;
};

/* Create or empty the file.  0, -ENOMEM or -errno of the file. */
int truth_open(struct truth **out, const char *path);

/*
 * Add up the kernels of a step: start, end and classes of *s, times of layer[]
 * (of which the other members are left alone).  Sorts the kernels.
 */
void truth_sum(struct truth_kernels *k, struct truth_step *s,
	       struct truth_layer *layer, unsigned layers);

/* All of these accept NULL: no log. */
void truth_step(struct truth *t, const struct truth_step *s,
		const struct truth_layer *layer, unsigned layers);
void truth_in_flight(struct truth *t, uint64_t time_ns, uint64_t in_flight,
		     uint64_t waiting);
void truth_totals(struct truth *t, uint64_t time_ns,
		  const struct truth_totals *n);

/* Write what has been added.  0 or -errno. */
int truth_flush(struct truth *t);
int truth_close(struct truth *t);

#endif
