#include <string.h>

#include "cupti/reduce_parts.h"

#define NO_REPLAY UINT32_MAX
#define ANY_NAME UINT32_MAX
#define FIRST_VOTES_LEAST 3u
#define MARK_HITS 4u /* to one miss */
#define PERIODS_MAX 16u
#define PERIOD_MATCH 0.9    /* of stretches that must repeat, to believe it */
#define DRAFT_LAYERS_MAX 8u /* anchors of a speculative decoder's own layers */

/* ---- stretches ----------------------------------------------------------- */

static void open_segment(struct reduce *r, uint32_t begin, bool after_replay)
{
	r->segment[r->segments] = (struct segment){
		.first_stretch = r->stretches,
		.begin = begin,
		.replay = NO_REPLAY,
		.after_replay = after_replay,
	};
}

static void close_segment(struct reduce *r, uint32_t replay)
{
	struct segment *s = &r->segment[r->segments++];

	s->stretches = r->stretches - s->first_stretch;
	s->replay = replay;
}

/* How far apart, in anchors of one segment, does this name return?  One step
 * that lost a record must not hide the rest: the majority counts. */
static void note_name(struct reduce *r, uint16_t name, uint32_t stretch)
{
	struct name_stat *s = &r->stat[name];
	uint32_t distance = stretch - s->last;

	if (s->count && s->segment == r->segments) {
		if (distance == 0)
			return;
		if (!s->votes)
			s->spacing = distance;
		if (s->spacing == distance)
			s->votes++;
		else
			s->votes--;
	}
	s->segment = r->segments;
	s->last = stretch;
	s->count++;
}

struct walk {
	uint32_t lead;
	uint64_t names;
	bool whole; /* the stretch is not cut by the window's start */
};

static void walk_event(struct reduce *r, struct walk *w, uint32_t i)
{
	const struct reduce_event *e = &r->ev[i];

	if (w->whole)
		note_name(r, e->name, r->stretches);
	w->names = (w->names ^ e->name) * 0x100000001b3ull;
	if (e->flags & EVENT_ANCHOR) {
		if (r->stretches == STRETCHES_MAX) {
			r->result.lost++;
			return;
		}
		r->stretch[r->stretches++] = (struct stretch){
			.anchor = i,
			.lead = w->lead,
			.names = w->names,
		};
		w->names = 0;
		w->whole = true;
	}
	if (kernel_class_closes(e->klass))
		w->lead = i + 1;
}

void reduce_find_stretches(struct reduce *r)
{
	struct walk w = { 0 };

	open_segment(r, 0, false);
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t owner = r->owner[i];

		if (!owner) {
			walk_event(r, &w, i);
			continue;
		}
		if (r->replay[owner - 1].first != i)
			continue;
		close_segment(r, owner - 1);
		open_segment(r, i + 1, true);
		w = (struct walk){ .lead = i + 1, .whole = true };
	}
	close_segment(r, NO_REPLAY);
}

/* ---- the period ----------------------------------------------------------- */

static double match_ratio(const struct reduce *r, uint32_t period)
{
	uint32_t pairs = 0, equal = 0;

	for (uint32_t s = 0; s < r->segments; s++) {
		const struct segment *g = &r->segment[s];

		/* The first stretch of a window is not whole. */
		for (uint32_t k = g->after_replay ? 0 : 1;
		     k + period < g->stretches; k++) {
			const struct stretch *a =
				&r->stretch[g->first_stretch + k];

			pairs++;
			equal += a->names == a[period].names;
		}
	}
	return pairs >= 2 * period ? (double)equal / pairs : 0;
}

/* Distinct periods of names that came at least three times. */
static uint32_t list_periods(const struct reduce *r, uint32_t *period)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i <= NAMES_MAX && n < PERIODS_MAX; i++) {
		const struct name_stat *s = &r->stat[i];
		bool new = s->count >= 3 && s->votes && s->spacing > 1 &&
			   s->spacing <= LAYERS_MAX;

		for (uint32_t k = 0; k < n; k++)
			new = new &&period[k] != s->spacing;
		if (new)
			period[n++] = s->spacing;
	}
	return n;
}

