/*
 * Steps, kernel time and rows per expert, from the agents in the server's
 * processes: tiers T2 and T3.
 *
 * The rings are those that the target lists, and those of agents that we have
 * injected ourselves; they come and go with its processes.  The newest windows
 * are kept until newer ones come, so that a sample without a window still has
 * the last one, with its age.
 */
#include "core/agents.h"
#include "core/layer_bytes.h"
#include "core/paths.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_NS (1 * NS_PER_S)
/* At most one wish of our own in this time: the agent may refuse anyway. */
#define WISH_EVERY_NS (2 * NS_PER_S)
#define WISH_CHANGE 0.25 /* of the streams being decoded */
/* A process that only maps libcuda, in a tree without a GPU, is given this time
 * to open one. */
#define UNSURE_AGE_S 2.0

/* ---- rings ------------------------------------------------------------- */

static struct rank *find_rank(const struct source *s, pid_t pid)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->ranks[i]->pid == pid)
			return s->ranks[i];
	return NULL;
}

static const struct target_rank *find_target(const struct target *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].pid == pid)
			return &t->ranks[i];
	return NULL;
}

static void drop_rank(struct source *s, unsigned i, bool detach)
{
	agents_add_totals(&s->gone_totals, &s->ranks[i]->merge.totals);
	s->gone_lost += s->ranks[i]->lost;
	rank_close(s->ranks[i], detach);
	free(s->ranks[i]);
	s->n--;
	memmove(&s->ranks[i], &s->ranks[i + 1],
		(s->n - i) * sizeof(s->ranks[0]));
}

static void note_gone(struct source *s, const struct rank *k, uint64_t now_ns)
{
	if (s->n_gone < TARGET_RANKS_MAX)
		s->gone[s->n_gone++] = (struct agents_gone){
			.pid = k->pid, .number = k->number, .since_ns = now_ns
		};
}

/* Let go of the ranks that are no more. */
static void drop_absent(struct source *s, uint64_t now_ns)
{
	for (unsigned i = s->n; i-- > 0;) {
		struct rank *k = s->ranks[i];
		const struct target_rank *t = find_target(s->target, k->pid);

		if (t && t->start_ticks == k->start_ticks && rank_there(k))
			continue;
		if (!t || t->start_ticks != k->start_ticks)
			note_gone(s, k, now_ns);
		drop_rank(s, i, false);
	}
}

/* A rank that ended is forgotten when another has its number, or in time. */
static void forget_gone(struct source *s, uint64_t now_ns)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < s->n_gone; i++) {
		bool replaced = now_ns >= s->gone[i].since_ns + AGENTS_GONE_NS;

		for (unsigned r = 0; r < s->target->n_ranks; r++)
			replaced |=
				s->target->ranks[r].number == s->gone[i].number;
		if (!replaced)
			s->gone[kept++] = s->gone[i];
	}
	s->n_gone = kept;
}

static void keep_rank(struct source *s, struct rank *k)
{
	unsigned at = s->n++;

	for (; at && s->ranks[at - 1]->number > k->number; at--)
		s->ranks[at] = s->ranks[at - 1];
	s->ranks[at] = k;
}

static int open_rank(struct source *s, const struct target_rank *t,
		     const char *ring, uint64_t now_ns)
{
	struct rank *k = malloc(sizeof(*k));
	int err = k ? rank_open(k, t->pid, ring, now_ns) : -ENOMEM;

	if (err) {
		free(k);
		return err;
	}
	k->start_ticks = t->start_ticks;
	k->number = t->number;
	keep_rank(s, k);
	return 0;
}

/* ---- injection --------------------------------------------------------- */

/* NVML knows who has a GPU in use: it overrules a descriptor that a process
 * has from its parent.  The memory of a simulated GPU is as sure as NVML. */
static bool nvml_denies(const struct source_context *x,
			const struct target_rank *t)
{
	for (unsigned i = 0; i < x->n_gpu_pids; i++)
		if (x->gpu_pids[i] == t->pid)
			return false;
	return x->n_gpu_pids > 0 && !t->simulated;
}

static bool may_inject(const struct source *s, const struct target_rank *t)
{
	if (!s->attach || nvml_denies(s->context, t))
		return false;
	return t->owns_gpu || proc_age_s(t->start_ticks) >= UNSURE_AGE_S;
}

static void open_attach(struct source *s)
{
	char path[PATH_MAX];
	int err;

	if (!s->context->inject)
		return;
	err = path_agent(s->context->agent_path, path, sizeof(path));
	if (!err)
		err = attach_new(&s->attach, path, s->context->inject);
	if (err)
		snprintf(s->attach_fix, sizeof(s->attach_fix),
			 "install %.60s (%.30s), or name it: moetop run "
			 "--agent PATH -- CMD",
			 path, strerror(-err));
}

