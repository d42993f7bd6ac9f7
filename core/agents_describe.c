#include "core/agents.h"
#include "wire/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REPORT_NS (15 * NS_PER_S) /* how long an injection is news */
/* An agent that is there has a ring, which the next look finds. */
#define RING_WAIT_NS (5 * NS_PER_S)
#define RING_TRIES 2u

static bool working(const struct rank *k, uint64_t now_ns)
{
	enum agent_state state = rank_state(k);

	return (rank_alive(k, now_ns) || !k->merge.last_ns) &&
	       (state == AGENT_STARTING || state == AGENT_IDLE ||
		state == AGENT_WINDOW);
}

/* ---- why there is none ------------------------------------------------- */

struct words {
	char what[96], fix[160];
};

static void set_words(struct words *w, const char *what, const char *fix)
{
	snprintf(w->what, sizeof(w->what), "%s", what);
	snprintf(w->fix, sizeof(w->fix), "%s", fix);
}

static void explain_error(const struct agents_without *r, struct words *w)
{
	switch (r->error) {
	case -EBUSY:
		set_words(w, "another moetop reads the agent",
			  "look at the other moetop's screen, or end it");
		if (!r->reader)
			break;
		snprintf(w->what, sizeof(w->what),
			 "another moetop (pid %d) reads the agent",
			 (int)r->reader);
		snprintf(w->fix, sizeof(w->fix),
			 "look at the screen of moetop pid %d, or end it",
			 (int)r->reader);
		break;
	case -EPROTONOSUPPORT:
	case -EPROTO:
		set_words(w, "the agent in the server is of another version",
			  "restart the server with: moetop run -- CMD");
		break;
	default:
		set_words(w, "the agent's ring cannot be opened",
			  "run as root, or as the user of the server");
	}
}

static bool has_agent(const struct attach_status *a)
{
	return a->tries && a->report.refusal == INJECT_PRESENT;
}

/* Is an agent there, and for some time no ring of it for us? */
static bool has_no_ring(const struct source *s, const struct attach_status *a)
{
	return has_agent(a) && (a->tries > RING_TRIES ||
				s->now_ns > a->ended_ns + RING_WAIT_NS);
}

/* What is between a rank without a ring and an agent; false: nothing was tried. */
static bool explain_attach(const struct source *s, pid_t pid, struct words *w,
			   enum attach_state *state)
{
	const struct target *t = s->target;
	struct attach_status a = { 0 };

	for (unsigned i = 0; s->attach && i < t->n_ranks; i++)
		if (t->ranks[i].pid == pid)
			attach_look(s->attach, pid, t->ranks[i].start_ticks,
				    &a);
	*state = a.state;
	if (a.state == ATTACH_NONE)
		return false;
	if (has_no_ring(s, &a)) {
		set_words(w, "it has an agent, whose ring cannot be found",
			  "restart the server with: moetop run -- CMD");
	} else if (a.state == ATTACH_DONE || has_agent(&a)) {
		set_words(w, "the agent is starting", "");
	} else if (!a.tries || a.report.refusal == INJECT_OK) {
		set_words(w, "the agent is being loaded", "");
	} else {
		set_words(w, "the agent could not be loaded", a.report.fix);
		if (a.report.why[0])
			snprintf(w->what, sizeof(w->what), "%.95s",
				 a.report.why);
	}
	return true;
}

/* Why nothing is injected at all. */
static void explain_nothing(const struct source *s, struct words *w)
{
	const struct target *t = s->target;

	if (t->denied)
		set_words(w,
			  "the server's descriptors are hidden, an agent too",
			  "run as root, or as the user of the server");
	else if (s->attach_fix[0])
		set_words(w, "no agent in the server, and none to load",
			  s->attach_fix);
	else if (!s->context->inject)
		set_words(w, "no agent in the server",
			  "leave out --no-inject, or start it with: moetop run "
			  "-- CMD");
	else if (!t->n_ranks)
		set_words(w, "no process of the server uses CUDA yet",
			  "if CUDA is still to start: wait; else give another "
			  "pid");
	else
		set_words(w, "no process of the server has a GPU open yet",
			  "if a GPU is still to be opened: wait; else give "
			  "another pid");
}

