#include "agent/sampler.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "agent/state.h"
#include "agent/targets.h"

#define STACK_BYTES ((size_t)1 << 20) /* NVIDIA's libraries run on it too */
#define BATCH 16u                     /* copies between two synchronisations */
#define INTERVAL_LEAST_NS 20000u
#define INTERVAL_MOST_NS 2000000u
#define STOP_SECONDS 2
#define CPU_SHARE 10u /* one part in ten of a processor */

static _Thread_local __attribute__((tls_model("initial-exec"))) bool is_sampler;
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t noted;

struct pending {
	struct moe_launch launch; /* what 0: stages, those of pick */
	struct row_calls calls;
	size_t offset;
};

/* The thread's own. */
struct work {
	void *stream;
	uint8_t *pinned;
	size_t used;
	uint32_t n;
	struct pending pending[BATCH];
	struct target_pick pick;
	uint64_t random;
	uint64_t cpu_ns;      /* thread's, at the end of the last turn */
	uint64_t copy_cpu_ns; /* of one turn, smoothed */
};

void sampler_note_correlation(uint32_t correlation)
{
	if (is_sampler)
		noted = correlation;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(struct work *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static void give_up(int error)
{
	atomic_store(&agent.sampler.error, error);
	atomic_store(&agent.sampler.dead, true);
}

/* ---- CUDA ------------------------------------------------------------------ */

/* Another thread may be capturing: only the relaxed mode lets this one work. */
static int attach(struct work *w)
{
	int mode = CUDA_CAPTURE_RELAXED;
	int err;

	if (agent.cuda.exchange_capture_mode)
		agent.cuda.exchange_capture_mode(&mode);
	err = agent.cuda.ctx_set_current(atomic_load(&agent.context));
	if (!err && !w->pinned)
		err = agent.cuda.mem_host_alloc((void **)&w->pinned,
						SAMPLER_PINNED_BYTES,
						CUDA_HOST_ALLOC_PORTABLE);
	if (!err && !w->stream)
		err = agent.cuda.stream_create(&w->stream,
					       CUDA_STREAM_NON_BLOCKING);
	return err;
}

static void release(struct work *w)
{
	if (w->stream)
		agent.cuda.stream_destroy(w->stream);
	if (w->pinned)
		agent.cuda.mem_free_host(w->pinned);
	*w = (struct work){ 0 };
}

static void keep_stages(struct work *w, const struct pending *p)
{
	for (uint32_t i = 0; i < w->pick.stages; i++) {
		const struct target_stage *t = &w->pick.stage[i];
		const uint8_t *at =
			w->pinned + p->offset + (t->stage - w->pick.from);

		if (rows_add_stage(agent.rows, at, &t->launch, t->stage,
				   p->calls))
			atomic_fetch_add(&agent.sampler.failed, 1);
	}
}

/* Wait for the copies under way and keep what they hold. */
static int settle(struct work *w)
{
	int err = 0;

	if (w->n)
		err = agent.cuda.stream_synchronize(w->stream);
	for (uint32_t i = 0; i < w->n && !err; i++) {
		const struct pending *p = &w->pending[i];

		if (!p->launch.what)
			keep_stages(w, p);
		else if (rows_add(agent.rows, w->pinned + p->offset, &p->launch,
				  p->calls))
			atomic_fetch_add(&agent.sampler.failed, 1);
	}
	w->n = 0;
	w->used = 0;
	return err;
}

/* Memory that was unmapped (expandable segments, a server put to sleep) keeps
 * its addresses, and a copy from there would end the host.  0 if it is there. */
static int check_mapped(uint64_t address)
{
	uint64_t mapped = 0; /* the driver writes one byte or four */
	int err = agent.cuda.pointer_attribute(&mapped, CUDA_POINTER_MAPPED,
					       address);

	if (err)
		return err;
	return mapped ? 0 : CUDA_E_INVALID_VALUE;
}

/* One piece of device memory.  0, CUDA_E_INVALID_VALUE: it is not there, or an
 * error that ends sampling. */
static int copy_piece(struct work *w, uint64_t from, size_t offset,
		      size_t bytes, struct row_calls *calls)
{
	int err = check_mapped(from);

	noted = 0;
	if (!err)
		err = agent.cuda.memcpy_dtoh_async(w->pinned + offset, from,
						   bytes, w->stream);
	if (err)
		return err;
	if (!calls->first)
		calls->first = noted;
	calls->last = noted;
	return 0;
}

static int copy_parts(struct work *w, const struct moe_launch *l,
		      struct row_calls *calls)
{
	int err = 0;

	for (unsigned i = 0; i < ROW_PARTS && !err; i++) {
		size_t bytes = row_part_bytes(l, i);

		if (bytes)
			err = copy_piece(w, l->data[i],
					 w->used + row_part_offset(l, i), bytes,
					 calls);
	}
	return err;
}

/* Copy what was picked: the places of one launch, or all stages of a graph. */
static int copy(struct work *w)
{
	const struct moe_launch *l = &w->pick.launch;
	size_t bytes = l->what ? row_part_offset(l, ROW_PARTS) : w->pick.bytes;
	struct row_calls calls = { 0 };
	int err = 0;

	if (bytes > SAMPLER_PINNED_BYTES)
		return 0;
	if (w->n == BATCH || w->used + bytes > SAMPLER_PINNED_BYTES)
		err = settle(w);
	if (err)
		return err;
	err = l->what ? copy_parts(w, l, &calls)
		      : copy_piece(w, w->pick.from, w->used, bytes, &calls);
	if (err) {
		/* The buffer went back to the driver, or its graph is gone. */
		atomic_fetch_add(&agent.sampler.failed, 1);
		return err == CUDA_E_INVALID_VALUE ? 0 : err;
	}
	w->pending[w->n++] = (struct pending){ *l, calls, w->used };
	w->used += (bytes + 63) & ~(size_t)63;
	atomic_fetch_add_explicit(&agent.sampler.copies, 1,
				  memory_order_relaxed);
	/* Which stages they are is known until the next pick only. */
	return l->what ? 0 : settle(w);
}

/* ---- pace ------------------------------------------------------------------ */

static void sleep_ns(uint64_t ns)
{
	const struct timespec t = { .tv_sec = 0, .tv_nsec = (long)ns };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Half a layer, or a third of a step where stages keep what they have; longer if
 * copies are dear; between half and three halves of that at random, so that no layer is
 * always missed. */
static uint64_t interval(struct work *w)
{
	uint64_t layer_ns = atomic_load_explicit(&agent.sampler.layer_ns,
						 memory_order_relaxed);
	uint64_t ns = w->pick.stages && exact_is_proven()
			      ? layer_ns * w->pick.stages / 3
			      : layer_ns / 2;
	uint64_t dear = w->copy_cpu_ns * (CPU_SHARE - 1);

	if (ns < dear)
		ns = dear;
	if (ns < INTERVAL_LEAST_NS)
		ns = INTERVAL_LEAST_NS;
	if (ns > INTERVAL_MOST_NS)
		ns = INTERVAL_MOST_NS;
	return ns / 2 + next_random(w) % ns;
}

static bool running(void)
{
	struct sampler *s = &agent.sampler;
	bool run;

	pthread_mutex_lock(&s->lock);
	run = s->state == SAMPLER_RUN;
	pthread_mutex_unlock(&s->lock);
	return run;
}

/* CPU time of one turn, sleeping and waking included. */
static void note_cost(struct work *w)
{
	uint64_t cpu = thread_cpu_ns();
	uint64_t spent = cpu - w->cpu_ns;

	w->copy_cpu_ns =
		w->copy_cpu_ns ? (7 * w->copy_cpu_ns + spent) / 8 : spent;
	w->cpu_ns = cpu;
}

static int sample_window(struct work *w)
{
	int err = attach(w);

	w->cpu_ns = thread_cpu_ns();
	while (!err && running()) {
		uint64_t random = next_random(w);

		w->pick.launch.what = ROWS_NONE;
		w->pick.stages = 0;
		if (targets_choose(random, exact_turn(random), &w->pick))
			err = copy(w);
		sleep_ns(interval(w));
		note_cost(w);
	}
	return err ? err : settle(w);
}

/* ---- thread ---------------------------------------------------------------- */

/* Until there is work: true, or the end: false. */
static bool wait_for_work(struct sampler *s)
{
	bool run;

	pthread_mutex_lock(&s->lock);
	while (s->state == SAMPLER_IDLE) {
		atomic_store(&s->idle, true);
		pthread_cond_wait(&s->wake, &s->lock);
	}
	run = s->state == SAMPLER_RUN;
	pthread_mutex_unlock(&s->lock);
	return run;
}

static void *sampler_main(void *arg)
{
	struct sampler *s = arg;
	static struct work w;

	prctl(PR_SET_NAME, "moetop-rows");
	prctl(PR_SET_TIMERSLACK, 1);
	is_sampler = true;
	w.random = agent_now_ns() | 1;
	while (wait_for_work(s)) {
		int err = sample_window(&w);

		if (err)
			give_up(err);
		pthread_mutex_lock(&s->lock);
		while (err && s->state == SAMPLER_RUN)
			pthread_cond_wait(&s->wake, &s->lock);
		pthread_mutex_unlock(&s->lock);
	}
	release(&w);
	atomic_store(&s->idle, true);
	return NULL;
}

int sampler_start(void)
{
	struct sampler *s = &agent.sampler;
	pthread_attr_t attr;
	int err;

	if (s->started)
		return 0;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	s->state = SAMPLER_IDLE;
	err = pthread_attr_init(&attr);
	if (err)
		return -err;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* The agent's thread starts it, with all signals blocked. */
	err = pthread_create(&s->thread, &attr, sampler_main, s);
	pthread_attr_destroy(&attr);
	s->started = err == 0;
	return -err;
}

static void set_state(enum sampler_state state)
{
	struct sampler *s = &agent.sampler;

	pthread_mutex_lock(&s->lock);
	s->state = state;
	if (state == SAMPLER_RUN)
		atomic_store(&s->idle, false);
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

void sampler_run(void)
{
	if (agent.sampler.started && !atomic_load(&agent.sampler.dead))
		set_state(SAMPLER_RUN);
}

void sampler_pause(void)
{
	if (agent.sampler.started)
		set_state(SAMPLER_IDLE);
}

bool sampler_is_idle(void)
{
	return !agent.sampler.started || atomic_load(&agent.sampler.idle);
}

bool sampler_stop(void)
{
	struct sampler *s = &agent.sampler;
	struct timespec t;

	if (!s->started)
		return true;
	set_state(SAMPLER_STOP);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += STOP_SECONDS;
	if (pthread_timedjoin_np(s->thread, NULL, &t))
		return false;
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	*s = (struct sampler){ 0 };
	return true;
}

uint64_t sampler_cpu_ns(void)
{
	struct timespec t;
	clockid_t clock;

	if (!agent.sampler.started ||
	    pthread_getcpuclockid(agent.sampler.thread, &clock) ||
	    clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
