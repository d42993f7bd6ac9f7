#include "agent/memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "agent/activity.h"
#include "agent/state.h"
#include "agent/targets.h"
#include "agent/window.h"

#define MAP_NODES 65536u
#define MAP_GRAPHS 4096u
#define BUFFER_BYTES ((size_t)1 << 20)
#define DRAIN_NS 1000000u
#define DRAIN_TRIES 100u

static void *pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int memory_make(void)
{
	if (!agent.functions)
		agent.functions = pages(sizeof(*agent.functions));
	if (!agent.log)
		agent.log = pages(sizeof(*agent.log));
	if (!agent.map)
		agent.map = graph_map_new(MAP_NODES, MAP_GRAPHS);
	if (!agent.functions || !agent.log || !agent.map || targets_init() ||
	    activity_init())
		return -ENOMEM;
	return window_init();
}

static size_t buffer_bytes(void)
{
	return (agent.buffers.count + 1) * agent.buffers.bytes;
}

int memory_make_buffers(void)
{
	int err;

	if (agent.buffers.memory) {
		/* Given back in between: no fault in the host's threads. */
		madvise(agent.buffers.memory, buffer_bytes(),
			MADV_POPULATE_WRITE);
		return 0;
	}
	err = buffers_init(&agent.buffers, agent.config.buffers, BUFFER_BYTES);
	/* A host that forks need not copy the tables of these pages. */
	if (!err)
		madvise(agent.buffers.memory, buffer_bytes(), MADV_DONTFORK);
	return err;
}

/* True once no thread is inside a callback; it had seen the agent alive. */
static bool drained(void)
{
	const struct timespec t = { .tv_nsec = DRAIN_NS };

	for (unsigned i = 0; atomic_load(&agent.in_flight); i++) {
		if (i == DRAIN_TRIES)
			return false;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return true;
}

static void release_life(void)
{
	window_fini();
	activity_fini();
	targets_fini();
	if (agent.log)
		munmap(agent.log, sizeof(*agent.log));
	agent.log = NULL;
}

void memory_release(bool buffers_free, bool busy)
{
	if (busy || !drained())
		return;
	release_life();
	memory_release_buffers(buffers_free);
}

void memory_release_buffers(bool buffers_free)
{
	if (buffers_free && drained())
		buffers_fini(&agent.buffers);
	else if (agent.buffers.memory)
		madvise(agent.buffers.memory, buffer_bytes(), MADV_DONTNEED);
}
