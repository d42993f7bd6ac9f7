/*
 * inject.c - the life of the agent: start, loop, detach, fork
 *
 * CUDA calls InitializeInjection inside cuInit when CUDA_INJECTION64_PATH names
 * this library; a plugin or an injector may call it by hand.  It never fails
 * the host: whatever goes wrong is in the ring.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/activity.h"
#include "agent/callbacks.h"
#include "agent/publish.h"
#include "agent/state.h"
#include "agent/targets.h"
#include "agent/window.h"

#define STACK_BYTES ((size_t)1 << 20) /* NVIDIA's libraries run on it too */
#define COLLECTOR_LIVE_NS 2000000000ull
#define TICK_NS 250000000ull
#define STATUS_NS 1000000000ull
#define LOOP_WINDOW_NS 10000000ull
#define LOOP_NS 20000000ull
#define LOOP_QUIET_NS 100000000ull
#define EXIT_WAIT_NS 1000000ull
#define EXIT_WAITS 200u
#define MAP_NODES 65536u
#define MAP_GRAPHS 4096u
#define CUPTI_VERSION_END 140000u /* first one not known to work */

__attribute__((visibility("default"))) int InitializeInjection(void);

struct agent agent;

/* The process ends: no thread of the agent may call CUPTI or CUDA any more. */
static _Atomic bool leaving;
static _Atomic bool in_turn; /* the agent's thread may be calling them */

uint64_t agent_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- state ----------------------------------------------------------------- */

static void set_state(enum agent_state state)
{
	if (agent.state == (uint32_t)state)
		return;
	agent.state = state;
	publish_status();
}

static const char *reason_text(enum agent_reason reason)
{
	static const char *const text[REASONS] = {
		[REASON_NO_CUPTI] = "no libcupti in this process and none "
				    "beside its CUDA libraries",
		[REASON_CUPTI_VERSION] = "this version of CUPTI is not known",
		[REASON_NO_DRIVER] = "no CUDA driver in this process",
		[REASON_OTHER_CLIENT] = "another profiler owns CUPTI",
		[REASON_CUPTI_ERROR] = "CUPTI error",
		[REASON_FATAL] = "CUPTI reported a fatal error",
		[REASON_RECORD_CAP] = "kernel records of this CUPTI life are "
				      "used up; counters go on",
		[REASON_BUDGET] = "windows cost four times the budget; "
				  "counters go on",
		[REASON_BAD_RECORDS] = "kernel records of an unknown layout",
		[REASON_RESOURCES] = "no memory, thread or descriptor",
	};

	return text[reason] ? text[reason] : "";
}

void agent_disable(enum agent_reason reason, int32_t detail)
{
	if (agent.windows_stopped)
		return;
	agent.windows_stopped = true;
	agent.reason = reason;
	agent.detail = detail;
	publish_text(TEXT_ERROR, "agent disabled: %s (%d)", reason_text(reason),
		     detail);
	set_state(AGENT_DISABLED);
}

/* ---- start ----------------------------------------------------------------- */

static void *pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int make_memory(void)
{
	agent.functions = pages(sizeof(*agent.functions));
	agent.log = pages(sizeof(*agent.log));
	agent.map = graph_map_new(MAP_NODES, MAP_GRAPHS);
	if (!agent.functions || !agent.log || !agent.map || targets_init() ||
	    activity_init())
		return -ENOMEM;
	return window_init();
}

static unsigned usable_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

/* Reduces the memory that recording takes where it may; refusals do not
 * matter. */
static void set_attributes(void)
{
	uint8_t per_thread = 1;
	size_t bytes = sizeof(per_thread);

	agent.cupti.set_attribute(CUPTI_ATTR_PER_THREAD_BUFFER, &bytes,
				  &per_thread);
}

/* Nothing of the agent is called from here on, and CUPTI is free for others. */
static void unsubscribe(void)
{
	if (agent.subscriber && !atomic_load(&agent.fatal)) {
		callbacks_enable(false);
		atomic_store(&agent.live, false);
		agent.cupti.unsubscribe(agent.subscriber);
	}
	atomic_store(&agent.live, false);
	agent.subscriber = NULL;
}

static int subscribe_callbacks(void)
{
	void *subscriber = NULL;
	int err = agent.cupti.subscribe(&subscriber, callback_entry, NULL);

	if (err)
		return err;
	agent.subscriber = subscriber;
	set_attributes();
	err = agent.cupti.register_callbacks(callback_buffer_requested,
					     callback_buffer_completed);
	if (err)
		return err;
	atomic_store(&agent.live, true);
	return callbacks_enable(true);
}

