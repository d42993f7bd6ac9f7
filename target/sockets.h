/*
 * sockets.h - the TCP ports that a set of processes listens on
 *
 * A port belongs to a process when one of its descriptors is a socket whose
 * inode is in state LISTEN in the process's network namespace.
 */
#ifndef MOETOP_TARGET_SOCKETS_H
#define MOETOP_TARGET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/proc.h"

#define LISTENERS_MAX 1024u /* in one namespace */
#define SOCKETS_MAX 64u     /* of the processes looked at */

struct listener {
	uint64_t inode;
	uint16_t port;
};

/* One line of /proc/net/tcp or tcp6: 1 and *out when it listens, 0 when it is
 * in another state, -EINVAL when it is no such line. */
int listener_parse(const char *line, struct listener *out);

struct sockets {
	unsigned n;
	struct {
		uint16_t port;
		pid_t pid;   /* the first of the processes that holds it */
	} list[SOCKETS_MAX]; /* ascending ports, no port twice */
	unsigned more;       /* ports that found no room */
	bool denied;         /* a process was not readable */
};

/* What namespaces listen on, for as many looks as may share it: the kernel takes
 * milliseconds for a list.  NULL: no memory. */
struct namespaces *namespaces_new(void);
void namespaces_free(struct namespaces *ns); /* NULL is legal */

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
