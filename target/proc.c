#include "target/proc.h"

#include "wire/ring.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TREE_PROCESSES_MAX 65536u
#define MAPS_CHUNK 65536u
#define NEEDLE_MAX 64u
#define START_FIELD 22 /* counted from 1, as proc(5) does */

struct family {
	struct relation {
		pid_t pid, ppid;
	} * all;
	unsigned n, room;
};

static void proc_path(char *out, size_t room, pid_t pid, const char *name)
{
	snprintf(out, room, "/proc/%d/%s", (int)pid, name);
}

/* A process that ends in mid-read gives ENOENT or ESRCH. */
static int proc_error(int err)
{
	return err == ENOENT ? -ESRCH : -err;
}

/* Field number n >= 3 of a stat line; p stands behind the command's ')'. */
static const char *stat_field(const char *p, int n)
{
	for (int i = 2; i < n; i++) {
		p = strchr(p, ' ');
		if (!p)
			return NULL;
		p++;
	}
	return p;
}

static pid_t stat_number(const char *close, int field)
{
	const char *p = stat_field(close, field);

	return p ? (pid_t)strtol(p, NULL, 10) : 0;
}

int proc_stat_parse(const char *text, size_t bytes, struct proc_stat *out)
{
	char line[1024];
	const char *open, *close, *ppid, *start;
	struct proc_stat s = { 0 };
	size_t n;

	if (bytes >= sizeof(line))
		bytes = sizeof(line) - 1;
	memcpy(line, text, bytes);
	line[bytes] = '\0';
	open = strchr(line, '(');
	close = strrchr(line, ')');
	if (!open || !close || close < open)
		return -EINVAL;
	ppid = stat_field(close, 4);
	start = stat_field(close, START_FIELD);
	s.pid = (pid_t)strtol(line, NULL, 10);
	if (s.pid <= 0 || !ppid || !isdigit((unsigned char)*ppid) ||
	    close[1] != ' ' || !isalpha((unsigned char)close[2]))
		return -EINVAL;
	s.state = close[2];
	s.ppid = (pid_t)strtol(ppid, NULL, 10);
	s.pgrp = stat_number(close, 5);
	s.session = stat_number(close, 6);
	s.start_ticks = start ? strtoull(start, NULL, 10) : 0;
	n = (size_t)(close - open - 1);
	if (n >= sizeof(s.comm))
		n = sizeof(s.comm) - 1;
	memcpy(s.comm, open + 1, n);
	*out = s;
	return 0;
}

ssize_t proc_read(pid_t pid, const char *name, char *buf, size_t room)
{
	char path[64];
	size_t n = 0;
	ssize_t got = 1;
	int fd, err = 0;

	proc_path(path, sizeof(path), pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return proc_error(errno);
	while (got > 0 && n + 1 < room) {
		got = read(fd, buf + n, room - 1 - n);
		if (got > 0)
			n += (size_t)got;
		else if (got < 0)
			err = proc_error(errno);
	}
	close(fd);
	buf[n] = '\0';
	return err ? err : (ssize_t)n;
}

int proc_stat_read(pid_t pid, struct proc_stat *out)
{
	char text[1024];
	ssize_t n = proc_read(pid, "stat", text, sizeof(text));

	return n < 0 ? (int)n : proc_stat_parse(text, (size_t)n, out);
}

pid_t proc_tgid(pid_t pid)
{
	char text[4096];
	const char *line;
	long tgid;

	if (proc_read(pid, "status", text, sizeof(text)) < 0)
		return pid;
	line = strstr(text, "\nTgid:");
	tgid = line ? strtol(line + 6, NULL, 10) : 0;
	return tgid > 0 ? (pid_t)tgid : pid;
}

static int family_add(struct family *f, const struct proc_stat *s)
{
	if (f->n == f->room) {
		unsigned room = f->room ? f->room * 2 : 512;
		struct relation *all;

		if (room > TREE_PROCESSES_MAX)
			return -E2BIG;
		all = realloc(f->all, room * sizeof(*all));
		if (!all)
			return -ENOMEM;
		f->all = all;
		f->room = room;
	}
	f->all[f->n].pid = s->pid;
	f->all[f->n++].ppid = s->ppid;
	return 0;
}

static int relation_order(const void *a, const void *b)
{
	const struct relation *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int family_read(struct family *f)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	struct proc_stat s;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (e = readdir(dir))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		if (!proc_stat_read((pid_t)atoi(e->d_name), &s))
			err = family_add(f, &s);
	}
	closedir(dir);
	if (!err && f->n)
		qsort(f->all, f->n, sizeof(*f->all), relation_order);
	return err;
}