static void explain(const struct source *s, struct words *w)
{
	enum attach_state state;

	for (unsigned i = 0; i < s->n_without; i++)
		if (s->without[i].error) {
			explain_error(&s->without[i], w);
			return;
		}
	for (unsigned i = 0; i < s->n_without; i++)
		if (explain_attach(s, s->without[i].pid, w, &state))
			return;
	explain_nothing(s, w);
}

void agents_explain(const struct source *s, char *why, size_t why_bytes,
		    char *fix, size_t fix_bytes)
{
	struct words w;

	explain(s, &w);
	snprintf(why, why_bytes, "%s", w.what);
	snprintf(fix, fix_bytes, "%s", w.fix);
}

/* ---- ranks ------------------------------------------------------------- */

static struct snapshot_rank *place(struct snapshot_target *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].pid == pid)
			return &t->ranks[i];
	return NULL;
}

static void describe_without(const struct source *s,
			     const struct agents_without *a,
			     struct snapshot_rank *r)
{
	enum attach_state state = ATTACH_NONE;
	struct words w = { "", "" };

	if (a->error) {
		explain_error(a, &w);
		snprintf(r->agent, sizeof(r->agent), "refused");
	} else if (a->unseen && s->attach) {
		set_words(&w, "left alone: NVML does not see it on a GPU", "");
	} else if (explain_attach(s, a->pid, &w, &state)) {
		bool refused = w.fix[0] || state == ATTACH_REFUSED;

		snprintf(r->agent, sizeof(r->agent), "%s",
			 refused ? "refused" : "starting");
	}
	snprintf(r->reason, sizeof(r->reason), "%s", w.what);
}

/* What our own injection did, for a process that has the agent by it. */
static void describe_attach(const struct source *s, const struct rank *k,
			    struct snapshot_rank *r)
{
	struct attach_status a = { 0 };

	if (s->attach)
		attach_look(s->attach, k->pid, k->start_ticks, &a);
	if (!a.tries || a.report.refusal != INJECT_OK)
		return;
	r->attached = true;
	r->attach_thread = a.report.thread;
	r->attach_call = a.report.call;
	r->attach_stops = a.report.stops;
	r->attach_pause_ns = a.report.pause_ns;
	r->attach_load_ns = a.report.load_ns;
}

static bool has_number(const struct snapshot_target *t, uint32_t number)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].rank == number)
			return true;
	return false;
}

static void describe_ranks(const struct source *s, struct snapshot_target *t)
{
	struct snapshot_rank *r;

	for (unsigned i = 0; i < s->n; i++) {
		r = place(t, s->ranks[i]->pid);
		if (!r)
			continue;
		rank_describe(s->ranks[i], s->now_ns, r);
		describe_attach(s, s->ranks[i], r);
		if (!t->gpu[0])
			snprintf(t->gpu, sizeof(t->gpu), "%s", r->gpu);
	}
	for (unsigned i = 0; i < s->n_without; i++) {
		r = place(t, s->without[i].pid);
		if (r)
			describe_without(s, &s->without[i], r);
	}
	for (unsigned i = 0; i < s->n_gone; i++) {
		if (t->n_ranks == SNAPSHOT_RANKS_MAX)
			return;
		if (has_number(t, s->gone[i].number))
			continue;
		t->ranks[t->n_ranks++] = (struct snapshot_rank){
			.pid = s->gone[i].pid,
			.rank = s->gone[i].number,
			.agent = "gone",
			.reason = "its process has ended",
			.gpu_index = -1,
		};
	}
}

/* ---- tiers and health -------------------------------------------------- */

/* Captured graphs that no record can be told from: rows need their capture. */
static bool is_late(const struct rank *k)
{
	return k->merge.status.late || atomic_load(&k->ring.h->state.late);
}

/* Where the agent came after the captures, experts touched are inferred from the
 * bytes that are read, as far as these are known. */
