#include "core/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 256u

static const char *const states[AGENT_STATES] = {
	[AGENT_ABSENT] = "absent",       [AGENT_STARTING] = "starting",
	[AGENT_IDLE] = "idle",           [AGENT_WINDOW] = "window",
	[AGENT_YIELDED] = "yielded",     [AGENT_DISABLED] = "disabled",
	[AGENT_DETACHING] = "detaching", [AGENT_STUB] = "asleep",
};

static const char *const reasons[REASONS] = {
	[REASON_NONE] = "",
	[REASON_NO_CUPTI] = "no CUPTI in the server: install nvidia-cuda-cupti",
	[REASON_CUPTI_VERSION] = "CUPTI is older than 11.8 or newer than 13",
	[REASON_NO_DRIVER] = "no CUDA driver, or it does not start",
	[REASON_OTHER_CLIENT] = "another profiler owns CUPTI: stop it",
	[REASON_CUPTI_ERROR] = "CUPTI answered with an error",
	[REASON_FATAL] = "CUPTI reported a fatal error",
	[REASON_RECORD_CAP] = "the kernel records of this process are used up",
	[REASON_BUDGET] = "over 4x its --budget: start moetop anew",
	[REASON_BAD_RECORDS] = "kernel records have an unknown layout",
	[REASON_RESOURCES] = "no memory, threads or descriptors were left",
};

static struct ring_control *control(struct rank *k)
{
	return &k->ring.h->control;
}

int rank_open(struct rank *k, pid_t pid, const char *path, uint64_t now_ns)
{
	struct stat st = { 0 };
	struct ring_reader ring;
	/* whatever hides behind the name by now must not hold us up */
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int err;

	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : ring_open(&ring, fd, now_ns);
	close(fd);
	if (err)
		return err;
	*k = (struct rank){ .pid = pid,
			    .ring = ring,
			    .inode = st.st_ino,
			    .opened_ns = now_ns,
			    .decode_steps_per_ns = NAN,
			    .eager_steps_per_ns = NAN,
			    .padded_tokens_per_ns = NAN };
	snprintf(k->path, sizeof(k->path), "%s", path);
	merge_init(&k->merge);
	atomic_store(&control(k)->collector_pid, (uint32_t)getpid());
	rank_wish(k);
	return 0;
}

bool rank_counts(const struct rank *k)
{
	switch (rank_state(k)) {
	case AGENT_IDLE:
	case AGENT_WINDOW:
		return true;
	case AGENT_DISABLED:
		/* windows have ended, callbacks have not */
		return k->merge.status.reason == REASON_RECORD_CAP ||
		       k->merge.status.reason == REASON_BUDGET ||
		       k->merge.status.reason == REASON_BAD_RECORDS;
	default:
		return false;
	}
}

bool rank_there(const struct rank *k)
{
	struct stat st;

	return !stat(k->path, &st) && st.st_ino == k->inode;
}

static void tell(struct rank *k, const struct source_context *x)
{
	struct ring_control *c = control(k);

	atomic_store(&c->budget_ppm, x->budget_ppm);
	atomic_store(&c->rows_mode, x->rows_mode);
	atomic_store(&c->decode_hint, x->decoding);
	if (x->experts)
		atomic_store(&c->experts, x->experts);
	if (x->top_k)
		atomic_store(&c->top_k, x->top_k);
	atomic_store(&c->spans, x->spans);
}

int rank_poll(struct rank *k, const struct source_context *x, uint64_t now_ns,
	      void (*fn)(struct rank *k, const struct record *r, void *arg),
	      void *arg)
{
	struct record batch[BATCH];
	unsigned taken = 0;
	int n = ring_beat(&k->ring, now_ns);

	if (n)
		return n;
	tell(k, x);
	do {
		n = ring_read(&k->ring, batch, BATCH);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++)
			if (!merge_record(&k->merge, &batch[i]))
				fn(k, &batch[i], arg);
		taken += (unsigned)n;
	} while (n == (int)BATCH && taken < RANK_RECORDS_PER_POLL);
	k->lost += ring_lost(&k->ring);
	return 0;
}

void rank_wish(struct rank *k)
{
	atomic_fetch_add(&control(k)->window_wish, 1);
}

/* A counter that went back belongs to another life of the agent. */
static double rate(uint64_t now, uint64_t before, double ns)
{
	return now >= before ? (double)(now - before) / ns : NAN;
}

/* Kernels are launched and none of them belongs to a step that the agent knows:
 * its graphs may be older than the agent.  That is not zero steps. */
