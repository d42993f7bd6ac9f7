/*
 * tree.h - the processes of the watched server
 */
#ifndef MOETOP_TARGET_TREE_H
#define MOETOP_TARGET_TREE_H

#include "target/processes.h"
#include "target/target.h"

/*
 * Fill in t->pids from all processes of the machine, which are left in p (free
 * it in any case).  *root is the index of the server's first process there, -1
 * when it belongs to none; *several the number of servers below t->pid.
 * 0 or -errno.
 */
int tree_read(struct target *t, struct processes *p, int *root,
	      unsigned *several);

/* The cheaper look: has a process of the tree come or gone?  1, 0, -errno. */
int tree_changed(const struct target *t);

#endif