static const char *rows_method(const struct source *s, uint64_t cells)
{
	bool exact = false, late = false;

	for (unsigned i = 0; i < s->n; i++) {
		exact |= s->ranks[i]->merge.exact;
		late |= is_late(s->ranks[i]);
	}
	if (s->context->rows_mode == 0)
		return "off";
	if (cells)
		return exact ? "exact" : "sampled";
	return late && s->context->counters ? "inferred" : "";
}

static void describe_rows(const struct source *s, struct snapshot *out,
			  uint64_t cells, bool late)
{
	const char *method = rows_method(s, cells);

	if (s->context->rows_mode == 0)
		source_tier(out, TIER_T3, TIER_OFF, "rows are off",
			    "add --rows=sampled");
	else if (cells)
		source_tier(out, TIER_T3, TIER_OK,
			    strcmp(method, "exact") ? "rows per expert, sampled"
						    : "rows per expert, exact",
			    "");
	else if (late)
		source_tier(out, TIER_T3, TIER_MISSING,
			    "the agent came after the graphs were captured",
			    "for rows per expert start it with: moetop run "
			    "-- CMD");
	else
		source_tier(out, TIER_T3, TIER_MISSING, "no rows sampled yet",
			    "");
}

static void describe_tiers(const struct source *s, struct snapshot *out,
			   uint64_t cells)
{
	const struct snapshot_rank *bad = NULL;
	unsigned n_working = 0;
	bool late = false;
	char what[96];

	for (unsigned i = 0; i < s->n; i++) {
		if (working(s->ranks[i], s->now_ns))
			n_working++;
		else
			bad = place(&out->target, s->ranks[i]->pid);
		late |= is_late(s->ranks[i]);
	}
	if (!s->n) {
		struct words w;

		explain(s, &w);
		source_tier(out, TIER_T2, TIER_MISSING, w.what, w.fix);
		source_tier(out, TIER_T3, TIER_MISSING, w.what, w.fix);
		return;
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
	if (!bad && s->n_without)
		bad = place(&out->target, s->without[0].pid);
	snprintf(what, sizeof(what), "steps and kernels, %u of %u agents",
		 n_working, s->n + s->n_without);
	if (s->target->have_arch && s->window.layers_seen &&
	    s->window.layers_seen != s->target->arch.moe_layers)
		snprintf(what, sizeof(what),
			 "%u MoE layers in a step, but %u in the model: "
			 "layers may be named wrong",
			 s->window.layers_seen, s->target->arch.moe_layers);
	source_tier(out, TIER_T2, TIER_OK, what, bad ? bad->reason : "");
	describe_rows(s, out, cells, late);
}

static void describe_health(const struct source *s, struct snapshot *out,
			    struct merge_totals *totals)
{
	struct snapshot_health *h = &out->health;
	uint64_t lost = s->gone_lost;

	*totals = s->gone_totals;
	if (s->reported_ns && s->now_ns < s->reported_ns + REPORT_NS)
		snprintf(h->message, sizeof(h->message), "%s", s->report);
	for (unsigned i = 0; i < s->n; i++) {
		const struct rank *k = s->ranks[i];

		agents_add_totals(totals, &k->merge.totals);
		lost += k->lost;
		if (k->merge.text[0])
			snprintf(h->message, sizeof(h->message), "agent: %s",
				 k->merge.text);
	}
	h->lost_ring = lost + totals->refused + s->refused_rings;
	h->lost_records = totals->records_dropped;
	h->bad_steps = totals->bad_steps;
	h->cells_sampled = totals->cells;
	h->cells_rejected = totals->cells_rejected;
	h->cells_lost = totals->cells_lost;
	h->windows = totals->windows;
	h->layers_seen = s->window.layers_seen;
	if (s->have_window)
		h->window_age_seconds =
			value_make(((double)s->now_ns - s->window.end_ns) / 1e9,
				   SOURCE_MEASURED);
	snprintf(h->rows_method, sizeof(h->rows_method), "%s",
		 rows_method(s, totals->cells));
}

void agents_describe(struct source *s, struct snapshot *out)
{
	struct merge_totals totals;

	describe_ranks(s, &out->target);
	describe_health(s, out, &totals);
	describe_tiers(s, out, totals.cells);
}