static bool is_among(pid_t pid, const pid_t *pids, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

static bool family_has(const struct family *f, pid_t pid)
{
	struct relation key = { .pid = pid };

	return f->n && bsearch(&key, f->all, f->n, sizeof(key), relation_order);
}

int proc_forest(const pid_t *roots, unsigned n_roots, const pid_t *apart,
		unsigned n_apart, pid_t *pids, unsigned max)
{
	struct family f = { 0 };
	unsigned n = 0;
	int err = family_read(&f);

	for (unsigned i = 0; !err && i < n_roots && n < max; i++)
		if (family_has(&f, roots[i]) && !is_among(roots[i], pids, n))
			pids[n++] = roots[i];
	for (unsigned parent = 0; !err && parent < n; parent++)
		for (unsigned i = 0; i < f.n && n < max; i++)
			if (f.all[i].ppid == pids[parent] &&
			    !is_among(f.all[i].pid, apart, n_apart) &&
			    !is_among(f.all[i].pid, roots, n_roots))
				pids[n++] = f.all[i].pid;
	free(f.all);
	return err ? err : (int)n;
}

int proc_tree(pid_t root, pid_t *pids, unsigned max)
{
	struct proc_stat s;
	int err = proc_stat_read(root, &s);

	return err ? err : proc_forest(&root, 1, NULL, 0, pids, max);
}

/* Which needles lie in the n bytes, beside those of found. */
static int find_needles(const char *buf, size_t n, const char *const *needles,
			int found)
{
	for (unsigned i = 0; needles[i]; i++)
		if (!(found >> i & 1) &&
		    memmem(buf, n, needles[i], strlen(needles[i])))
			found |= 1 << i;
	return found;
}

/* The longest needle, or 0 when they cannot be looked for. */
static size_t longest(const char *const *needles, int *all)
{
	size_t most = 0;
	unsigned i;

	for (i = 0; needles[i]; i++) {
		size_t len = strlen(needles[i]);

		if (len == 0 || len > NEEDLE_MAX || i == PROC_NEEDLES_MAX)
			return 0;
		if (len > most)
			most = len;
	}
	*all = (1 << i) - 1;
	return most;
}

int proc_maps_scan(pid_t pid, const char *const *needles)
{
	char path[64], *buf;
	int fd, all, found = 0;
	size_t len = longest(needles, &all), kept = 0;
	ssize_t got = 1;

	if (len == 0)
		return -EINVAL;
	proc_path(path, sizeof(path), pid, "maps");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return proc_error(errno);
	buf = malloc(NEEDLE_MAX + MAPS_CHUNK);
	if (!buf) {
		close(fd);
		return -ENOMEM;
	}
	while (found != all && (got = read(fd, buf + kept, MAPS_CHUNK)) > 0) {
		size_t n = kept + (size_t)got;

		found = find_needles(buf, n, needles, found);
		/* a needle may lie across two chunks */
		kept = n < len - 1 ? n : len - 1;
		memmove(buf, buf + n - kept, kept);
	}
	if (!found && got < 0)
		found = proc_error(errno);
	free(buf);
	close(fd);
	return found;
}

int proc_maps_find(pid_t pid, const char *needle)
{
	const char *const needles[] = { needle, NULL };

	return proc_maps_scan(pid, needles);
}

double proc_age_s(uint64_t start_ticks)
{
	struct timespec now;
	double hz = (double)sysconf(_SC_CLK_TCK), age;

	if (!start_ticks || hz <= 0 || clock_gettime(CLOCK_BOOTTIME, &now))
		return 0;
	age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 -
	      (double)start_ticks / hz;
	return age > 0 ? age : 0;
}

static bool look_at(pid_t pid, const char *name, struct stat *out)
{
	char path[64];

	proc_path(path, sizeof(path), pid, name);
	return !stat(path, out);
}

/* ns/net is for those who may trace it; files below net/ are for all, and each
 * namespace has its own. */
int proc_same_network(pid_t pid)
{
	static const char *const names[] = { "ns/net", "net/dev" };
	struct stat own, theirs;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (look_at(getpid(), names[i], &own) &&
		    look_at(pid, names[i], &theirs))
			return own.st_ino == theirs.st_ino &&
			       own.st_dev == theirs.st_dev;
	return errno == ENOENT || errno == ESRCH ? -ESRCH : -EACCES;
}

uint32_t proc_netns(pid_t pid)
{
	struct stat st;

	if (look_at(pid, "ns/net", &st) ||
	    (proc_same_network(pid) == 1 && look_at(getpid(), "ns/net", &st)))
		return (uint32_t)st.st_ino;
	return 0;
}

/* The number of a GPU's device file, or -1. */
static long gpu_number(const char *link)
{
	static const char prefix[] = "/dev/nvidia";
	size_t n = sizeof(prefix) - 1;

	if (strncmp(link, prefix, n) != 0 || !isdigit((unsigned char)link[n]))
		return -1;
	return strtol(link + n, NULL, 10);
}

int proc_fds_read(pid_t pid, struct proc_fds *out,
		  void (*on_socket)(void *cls, uint64_t inode), void *cls)
{
	struct proc_fds fds = { 0 };
	char path[64], link[256];
	const struct dirent *e;
	bool hidden = false;
	ssize_t n;
	long gpu;
	DIR *dir;

	proc_path(path, sizeof(path), pid, "fd");
	dir = opendir(path);
	if (!dir)
		return proc_error(errno);
	while ((e = readdir(dir))) {
		n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		/* of our user, and with capabilities that we lack */
		hidden |= n < 0 && errno == EACCES;
		if (n <= 0)
			continue;
		link[n] = '\0';
		if (on_socket && strncmp(link, "socket:[", 8) == 0)
			on_socket(cls, strtoull(link + 8, NULL, 10));
		else if (!fds.ring[0] &&
			 strncmp(link, "/memfd:" RING_NAME,
				 sizeof("/memfd:" RING_NAME) - 1) == 0)
			snprintf(fds.ring, sizeof(fds.ring), "/proc/%d/fd/%d",
				 (int)pid, atoi(e->d_name));
		gpu = gpu_number(link);
		fds.nvidia |= gpu >= 0;
		if (gpu >= 0 && gpu < 64)
			fds.gpus |= 1ull << gpu;
	}
	closedir(dir);
	if (hidden)
		return -EACCES;
	*out = fds;
	return 0;
}
