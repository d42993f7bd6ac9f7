#include "target/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_LISTEN 0x0au

/* The listening sockets of one network namespace, by inode. */
struct namespace
{
	uint32_t netns;
	unsigned n;
	struct listener list[LISTENERS_MAX];
};

struct finder {
	const struct namespace *ns;
	struct sockets *out;
	pid_t pid;
};

int listener_parse(const char *line, struct listener *out)
{
	unsigned port, state;
	unsigned long long inode;

	if (sscanf(line,
		   " %*u: %*[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*x %2x %*x:%*x "
		   "%*x:%*x %*x %*u %*u %llu",
		   &port, &state, &inode) != 3)
		return -EINVAL;
	if (state != STATE_LISTEN)
		return 0;
	out->port = (uint16_t)port;
	out->inode = inode;
	return 1;
}

static void namespace_add(struct namespace *ns, pid_t pid, const char *file)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, file);
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(line, sizeof(line), f)) { /* the heading */
		fclose(f);
		return;
	}
	/* The kernel lists sockets that listen before all others. */
	while (ns->n < LISTENERS_MAX && fgets(line, sizeof(line), f))
		if (listener_parse(line, &ns->list[ns->n]) == 1)
			ns->n++;
		else
			break;
	fclose(f);
}

static int listener_order(const void *a, const void *b)
{
	const struct listener *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static void namespace_read(struct namespace *ns, pid_t pid, uint32_t netns)
{
	ns->netns = netns;
	ns->n = 0;
	namespace_add(ns, pid, "tcp");
	namespace_add(ns, pid, "tcp6");
	qsort(ns->list, ns->n, sizeof(ns->list[0]), listener_order);
}

static void sockets_add(struct sockets *s, uint16_t port, pid_t pid)
{
	unsigned i = 0;

	while (i < s->n && s->list[i].port < port)
		i++;
	if (i < s->n && s->list[i].port == port)
		return;
	if (s->n == SOCKETS_MAX) {
		s->more++;
		return;
	}
	memmove(&s->list[i + 1], &s->list[i], (s->n - i) * sizeof(s->list[0]));
	s->list[i].port = port;
	s->list[i].pid = pid;
	s->n++;
}

static void on_socket(void *cls, uint64_t inode)
{
	struct finder *f = cls;
	struct listener key = { .inode = inode };
	const struct listener *l;

	l = bsearch(&key, f->ns->list, f->ns->n, sizeof(key), listener_order);
	if (l)
		sockets_add(f->out, l->port, f->pid);
}

int sockets_read(const pid_t *pids, unsigned n, struct sockets *out,
		 struct proc_fds *fds)
{
	struct namespace *ns = malloc(sizeof(*ns));
	struct sockets found = { 0 };
	struct finder f = { .ns = ns, .out = &found };

	if (!ns)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		uint32_t netns = proc_netns(pids[i]);
		struct proc_fds one = { 0 };

		if (i == 0 || netns != ns->netns)
			namespace_read(ns, pids[i], netns);
		f.pid = pids[i];
		if (proc_fds_read(pids[i], &one, on_socket, &f) == -EACCES)
			found.denied = true;
		if (fds)
			fds[i] = one;
	}
	free(ns);
	*out = found;
	return 0;
}