static void report(struct source *s, pid_t pid, const struct attach_status *a,
		   uint64_t now_ns)
{
	const struct inject_report *r = &a->report;

	s->reported_ns = now_ns;
	if (r->refusal == INJECT_OK)
		snprintf(s->report, sizeof(s->report),
			 "agent loaded into pid %d: thread %d paused %.2f ms, "
			 "%u stops in call %d; load %.0f ms",
			 (int)pid, (int)r->thread, (double)r->pause_ns / 1e6,
			 r->stops, r->call, (double)r->load_ns / 1e6);
	else
		snprintf(s->report, sizeof(s->report),
			 "pid %d gets no agent: %.110s", (int)pid, r->why);
}

/* The ring of a rank, from the target or from our own injection; "" none. */
static const char *ring_of(struct source *s, const struct target_rank *t,
			   struct attach_status *a, uint64_t now_ns)
{
	struct rank_view seen;

	*a = (struct attach_status){ 0 };
	if (s->attach)
		attach_look(s->attach, t->pid, t->start_ticks, a);
	if (t->agent_ring[0])
		return t->agent_ring;
	if (a->state == ATTACH_DONE && a->ring[0] &&
	    !rank_look(a->ring, now_ns, &seen))
		return a->ring;
	if (may_inject(s, t))
		attach_want(s->attach, t->pid, t->start_ticks, now_ns);
	return "";
}

static void report_news(struct source *s, const struct target_rank *t,
			const struct attach_status *a, unsigned ended,
			uint64_t now_ns)
{
	if (ended != s->attach_ended && a->tries && a->ended_ns > s->looked_ns)
		report(s, t->pid, a, now_ns);
}

/* ---- looking ----------------------------------------------------------- */

/* Open the rings that are new, and ask for agents where there are none. */
static void look(struct source *s, uint64_t now_ns)
{
	const struct target *t = s->target;
	unsigned ended = s->attach ? attach_ended(s->attach) : 0;

	drop_absent(s, now_ns);
	forget_gone(s, now_ns);
	s->n_without = 0;
	for (unsigned i = 0; i < t->n_ranks; i++) {
		const struct target_rank *r = &t->ranks[i];
		struct agents_without *w = &s->without[s->n_without];
		struct attach_status a;
		struct rank_view seen;
		const char *ring;

		if (find_rank(s, r->pid))
			continue;
		ring = ring_of(s, r, &a, now_ns);
		report_news(s, r, &a, ended, now_ns);
		*w = (struct agents_without){
			.pid = r->pid,
			.unseen = nvml_denies(s->context, r),
		};
		if (ring[0]) {
			w->error = open_rank(s, r, ring, now_ns);
			if (!w->error)
				continue;
			if (!rank_look(ring, now_ns, &seen))
				w->reader = seen.reader > 0 ? seen.reader : 0;
		}
		s->n_without++;
	}
	s->looked_ns = now_ns;
	s->target_looks = t->looks;
	s->attach_ended = ended;
}

static bool look_is_due(const struct source *s, uint64_t now_ns)
{
	return now_ns >= s->looked_ns + LOOK_EVERY_NS ||
	       s->target->looks != s->target_looks ||
	       (s->attach && attach_ended(s->attach) != s->attach_ended);
}

static void agent_close(struct source *s)
{
	if (!s)
		return;
	while (s->n)
		drop_rank(s, s->n - 1, s->context->detach);
	attach_free(s->attach);
	expert_rows_free(s->experts);
	free(s);
}

static int agent_open(struct source **out, const struct target *t,
		      struct source_context *x, char *why, size_t why_bytes,
		      char *fix, size_t fix_bytes)
{
	struct source *s = calloc(1, sizeof(*s));
	int err = -ENOENT;

	if (!s)
		return -ENOMEM;
	s->target = t;
	s->context = x;
	s->seen_wish = x->window_wish;
	open_attach(s);
	look(s, clock_now_ns());
	if (s->n || s->attach) {
		*out = s;
		return 0;
	}
	agents_explain(s, why, why_bytes, fix, fix_bytes);
	for (unsigned i = 0; i < s->n_without; i++)
		if (s->without[i].error)
			err = s->without[i].error;
	agent_close(s);
	return err;
}

static int agent_fd(struct source *s)
{
	(void)s;
	return -1;
}

/* ---- records ----------------------------------------------------------- */

