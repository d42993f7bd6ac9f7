/*
 * identity.h - what a server is called, for as long as it is the same one
 *
 * The name outlives its process where it can: "POD:PORT" in a Kubernetes pod,
 * "ENGINE-CONTAINER:PORT" in a container with a network of its own, else
 * "ENGINE:PORT"; "ENGINE:pid-N" before it listens.
 */
#ifndef MOETOP_CORE_IDENTITY_H
#define MOETOP_CORE_IDENTITY_H

#include <sys/types.h>

#include "model/snapshot.h"

struct identity {
	pid_t pid;          /* whose this is; 0: nobody's yet */
	bool own_network;   /* not that of moetop */
	bool distinguished; /* by its pid: another has the same name */
	char container[64], pod[64], pod_namespace[64];
	char id[16]; /* of the container, short; "" none */
};

/* Looks at /proc; what may not be seen stays "". */
void identity_read(struct identity *i, pid_t pid);

/* Fills server, pod, pod_namespace and container of *out by what else is in
 * it. */
void identity_fill(const struct identity *i, struct snapshot_target *out);

#endif
