/*
 * Steps, kernel time and rows per expert, from the agents in the server's
 * processes: tiers T2 and T3.
 *
 * The rings are those that the target lists; they come and go with its
 * processes.  The newest windows are kept until newer ones come, so that a
 * sample without a window still has the last one, with its age.
 */
#include "core/clock.h"
#include "core/expert_rows.h"
#include "core/rank.h"
#include "core/source.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY_NS (1 * NS_PER_S)
/* At most one wish of our own in this time: the agent may refuse anyway. */
#define WISH_EVERY_NS (2 * NS_PER_S)
#define WISH_CHANGE 0.25 /* of the streams being decoded */

struct source {
	const struct target *target;
	struct source_context *context;
	unsigned n;
	struct rank *ranks[TARGET_RANKS_MAX];
	unsigned refused_rings; /* rings that stopped making sense */
	uint64_t looked_ns, now_ns;
	uint64_t wished_ns;
	uint32_t wished_decoding, seen_wish;
	bool have_window;
	struct sample_window window;
	struct expert_rows *experts;
	unsigned n_experts;
	struct merge_totals gone; /* of ranks that ended */
	uint64_t gone_lost;
};

/* ---- rings ------------------------------------------------------------- */

static struct rank *find_rank(const struct source *s,
			      const struct target_rank *t)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->ranks[i]->pid == t->pid &&
		    !strcmp(s->ranks[i]->path, t->agent_ring))
			return s->ranks[i];
	return NULL;
}

static void add_totals(struct merge_totals *to, const struct merge_totals *from)
{
	to->windows += from->windows;
	to->windows_torn += from->windows_torn;
	to->refused += from->refused;
	to->cells += from->cells;
	to->cells_rejected += from->cells_rejected;
	to->cells_lost += from->cells_lost;
	to->bad_steps += from->bad_steps;
}

static void drop_rank(struct source *s, unsigned i)
{
	add_totals(&s->gone, &s->ranks[i]->merge.totals);
	s->gone_lost += s->ranks[i]->lost;
	rank_close(s->ranks[i]);
	free(s->ranks[i]);
	s->ranks[i] = s->ranks[--s->n];
}

static bool listed(const struct target *t, const struct rank *k)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].pid == k->pid &&
		    !strcmp(t->ranks[i].agent_ring, k->path))
			return true;
	return false;
}

/* Open the rings that are new.  The last error, 0 if there was none. */
static int look(struct source *s, uint64_t now_ns)
{
	const struct target *t = s->target;
	int last = 0;

	s->looked_ns = now_ns;
	for (unsigned i = s->n; i-- > 0;)
		if (!listed(t, s->ranks[i]))
			drop_rank(s, i);
	for (unsigned i = 0; i < t->n_ranks; i++) {
		const struct target_rank *r = &t->ranks[i];
		struct rank *k;
		int err;

		if (!r->agent_ring[0] || find_rank(s, r))
			continue;
		k = malloc(sizeof(*k));
		err = k ? rank_open(k, r->pid, r->agent_ring, now_ns) : -ENOMEM;
		if (err) {
			free(k);
			last = err;
			continue;
		}
		s->ranks[s->n++] = k;
	}
	return last;
}

static bool any_ring(const struct target *t)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].agent_ring[0])
			return true;
	return false;
}

static void explain(const struct target *t, int err, char *why,
		    size_t why_bytes, char *fix, size_t fix_bytes)
{
	const char *w = "no agent in the server";
	const char *f = "start it with: moetop run -- CMD";

	if (err == -EBUSY) {
		w = "another moetop reads the agent";
		f = "look at its screen or its --listen port";
	} else if (err == -EPROTONOSUPPORT || err == -EPROTO) {
		w = "the agent in the server is of another version";
		f = "restart the server with: moetop run -- CMD";
	} else if (err) {
		w = "the agent's ring cannot be opened";
		f = "run as root, or as the user of the server";
	} else if (t->denied) {
		w = "the server's descriptors are hidden, an agent too";
		f = "run as root, or as the user of the server";
	}
	snprintf(why, why_bytes, "%s", w);
	snprintf(fix, fix_bytes, "%s", f);
}

static void agent_close(struct source *s)
{
	if (!s)
		return;
	while (s->n)
		drop_rank(s, s->n - 1);
	expert_rows_free(s->experts);
	free(s);
}

