#include "target/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define STATE_LISTEN 0x0au
#define ACCEPTS 0x10000u /* flag of a UNIX socket */
#define NAMESPACES_KEPT 16u

/* The listening sockets of one network namespace, by inode. */
struct namespace
{
	uint32_t netns;
	unsigned n;
	struct listener list[LISTENERS_MAX];
	unsigned n_unix;
	struct unix_listener unix_list[LISTENERS_MAX];
};

/* The latest ones, over and over. */
struct namespaces {
	unsigned n;
	struct namespace list[NAMESPACES_KEPT];
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

int unix_listener_parse(const char *line, struct unix_listener *out)
{
	unsigned flags, type;
	unsigned long long inode;
	int path = 0;

	if (sscanf(line, " %*[0-9A-Fa-fx]: %*x %*x %x %x %*x %llu%n", &flags,
		   &type, &inode, &path) != 3)
		return -EINVAL;
	if (!(flags & ACCEPTS) || type != SOCK_STREAM)
		return 0;
	while (line[path] == ' ')
		path++;
	out->inode = inode;
	snprintf(out->path, sizeof(out->path), "%.*s",
		 (int)strcspn(line + path, "\n"), line + path);
	return 1;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool unix_listener_serves(const struct unix_listener *l, const char *option)
{
	const char *name = last_part(l->path);
	unsigned dashes = 0;

	if (*option)
		return !strcmp(name, last_part(option));
	for (const char *c = name; *c; c++)
		dashes += *c == '-';
	return !strstr(l->path, "/pymp-") && !strstr(l->path, "/ray/") &&
	       !(strlen(name) == 36 && dashes == 4);
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

static void namespace_add_unix(struct namespace *ns, pid_t pid)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (ns->n_unix < LISTENERS_MAX && fgets(line, sizeof(line), f))
		if (unix_listener_parse(line, &ns->unix_list[ns->n_unix]) == 1)
			ns->n_unix++;
	fclose(f);
}

static int listener_order(const void *a, const void *b)
{
	const struct listener *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static int unix_listener_order(const void *a, const void *b)
{
	const struct unix_listener *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

static void namespace_read(struct namespace *ns, pid_t pid, uint32_t netns)
{
	ns->netns = netns;
	ns->n = ns->n_unix = 0;
	namespace_add(ns, pid, "tcp");
	namespace_add(ns, pid, "tcp6");
	namespace_add_unix(ns, pid);
	qsort(ns->list, ns->n, sizeof(ns->list[0]), listener_order);
	qsort(ns->unix_list, ns->n_unix, sizeof(ns->unix_list[0]),
	      unix_listener_order);
}

static void sockets_add(struct sockets *s, uint16_t port, pid_t pid)
{
	unsigned i = 0;

	while (i < s->n && s->list[i].port < port)
		i++;
	if (i < s->n && s->list[i].port == port)
		return;
	if (s->n == LISTENERS_MAX) {
		s->more++;
		return;
	}
	memmove(&s->list[i + 1], &s->list[i], (s->n - i) * sizeof(s->list[0]));
	s->list[i].port = port;
	s->list[i].pid = pid;
	s->n++;
}

static void sockets_add_unix(struct sockets *s, const struct unix_listener *l)
{
	unsigned i = 0;

	while (i < s->n_unix && s->unix_list[i].inode < l->inode)
		i++;
	if (i < s->n_unix && s->unix_list[i].inode == l->inode)
		return;
	if (s->n_unix == SOCKETS_MAX) {
		s->more++;
		return;
	}
	memmove(&s->unix_list[i + 1], &s->unix_list[i],
		(s->n_unix - i) * sizeof(s->unix_list[0]));
	s->unix_list[i] = *l;
	s->n_unix++;
}

static void on_socket(void *cls, uint64_t inode)
{
	struct finder *f = cls;
	const struct namespace *ns = f->ns;
	const struct listener key = { .inode = inode }, *l;
	const struct unix_listener unix_key = { .inode = inode }, *u;

	l = bsearch(&key, ns->list, ns->n, sizeof(key), listener_order);
	if (l) {
		sockets_add(f->out, l->port, f->pid);
		return;
	}
	u = bsearch(&unix_key, ns->unix_list, ns->n_unix, sizeof(unix_key),
		    unix_listener_order);
	if (u)
		sockets_add_unix(f->out, u);
}

uint64_t sockets_sum(const struct sockets *s)
{
	uint64_t sum = 14695981039346656037u;

	for (unsigned i = 0; i < s->n; i++)
		sum = (sum ^ s->list[i].port) * 1099511628211u;
	for (unsigned i = 0; i < s->n_unix; i++)
		sum = (sum ^ s->unix_list[i].inode) * 1099511628211u;
	return sum;
}

struct namespaces *namespaces_new(void)
{
	return calloc(1, sizeof(struct namespaces));
}

void namespaces_free(struct namespaces *ns)
{
	free(ns);
}

static const struct namespace *find(struct namespaces *all, pid_t pid)
{
	static const struct namespace hidden;
	uint32_t netns = proc_netns(pid);
	struct namespace *to;

	if (!netns) /* and its descriptors are hidden, too */
		return &hidden;
	for (unsigned i = 0; i < all->n && i < NAMESPACES_KEPT; i++)
		if (all->list[i].netns == netns)
			return &all->list[i];
	to = &all->list[all->n++ % NAMESPACES_KEPT];
	namespace_read(to, pid, netns);
	return to;
}

int sockets_read_with(struct namespaces *all, const pid_t *pids, unsigned n,
		      struct sockets *out, struct proc_fds *fds)
{
	struct sockets found = { 0 };
	struct finder f = { .out = &found };

	if (!all)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		struct proc_fds one = { 0 };

		f.ns = find(all, pids[i]);
		f.pid = pids[i];
		if (proc_fds_read(pids[i], &one, on_socket, &f) == -EACCES)
			found.denied = true;
		if (fds)
			fds[i] = one;
	}
	*out = found;
	return 0;
}

int sockets_read(const pid_t *pids, unsigned n, struct sockets *out,
		 struct proc_fds *fds)
{
	struct namespaces *all = namespaces_new();
	int err = sockets_read_with(all, pids, n, out, fds);

	namespaces_free(all);
	return err;
}
