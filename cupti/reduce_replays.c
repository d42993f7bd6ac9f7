#include "cupti/reduce_parts.h"

#define SMALLER_MOST 8u /* windows, before a larger graph is forgotten */

static struct replay *new_replay(struct reduce *r, uint32_t slot,
				 uint32_t event)
{
	const struct reduce_event *e = &r->ev[event];

	if (r->replays == REPLAYS_MAX) {
		r->result.lost++;
		return NULL;
	}
	r->replay[r->replays] =
		(struct replay){ .correlation = e->correlation,
				 .graph = e->graph,
				 .first = event,
				 .anchor = { .outside = true } };
	r->replay_slot[slot] = ++r->replays;
	return &r->replay[r->replays - 1];
}

/* All kernels of one replay carry the correlation id of its cuGraphLaunch. */
static struct replay *replay_of(struct reduce *r, uint32_t event)
{
	const struct reduce_event *e = &r->ev[event];
	uint32_t slot = e->correlation * 2654435761u % REPLAY_SLOTS;

	while (r->replay_slot[slot]) {
		struct replay *p = &r->replay[r->replay_slot[slot] - 1];

		if (p->correlation == e->correlation && p->graph == e->graph)
			return p;
		slot = (slot + 1) % REPLAY_SLOTS;
	}
	return new_replay(r, slot, event);
}

static struct known_graph *known(struct reduce *r, uint32_t id)
{
	uint32_t i = id * 2654435761u % GRAPHS_KNOWN;

	for (uint32_t n = 0; n < GRAPHS_KNOWN; n++) {
		struct known_graph *g = &r->graph[i];

		if (!g->id)
			g->id = id;
		if (g->id == id)
			return g;
		i = (i + 1) % GRAPHS_KNOWN;
	}
	/* Full of graphs that were destroyed long since: take one over. */
	r->graph[i] = (struct known_graph){ .id = id };
	return &r->graph[i];
}

static void learn(struct reduce *r, const struct replay *p)
{
	struct known_graph *g = known(r, p->graph);

	g->seen++;
	if (p->kernels > g->kernels)
		g->kernels = p->kernels;
	if (p->anchors > g->anchors)
		g->anchors = p->anchors;
}

/* Graphs of the warm-up, or of another model, may have had more anchors than
 * those in use have; draft models have fewer.  One anchor is a piece of a model,
 * or a draft layer. */
static void choose_graph_layers(struct reduce *r)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < r->replays; i++) {
		uint32_t anchors = known(r, r->replay[i].graph)->anchors;

		if (anchors > 1 && anchors > most)
			most = anchors;
	}
	if (most < r->graph_layers) {
		if (!most || ++r->smaller < SMALLER_MOST)
			return;
	}
	r->graph_layers = most;
	r->smaller = 0;
}

/* Mark event i as an anchor, unless it is none. */
static bool mark(struct reduce *r, uint32_t i)
{
	if (i == NO_EVENT)
		return false;
	r->ev[i].flags |= EVENT_ANCHOR;
	return true;
}

void reduce_find_replays(struct reduce *r)
{
	struct anchor_state eager = { 0 };
	struct replay *p = NULL;

	for (uint32_t i = 0; i < r->n; i++) {
		struct reduce_event *e = &r->ev[i];

		e->flags = 0;
		if (!e->graph) {
			mark(r, anchor_step(&eager, e->klass, i));
			continue;
		}
		if (!p || p->correlation != e->correlation ||
		    p->graph != e->graph)
			p = replay_of(r, i);
		if (!p)
			continue;
		r->owner[i] = (uint32_t)(p - r->replay) + 1;
		p->last = i;
		p->kernels++;
		if (mark(r, anchor_step(&p->anchor, e->klass, i)))
			p->anchors++;
	}
	for (uint32_t i = 0; i < r->replays; i++)
		learn(r, &r->replay[i]);
	choose_graph_layers(r);
}

static enum replay_state judge(struct reduce *r, const struct replay *p,
			       bool at_edge)
{
	const struct known_graph *g = known(r, p->graph);

	if (g->anchors == r->layers && g->anchors)
		return p->anchors == g->anchors && p->kernels == g->kernels
			       ? REPLAY_WHOLE
			       : REPLAY_BROKEN;
	/* Seen once, maybe cut by the edge: do not take it for a piece. */
	return at_edge && g->anchors && g->seen == 1 ? REPLAY_BROKEN
						     : REPLAY_PIECE;
}

void reduce_judge_replays(struct reduce *r)
{
	for (uint32_t i = 0; i < r->replays; i++) {
		bool edge = i == 0 || i == r->replays - 1;

		r->replay[i].state =
			judge(r, &r->replay[i], edge && r->graph_layers);
	}
	for (uint32_t i = 0; i < r->n; i++) {
		if (!r->owner[i])
			continue;
		if (r->replay[r->owner[i] - 1].state == REPLAY_PIECE)
			r->owner[i] = 0;
		else
			r->ev[i].flags |= EVENT_REPLAY;
	}
}

uint32_t reduce_graph_anchors(const struct reduce *r, uint32_t graph)
{
	uint32_t i = graph * 2654435761u % GRAPHS_KNOWN;

	for (uint32_t n = 0; graph && n < GRAPHS_KNOWN && r->graph[i].id; n++) {
		if (r->graph[i].id == graph)
			return r->graph[i].anchors;
		i = (i + 1) % GRAPHS_KNOWN;
	}
	return 0;
}
