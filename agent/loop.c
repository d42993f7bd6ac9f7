#include "agent/loop.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/activity.h"
#include "agent/client.h"
#include "agent/life.h"
#include "agent/lives.h"
#include "agent/publish.h"
#include "agent/state.h"
#include "agent/window.h"

#define STACK_BYTES ((size_t)1 << 20) /* NVIDIA's libraries run on it too */
#define COLLECTOR_LIVE_NS 2000000000ull
#define RETRY_NS 10000000000ull
#define TICK_NS 250000000ull
#define STATUS_NS 1000000000ull
#define LOOP_WINDOW_NS 10000000ull
#define LOOP_NS 20000000ull
#define LOOP_QUIET_NS 100000000ull
#define LOOP_AWAIT_NS \
	1000000ull         /* for the host's context, before it captures */
#define ROWS_EXACT_MODE 2u /* ring_control.rows_mode */
#define STUB_LOOKS 30u     /* a second apart */
#define EXIT_WAIT_NS 1000000ull
#define EXIT_WAITS 200u

/* The process ends: no thread of the agent may call CUPTI or CUDA any more. */
static _Atomic bool leaving;
static _Atomic bool in_turn; /* the agent's thread may be calling them */

static bool collector_lives(uint64_t now_ns)
{
	uint64_t beat = atomic_load(&agent.ring.h->control.heartbeat_ns);

	return beat && beat <= now_ns + COLLECTOR_LIVE_NS &&
	       now_ns < beat + COLLECTOR_LIVE_NS;
}

/* ---- accounts --------------------------------------------------------------- */

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void account(uint64_t now_ns)
{
	struct budget_mark now = {
		.time_ns = now_ns,
		.window_ns = agent.window_ns,
		.callback_ns = agent.tick.callback_ns,
	};
	uint64_t budget = atomic_load(&agent.ring.h->control.budget_ppm);

	agent.tick.agent_cpu_ns =
		thread_cpu_ns() - agent.cpu_ns + sampler_cpu_ns();
	now.cpu_ns = agent.tick.agent_cpu_ns;
	agent.tick.overhead_ppm =
		budget_overhead_ppm(&agent.budget, &now, agent.cpus);
	if (agent.window.stage == WINDOW_CLOSED &&
	    budget_stop(&agent.budget, agent.tick.overhead_ppm, budget,
			agent.window.number - agent.windows_before))
		life_fail(REASON_BUDGET, (int32_t)agent.tick.overhead_ppm);
}

static void report(uint64_t now_ns, bool collector)
{
	static uint64_t tick_ns, status_ns;
	static bool was_there;

	if (!collector) {
		was_there = false;
		return;
	}
	if (!was_there || now_ns - status_ns >= STATUS_NS) {
		publish_status();
		status_ns = now_ns;
	}
	if (!was_there || now_ns - tick_ns >= TICK_NS) {
		account(now_ns);
		publish_tick();
		tick_ns = now_ns;
	}
	was_there = true;
}

/* ---- at work ---------------------------------------------------------------- */

/* Make the host's context current in this thread: true once it is. */
static bool meet_device(void)
{
	void *context = atomic_load(&agent.context);
	int mode = CUDA_CAPTURE_RELAXED, device = 0;

	if (!agent.has_cuda || !context || context == agent.met)
		return agent.met != NULL;
	if (agent.cuda.exchange_capture_mode)
		agent.cuda.exchange_capture_mode(&mode);
	if (agent.cuda.ctx_set_current(context) ||
	    agent.cuda.ctx_get_device(&device))
		return agent.met != NULL;
	agent.met = context;
	agent.device = (uint32_t)device;
	agent.cuda.device_name(agent.device_name,
			       (int)sizeof(agent.device_name) - 1, device);
	return true;
}

/* A collector that looks on later asks for samples, which is no reason to leave
 * graphs without what the server was started with. */
static bool exact_wanted(void)
{
	uint32_t mode = atomic_load(&agent.ring.h->control.rows_mode);

	return mode == ROWS_EXACT_MODE ||
	       (mode && agent.config.rows == ROWS_EXACT_MODE);
}

/* May records be taken of this CUPTI life, or of a new one? */
static bool has_records(uint64_t now_ns, bool collector)
{
	if (agent.cupti_kernels < agent.config.record_cap)
		return true;
	if (!agent.paused)
		publish_text(TEXT_INFO, "kernel records of this CUPTI life are "
					"used up: it is taken down and begun "
					"anew");
	agent.paused = true;
	if (!collector ||
	    now_ns - agent.tried_ns < agent.config.renew_ms * 1000000ull)
		return false;
	agent.tried_ns = now_ns;
	agent.paused = false;
	lives_renew();
	return false;
}

static void open_if_due(uint64_t now_ns, bool collector)
{
	struct ring_control *c = &agent.ring.h->control;
	bool rows = atomic_load(&c->rows_mode) != 0;

	/* After an abort the sampler may still be at work. */
	if (!sampler_is_idle() || !has_records(now_ns, collector))
		return;
	if (!plan_due(&agent.plan, now_ns, collector,
		      atomic_load(&c->window_wish), &agent.totals))
		return;
	window_open(now_ns, rows);
}

