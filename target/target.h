/*
 * target.h - the watched server, from outside
 *
 * Everything here is read from /proc and files; nothing is changed in the
 * server.  A server is a tree of processes: some own GPUs, some listen for
 * HTTP, and they need not be the same ones.
 */
#ifndef MOETOP_TARGET_TARGET_H
#define MOETOP_TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/arch.h"
#include "target/launch.h"
#include "target/sockets.h"

#define TARGET_PIDS_MAX 256u
#define TARGET_PORTS_MAX 64u
#define TARGET_UNIX_MAX 16u
#define TARGET_RANKS_MAX 16u
#define TARGET_EDGES_MAX 32u

struct target_rank {
	pid_t pid;
	uint64_t start_ticks; /* field 22 of its stat */
	uint32_t number;      /* in its title, else its place in the tree */
	char agent_ring[64];  /* "/proc/PID/fd/N" of its ring, "" if none */
	bool has_cuda;        /* libcuda is mapped */
	bool owns_gpu;        /* and a GPU is open, or simulated */
	bool simulated;
};

struct target {
	pid_t pid;            /* what the user named */
	uint64_t start_ticks; /* field 22 of stat: guards against pid reuse */
	unsigned n_pids;
	pid_t pids[TARGET_PIDS_MAX]; /* the tree, pid first */
	/* all of it is what lies below these, without what lies below those */
	unsigned n_roots, n_apart;
	pid_t roots[TARGET_EDGES_MAX], apart[TARGET_EDGES_MAX];
	unsigned n_ports;
	uint16_t ports[TARGET_PORTS_MAX]; /* listening HTTP ports */
	bool ports_guessed; /* from the command line: not (yet) seen to listen */
	unsigned n_unix;    /* UNIX sockets that listen for HTTP */
	struct unix_listener unix_sockets[TARGET_UNIX_MAX];
	unsigned unfollowed;  /* ports and UNIX sockets that found no room */
	uint64_t sockets_sum; /* of all that its processes listen on */
	bool look_at_sockets; /* the next refresh shall look what that is now */
	uint32_t netns;       /* inode of the HTTP process's net namespace */
	bool left_over;       /* workers whose server is gone */
	unsigned several;     /* servers below pid, of which this is the first;
			       0, 1: no question */
	unsigned n_ranks;
	/* processes with CUDA, by number; if any owns a GPU, only owners */
	struct target_rank ranks[TARGET_RANKS_MAX];
	pid_t server; /* its files, environment and options; 0 none found */
	char learnt_model[256];  /* of target_learn, "" nothing yet */
	char engine[16];         /* "vllm", "sglang", "trtllm", "" */
	char engine_version[24]; /* "simulated" for moetop-sim; "" unknown */
	char model[96];          /* name for people, "" unknown */
	char config_path[256];   /* config.json used, "" none */
	char config_origin[128]; /* "--model", "--model of the server", ... */
	char gpu_hint[48];       /* GPU named on the command line, "" none */
	/* 1 when not given, 0 when not known (given in a file that cannot be
	 * read, or not a number); ep: GPUs that share a layer's experts */
	uint32_t tp, ep, dp, pp;
	struct launch launch; /* its other options, for people */
	char container[64];   /* "docker 0123456789ab", "pod NAME"; "" none */
	char note[96];        /* what keeps it from being watched in full, "" */
	bool have_arch;
	char arch_error[128]; /* why not, "" if not known */
	struct arch arch;
	bool denied;    /* some of /proc was not readable: need privilege */
	unsigned looks; /* refreshes so far: paces the dearer looks */
	unsigned grown; /* the refresh that last saw a process come or go */
};

/* A config.json that the user named, as it was read. */
struct target_model {
	const char *path; /* borrowed; told, never opened */
	struct arch arch;
};

/*
 * Look at pid and its tree.  When pid belongs to a server, or has one below it,
 * the tree is that of the whole server, with pid first; that includes actors of
 * Ray and others that are no descendants (processes.h).  given, if neither it nor its
 * path is NULL, overrules what the command line of the server says.  A config.json of the server that cannot be used is no error:
 * have_arch is false, config_path says which, arch_error what is wrong with it.
 * -ESRCH no such process, -EACCES one that /proc hides from us, -errno.
 */
int target_open(struct target *t, pid_t pid, const struct target_model *given,
		char *why, size_t why_bytes);

/*
 * The server itself has named its model, a path or a name in a hub, in a page
 * like "/v1/models": look for its config.json there, if none is known yet.
 * 1 if that was new, 0 if not.
 */
int target_learn(struct target *t, const char *model, const char *page);

/*
 * Look again (once a second): children born and gone, ports, rings.  Ports that
 * an old process opens are seen at once where look_at_sockets was set, else
 * within five calls.  Returns
 * 1 if anything changed, 0 if not, -ESRCH when pid is gone (or is another
 * process now); *t then keeps its last contents.
 */
int target_refresh(struct target *t);

#endif
