#include "target/describe.h"

#include "target/config.h"
#include "target/container.h"
#include "target/ray.h"
#include "target/server_files.h"
#include "target/simulated.h"
#include "target/version.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CMDLINE_BYTES (128u << 10)
#define YAML_BYTES_MAX (1u << 20)

/* ---- what the grouping asks --------------------------------------------- */

/* A python that has loaded torch runs more than a script that has taken over
 * somebody's children.  What may not be looked at gets the benefit. */
static bool embeds(void *cls, pid_t pid)
{
	int found = proc_maps_find(pid, "/libtorch");

	(void)cls;
	return found == 1 || found == -EACCES;
}

static void ray_job(void *cls, pid_t pid, char *out, size_t room)
{
	(void)cls;
	ray_job_read(pid, out, room);
}

const struct processes_ask describe_ask = { .embeds = embeds,
					    .ray_job = ray_job };

/* ---- parts -------------------------------------------------------------- */

void describe_gpus(uint64_t gpus, char *out, size_t room)
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < 64; i++) {
		unsigned first = i;

		if (!(gpus >> i & 1))
			continue;
		while (i < 63 && (gpus >> (i + 1) & 1))
			i++;
		if (n + 8 > room)
			return;
		n += (size_t)snprintf(out + n, room - n,
				      i > first ? "%s%u-%u" : "%s%u",
				      n ? "," : "", first, i);
	}
}

/* What a file of options may have set is not known without it. */
static void forget_sizes(struct cmdline *c)
{
	if (c->tp == 1)
		c->tp = 0;
	if (c->dp == 1)
		c->dp = 0;
	if (c->ep == 1)
		c->ep = 0;
	c->gpus = 0;
}

static void read_options(struct description *d, const struct server_files *f)
{
	struct cmdline *c = &d->cmdline;
	char *text;
	size_t bytes;

	if (c->simulated) {
		simulated_settle(d->server, c);
		return;
	}
	if (f && f->env)
		cmdline_environ(c, f->env, f->env_bytes);
	if (!c->config_file[0])
		return;
	if (!f || server_files_load(f, c->config_file, YAML_BYTES_MAX, &text,
				    &bytes)) {
		forget_sizes(c);
		return;
	}
	cmdline_yaml(c, text, bytes);
	free(text);
}

/* The sizes of groups that the titles of its workers tell. */
static void count_titles(const struct processes *p, int root,
			 struct description *d)
{
	uint32_t most[4] = { 0 }, cores = 0;

	for (unsigned i = 0; i < p->n; i++) {
		const struct process *w = &p->all[i];
		const int place[4] = { w->title.tp, w->title.pp, w->title.dp,
				       w->title.ep };

		if (w->root != root || w->kind != PROCESS_WORKER)
			continue;
		d->ranks += w->title.role == TITLE_RANK;
		d->fronts += w->title.role == TITLE_HTTP;
		cores += w->title.role == TITLE_CORE;
		for (unsigned k = 0; k < 4; k++)
			if (place[k] >= (int)most[k])
				most[k] = (uint32_t)place[k] + 1;
	}
	if (!d->ranks)
		d->ranks = cores;
	if (d->group == GROUP_SERVER)
		return;
	d->cmdline.tp = most[0] ? most[0] : 1;
	d->cmdline.pp = most[1] ? most[1] : 1;
	d->cmdline.dp = most[2] ? most[2] : 1;
	d->cmdline.ep = most[3] ? most[3] : 1;
}

/* ---- ports -------------------------------------------------------------- */

static void choose_port(const struct sockets *s, struct description *d)
{
	const struct cmdline *c = &d->cmdline;
	bool none = d->group == GROUP_SERVER && c->port == 0 && !c->port_given;

	for (unsigned i = 0; i < s->n && !none; i++) {
		if (c->port && s->list[i].port != c->port)
			continue;
		d->port = s->list[i].port;
		d->port_seen = true;
		return;
	}
	if (!none)
		d->port = (uint16_t)c->port;
}

static void find_unix(const struct sockets *s, struct description *d)
{
	const char *option = d->cmdline.uds;

	if (!*option && (d->port_seen || d->group == GROUP_SERVER))
		return;
	for (unsigned i = 0; i < s->n_unix; i++)
		d->unix_seen |= unix_listener_serves(&s->unix_list[i], option);
}

