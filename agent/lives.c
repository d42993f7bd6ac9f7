#include "agent/lives.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/client.h"
#include "agent/life.h"
#include "agent/memory.h"
#include "agent/publish.h"
#include "agent/state.h"
#include "agent/window.h"

#define COLLECTOR_LIVE_NS 2000000000ull
#define LOOK_NS 1000000000ull
#define DEVICES_MAX 16

/* ---- CUDA ------------------------------------------------------------------- */

/* Without the loader's lock, which a child of fork could inherit taken. */
static bool has_libcuda(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, "/libcuda.so") != NULL;
	if (f)
		fclose(f);
	return found;
}

/* Was CUDA at work before we came? */
static bool has_context(int devices)
{
	for (int i = 0; i < devices && i < DEVICES_MAX; i++) {
		unsigned flags;
		int active = 0;

		if (agent.cuda.primary_ctx_state &&
		    agent.cuda.primary_ctx_state(i, &flags, &active) == 0 &&
		    active)
			return true;
	}
	return false;
}

bool lives_cuda_runs(uint64_t now_ns)
{
	int devices = 0;

	if (!agent.has_cuda) {
		if (now_ns < agent.looked_ns + LOOK_NS)
			return false;
		agent.looked_ns = now_ns;
		agent.has_cuda = has_libcuda() && !cuda_find(&agent.cuda);
	}
	if (!agent.has_cuda)
		return access("/dev/nvidiactl", F_OK) != 0;
	if (agent.cuda.device_count &&
	    agent.cuda.device_count(&devices) == CUDA_E_NOT_INITIALIZED)
		return false;
	/* A later life knows what was captured before it. */
	if (!atomic_load(&agent.lives) && has_context(devices))
		atomic_store(&agent.late, true);
	return true;
}

void lives_connect(void)
{
	int err;

	if (atomic_load(&agent.fatal)) {
		life_fail(REASON_FATAL, 0);
		return;
	}
	if (!client_find())
		return;
	err = client_subscribe();
	if (!err)
		life_move(LIFE_READY);
	else
		client_failed(err);
}

void lives_renew(void)
{
	bool down = client_finalize();
	int err;

	memory_release_buffers(down);
	err = client_subscribe();
	/* A subscriber among others has records of its own. */
	if (agent.shared)
		agent.cupti_kernels = 0;
	if (err)
		client_failed(err);
	else if (agent.cupti_kernels)
		life_fail(REASON_RECORD_CAP, 0);
	else
		publish_text(TEXT_INFO, "CUPTI life %u", agent.cupti_lives);
}

/* ---- begin and end ------------------------------------------------------------ */

static unsigned usable_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

/* Everything counts from zero. */
static void reset(void)
{
	agent.cpus = usable_cpus();
	agent.has_cuda = agent.displaced = false;
	agent.begin_ns = agent_now_ns();
	agent.looked_ns = agent.launch_ns = agent.tried_ns = 0;
	agent.tick = (struct rec_tick){ 0 };
	agent.totals = (struct plan_totals){ 0 };
	plan_init(&agent.plan, agent.config.period_ms * 1000000ull);
	memset(&agent.budget, 0, sizeof(agent.budget));
	agent.budget.old.time_ns = agent.budget.recent.time_ns = agent.begin_ns;
	memset(agent.exec, 0, sizeof(agent.exec));
	agent.window_ns = agent.eager_anchors = agent.eager_rows = 0;
	agent.windows_before = agent.window.number;
	agent.cupti_dropped = agent.late_records = 0;
	agent.cupti_lives = 0;
	agent.spoilt = 0;
	agent.paused = false;
	agent.moe_layers = 0;
	agent.graphs_used = false;
	agent.met = NULL;
	atomic_store(&agent.context, NULL);
	atomic_store(&agent.launches, 0);
	atomic_store(&agent.captured, 0);
	atomic_store(&agent.callback_ns, 0);
	publish_reset();
}

void lives_begin(bool cuda_runs)
{
	int err;

	reset();
	atomic_fetch_add(&agent.lives, 1);
	life_move(LIFE_START);
	err = memory_make();
	if (err)
		life_fail(REASON_RESOURCES, err);
	else if (cuda_runs)
		lives_connect();
}

void lives_end(void)
{
	bool down, busy;

	life_move(LIFE_LEAVE);
	window_abort();
	busy = !sampler_stop();
	if (busy)
		atomic_store(&agent.sampler.dead, true);
	down = client_finalize();
	if (agent.met)
		agent.cuda.ctx_set_current(NULL);
	memory_release(down, busy);
	ring_release(&agent.ring);
	life_move(LIFE_SLEEP);
}

bool lives_called(uint64_t now_ns)
{
	struct ring_control *c = &agent.ring.h->control;
	uint64_t beat = atomic_load(&c->heartbeat_ns);

	return atomic_load(&c->session) && !atomic_load(&c->detach) &&
	       beat <= now_ns + COLLECTOR_LIVE_NS &&
	       now_ns < beat + COLLECTOR_LIVE_NS;
}

void lives_rise(void)
{
	if (ring_restore(&agent.ring))
		return; /* no memory: asleep until it is called again */
	lives_begin(lives_cuda_runs(agent_now_ns()));
}
