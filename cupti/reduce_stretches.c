#include <string.h>

#include "cupti/reduce_parts.h"

#define PERIODS_MAX 16u
#define PERIOD_MATCH 0.9 /* of stretches that must repeat, to believe it */
#define VOTES_MOST 1000u

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

/* ---- draft layers ---------------------------------------------------------- */

/* A draft model in a graph of its own, or eager, leaves as many anchors after
 * each whole replay.  By plurality over windows: the last replay of a window may
 * be cut, and a prompt may come between. */
void reduce_find_draft(struct reduce *r)
{
	uint32_t best = 0;

	for (uint32_t s = 0; s < r->segments; s++) {
		const struct segment *g = &r->segment[s];
		uint32_t *votes;

		if (!g->after_replay || g->replay == NO_REPLAY ||
		    g->stretches > DRAFT_LAYERS_MAX ||
		    g->stretches >= r->layers)
			continue;
		votes = &r->draft_votes[g->stretches];
		if (*votes < VOTES_MOST)
			(*votes)++;
	}
	for (uint32_t d = 1; d <= DRAFT_LAYERS_MAX; d++)
		if (r->draft_votes[d] > r->draft_votes[best])
			best = d;
	r->draft = r->layers + best <= LAYERS_MAX ? best : 0;
}
