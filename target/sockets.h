/*
 * sockets.h - what a set of processes listens on: TCP ports and UNIX streams
 *
 * A port belongs to a process when one of its descriptors is a socket whose
 * inode is in state LISTEN in the process's network namespace; so it is with
 * UNIX sockets.  Where the socket was opened, and by whom, does not matter.
 */
#ifndef MOETOP_TARGET_SOCKETS_H
#define MOETOP_TARGET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/proc.h"

#define LISTENERS_MAX 1024u /* in one namespace */
#define SOCKETS_MAX 64u     /* UNIX ones of the processes looked at */
#define SOCKET_PATH_MAX 112u

struct listener {
	uint64_t inode;
	uint16_t port;
};

/* One line of /proc/net/tcp or tcp6: 1 and *out when it listens, 0 when it is
 * in another state, -EINVAL when it is no such line. */
int listener_parse(const char *line, struct listener *out);

/* A UNIX stream socket that listens.  Its path is as it was bound, maybe cut;
 * that of an abstract name begins with '@'. */
struct unix_listener {
	uint64_t inode;
	char path[SOCKET_PATH_MAX];
};

/* The same for a line of /proc/net/unix. */
int unix_listener_parse(const char *line, struct unix_listener *out);

/*
 * Is it the one that an option of the server names?  Without an option ("") any
 * is but those by which its processes talk to each other: of Python's
 * multiprocessing, Ray, and ZeroMQ as vLLM names its own.
 */
bool unix_listener_serves(const struct unix_listener *l, const char *option);

struct sockets {
	unsigned n;
	struct {
		uint16_t port;
		pid_t pid;     /* the first of the processes that holds it */
	} list[LISTENERS_MAX]; /* ascending ports, no port twice */
	unsigned n_unix;
	struct unix_listener unix_list[SOCKETS_MAX]; /* ascending inodes */
	unsigned more; /* times that one found no room */
	bool denied;   /* a process was not readable */
};

/* What namespaces listen on, for as many looks as may share it: the kernel takes
 * milliseconds for a list.  NULL: no memory. */
struct namespaces *namespaces_new(void);
void namespaces_free(struct namespaces *ns); /* NULL is legal */

/* Another number when the ports or UNIX sockets are others. */
uint64_t sockets_sum(const struct sockets *s);

/*
 * Look through the descriptors of n processes, once.  fds, if not NULL, has n
 * entries and gets what else they say.  0 or -ENOMEM; processes that are gone
 * are left out.
 */
int sockets_read(const pid_t *pids, unsigned n, struct sockets *out,
		 struct proc_fds *fds);

/* The same, with what ns has; -ENOMEM also where that is NULL. */
int sockets_read_with(struct namespaces *ns, const pid_t *pids, unsigned n,
		      struct sockets *out, struct proc_fds *fds);

#endif