/*
 * The names of a step's kernels repeat with the step.  Kernels of every fourth
 * layer (hybrid attention) have a shorter period, with which not all stretches
 * repeat; kernels of every n-th step a longer one: the shortest of the best.
 */
uint32_t reduce_learn_layers(struct reduce *r)
{
	uint32_t period[PERIODS_MAX] = { 0 };
	uint32_t n = list_periods(r, period), best = 0;
	double best_ratio = PERIOD_MATCH;

	for (uint32_t k = 0; k < n; k++) {
		double ratio = match_ratio(r, period[k]);
		double gain = ratio - best_ratio;

		if (gain > 0.002 ||
		    (gain > -0.002 && best && period[k] < best)) {
			best = period[k];
			best_ratio = ratio;
		}
	}
	return best;
}

/* Count how often each name returns after whole steps.  Stretches in order. */
static void count_returns(struct reduce *r)
{
	uint32_t k = 0, g = 0;

	for (uint32_t i = 0; i < NAMES_MAX; i++)
		r->stat[i].count = 0;
	for (uint32_t i = 0; i < r->n && k < r->stretches; i++) {
		struct name_stat *s = &r->stat[r->ev[i].name];

		if (r->owner[i])
			continue;
		while (k >=
		       r->segment[g].first_stretch + r->segment[g].stretches)
			g++;
		if (s->count && s->segment == g && s->last != k) {
			if ((k - s->last) % r->layers == 0)
				s->hits++;
			else
				s->misses++;
		}
		s->segment = g;
		s->last = k;
		s->count = 1;
		k += i == r->stretch[k].anchor;
	}
}

/* Remember which names come once per step, over windows too. */
static void mark_names(struct reduce *r)
{
	for (uint32_t i = 0; i < NAMES_MAX; i++) {
		const struct name_stat *s = &r->stat[i];
		struct kernel_name *name;

		if (s->hits + s->misses == 0)
			continue;
		name = kernel_names_at(r->names, (uint16_t)i);
		name->marker = s->hits >= MARK_HITS * s->misses ? r->layers : 0;
	}
}

static void mark_stretches(struct reduce *r)
{
	uint32_t k = 0;
	bool marked = false;

	for (uint32_t i = 0; i < r->n && k < r->stretches; i++) {
		const struct reduce_event *e = &r->ev[i];

		if (r->owner[i])
			continue;
		marked |=
			kernel_names_at(r->names, e->name)->marker == r->layers;
		if (i == r->stretch[k].anchor) {
			r->stretch[k++].marked = marked;
			marked = false;
		}
	}
}

/* ---- where steps begin ---------------------------------------------------- */

static void add_bound(struct reduce *r, uint32_t event, bool replay, bool good)
{
	if (r->bounds == STEPS_MAX) {
		r->result.lost++;
		return;
	}
	r->bound[r->bounds++] = (struct bound){ .event = event,
						.replay = replay,
						.good = good };
}

/* Fewest kernels between a block and the next anchor: an inner layer's. */
static uint32_t inner_lead(const struct reduce *r)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t s = 0; s < r->segments; s++) {
		const struct segment *g = &r->segment[s];

		for (uint32_t k = 1; k < g->stretches; k++) {
			const struct stretch *a =
				&r->stretch[g->first_stretch + k];
			uint32_t lead = a->anchor - a->lead;

			if (!a->marked && lead < least)
				least = lead;
		}
	}
	return least == UINT32_MAX ? 0 : least;
}

/*
 * The first kernel of the step whose first anchor ends this stretch: after the
 * widest idle gap.  With a name, only kernels of that name are looked at;
 * UINT32_MAX when there is none.
 */