static void step(uint64_t now_ns, bool collector)
{
	uint64_t launches = agent.tick.launches;

	if (meet_device())
		functions_validate(agent.functions, &agent.cuda);
	exact_prepare(exact_wanted());
	activity_drain();
	if (agent.tick.launches != launches)
		agent.launch_ns = now_ns;
	if (atomic_load(&agent.fatal))
		life_fail(REASON_FATAL, 0);
	if (agent.window.stage != WINDOW_CLOSED &&
	    (!collector || agent.reason == REASON_BAD_RECORDS))
		window_abort();
	else if (agent.window.stage != WINDOW_CLOSED)
		window_poll(now_ns);
	else if (agent.state == AGENT_IDLE)
		open_if_due(now_ns, collector);
	if (agent.displaced) {
		agent.displaced = false;
		agent.tried_ns = now_ns;
		window_abort();
		client_unsubscribe();
		life_yield(CUPTI_E_MULTIPLE_SUBSCRIBERS);
	}
}

static void await_cuda(uint64_t now_ns)
{
	if (lives_cuda_runs(now_ns))
		lives_connect();
}

static void try_again(uint64_t now_ns, bool collector)
{
	if (!collector || now_ns - agent.tried_ns < RETRY_NS)
		return;
	agent.tried_ns = now_ns;
	lives_connect();
}

/* An agent that was there from the start waits for its first collector as long
 * as it takes: what it sees meanwhile cannot be seen later. */
static bool leave_due(uint64_t now_ns, bool collector)
{
	uint64_t gone_ns = agent.config.gone_ms * 1000000ull;

	if (collector) {
		agent.watched = true;
		agent.reader_ns = now_ns;
	}
	if (atomic_load(&agent.ring.h->control.detach))
		return true;
	if (!agent.watched && !atomic_load(&agent.late))
		return false;
	return now_ns - agent.begin_ns > gone_ns &&
	       now_ns - agent.reader_ns > gone_ns;
}

/* Disabled where there was no CUDA, and now CUDA has begun. */
static bool gave_up_too_early(void)
{
	return agent.state == AGENT_DISABLED && !agent.subscriber &&
	       atomic_exchange(&agent.cuda_began, false);
}

static void turn(uint64_t now_ns)
{
	bool collector = collector_lives(now_ns);

	if (agent.state == AGENT_STUB) {
		if (!lives_called(now_ns))
			return;
		agent.cpu_ns = thread_cpu_ns();
		lives_rise();
		return;
	}
	if (leave_due(now_ns, collector)) {
		lives_end();
		return;
	}
	if (gave_up_too_early()) {
		lives_end();
		lives_rise();
		return;
	}
	if (agent.state == AGENT_STARTING)
		await_cuda(now_ns);
	else if (agent.state == AGENT_YIELDED)
		try_again(now_ns, collector);
	else if (agent.subscriber)
		step(now_ns, collector);
	report(now_ns, collector);
}

/* ---- the thread --------------------------------------------------------------- */

/* Each turn is bracketed, so that exit can wait for one that is under way.
 * False: the process ends. */
static bool turn_begin(void)
{
	atomic_store(&in_turn, true);
	if (!atomic_load(&leaving))
		return true;
	atomic_store(&in_turn, false);
	return false;
}

static void rest(void)
{
	bool awaits = agent.state != AGENT_STUB && exact_wanted() &&
		      atomic_load(&agent.exact.state) == EXACT_OFF;
	uint64_t ns = awaits ? LOOP_AWAIT_NS : LOOP_QUIET_NS;
	struct timespec t = { 0 };

	if (collector_lives(agent_now_ns()))
		ns = agent.window.stage == WINDOW_CLOSED ? LOOP_NS
							 : LOOP_WINDOW_NS;
	t.tv_nsec = (long)ns;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/*
 * The stub's sleep: until `wake` is no longer what it was before the turn.  A
 * session that is open may be one whose heartbeat is late, or that came when
 * there was no memory to rise with: look again for a while.
 */
static void sleep_until_called(_Atomic uint32_t *wake, uint32_t before)
{
	const struct ring_control *c = &agent.ring.h->control;
	const struct timespec second = { .tv_sec = 1 };
	static uint32_t last, looks;
	bool again;

	if (before != last)
		looks = STUB_LOOKS;
	last = before;
	again = looks && atomic_load(&c->session) && !atomic_load(&c->detach);
	looks -= again;
	syscall(SYS_futex, wake, FUTEX_WAIT, before, again ? &second : NULL,
		NULL, 0);
}

static void *agent_main(void *arg)
{
	_Atomic uint32_t *wake = &agent.ring.h->control.wake;

	(void)arg;
	prctl(PR_SET_NAME, "moetop");
	while (turn_begin()) {
		uint32_t before = atomic_load(wake);

		turn(agent_now_ns());
		atomic_store(&in_turn, false);
		if (agent.state == AGENT_STUB)
			sleep_until_called(wake, before);
		else
			rest();
	}
	/* Not even the end of this thread may wake its libraries now. */
	while (atomic_load(&leaving))
		pause();
	return NULL;
}

int loop_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int err = pthread_attr_init(&attr);

	if (err)
		return err;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, agent_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return err;
}

/* CUPTI and CUDA take themselves down after this.  A thread that is still inside
 * when the wait is over hangs there, and exit must not. */
void loop_leave(void)
{
	const struct timespec t = { .tv_nsec = EXIT_WAIT_NS };

	if (atomic_exchange(&leaving, true))
		return;
	atomic_store(&agent.live, false);
	client_leave();
	for (unsigned i = 0;
	     i < EXIT_WAITS && (atomic_load(&in_turn) || client_in_teardown());
	     i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	if (atomic_load(&in_turn))
		return;
	sampler_pause();
	for (unsigned i = 0; i < EXIT_WAITS && !sampler_is_idle(); i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

void loop_forget(void)
{
	atomic_store(&leaving, false);
	atomic_store(&in_turn, false);
}
