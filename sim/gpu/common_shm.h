/*
 * common_shm.h - what the simulated GPU did and will do, for the simulated NVML
 *
 * NVML runs in the collector, another process than the one that launches.  The
 * simulated libcuda publishes its plan in /dev/shm/moetop-sim-gpu<uid>-<pid>: a
 * ring of segments (spans of planned work with their amounts) and the sums over
 * all segments ever published.  A counter at time t is the sum less what the
 * segments that end after t have still to do, each taken as evenly spread over
 * its span.  Memory is bounded: a segment that is overwritten before its end
 * counts as done.
 *
 * One writer (under libcuda's plan lock), any number of readers in any process:
 * a sequence lock over relaxed atomics.  Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef MOETOP_SIM_GPU_COMMON_SHM_H
#define MOETOP_SIM_GPU_COMMON_SHM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define SIM_SHM_MAGIC UINT64_C(0x75706753746f656d)
#define SIM_SHM_VERSION 2u
#define SIM_SHM_SEGMENTS 65536u
#define SIM_SHM_SPAN_NS 20000u /* work is joined into segments up to this */
#define SIM_SHM_DEVICES 16u
#define SIM_SHM_BINS_MAX 1024u

struct sim_counters { /* amounts of a segment, or sums since the start */
	uint64_t read_bytes, write_bytes;
	uint64_t busy_ns;   /* at least one kernel was running */
	uint64_t tensor_ns; /* FLOP over the peak of their type */
};

struct sim_segment {
	_Atomic uint64_t start_ns, end_ns;
	_Atomic uint64_t amount[4]; /* as in struct sim_counters */
};

struct sim_shm {
	uint64_t magic;
	uint32_t version, pid;
	uint64_t proc_start;  /* /proc/PID/stat field 22: guards pid reuse */
	uint32_t device, gpu; /* physical index; position in the GPU table */
	uint32_t no_counters; /* the fault of that name */
	uint32_t pid_space;   /* whose pid it is: elsewhere it means nothing */
	_Atomic uint64_t memory_used_bytes;
	_Atomic uint64_t seq;   /* odd while the writer is at work */
	_Atomic uint64_t count; /* segments ever published */
	_Atomic uint64_t sum[4];
	struct sim_segment ring[SIM_SHM_SEGMENTS];
};

/* Create this process's file.  NULL when it cannot be (NVML then sees nothing);
 * sim_shm_close removes the file (the memory stays: other threads may still be
 * planning) and is a no-op in a forked child. */
struct sim_shm *sim_shm_create(uint32_t device, uint32_t gpu);
void sim_shm_close(struct sim_shm *s);

/* Add work; joins the newest segment when it continues it. */
void sim_shm_add(struct sim_shm *s, uint64_t start_ns, uint64_t end_ns,
		 const struct sim_counters *c);

/* Counters at time t.  0, or -EAGAIN when the writer stays at work. */
int sim_shm_read(const struct sim_shm *s, uint64_t t, struct sim_counters *out);

/*
 * The amounts between edge[i] and edge[i + 1] are added to out[i], i < n <=
 * SIM_SHM_BINS_MAX; edges ascend.  What was overwritten before is missing, so edges are of the last
 * half second.  0, or -EAGAIN.
 */
int sim_shm_between(const struct sim_shm *s, const uint64_t *edge, unsigned n,
		    struct sim_counters *out);

/*
 * Call fn for the file of every live process, mapped read-only for the call;
 * files of dead processes are removed.  Returns the number of live ones.
 */
unsigned sim_shm_scan(void (*fn)(void *arg, const struct sim_shm *s),
		      void *arg);

uint64_t sim_now(void); /* CLOCK_MONOTONIC, ns */

#pragma GCC visibility pop

#endif
