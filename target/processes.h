/*
 * processes.h - the processes of the machine, and which server each belongs to
 *
 * A server is found by the command line of the process that starts it, its
 * workers by their titles; a process belongs to the nearest server above it.
 * Four kinds of process have no server above them though they belong to one:
 * actors of Ray; workers whose parent has forked away, or was taken over;
 * engines that another program has started (it is the server then); and workers
 * that outlived their server, which are left over.
 *
 * Whether a process is a python program with an engine in it, and which job of
 * Ray it works for, is asked of the caller, so that this file does no I/O beyond
 * processes_read.
 */
#ifndef MOETOP_TARGET_PROCESSES_H
#define MOETOP_TARGET_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/cmdline.h"
#include "target/proc.h"
#include "target/title.h"

#define PROCESSES_MAX 65536u
#define DEPTH_MAX 128u /* generations that are looked up */

enum process_kind {
	PROCESS_OTHER,
	PROCESS_PYTHON, /* runs something that is no known server */
	PROCESS_SERVER, /* its command line starts a server */
	PROCESS_WORKER, /* has a title of one */
};

/* What holds a server's processes together. */
enum process_group {
	GROUP_NONE,     /* belongs to no server */
	GROUP_SERVER,   /* below the process that started it */
	GROUP_EMBEDDED, /* below another program with the engine in it */
	GROUP_ACTORS,   /* Ray's, of a server that is not on this machine */
	GROUP_LEFT_OVER /* their server is gone */
};

struct process {
	pid_t pid, ppid, pgrp, session;
	uint64_t start_ticks;
	enum process_kind kind;
	/* of servers */
	enum cmdline_role role;
	char engine[16];
	uint64_t args_hash;
	uint32_t port;
	bool embedded, ray, simulated;
	/* of workers */
	struct title title;
	/* set by processes_group */
	int root; /* index of the first process of its server, -1 none */
	enum process_group group;
};

struct processes {
	struct process *all; /* ascending pids */
	unsigned n, room;
	unsigned more;  /* beyond PROCESSES_MAX */
	unsigned asked; /* of struct processes_ask, at most ASKED_MAX times */
};

/* Either may read files for each; what cannot be asked any more is "no". */
#define ASKED_MAX 256u
struct processes_ask {
	/* Is an engine loaded in this python process? */
	bool (*embeds)(void *cls, pid_t pid);
	/* Names the job of Ray that it works for, "" when it cannot be told. */
	void (*ray_job)(void *cls, pid_t pid, char *out, size_t room);
	void *cls;
};

/* Add one process: its stat, and the content of cmdline.  0, -ENOMEM, -E2BIG.
 * Zombies are left out. */
int processes_add(struct processes *p, const struct proc_stat *s,
		  const char *args, size_t bytes);

/* All of /proc.  0 or -errno; *p is to be freed in any case. */
int processes_read(struct processes *p);

void processes_free(struct processes *p); /* all zero is legal */

/* Find the servers; fills in root and group of all. */
void processes_group(struct processes *p, const struct processes_ask *ask);

/* Index, or -1. */
int processes_find(const struct processes *p, pid_t pid);

/* Its index if it is the first process of a server, at or below, above or
 * around pid: the server that pid belongs to, else the only one below it (the
 * first of several, whose number goes to *several).  -1 none. */
int processes_server(const struct processes *p, pid_t pid, unsigned *several);

/* The processes of the server, root first, parents before children; at most
 * max.  Returns how many there are, cut to max. */
unsigned processes_members(const struct processes *p, int root, pid_t *out,
			   unsigned max);

#endif