static int agent_open(struct source **out, const struct target *t,
		      struct source_context *x, char *why, size_t why_bytes,
		      char *fix, size_t fix_bytes)
{
	struct source *s;
	int err;

	if (!any_ring(t)) {
		explain(t, 0, why, why_bytes, fix, fix_bytes);
		return -ENOENT;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->target = t;
	s->context = x;
	s->seen_wish = x->window_wish;
	err = look(s, clock_now_ns());
	if (s->n) {
		*out = s;
		return 0;
	}
	agent_close(s);
	explain(t, err ? err : -ENOENT, why, why_bytes, fix, fix_bytes);
	return err ? err : -ENOENT;
}

static int agent_fd(struct source *s)
{
	(void)s;
	return -1;
}

/* ---- records ----------------------------------------------------------- */

static void take_experts(struct source *s, const struct rank *k,
			 const struct rec_experts *r)
{
	const struct target *t = s->target;
	unsigned n = t->have_arch && t->arch.experts ? t->arch.experts
						     : k->merge.experts;

	if (!n || n > EXPERTS_MAX)
		return;
	if (n != s->n_experts) {
		expert_rows_free(s->experts);
		s->experts = expert_rows_new(LAYERS_MAX, n);
		s->n_experts = s->experts ? n : 0;
	}
	if (s->experts && expert_rows_add(s->experts, r, s->now_ns))
		s->gone.refused++;
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

static void take_record(struct rank *k, const struct record *r, void *arg)
{
	struct source *s = arg;

	if (r->type == REC_EXPERTS)
		take_experts(s, k, &r->experts);
	else if (r->type == REC_STEP_ROWS && s->context->sampled_steps)
		write_step(s->context->sampled_steps, k->pid, &r->step_rows);
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
	if (now_ns >= s->looked_ns + LOOK_EVERY_NS)
		(void)look(s, now_ns); /* a ring that fails is tried again */
	wish(s, now_ns);
	for (unsigned i = s->n; i-- > 0;) {
		if (!rank_poll(s->ranks[i], s->context, now_ns, take_record, s))
			continue;
		s->refused_rings++;
		drop_rank(s, i);
	}
	if (s->context->sampled_steps)
		fflush(s->context->sampled_steps);
	return s->n ? 0 : -ENODEV;
}

/* ---- samples ----------------------------------------------------------- */

/* The newest windows of the mean rank, or the ones before with windows = 0. */
static void take_windows(struct source *s)
{
	unsigned fresh = 0;

	for (unsigned i = 0; i < s->n; i++)
		fresh += s->ranks[i]->merge.closed.windows > 0;
	if (!fresh) {
		s->window.windows = 0;
		return;
	}
	s->window = (struct sample_window){ 0 };
	s->have_window = true;
	for (unsigned i = 0; i < s->n; i++) {
		merge_windows(&s->window, &s->ranks[i]->merge.closed);
		merge_clear(&s->ranks[i]->merge);
	}
	merge_mean(&s->window, fresh);
}

static double larger(double a, double b)
{
	return isnan(a) || b > a ? b : a;
}

static void take_counters(struct source *s, struct sample *out)
{
	double decode = NAN, eager = NAN, padded = NAN, overhead = NAN;
	double ns = out->interval_s * 1e9;

	for (unsigned i = 0; i < s->n; i++) {
		struct rank *k = s->ranks[i];
		uint32_t ppm = k->merge.tick.overhead_ppm;

		rank_rates(k);
		if (!rank_alive(k, s->now_ns))
			continue;
		decode = larger(decode, k->decode_steps_per_ns);
		eager = larger(eager, k->eager_steps_per_ns);
		padded = larger(padded, k->padded_tokens_per_ns);
		if (k->merge.have_tick && ppm != UINT32_MAX)
			overhead = larger(overhead, ppm / 1e6);
	}
	out->overhead = overhead;
	if (isnan(decode))
		return;
	out->have_agent = true;
	out->d_decode_steps = decode * ns;
	out->d_eager_steps = isnan(eager) ? 0 : eager * ns;
	out->d_padded_tokens = isnan(padded) ? 0 : padded * ns;
}

static void agent_sample(struct source *s, struct sample *out)
{
	take_counters(s, out);
	take_windows(s);
	out->have_window = s->have_window;
	out->window = s->have_window ? &s->window : NULL;
	out->expert_rows =
		s->experts ? expert_rows_total(s->experts, s->now_ns) : NULL;
	out->expert_rows_n = s->n_experts;
	if (out->gpus < s->n)
		out->gpus = s->n;
}

/* ---- description ------------------------------------------------------- */

static bool working(const struct rank *k, uint64_t now_ns)
{
	uint32_t state = k->merge.status.state;

	return rank_alive(k, now_ns) &&
	       (!k->merge.have_status || state == AGENT_STARTING ||
		state == AGENT_IDLE || state == AGENT_WINDOW);
}

static struct snapshot_rank *place(struct snapshot_target *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].pid == pid)
			return &t->ranks[i];
	return NULL;
}