static uint32_t widest_gap(const struct reduce *r, const struct stretch *s,
			   uint32_t name)
{
	uint32_t last = s->anchor - s->lead > r->inner_lead
				? s->anchor - r->inner_lead
				: s->lead;
	uint64_t end = s->lead ? event_end(&r->ev[s->lead - 1]) : 0;
	uint64_t widest = 0;
	uint32_t at = UINT32_MAX;

	for (uint32_t i = s->lead; i <= last; i++) {
		const struct reduce_event *e = &r->ev[i];
		uint64_t gap = e->start > end ? e->start - end : 0;

		if (event_end(e) > end)
			end = event_end(e);
		/* What is left of the replay before this segment. */
		if (r->owner[i])
			at = UINT32_MAX;
		else if ((name == ANY_NAME || e->name == name) &&
			 (at == UINT32_MAX || gap > widest)) {
			widest = gap;
			at = i;
		}
	}
	return at;
}

static uint32_t cut(const struct reduce *r, const struct stretch *s)
{
	uint32_t at = UINT32_MAX;

	if (r->first_name != ANY_NAME)
		at = widest_gap(r, s, r->first_name);
	if (at == UINT32_MAX)
		at = widest_gap(r, s, ANY_NAME);
	return at == UINT32_MAX ? s->anchor : at;
}

/* The host may be held up anywhere, which makes a gap.  What most steps begin
 * with is what they begin with: by plurality, kept over windows. */
static void vote_first(struct reduce *r, const struct stretch *s)
{
	uint32_t at = widest_gap(r, s, ANY_NAME);
	uint16_t name;

	if (at == UINT32_MAX)
		return;
	name = r->ev[at].name;
	r->first_votes[name]++;
	if (r->first_votes[name] >= FIRST_VOTES_LEAST &&
	    (r->first_name == ANY_NAME ||
	     r->first_votes[name] > r->first_votes[r->first_name]))
		r->first_name = name;
}

/* Does anchor k of the segment open a step?  since: anchors since the last. */
static bool opens_step(const struct reduce *r, const struct segment *g,
		       uint32_t k, uint32_t since, bool in_phase)
{
	/* Otherwise cut by the window's start. */
	if (k == 0)
		return g->after_replay;
	if (r->stretch[g->first_stretch + k].marked)
		return true;
	if (in_phase)
		return since == r->layers;
	return g->replay != NO_REPLAY && (g->stretches - k) % r->layers == 0;
}

/* Fewer anchors than layers after a replay: layers of a speculative decoder, or
 * the window ends. */
static bool is_draft(const struct reduce *r, const struct segment *g)
{
	return g->after_replay && g->stretches <= DRAFT_LAYERS_MAX &&
	       g->stretches < r->layers;
}

/* Call found() for each stretch that leads up to the first layer of a step. */
static void bound_segment(struct reduce *r, const struct segment *g,
			  void (*found)(struct reduce *r,
					const struct stretch *s))
{
	uint32_t since = 0;
	bool in_phase = false;

	if (is_draft(r, g))
		return;
	for (uint32_t k = 0; k < g->stretches; k++, since++) {
		if (!opens_step(r, g, k, since, in_phase))
			continue;
		found(r, &r->stretch[g->first_stretch + k]);
		in_phase = true;
		since = 0;
	}
}

/* Steps of a segment in which no first layer could be told, but for the one
 * that the window's start cuts. */
static void count_lost(struct reduce *r, const struct segment *g,
		       uint32_t bounds)
{
	uint32_t steps = g->stretches / r->layers;

	if (r->bounds == bounds && !is_draft(r, g) && steps)
		r->result.bad_steps += steps - !g->after_replay;
}

static void bound_stretch(struct reduce *r, const struct stretch *s)
{
	add_bound(r, cut(r, s), false, true);
}

void reduce_find_bounds(struct reduce *r)
{
	if (r->stretches) {
		count_returns(r);
		mark_names(r);
	}
	mark_stretches(r);
	r->inner_lead = inner_lead(r);
	for (uint32_t s = 0; s < r->segments; s++)
		bound_segment(r, &r->segment[s], vote_first);
	for (uint32_t s = 0; s < r->segments; s++) {
		const struct segment *g = &r->segment[s];
		const struct replay *p;
		uint32_t bounds;

		bounds = r->bounds;
		bound_segment(r, g, bound_stretch);
		count_lost(r, g, bounds);
		if (g->replay == NO_REPLAY)
			continue;
		p = &r->replay[g->replay];
		add_bound(r, p->first, true, p->state == REPLAY_WHOLE);
	}
}
