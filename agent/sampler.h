/*
 * sampler.h - the thread that copies top-k ids from the device
 *
 * During a window it copies the ids buffer of the graph or eager layer that was
 * launched last, again and again, on a stream of its own, at random intervals of
 * about half a layer's time.  It never synchronises with the host's streams.
 * What layer a copy belongs to is decided afterwards (agent/rows.h).
 *
 * The thread is started with the first window that wants rows and sleeps
 * between windows.  It uses at most a tenth of a processor while awake.
 */
#ifndef MOETOP_AGENT_SAMPLER_H
#define MOETOP_AGENT_SAMPLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLER_PINNED_BYTES ((size_t)4 << 20)

enum sampler_state { SAMPLER_IDLE, SAMPLER_RUN, SAMPLER_STOP };

struct sampler {
	pthread_t thread;
	bool started;      /* agent thread's */
	_Atomic bool dead; /* CUDA refused: no rows from now on */
	_Atomic int error; /* the CUresult that said so */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	enum sampler_state state;  /* guarded by lock */
	_Atomic bool idle;         /* all copies are in rows */
	_Atomic uint64_t layer_ns; /* estimate that sets the interval */
	_Atomic uint64_t copies, failed;
};

/* Agent thread only.  0 or -errno. */
int sampler_start(void);
/* Let it run in a window, pause it; is it done with the paused window? */
void sampler_run(void);
void sampler_pause(void);
bool sampler_is_idle(void);
/* End the thread.  False: it hangs in a call to CUDA, for more than 2 s. */
bool sampler_stop(void);
/* CPU time of the thread so far; 0 when there is none. */
uint64_t sampler_cpu_ns(void);

/* In the callback of cuMemcpyDtoHAsync, on any thread: when it is the
 * sampler's own call, note its correlation id. */
void sampler_note_correlation(uint32_t correlation);

#endif