static void describe_tiers(const struct source *s, struct snapshot *out,
			   const struct merge_totals *totals)
{
	const struct snapshot_rank *bad = NULL;
	unsigned n_working = 0, late = 0;
	char what[64];

	for (unsigned i = 0; i < s->n; i++) {
		if (working(s->ranks[i], s->now_ns))
			n_working++;
		else
			bad = place(&out->target, s->ranks[i]->pid);
		late += s->ranks[i]->merge.status.late != 0;
	}
	if (!n_working) {
		snprintf(what, sizeof(what), "agent is %s",
			 bad ? bad->agent : "starting");
		source_tier(out, TIER_T2, TIER_MISSING, what,
			    bad ? bad->reason : "");
		source_tier(out, TIER_T3, TIER_MISSING, what,
			    bad ? bad->reason : "");
		return;
	}
	snprintf(what, sizeof(what), "steps and kernels, %u of %u agents",
		 n_working, s->n);
	source_tier(out, TIER_T2, TIER_OK, what, bad ? bad->reason : "");
	if (s->context->rows_mode == 0)
		source_tier(out, TIER_T3, TIER_OFF, "rows are off",
			    "add --rows=sampled");
	else if (totals->cells)
		source_tier(out, TIER_T3, TIER_OK, "rows per expert, sampled",
			    "");
	else if (late)
		source_tier(out, TIER_T3, TIER_MISSING,
			    "the agent came after the graphs were captured",
			    "start the server with: moetop run -- CMD");
	else
		source_tier(out, TIER_T3, TIER_MISSING, "no rows sampled yet",
			    "");
}

static void describe_health(const struct source *s, struct snapshot *out,
			    struct merge_totals *totals)
{
	struct snapshot_health *h = &out->health;
	uint64_t lost = s->gone_lost, records = 0;

	*totals = s->gone;
	for (unsigned i = 0; i < s->n; i++) {
		const struct rank *k = s->ranks[i];

		add_totals(totals, &k->merge.totals);
		lost += k->lost;
		records += k->merge.tick.records_dropped;
		if (k->merge.text[0])
			snprintf(h->message, sizeof(h->message), "agent: %s",
				 k->merge.text);
	}
	h->lost_ring = lost + totals->refused + s->refused_rings;
	h->lost_records = records;
	h->bad_steps = totals->bad_steps;
	h->cells_sampled = totals->cells;
	h->cells_rejected = totals->cells_rejected;
	h->cells_lost = totals->cells_lost;
	h->windows = totals->windows;
	if (s->have_window)
		h->window_age_seconds =
			value_make(((double)s->now_ns - s->window.end_ns) / 1e9,
				   SOURCE_MEASURED);
	snprintf(h->rows_method, sizeof(h->rows_method), "%s",
		 s->context->rows_mode == 0 ? "off"
		 : totals->cells            ? "sampled"
					    : "");
}

static void agent_describe(struct source *s, struct snapshot *out)
{
	struct snapshot_target *t = &out->target;
	struct merge_totals totals;

	for (unsigned i = 0; i < s->n; i++) {
		struct snapshot_rank *r = place(t, s->ranks[i]->pid);

		if (!r)
			continue;
		rank_describe(s->ranks[i], s->now_ns, r);
		if (!t->gpu[0])
			snprintf(t->gpu, sizeof(t->gpu), "%s", r->gpu);
	}
	describe_health(s, out, &totals);
	describe_tiers(s, out, &totals);
}

const struct source_ops source_agent = {
	.name = "agent",
	.tier = TIER_T2,
	.open = agent_open,
	.fd = agent_fd,
	.poll = agent_poll,
	.sample = agent_sample,
	.describe = agent_describe,
	.close = agent_close,
};
