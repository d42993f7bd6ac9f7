/*
 * The GPUs through NVML: names, peaks and utilisation (tier T0), DRAM and
 * tensor counters where GPM exists (tier C).
 *
 * All of NVML runs in a thread of its own that writes a board under a lock, so
 * a driver that stalls makes the figures old and nothing else slow.
 *
 * Which GPUs: those whose list of compute processes names a process of the
 * tree.  If none does (another pid namespace, no permission) and the machine
 * has just one GPU, that one.
 */
#include "core/gpu_home.h"
#include "core/privileges.h"
#include "core/source.h"
#include "core/worker.h"
#include "cupti/nvml.h"
#include "wire/clock.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_NS (500 * NS_PER_MS)
#define STALE_NS (5 * NS_PER_S)
#define RETRY_NS (10 * NS_PER_S)

struct gpu_state {
	struct nvml_gpu gpu;
	struct nvml_reading reading;
};

/* Shared by the source and its thread. */
struct board {
	pthread_mutex_t lock;
	unsigned n;
	struct gpu_state gpus[NVML_GPUS_MAX];
	struct gpu_processes processes[NVML_GPUS_MAX];
	uint64_t read_ns; /* when the readings were taken, 0 never */
	char why[96]; /* why there is no GPU, "" there is or not yet known */
	bool counters;
	/* the thread's alone */
	struct nvml *nvml;
	char path[PATH_MAX]; /* "": the system's */
	uint64_t retry_ns;
	struct gpu_state scratch;
	struct gpu_processes scratch_processes;
};

struct source {
	const struct target *target;
	struct source_context *context;
	struct worker *worker;
	struct board *board;
	unsigned n; /* GPUs of the target */
	struct gpu_state gpus[NVML_GPUS_MAX];
	struct gpu_processes processes[NVML_GPUS_MAX];
	uint64_t read_ns, now_ns;
	char why[96];
};

static void board_free(void *arg)
{
	struct board *b = arg;

	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- the thread -------------------------------------------------------- */

static void thread_end(void *arg)
{
	struct board *b = arg;

	nvml_close(b->nvml);
}

static void thread_open(struct board *b)
{
	char why[sizeof(b->why)] = "";

	(void)privileges_keep(privileges_counters());
	if (clock_now_ns() < b->retry_ns)
		return;
	if (!nvml_open(&b->nvml, b->path[0] ? b->path : NULL, why, sizeof(why)))
		why[0] = '\0';
	b->retry_ns = clock_now_ns() + RETRY_NS;
	pthread_mutex_lock(&b->lock);
	memcpy(b->why, why, sizeof(why));
	pthread_mutex_unlock(&b->lock);
}

static int read_gpu(struct board *b, unsigned i)
{
	struct gpu_state *g = &b->scratch;
	struct gpu_processes *p = &b->scratch_processes;
	int n = nvml_processes(b->nvml, i, p->list, GPU_PROCESSES_MAX);
	int err = nvml_read(b->nvml, i, &g->reading);

	if (err)
		return err;
	g->gpu = *nvml_gpu(b->nvml, i);
	p->n = n > 0 ? (unsigned)n : 0;
	if (!b->counters)
		g->reading.dram = g->reading.tensor = NAN;
	pthread_mutex_lock(&b->lock);
	b->gpus[i] = *g;
	b->processes[i] = *p;
	pthread_mutex_unlock(&b->lock);
	return 0;
}

static void thread_step(void *arg)
{
	struct board *b = arg;
	unsigned n = 0;
	int err = 0;

	if (!b->nvml)
		thread_open(b);
	if (!b->nvml)
		return;
	while (n < nvml_count(b->nvml) && !(err = read_gpu(b, n)))
		n++;
	if (err) {
		nvml_close(b->nvml);
		b->nvml = NULL;
		n = 0;
	}
	pthread_mutex_lock(&b->lock);
	b->n = n;
	b->read_ns = clock_now_ns();
	if (err)
		snprintf(b->why, sizeof(b->why), "a GPU does not answer");
	pthread_mutex_unlock(&b->lock);
}

static const struct worker_job job = { .privileges = PRIVILEGES_COUNTERS,
				       .step = thread_step,
				       .end = thread_end,
				       .free = board_free };

/* ---- the source -------------------------------------------------------- */

static int nvml_source_open(struct source **out, const struct target *t,
			    struct source_context *x, char *why,
			    size_t why_bytes, char *fix, size_t fix_bytes)
{
	struct source *s = calloc(1, sizeof(*s));
	struct board *b = calloc(1, sizeof(*b));
	int err = -ENOMEM;

	(void)fix, (void)fix_bytes;
	if (!s || !b)
		goto fail;
	*s = (struct source){ .target = t, .context = x, .board = b };
	pthread_mutex_init(&b->lock, NULL);
	b->counters = x->counters;
	/* a copy, for the thread may outlive whoever named it */
	snprintf(b->path, sizeof(b->path), "%s",
		 x->nvml_path ? x->nvml_path : "");
	err = worker_start(&s->worker, PERIOD_NS, &job, b);
	if (!err) {
		*out = s;
		return 0;
	}
	pthread_mutex_destroy(&b->lock);
fail:
	snprintf(why, why_bytes, "no thread for NVML");
	free(b);
	free(s);
	return err;
}

static int nvml_source_fd(struct source *s)
{
	(void)s;
	return -1;
}

static bool in_tree(const struct target *t, pid_t pid)
{
	for (unsigned p = 0; p < t->n_pids; p++)
		if (t->pids[p] == pid)
			return true;
	return false;
}

/* The target's processes that work on GPU i go to the context; false: there is
 * none. */
static bool take_pids(struct source *s, const struct board *b, unsigned i)
{
	struct source_context *x = s->context;
	const struct gpu_processes *g = &b->processes[i];
	bool any = false;

	for (unsigned p = 0; p < g->n; p++) {
		pid_t pid = (pid_t)g->list[p].pid;

		if (!in_tree(s->target, pid) ||
		    !gpu_home_has(b->processes, b->n, i, g->list[p].pid))
			continue;
		any = true;
		if (x->n_gpu_pids < TARGET_RANKS_MAX)
			x->gpu_pids[x->n_gpu_pids++] = pid;
	}
	return any;
}

static void take_gpu(struct source *s, const struct board *b, unsigned i)
{
	s->processes[s->n] = b->processes[i];
	s->gpus[s->n++] = b->gpus[i];
}

/* For who samples its counters: the first GPU, where the first rank is. */
static void tell_gpu(const struct source *s)
{
	struct source_context *x = s->context;

	x->gpu_index = -1;
	x->gpu_peak_bw = x->sm_clock_hz = NAN;
	if (!s->n)
		return;
	x->gpu_index = (int)s->gpus[0].gpu.index;
	x->gpu_peak_bw = s->gpus[0].gpu.peak_bytes_per_second;
	x->sm_clock_hz = s->gpus[0].reading.sm_clock_hz;
}

static int nvml_source_poll(struct source *s, uint64_t now_ns)
{
	struct board *b = s->board;

	pthread_mutex_lock(&b->lock);
	s->n = s->context->n_gpu_pids = 0;
	for (unsigned i = 0; i < b->n; i++)
		if (take_pids(s, b, i))
			take_gpu(s, b, i);
	if (!s->n && b->n == 1)
		take_gpu(s, b, 0);
	tell_gpu(s);
	s->read_ns = b->read_ns;
	s->now_ns = now_ns;
	memcpy(s->why, b->why, sizeof(s->why));
	pthread_mutex_unlock(&b->lock);
	return 0;
}

static bool fresh(const struct source *s)
{
	return s->read_ns && s->now_ns < s->read_ns + STALE_NS;
}

/* Every GPU of the target has the counters. */
static bool has_counters(const struct source *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!isfinite(s->gpus[i].reading.dram) ||
		    !isfinite(s->gpus[i].gpu.peak_bytes_per_second))
			return false;
	return s->n > 0;
}