/* Without a driver CUPTI fails in many ways; that is the reason then. */
static void disable_for_error(int err)
{
	agent_disable(agent.has_cuda ? REASON_CUPTI_ERROR : REASON_NO_DRIVER,
		      err);
}

static void subscribe(void)
{
	int err = subscribe_callbacks();

	if (!err)
		return;
	unsubscribe();
	if (err == CUPTI_E_MULTIPLE_SUBSCRIBERS)
		agent_disable(REASON_OTHER_CLIENT, err);
	else
		disable_for_error(err);
}

static void set_up(void)
{
	char path[PATH_MAX] = "";
	int err;

	agent.cpus = usable_cpus();
	agent.has_cuda = cuda_find(&agent.cuda) == 0;
	if (agent.has_cuda)
		agent.cuda.driver_version((int *)&agent.driver_version);
	plan_init(&agent.plan, agent.config.period_ms * 1000000ull);
	agent.budget.old.time_ns = agent.budget.recent.time_ns = agent_now_ns();
	err = make_memory();
	if (err) {
		agent_disable(REASON_RESOURCES, err);
		return;
	}
	err = cupti_find(&agent.cupti, path, sizeof(path));
	if (err) {
		agent_disable(REASON_NO_CUPTI, err);
		return;
	}
	publish_text(TEXT_INFO, "CUPTI: %s", path);
	err = agent.cupti.version(&agent.cupti_version);
	if (err) /* 13.5 does not even tell its version without a driver */
		disable_for_error(err);
	else if (agent.cupti_version < CUPTI_VERSION_MIN ||
		 agent.cupti_version >= CUPTI_VERSION_END)
		agent_disable(REASON_CUPTI_VERSION, 0);
	else
		subscribe();
}

/* ---- the loop -------------------------------------------------------------- */

