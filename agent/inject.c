/*
 * inject.c - how the agent comes into a process, and what fork and exit do
 *
 * CUDA calls InitializeInjection inside cuInit when CUDA_INJECTION64_PATH names
 * this library; a plugin or an injector may call it by hand.  It never fails
 * the host: whatever goes wrong is in the ring.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/client.h"
#include "agent/config.h"
#include "agent/life.h"
#include "agent/lives.h"
#include "agent/loop.h"
#include "agent/publish.h"
#include "agent/state.h"

__attribute__((visibility("default"))) int InitializeInjection(void);

struct agent agent;

static _Atomic bool begun;
static bool inherited; /* fork's child, with the parent's leavings */

uint64_t agent_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * The child has no thread of ours, and no usable CUDA if its parent had one: it
 * is no server.  But it may become one, if CUDA starts in it or a plugin calls.
 */
static void silence_child(void)
{
	atomic_store(&agent.live, false);
	atomic_store(&agent.in_flight, 0);
	agent.sampler.started = false;
	agent.subscriber = NULL;
	ring_forget(&agent.ring);
	loop_forget();
	client_forget();
	inherited = true;
	atomic_store(&begun, false);
}

/* Nothing that the parent's agent knew is true here.  What it held is not given
 * back: its threads may have been at just that when the process forked. */
static void forget_parent(void)
{
	memset(&agent, 0, sizeof(agent));
	inherited = false;
}

static void register_handlers(void)
{
	static bool done;

	if (done)
		return;
	pthread_atfork(NULL, NULL, silence_child);
	atexit(loop_leave);
	done = true;
}

static int make_ring(void)
{
	uint32_t capacity = 1;
	int err;

	while (capacity < agent.config.ring_records)
		capacity *= 2;
	err = ring_create(&agent.ring, capacity);
	if (err)
		return err;
	atomic_store(&agent.ring.h->control.budget_ppm,
		     agent.config.budget_ppm);
	atomic_store(&agent.ring.h->control.rows_mode, agent.config.rows);
	atomic_store(&agent.ring.h->control.experts, agent.config.experts);
	atomic_store(&agent.ring.h->control.top_k, agent.config.top_k);
	return 0;
}

/* In cuInit: CUDA is ready, and has done nothing yet. */
static bool called_by_cuda(const void *caller)
{
	Dl_info info;
	const char *base;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return false;
	base = strrchr(info.dli_fname, '/');
	base = base ? base + 1 : info.dli_fname;
	return strncmp(base, "libcuda.so", strlen("libcuda.so")) == 0;
}

static void start(bool by_cuda)
{
	const char *wrong;
	int err;

	config_read(&agent.config, &wrong);
	if (make_ring())
		return;
	register_handlers();
	if (wrong)
		publish_text(TEXT_WARNING, "%s: not a number in range; ignored",
			     wrong);
	lives_begin(by_cuda || lives_cuda_runs(agent_now_ns()));
	err = loop_start();
	if (err) {
		life_fail(REASON_RESOURCES, -err);
		client_unsubscribe();
	}
}

int InitializeInjection(void)
{
	int saved = errno;

	if (!atomic_exchange(&begun, true)) {
		if (inherited)
			forget_parent();
		start(called_by_cuda(__builtin_return_address(0)));
	} else if (called_by_cuda(__builtin_return_address(0))) {
		/* it came before, by hand, and may have given up on CUDA */
		atomic_store(&agent.cuda_began, true);
	}
	errno = saved;
	return 1;
}
