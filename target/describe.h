/*
 * describe.h - one server of the table of processes, told in full
 *
 * Its command line, environment, file of options, release and container; the
 * ports and GPUs of its processes.
 */
#ifndef MOETOP_TARGET_DESCRIBE_H
#define MOETOP_TARGET_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/cmdline.h"
#include "target/processes.h"
#include "target/sockets.h"

struct description {
	struct cmdline cmdline; /* engine[0] == 0: nothing known */
	pid_t server;           /* whose files the model is looked for in */
	enum process_group group;
	char container[64];
	char note[96];   /* what keeps it from being watched, "" nothing */
	unsigned ranks;  /* by their titles */
	unsigned fronts; /* that speak HTTP, by their titles */
	bool left_over;  /* GROUP_LEFT_OVER, and it serves nobody */
	uint64_t gpus;   /* numbers of open GPUs below 64, as bits */
	uint16_t port;   /* HTTP; 0 none or not known */
	bool port_seen;  /* it listens there */
	bool unix_seen;  /* it listens on a UNIX socket for HTTP */
};

/* With the dear part, its release. */
#define DESCRIBE_ALL true
#define DESCRIBE_QUICKLY false

/*
 * The server whose first process is p->all[root]; pids are its processes, s
 * what they listen on and fds their descriptors (n entries).
 */
void describe(const struct processes *p, int root, const pid_t *pids,
	      unsigned n, const struct sockets *s, const struct proc_fds *fds,
	      bool all, struct description *out);

/* For processes_group: what it asks, by /proc. */
extern const struct processes_ask describe_ask;

/* "0-3,5", cut to room. */
void describe_gpus(uint64_t gpus, char *out, size_t room);

#endif