static bool steps_unseen(const struct rank *k)
{
	const struct rec_tick *t = &k->merge.tick, *b = &k->before;

	return t->launches > b->launches &&
	       t->decode_steps == b->decode_steps &&
	       t->eager_steps == b->eager_steps;
}

void rank_rates(struct rank *k)
{
	const struct rec_tick *t = &k->merge.tick;
	double ns = (double)k->merge.tick_ns - (double)k->before_ns;

	if (!k->merge.have_tick || ns <= 0)
		return;
	if (k->before_ns && steps_unseen(k)) {
		k->decode_steps_per_ns = k->eager_steps_per_ns =
			k->padded_tokens_per_ns = NAN;
	} else if (k->before_ns) {
		k->decode_steps_per_ns =
			rate(t->decode_steps, k->before.decode_steps, ns);
		k->eager_steps_per_ns =
			rate(t->eager_steps, k->before.eager_steps, ns);
		k->padded_tokens_per_ns =
			rate(t->padded_tokens, k->before.padded_tokens, ns);
	}
	k->before = *t;
	k->before_ns = k->merge.tick_ns;
}

bool rank_alive(const struct rank *k, uint64_t now_ns)
{
	return k->merge.last_ns && now_ns < k->merge.last_ns + RANK_SILENT_NS;
}

enum agent_state rank_state(const struct rank *k)
{
	enum agent_state own = ring_agent_state(&k->ring);

	if (own != AGENT_ABSENT)
		return own;
	return k->merge.have_status ? k->merge.status.state : AGENT_STARTING;
}

static void describe_reason(const struct rank *k, struct snapshot_rank *out)
{
	const struct rec_status *s = &k->merge.status;
	uint32_t reason = s->reason;

	if (!reason || reason >= REASONS)
		reason = atomic_load(&k->ring.h->state.reason);
	if (reason >= REASONS)
		reason = REASON_NONE;
	if (reason == REASON_CUPTI_ERROR && s->reason == reason)
		snprintf(out->reason, sizeof(out->reason), "%s %d",
			 reasons[reason], s->detail);
	else
		snprintf(out->reason, sizeof(out->reason), "%s",
			 reasons[reason]);
}

/* Asleep, or going there: no records are expected. */
static bool quiet(enum agent_state s)
{
	return s == AGENT_STUB || s == AGENT_DETACHING;
}

void rank_describe(const struct rank *k, uint64_t now_ns,
		   struct snapshot_rank *out)
{
	const struct rec_status *s = &k->merge.status;
	enum agent_state state = rank_state(k);

	out->pid = k->pid;
	out->rank = k->number;
	out->gpu_index = -1;
	snprintf(out->agent, sizeof(out->agent), "%s", states[state]);
	if (state == AGENT_YIELDED || state == AGENT_DISABLED)
		describe_reason(k, out);
	if (k->merge.have_status) {
		snprintf(out->gpu, sizeof(out->gpu), "%s", s->device_name);
		out->gpu_index = (int32_t)s->device;
	}
	if (!quiet(state) && now_ns > k->opened_ns + RANK_SILENT_NS &&
	    !rank_alive(k, now_ns)) {
		snprintf(out->agent, sizeof(out->agent), "silent");
		snprintf(out->reason, sizeof(out->reason),
			 "its thread wrote nothing for 3 s");
	}
}

static int read_header(const char *path, struct ring_header *h)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (pread(fd, h, sizeof(*h), 0) != sizeof(*h) || h->magic != RING_MAGIC)
		err = -EPROTO;
	else if (h->version != RING_VERSION)
		err = -EPROTONOSUPPORT;
	close(fd);
	return err;
}

int rank_look(const char *path, uint64_t now_ns, struct rank_view *out)
{
	struct ring_header *h = aligned_alloc(64, sizeof(*h));
	int err = h ? read_header(path, h) : -ENOMEM;

	if (!err) {
		uint64_t beat_ns = h->control.heartbeat_ns;

		*out = (struct rank_view){
			.read = h->control.session && beat_ns &&
				now_ns < beat_ns + RANK_SILENT_NS,
			.reader = (pid_t)h->control.collector_pid,
			.state = h->state.state < AGENT_STATES ? h->state.state
							       : AGENT_ABSENT,
			.late = h->state.late != 0,
		};
	}
	free(h);
	return err;
}

const char *rank_state_name(enum agent_state s)
{
	return states[s];
}

void rank_close(struct rank *k, bool detach)
{
	ring_close(&k->ring, detach);
}