/* A shared expert among the routed ones is one more; a rank that has its share
 * of them alone counts them from 0. */
static void take_experts(struct source *s, const struct rank *k,
			 const struct rec_experts *r)
{
	const struct target *t = s->target;
	unsigned n = t->have_arch ? t->arch.experts : 0;
	unsigned seen = k->merge.experts;
	struct rec_experts at = *r;

	if (seen > n)
		n = seen;
	if (!n || n > EXPERTS_MAX)
		return;
	if (seen && seen < n && n % seen == 0 && r->first < seen)
		at.first = (uint16_t)(r->first + k->number % (n / seen) * seen);
	if (n != s->n_experts) {
		expert_rows_free(s->experts);
		s->experts = expert_rows_new(LAYERS_MAX, n);
		s->n_experts = s->experts ? n : 0;
	}
	if (s->experts && expert_rows_add(s->experts, &at, s->now_ns))
		s->gone_totals.refused++;
}

static void write_step(FILE *f, pid_t pid, const struct rec_step_rows *r)
{
	fprintf(f,
		"{\"start_ns\":%llu,\"window\":%u,\"phase\":%u,\"cells\":%u,"
		"\"layer_mask\":[\"%llx\",\"%llx\"],\"rows\":%llu,"
		"\"active\":%llu,\"single\":%llu,\"pid\":%d}\n",
		r->start_ns, r->window, r->phase, r->cells, r->layer_mask[0],
		r->layer_mask[1], r->rows, r->active, r->single, (int)pid);
}

/* The counter is of the leader's GPU; the others run in lockstep. */
static void take_spans(struct source *s, struct rank *k, const struct record *r)
{
	struct layer_bytes *b = s->context->layer_bytes;
	uint64_t lost = atomic_load(&k->ring.h->lost);

	if (r->type == REC_SPANS)
		layer_bytes_spans(b, &r->spans);
	if (r->type != REC_WINDOW)
		return;
	if (lost != s->lost_at_window)
		layer_bytes_forget_window(b); /* spans may be missing */
	s->lost_at_window = lost;
	layer_bytes_window(b, &r->window, s->now_ns);
}

static void take_record(struct rank *k, const struct record *r, void *arg)
{
	struct source *s = arg;
	const struct rank *leader = agents_leader(s);
	bool counts = !leader || k == leader || agents_expert_shares(s) > 1;

	if (r->type == REC_EXPERTS && counts)
		take_experts(s, k, &r->experts);
	else if (r->type == REC_STEP_ROWS && s->context->sampled_steps)
		write_step(s->context->sampled_steps, k->pid, &r->step_rows);
	else if (s->context->layer_bytes &&
		 k == (leader ? leader : s->ranks[0]))
		take_spans(s, k, r);
}

/* ---- windows on wish --------------------------------------------------- */

static bool load_changed(const struct source *s)
{
	double now = s->context->decoding, then = s->wished_decoding;

	return fabs(now - then) > WISH_CHANGE * fmax(then, 1);
}

static void wish(struct source *s, uint64_t now_ns)
{
	bool user = s->seen_wish != s->context->window_wish;

	if (!user &&
	    (now_ns < s->wished_ns + WISH_EVERY_NS || !load_changed(s)))
		return;
	s->seen_wish = s->context->window_wish;
	s->wished_ns = now_ns;
	s->wished_decoding = s->context->decoding;
	for (unsigned i = 0; i < s->n; i++)
		rank_wish(s->ranks[i]);
}

static int agent_poll(struct source *s, uint64_t now_ns)
{
	s->now_ns = now_ns;
	if (look_is_due(s, now_ns))
		look(s, now_ns); /* a ring that fails is tried again */
	wish(s, now_ns);
	if (s->target->have_arch) {
		s->context->experts = s->target->arch.experts;
		s->context->top_k = s->target->arch.top_k;
	}
	for (unsigned i = s->n; i-- > 0;) {
		if (!rank_poll(s->ranks[i], s->context, now_ns, take_record, s))
			continue;
		s->refused_rings++;
		drop_rank(s, i, false);
	}
	if (s->context->layer_bytes)
		layer_bytes_poll(s->context->layer_bytes, now_ns);
	if (s->context->sampled_steps)
		fflush(s->context->sampled_steps);
	return s->n || s->attach ? 0 : -ENODEV;
}

const struct source_ops source_agent = {
	.name = "agent",
	.tier = TIER_T2,
	.open = agent_open,
	.fd = agent_fd,
	.poll = agent_poll,
	.sample = agents_sample,
	.describe = agents_describe,
	.close = agent_close,
};
