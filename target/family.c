/* Which server each process of a table belongs to; see processes.h. */
#include "target/processes.h"

#include <string.h>

#define JOB_BYTES 128u

static struct process *parent(const struct processes *p,
			      const struct process *c)
{
	int i = processes_find(p, c->ppid);

	return i < 0 ? NULL : &p->all[i];
}

/* The nearest process above that starts a server, or NULL. */
static struct process *server_above(const struct processes *p,
				    const struct process *c)
{
	struct process *a = parent(p, c);

	for (unsigned steps = 0; a && steps < DEPTH_MAX; steps++) {
		if (a->kind == PROCESS_SERVER)
			return a;
		a = parent(p, a);
	}
	return NULL;
}

static int index_of(const struct processes *p, const struct process *c)
{
	return (int)(c - p->all);
}

static void join(struct processes *p, struct process *c,
		 const struct process *root, enum process_group group)
{
	c->root = index_of(p, root);
	c->group = group;
}

/* ---- servers ------------------------------------------------------------ */

/* A process that has just been forked still has its parent's arguments, and a
 * front end has no engine of its own. */
static bool is_part_of(const struct process *c, const struct process *above)
{
	return c->args_hash == above->args_hash ||
	       c->role == CMDLINE_FRONT_END ||
	       (above->embedded && strcmp(c->engine, above->engine) == 0 &&
		c->port == 0);
}

static void find_servers(struct processes *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct process *c = &p->all[i], *above, *top = c;
		unsigned steps = 0;

		if (c->kind != PROCESS_SERVER)
			continue;
		while (steps++ < DEPTH_MAX && (above = server_above(p, top)) &&
		       is_part_of(top, above))
			top = above;
		join(p, c, top, GROUP_SERVER);
	}
}

/* ---- workers ------------------------------------------------------------ */

/* The highest of the workers above that follow one another, c at least. */
static struct process *head_of(const struct processes *p, struct process *c)
{
	struct process *first = c, *a;

	for (unsigned steps = 0; steps < DEPTH_MAX; steps++) {
		a = parent(p, c);
		if (!a || a->kind != PROCESS_WORKER || a == first)
			break;
		c = a;
	}
	return c;
}

enum { ANY, BELOW };

/* Workers that it is above, or any that have been found to be its own. */
static bool has_workers(const struct processes *p, const struct process *s,
			bool below)
{
	int root = index_of(p, s);

	for (unsigned i = 0; i < p->n; i++)
		if (p->all[i].kind == PROCESS_WORKER &&
		    p->all[i].root == root &&
		    (!below || server_above(p, &p->all[i])))
			return true;
	return false;
}

/* A server that has lost sight of its workers: of the same engine and job of the
 * shell, older than they are, and without any other. */
static struct process *foster_parent(const struct processes *p,
				     const struct process *head)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct process *s = &p->all[i];

		if (s->kind == PROCESS_SERVER && s->root == (int)i &&
		    s->session == head->session && s->pgrp == head->pgrp &&
		    !s->simulated && s->start_ticks <= head->start_ticks &&
		    strcmp(s->engine, head->title.engine) == 0 &&
		    !has_workers(p, s, BELOW))
			return s;
	}
	return NULL;
}

static void ask_job(struct processes *p, const struct processes_ask *ask,
		    pid_t pid, char job[JOB_BYTES])
{
	job[0] = '\0';
	if (ask && ask->ray_job && p->asked++ < ASKED_MAX)
		ask->ray_job(ask->cls, pid, job, JOB_BYTES);
}

/* Of the servers that say they use Ray, or of those whose workers are nowhere:
 * the one of the same job, else the only one. */
static struct process *ray_server_of(struct processes *p,
				     const struct process *actor, bool said,
				     const struct processes_ask *ask,
				     unsigned *n)
{
	char job[JOB_BYTES], other[JOB_BYTES];
	struct process *only = NULL;

	*n = 0;
	ask_job(p, ask, actor->pid, job);
	for (unsigned i = 0; i < p->n; i++) {
		struct process *s = &p->all[i];

		if (s->kind != PROCESS_SERVER || s->root != (int)i ||
		    s->simulated || strcmp(s->engine, actor->title.engine) ||
		    (said ? !s->ray : has_workers(p, s, BELOW)))
			continue;
		++*n;
		only = s;
		if (!job[0])
			continue;
		ask_job(p, ask, s->pid, other);
		if (strcmp(job, other) == 0)
			return s;
	}
	return *n == 1 ? only : NULL;
}

static struct process *ray_server(struct processes *p,
				  const struct process *actor,
				  const struct processes_ask *ask)
{
	unsigned n;
	struct process *s = ray_server_of(p, actor, true, ask, &n);

	return n ? s : ray_server_of(p, actor, false, ask, &n);
}

/* Workers of one server that is gone were started by one command: they share
 * its process group, and no two of them have the same place. */