static void nvml_source_sample(struct source *s, struct sample *out)
{
	double dram = 0, tensor = 0;

	if (!s->n)
		return;
	if (out->gpus < s->n) /* a rank that ended will be back */
		out->gpus = s->n;
	if (isfinite(s->gpus[0].gpu.peak_bytes_per_second)) {
		out->have_peak = true;
		out->peak_bw = s->gpus[0].gpu.peak_bytes_per_second;
	}
	if (!fresh(s) || !has_counters(s))
		return;
	for (unsigned i = 0; i < s->n; i++) {
		const struct gpu_state *g = &s->gpus[i];

		dram += g->reading.dram * g->gpu.peak_bytes_per_second;
		tensor += g->reading.tensor / s->n;
	}
	out->have_dram = true;
	out->dram_read = dram;
	out->dram_write = NAN; /* GPM does not tell them apart */
	out->tensor_active = tensor;
}

static void describe_counters(const struct source *s, struct snapshot *out)
{
	if (!s->context->counters)
		source_tier(out, TIER_C, TIER_OFF, "DRAM counters are off",
			    "add --counters=gpm");
	else if (s->why[0])
		source_tier(out, TIER_C, TIER_MISSING, s->why,
			    "install the NVIDIA driver on this machine");
	else if (!fresh(s))
		source_tier(out, TIER_C, TIER_MISSING, "NVML does not answer",
			    "see the driver's messages: dmesg | grep NVRM");
	else if (has_counters(s))
		source_tier(out, TIER_C, TIER_OK, "DRAM bytes by GPM", "");
	else if (s->n && !s->gpus[0].gpu.gpm)
		source_tier(out, TIER_C, TIER_MISSING,
			    "this GPU has no GPM counters",
			    "needs Hopper or later, not in MIG mode");
	else if (s->n)
		source_tier(out, TIER_C, TIER_MISSING, "first counters to come",
			    "");
	else
		source_tier(out, TIER_C, TIER_MISSING,
			    "no GPU is known to run this server",
			    "run moetop in the host's pid namespace");
}

/* NVML's index, for a process that sees but one GPU calls it 0. */
static void describe_ranks(const struct source *s, struct snapshot_target *t)
{
	for (unsigned r = 0; r < t->n_ranks; r++) {
		struct snapshot_rank *to = &t->ranks[r];
		int i = gpu_home_find(s->processes, s->n, (uint32_t)to->pid);

		if (i < 0)
			continue;
		to->gpu_index = (int32_t)s->gpus[i].gpu.index;
		snprintf(to->gpu, sizeof(to->gpu), "%.47s",
			 s->gpus[i].gpu.name);
	}
}

static void nvml_source_describe(struct source *s, struct snapshot *out)
{
	struct snapshot_target *t = &out->target;

	if (s->n) {
		snprintf(t->gpu, sizeof(t->gpu), "%.47s", s->gpus[0].gpu.name);
		t->n_gpus = s->n;
		describe_ranks(s, t);
	}
	describe_counters(s, out);
}

static void nvml_source_close(struct source *s)
{
	if (!s)
		return;
	worker_stop(s->worker);
	s->context->n_gpu_pids = 0;
	free(s);
}

const struct source_ops source_nvml = {
	.name = "nvml",
	.tier = TIER_C,
	.open = nvml_source_open,
	.fd = nvml_source_fd,
	.poll = nvml_source_poll,
	.sample = nvml_source_sample,
	.describe = nvml_source_describe,
	.close = nvml_source_close,
};
