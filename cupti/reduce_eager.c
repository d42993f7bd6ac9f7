#include "cupti/reduce_parts.h"

#define ANY_NAME UINT32_MAX
#define FIRST_VOTES_LEAST 3u
#define MARK_HITS 4u  /* to one miss */
#define LEADS_MAX 16u /* the last: all others */

/* Anchors from step to step. */
static uint32_t period(const struct reduce *r)
{
	return r->layers + r->draft;
}

/* ---- names that come once per step ---------------------------------------- */

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
			if ((k - s->last) % period(r) == 0)
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
		name->marker = s->hits >= MARK_HITS * s->misses ? period(r) : 0;
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
			kernel_names_at(r->names, e->name)->marker == period(r);
		if (i == r->stretch[k].anchor) {
			r->stretch[k++].marked = marked;
			marked = false;
		}
	}
}

/* The widest idle gap that leads up to an anchor. */
static uint64_t lead_gap(const struct reduce *r, const struct stretch *s)
{
	uint64_t end = s->lead ? event_end(&r->ev[s->lead - 1]) : 0;
	uint64_t widest = 0;

	for (uint32_t i = s->lead; end && i <= s->anchor; i++) {
		const struct reduce_event *e = &r->ev[i];

		if (e->start > end && e->start - end > widest)
			widest = e->start - end;
		if (event_end(e) > end)
			end = event_end(e);
	}
	return widest;
}

/* What leads up to a step's first layer, or to something else that comes once a
 * step: the layer of a draft model. */
struct lead {
	uint64_t names, gap_ns;
	uint32_t count;
};

static struct lead *find_lead(struct lead *lead, uint64_t names)
{
	uint32_t i = 0;

	while (i < LEADS_MAX - 1 && lead[i].count && lead[i].names != names)
		i++;
	lead[i].names = names;
	return &lead[i];
}

/* Of several that come once a step, one is where it begins: where the gap is
 * widest, for there the host prepares the step. */
static void choose_marks(struct reduce *r)
{
	struct lead lead[LEADS_MAX] = { { 0 } }, *best = lead;

	for (uint32_t k = 0; k < r->stretches; k++) {
		const struct stretch *s = &r->stretch[k];
		struct lead *l;

		if (!s->marked)
			continue;
		l = find_lead(lead, s->names);
		l->count++;
		l->gap_ns += lead_gap(r, s);
	}
	for (uint32_t i = 0; i < LEADS_MAX - 1; i++)
		if (lead[i].gap_ns > best->gap_ns)
			best = &lead[i];
	for (uint32_t k = 0; k < r->stretches; k++) {
		struct stretch *s = &r->stretch[k];

		if (s->marked && s->names != best->names &&
		    2 * find_lead(lead, s->names)->count > best->count)
			s->marked = false;
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

/* Stretches of a segment that belong to the replay before it. */
static uint32_t draft_of(const struct reduce *r, const struct segment *g)
{
	if (!g->after_replay)
		return 0;
	return r->draft < g->stretches ? r->draft : g->stretches;
}

/* Does anchor k of the segment open a step?  since: anchors since the last. */
static bool opens_step(const struct reduce *r, const struct segment *g,
		       uint32_t k, uint32_t since, bool in_phase)
{
	/* Otherwise cut by the window's start. */
	if (k == draft_of(r, g) && g->after_replay)
		return true;
	if (k == 0)
		return false;
	if (r->stretch[g->first_stretch + k].marked)
		return true;
	if (in_phase)
		return since == period(r);
	return g->replay != NO_REPLAY && (g->stretches - k) % period(r) == 0;
}

/* Fewer anchors than layers after a replay: not one step, but what belongs to
 * the replay, or the window ends. */
static bool is_short(const struct reduce *r, const struct segment *g)
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

	if (is_short(r, g))
		return;
	for (uint32_t k = draft_of(r, g); k < g->stretches; k++, since++) {
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
	uint32_t steps = g->stretches / period(r);

	if (r->bounds == bounds && !is_short(r, g) && steps)
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
	choose_marks(r);
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