static struct process *left_over_group(const struct processes *p,
				       const struct process *c)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct process *o = &p->all[i];

		if (o != c && o->root == (int)i && o->group >= GROUP_ACTORS &&
		    o->pgrp == c->pgrp && o->session == c->session &&
		    o->title.ray == c->title.ray &&
		    strcmp(o->title.engine, c->title.engine) == 0)
			return o;
	}
	return NULL;
}

static bool embeds(struct processes *p, const struct process *c,
		   const struct processes_ask *ask)
{
	return c->kind == PROCESS_PYTHON && ask && ask->embeds &&
	       p->asked++ < ASKED_MAX && ask->embeds(ask->cls, c->pid);
}

/* An actor of Ray with a whole server in it. */
static bool is_engine_actor(const struct process *c)
{
	return c->kind == PROCESS_WORKER && c->title.ray &&
	       c->title.role == TITLE_HTTP;
}

/* The program around a worker: python without a name for it. */
static struct process *embedder(struct processes *p, struct process *head,
				const struct processes_ask *ask)
{
	struct process *a = parent(p, head);

	for (unsigned steps = 0; a && steps < 4; steps++) {
		if (a->root >= 0 && a->group == GROUP_EMBEDDED)
			return &p->all[a->root];
		if (embeds(p, a, ask) || is_engine_actor(a))
			return a;
		if (a->kind != PROCESS_PYTHON)
			break;
		a = parent(p, a);
	}
	return NULL;
}

static bool is_below(const struct processes *p, const struct process *c,
		     const struct process *above)
{
	for (unsigned steps = 0; c && steps < DEPTH_MAX; steps++) {
		c = parent(p, c);
		if (c == above)
			return true;
	}
	return false;
}

/*
 * A worker without a server above it.  One whose parent has an engine in it is
 * no orphan, however well a server beside it, which has just been started and
 * has no workers yet, would fit; but a launcher may have taken over what a
 * server below it has lost.
 */
static void place_orphan(struct processes *p, struct process *c,
			 const struct processes_ask *ask)
{
	struct process *head = head_of(p, c), *s, *around;

	if (head->root >= 0) {
		join(p, c, &p->all[head->root], head->group);
		return;
	}
	around = is_engine_actor(head) ? head : embedder(p, head, ask);
	if (head->title.ray) {
		s = ray_server(p, head, ask);
	} else {
		s = foster_parent(p, head);
		if (s && around && !is_below(p, s, around))
			s = NULL;
	}
	if (s) {
		join(p, c, s, s->group);
		return;
	}
	if (around) {
		join(p, around, around, GROUP_EMBEDDED);
		join(p, c, around, GROUP_EMBEDDED);
		return;
	}
	s = left_over_group(p, head);
	if (!s)
		s = head;
	join(p, head, s, head->title.ray ? GROUP_ACTORS : GROUP_LEFT_OVER);
	join(p, c, s, head->group);
}

static void find_workers(struct processes *p, const struct processes_ask *ask)
{
	struct process *s;

	for (unsigned i = 0; i < p->n; i++) {
		struct process *c = &p->all[i];

		s = c->kind == PROCESS_WORKER ? server_above(p, c) : NULL;
		if (s)
			join(p, c, &p->all[s->root], GROUP_SERVER);
	}
	for (unsigned i = 0; i < p->n; i++) {
		struct process *c = &p->all[i];

		/* any program may call itself Foo::Worker */
		if (c->kind == PROCESS_WORKER && c->root < 0 &&
		    !c->title.foreign)
			place_orphan(p, c, ask);
	}
}

/* ---- the rest ----------------------------------------------------------- */

/* Helpers without a title belong to what is above them. */
static void place_rest(struct processes *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct process *a = &p->all[i];
		unsigned steps = 0;

		while (a && a->root < 0 && steps++ < DEPTH_MAX)
			a = parent(p, a);
		if (a && a->root >= 0)
			join(p, &p->all[i], &p->all[a->root], a->group);
	}
}

/* A supervisor or a router of servers is none. */
static void drop_supervisors(struct processes *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct process *s = &p->all[i];
		bool serves = s->kind != PROCESS_SERVER || s->root != (int)i ||
			      has_workers(p, s, ANY);
		bool above = false;

		for (unsigned k = 0; k < p->n && !serves && !above; k++)
			above = p->all[k].kind == PROCESS_SERVER &&
				p->all[k].root == (int)k && k != i &&
				server_above(p, &p->all[k]) == s;
		if (!above)
			continue;
		for (unsigned k = 0; k < p->n; k++)
			if (p->all[k].root == (int)i)
				p->all[k].root = -1,
				p->all[k].group = GROUP_NONE;
	}
}

void processes_group(struct processes *p, const struct processes_ask *ask)
{
	p->asked = 0;
	for (unsigned i = 0; i < p->n; i++) {
		p->all[i].root = -1;
		p->all[i].group = GROUP_NONE;
	}
	find_servers(p);
	find_workers(p, ask);
	drop_supervisors(p);
	place_rest(p);
}
