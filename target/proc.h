/*
 * proc.h - processes, as /proc shows them
 *
 * Every reader takes its input as hostile: names hold parentheses, spaces and
 * colons, processes end between two reads.
 */
#ifndef MOETOP_TARGET_PROC_H
#define MOETOP_TARGET_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
	pid_t pid, ppid, pgrp, session;
	char state;           /* 'R', 'S', 'Z', ... */
	char comm[32];        /* cut to fit */
	uint64_t start_ticks; /* since boot; tells a reused pid */
};

/* The text of /proc/PID/stat.  0 or -EINVAL; *out unchanged on error. */
int proc_stat_parse(const char *text, size_t bytes, struct proc_stat *out);

/* -ESRCH when there is no such process, -errno. */
int proc_stat_read(pid_t pid, struct proc_stat *out);

/*
 * At most room - 1 bytes of /proc/PID/NAME, NUL-terminated.  Returns the
 * number of bytes or -errno (-ESRCH when the process is gone).
 */
ssize_t proc_read(pid_t pid, const char *name, char *buf, size_t room);

/* Thread group of a pid or tid; pid itself when it cannot be read. */
pid_t proc_tgid(pid_t pid);

/*
 * root and all its descendants, root first, parents before children, siblings
 * by pid; at most max.  Returns how many there are, cut to max, or -errno.
 * Children whose parent died belong to another tree.
 */
int proc_tree(pid_t root, pid_t *pids, unsigned max);

/*
 * The same from several roots at once, without the processes in `apart` and all
 * below them.  Roots that are gone are left out.
 */
int proc_forest(const pid_t *roots, unsigned n_roots, const pid_t *apart,
		unsigned n_apart, pid_t *pids, unsigned max);

/* Which of the needles (at most PROC_NEEDLES_MAX, of at most 64 characters, ended
 * by NULL) a mapping's path contains: bit i for needles[i], or -errno. */
#define PROC_NEEDLES_MAX 8u
int proc_maps_scan(pid_t pid, const char *const *needles);

/* The same for one: 1, 0 or -errno. */
int proc_maps_find(pid_t pid, const char *needle);

/* Seconds since the process was born, 0 when it cannot be told. */
double proc_age_s(uint64_t start_ticks);

/* Is its network namespace this process's own?  1, 0, -EACCES that may not be
 * seen, -ESRCH. */
int proc_same_network(pid_t pid);
/* Inode of the network namespace; 0 when it may not be seen. */
uint32_t proc_netns(pid_t pid);

/* What the open files of one process say about it. */
struct proc_fds {
	char ring[64]; /* "/proc/PID/fd/N" of an agent's ring, "" none */
	bool nvidia;   /* has a /dev/nvidiaN open */
	uint64_t gpus; /* their numbers below 64, as bits */
};

/*
 * Look through /proc/PID/fd and call on_socket, if not NULL, for the inode of
 * each socket.  0, -EACCES without permission, -errno.
 */
int proc_fds_read(pid_t pid, struct proc_fds *out,
		  void (*on_socket)(void *cls, uint64_t inode), void *cls);

#endif