/* ---- notes -------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(struct description *d,
						      const char *format, ...)
{
	va_list ap;

	if (d->note[0])
		return;
	va_start(ap, format);
	vsnprintf(d->note, sizeof(d->note), format, ap);
	va_end(ap);
}

/* The first of these that holds. */
static void note(struct description *d, const struct sockets *s)
{
	const struct cmdline *c = &d->cmdline;
	bool listens = d->port_seen || d->unix_seen;

	if (d->group == GROUP_LEFT_OVER && !d->left_over)
		say(d, "its launcher is gone, and with it its options");
	if (d->left_over && d->port_seen)
		say(d, "left over: its server is gone; port %u is still held",
		    d->port);
	if (d->left_over)
		say(d, "left over: its server is gone, no HTTP; requests "
		       "cannot be counted");
	if (d->group == GROUP_ACTORS)
		say(d, "Ray workers of a server that is not on this machine");
	if (s->denied)
		say(d, "not readable: run moetop as root, or as its user");
	if (c->role == CMDLINE_WORKERS && c->nodes > 1)
		say(d, "node %u of %u: HTTP is on the first node", c->node_rank,
		    c->nodes);
	if (c->role == CMDLINE_WORKERS)
		say(d, "--headless: HTTP is on another node");
	if (c->uds[0] && !listens)
		say(d, "nothing listens on %.50s", c->uds);
	if (c->tls)
		say(d, "TLS: requests are not counted");
	if (!listens && d->group == GROUP_EMBEDDED)
		say(d, "no HTTP server: requests are not counted");
	if (!listens && d->ranks && !c->simulated)
		say(d, "does not listen: it is starting, or its HTTP server is "
		       "gone");
	if (!d->ranks && !d->gpus && !c->simulated && d->group == GROUP_SERVER)
		say(d, "no worker process: it is starting, or has lost them");
}

/* ---- interface ---------------------------------------------------------- */

/* The process of the group with a command line: the first, or one below. */
static pid_t find_cmdline(const struct processes *p, int root,
			  const struct process **launcher)
{
	const struct process *r = &p->all[root];

	*launcher = r->kind == PROCESS_SERVER ? r : NULL;
	for (unsigned i = 0; i < p->n && !*launcher; i++)
		if (p->all[i].root == root && p->all[i].kind == PROCESS_SERVER)
			*launcher = &p->all[i];
	return *launcher ? (*launcher)->pid : r->pid;
}

/* The engine of the workers of a program that has no name for it. */
static void name_engine(const struct processes *p, int root, struct cmdline *c)
{
	for (unsigned i = 0; i < p->n && !c->engine[0]; i++)
		if (p->all[i].root == root && p->all[i].kind == PROCESS_WORKER)
			snprintf(c->engine, sizeof(c->engine), "%s",
				 p->all[i].title.engine);
}

static void read_cmdline(struct description *d, const struct processes *p,
			 int root, const struct process *launcher,
			 const char *args, size_t bytes)
{
	struct cmdline *c = &d->cmdline;

	if (launcher && cmdline_parse(args, bytes, c) == 0)
		return;
	*c = (struct cmdline){ .tp = 1, .pp = 1, .dp = 1, .ep = 1, .nodes = 1 };
	name_engine(p, root, c);
	if (p->all[root].kind != PROCESS_WORKER)
		cmdline_embedded(args, bytes, c);
}

void describe(const struct processes *p, int root, const pid_t *pids,
	      unsigned n, const struct sockets *s, const struct proc_fds *fds,
	      bool all, struct description *out)
{
	const struct process *r = &p->all[root], *launcher;
	char *args = malloc(CMDLINE_BYTES);
	struct server_files files;
	struct container box;
	struct description d = { .group = r->group };
	bool have_files;
	ssize_t bytes = 0;

	d.server = find_cmdline(p, root, &launcher);
	have_files = server_files_open(&files, d.server) == 0;
	if (args)
		bytes = proc_read(d.server, "cmdline", args, CMDLINE_BYTES);
	name_engine(p, root, &d.cmdline);
	if (bytes > 0) {
		read_cmdline(&d, p, root, launcher, args, (size_t)bytes);
		read_options(&d, have_files ? &files : NULL);
	}
	count_titles(p, root, &d);
	if (bytes > 0 && all && have_files && !d.cmdline.version[0])
		version_find(&files, d.cmdline.engine, args, (size_t)bytes,
			     pids, n, d.cmdline.version,
			     sizeof(d.cmdline.version));
	container_read(d.server, have_files ? files.env : NULL,
		       have_files ? files.env_bytes : 0, &box);
	container_describe(&box, d.container, sizeof(d.container));
	for (unsigned i = 0; i < n; i++)
		d.gpus |= fds[i].gpus;
	choose_port(s, &d);
	find_unix(s, &d);
	d.left_over = d.group == GROUP_LEFT_OVER &&
		      !((d.port_seen || d.unix_seen) && d.fronts && d.ranks);
	note(&d, s);
	if (have_files)
		server_files_close(&files);
	free(args);
	*out = d;
}
