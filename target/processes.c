#include "target/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Enough of the arguments to tell what a process is; a server's options are
 * read in full later. */
#define ARGS_BYTES 4096u

/* ---- one process -------------------------------------------------------- */

static uint64_t hash(const char *s, size_t bytes)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ (uint8_t)s[i]) * 0x100000001b3ull;
	return h;
}

/* By its program, or by the title of what keeps python programs: an actor of Ray
 * (Serve's replicas have a whole engine in them), Triton's, gunicorn's. */
static bool is_python(const char *args)
{
	static const char *const starts[] = { "python",
					      "ray::", "triton_python_backend",
					      "gunicorn: " };
	const char *slash = strrchr(args, '/');
	const char *program =
		slash && strncmp(args, "ray::", 5) ? slash + 1 : args;

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(program, starts[i], strlen(starts[i])) == 0)
			return true;
	return false;
}

static void set_server(struct process *p, const struct cmdline *c,
		       const char *args, size_t bytes)
{
	p->kind = PROCESS_SERVER;
	p->role = c->role;
	memcpy(p->engine, c->engine, sizeof(p->engine));
	p->args_hash = hash(args, bytes);
	p->port = c->port;
	p->embedded = c->embedded;
	p->ray = c->ray;
	p->simulated = c->simulated;
}

/* A word that a server's or a python's arguments begin with. */
static bool may_be_server(const char *args, size_t bytes)
{
	static const char *const words[] = { "python",   "vllm",      "sglang",
					     "trtllm",   "pypy",      "ray::",
					     "gunicorn", "moetop-sim" };
	size_t n = strnlen(args, bytes);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (memmem(args, n, words[i], strlen(words[i])))
			return true;
	return false;
}

static void classify(struct process *p, const char *comm, const char *args,
		     size_t bytes)
{
	struct cmdline c;
	struct title t;
	bool titled = bytes ? !title_parse(args, bytes, &t)
			    : !title_parse_comm(comm, &t);

	if (titled) {
		p->kind = PROCESS_WORKER;
		p->title = t;
	} else if (bytes && may_be_server(args, bytes)) {
		if (cmdline_parse(args, bytes, &c) == 0)
			set_server(p, &c, args, bytes);
		else if (is_python(args))
			p->kind = PROCESS_PYTHON;
	}
}

int processes_add(struct processes *p, const struct proc_stat *s,
		  const char *args, size_t bytes)
{
	struct process *to;

	if (s->state == 'Z' || s->state == 'X')
		return 0;
	if (p->n == PROCESSES_MAX) {
		p->more++;
		return -E2BIG;
	}
	if (p->n == p->room) {
		unsigned room = p->room ? p->room * 2 : 256;

		to = realloc(p->all, room * sizeof(*to));
		if (!to)
			return -ENOMEM;
		p->all = to;
		p->room = room;
	}
	to = &p->all[p->n++];
	*to = (struct process){ .pid = s->pid,
				.ppid = s->ppid,
				.pgrp = s->pgrp,
				.session = s->session,
				.start_ticks = s->start_ticks,
				.root = -1 };
	classify(to, s->comm, args, bytes);
	/* /proc gives them in this order; a table from elsewhere may not */
	for (unsigned i = p->n - 1; i > 0 && p->all[i - 1].pid > p->all[i].pid;
	     i--) {
		struct process swap = p->all[i];

		p->all[i] = p->all[i - 1];
		p->all[i - 1] = swap;
	}
	return 0;
}

/* ---- /proc -------------------------------------------------------------- */

int processes_read(struct processes *p)
{
	DIR *dir = opendir("/proc");
	char args[ARGS_BYTES];
	const struct dirent *e;
	struct proc_stat s;
	bool kernel = false;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (e = readdir(dir))) {
		ssize_t n = 0;

		if (!isdigit((unsigned char)e->d_name[0]) ||
		    proc_stat_read((pid_t)atoi(e->d_name), &s))
			continue;
		/* kernel threads have no arguments; in a pid namespace 2 is
		 * a process like any other */
		kernel |= s.pid == 2 && strcmp(s.comm, "kthreadd") == 0;
		if (!kernel || s.ppid != 2)
			n = proc_read(s.pid, "cmdline", args, sizeof(args));
		err = processes_add(p, &s, args, n > 0 ? (size_t)n : 0);
	}
	closedir(dir);
	return err == -E2BIG ? 0 : err;
}

void processes_free(struct processes *p)
{
	free(p->all);
	*p = (struct processes){ 0 };
}

/* ---- looking up --------------------------------------------------------- */

static int pid_order(const void *key, const void *element)
{
	pid_t pid = *(const pid_t *)key;
	const struct process *p = element;

	return (pid > p->pid) - (pid < p->pid);
}

int processes_find(const struct processes *p, pid_t pid)
{
	const struct process *f = NULL;

	if (p->n)
		f = bsearch(&pid, p->all, p->n, sizeof(*p->all), pid_order);
	return f ? (int)(f - p->all) : -1;
}

static bool is_below(const struct processes *p, int i, pid_t pid)
{
	for (unsigned steps = 0; i >= 0 && steps < DEPTH_MAX; steps++) {
		if (p->all[i].pid == pid)
			return true;
		i = processes_find(p, p->all[i].ppid);
	}
	return false;
}

int processes_server(const struct processes *p, pid_t pid, unsigned *several)
{
	int self = processes_find(p, pid), first = -1;

	*several = 0;
	if (self >= 0 && p->all[self].root >= 0)
		return p->all[self].root;
	for (unsigned i = 0; i < p->n; i++)
		if (p->all[i].root == (int)i && is_below(p, (int)i, pid)) {
			first = first < 0 ? (int)i : first;
			++*several;
		}
	return first;
}

unsigned processes_members(const struct processes *p, int root, pid_t *out,
			   unsigned max)
{
	unsigned n = 0;

	if (max)
		out[n++] = p->all[root].pid;
	/* generation by generation, then those that nobody here is parent of */
	for (unsigned at = 0; at < n; at++)
		for (unsigned i = 0; i < p->n && n < max; i++)
			if (p->all[i].root == root && (int)i != root &&
			    p->all[i].ppid == out[at])
				out[n++] = p->all[i].pid;
	for (unsigned i = 0; i < p->n && n < max; i++) {
		bool in = p->all[i].root != root;

		for (unsigned k = 0; k < n && !in; k++)
			in = out[k] == p->all[i].pid;
		if (in)
			continue;
		out[n++] = p->all[i].pid;
	}
	return n;
}