static bool collector_lives(uint64_t now_ns)
{
	uint64_t beat = atomic_load(&agent.ring.h->control.heartbeat_ns);

	return beat && beat <= now_ns + COLLECTOR_LIVE_NS &&
	       now_ns < beat + COLLECTOR_LIVE_NS;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Make the host's context current in this thread: true once it is. */
static bool meet_device(void)
{
	static void *known;
	void *context = atomic_load(&agent.context);
	int mode = CUDA_CAPTURE_RELAXED, device = 0;

	if (!agent.has_cuda || !context || context == known)
		return known != NULL;
	if (agent.cuda.exchange_capture_mode)
		agent.cuda.exchange_capture_mode(&mode);
	if (agent.cuda.ctx_set_current(context) ||
	    agent.cuda.ctx_get_device(&device))
		return known != NULL;
	known = context;
	agent.device = (uint32_t)device;
	agent.cuda.device_name(agent.device_name,
			       (int)sizeof(agent.device_name) - 1, device);
	return true;
}

static void account(uint64_t now_ns)
{
	struct budget_mark now = {
		.time_ns = now_ns,
		.window_ns = agent.window_ns,
		.callback_ns = agent.tick.callback_ns,
	};
	uint64_t budget = atomic_load(&agent.ring.h->control.budget_ppm);

	agent.tick.agent_cpu_ns = own_cpu_ns() + sampler_cpu_ns();
	now.cpu_ns = agent.tick.agent_cpu_ns;
	agent.tick.overhead_ppm =
		budget_overhead_ppm(&agent.budget, &now, agent.cpus);
	if (agent.tick.overhead_ppm != BUDGET_UNKNOWN &&
	    agent.tick.overhead_ppm > 4 * budget && agent.window.number > 1 &&
	    !agent.windows_stopped)
		agent_disable(REASON_BUDGET, (int32_t)agent.tick.overhead_ppm);
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

/* Only sampling is built in: another wish is answered once. */
static bool rows_wanted(void)
{
	static uint32_t last;
	uint32_t mode = atomic_load(&agent.ring.h->control.rows_mode);

	if (mode > 1 && mode != last)
		publish_text(TEXT_WARNING,
			     "rows: mode %u (2: exact) is not built into this "
			     "version; they are sampled",
			     mode);
	last = mode;
	return mode != 0;
}

static void open_if_due(uint64_t now_ns, bool collector)
{
	struct ring_control *c = &agent.ring.h->control;
	bool rows = rows_wanted();

	/* After an abort the sampler may still be at work. */
	if (!sampler_is_idle())
		return;
	if (!plan_due(&agent.plan, now_ns, collector,
		      atomic_load(&c->window_wish), &agent.totals))
		return;
	window_open(now_ns, rows);
}

static void step(uint64_t now_ns, bool collector)
{
	if (meet_device())
		functions_validate(agent.functions, &agent.cuda);
	activity_drain();
	if (atomic_load(&agent.fatal))
		agent_disable(REASON_FATAL, 0);
	if (agent.window.stage == WINDOW_CLOSED) {
		if (!agent.windows_stopped)
			open_if_due(now_ns, collector);
	} else if (!collector || agent.reason == REASON_BAD_RECORDS) {
		window_abort();
	} else {
		window_poll(now_ns);
	}
	if (!agent.windows_stopped)
		set_state(agent.window.stage == WINDOW_OPEN ? AGENT_WINDOW
							    : AGENT_IDLE);
}

static void rest(bool collector)
{
	uint64_t ns = LOOP_QUIET_NS;
	struct timespec t = { 0 };

	if (collector)
		ns = agent.window.stage == WINDOW_CLOSED ? LOOP_NS
							 : LOOP_WINDOW_NS;
	t.tv_nsec = (long)ns;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Leave the process: no window, no callbacks, no subscription.  The library
 * stays mapped, with this thread gone. */
static void detach(void)
{
	set_state(AGENT_DETACHING);
	window_abort();
	sampler_stop();
	if (agent.subscriber && !atomic_load(&agent.fatal))
		agent.cupti.flush_all(0);
	unsubscribe();
	set_state(AGENT_STUB);
}

/* False: the process ends.  Each turn is bracketed, so that exit can wait for
 * one that is under way. */
static bool turn_begin(void)
{
	atomic_store(&in_turn, true);
	if (!atomic_load(&leaving))
		return true;
	atomic_store(&in_turn, false);
	return false;
}

static void *agent_main(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "moetop");
	while (turn_begin()) {
		uint64_t now_ns = agent_now_ns();
		bool collector = collector_lives(now_ns);
		bool end = atomic_load(&agent.ring.h->control.detach);

		if (end) {
			detach();
		} else {
			if (agent.subscriber)
				step(now_ns, collector);
			report(now_ns, collector);
		}
		atomic_store(&in_turn, false);
		if (end)
			return NULL;
		rest(collector);
	}
	/* Not even the end of this thread may wake its libraries now. */
	for (;;)
		pause();
}

static int start_thread(void)
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

/* CUPTI and CUDA take themselves down in the handlers that follow this one.  A
 * thread that is still inside after the wait hangs there, and exit must not. */
static void at_exit(void)
{
	const struct timespec t = { .tv_nsec = EXIT_WAIT_NS };

	if (atomic_exchange(&leaving, true))
		return;
	atomic_store(&agent.live, false);
	for (unsigned i = 0; i < EXIT_WAITS && atomic_load(&in_turn); i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	if (atomic_load(&in_turn))
		return;
	sampler_pause();
	for (unsigned i = 0; i < EXIT_WAITS && !sampler_is_idle(); i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* The child has neither the threads nor a usable CUDA: it is no server. */
static void silence_child(void)
{
	atomic_store(&leaving, true);
	atomic_store(&agent.live, false);
	ring_destroy(&agent.ring);
}

int InitializeInjection(void)
{
	static _Atomic bool begun;
	const char *wrong;
	uint32_t capacity = 1;
	int saved = errno, err;

	if (atomic_exchange(&begun, true))
		return 1;
	config_read(&agent.config, &wrong);
	while (capacity < agent.config.ring_records)
		capacity *= 2;
	if (ring_create(&agent.ring, capacity))
		goto out;
	atomic_store(&agent.ring.h->control.budget_ppm,
		     agent.config.budget_ppm);
	atomic_store(&agent.ring.h->control.rows_mode, agent.config.rows);
	set_state(AGENT_STARTING);
	if (wrong)
		publish_text(TEXT_WARNING, "%s: not a number in range; ignored",
			     wrong);
	set_up();
	pthread_atfork(NULL, NULL, silence_child);
	atexit(at_exit);
	err = start_thread();
	if (err) {
		agent_disable(REASON_RESOURCES, -err);
		unsubscribe();
	}
out:
	errno = saved;
	return 1;
}
