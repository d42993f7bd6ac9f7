/*
 * privileges.h - capabilities: which ones moetop uses, for what, and when they go
 *
 * Capabilities belong to a thread.  A session has one thread that holds them
 * (core/broker.h) and looks at the server; screen, HTTP and JSON run in the main
 * thread, which has none by then.  docs/PRIVILEGES.md is the story.
 *
 * A program with file capabilities was started by somebody who must not have
 * them: until they are asked for with privileges_raise, they are permitted and
 * not effective, so that a file or a port that the user names is opened by the
 * user's own rights.
 */
#ifndef MOETOP_CORE_PRIVILEGES_H
#define MOETOP_CORE_PRIVILEGES_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define PRIVILEGE(cap) (1ull << (cap))

/* Since Linux 5.8 and 5.9; older headers lack them. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

/* To load the programs that count requests. */
#define PRIVILEGES_BPF (PRIVILEGE(CAP_BPF) | PRIVILEGE(CAP_PERFMON))
/* And what some ways of it need beside. */
#define PRIVILEGES_BPF_MORE \
	(PRIVILEGE(CAP_NET_ADMIN) | PRIVILEGE(CAP_SYS_RESOURCE))
/* To borrow a thread of the server, and to let it wait as short as can be. */
#define PRIVILEGES_ATTACH                                         \
	(PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_SYS_NICE) |    \
	 PRIVILEGE(CAP_SYS_RESOURCE) | PRIVILEGE(CAP_SYS_ADMIN) | \
	 PRIVILEGE(CAP_DAC_READ_SEARCH))
/* To look at processes of other users. */
#define PRIVILEGES_LOOK \
	(PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_DAC_READ_SEARCH))
/* To read GPU counters that are for administrators only. */
#define PRIVILEGES_COUNTERS (PRIVILEGE(CAP_PERFMON) | PRIVILEGE(CAP_SYS_ADMIN))
/* To enter the server's network. */
#define PRIVILEGES_NETWORK \
	(PRIVILEGE(CAP_SYS_PTRACE) | PRIVILEGE(CAP_SYS_ADMIN))
/* All that a session may have use for. */
#define PRIVILEGES_ALL \
	(PRIVILEGES_BPF | PRIVILEGES_BPF_MORE | PRIVILEGES_ATTACH)

/* One capability that moetop can use. */
struct privilege {
	unsigned cap;
	const char *name; /* "cap_bpf" */
	const char *use;  /* "load the programs that count requests" */
};
extern const struct privilege privileges[];
extern const unsigned n_privileges;

/* Of the calling thread. */
struct privilege_sets {
	uint64_t effective, permitted;
};
int privileges_read(struct privilege_sets *out); /* 0 or -errno */
/* Effective, of the calling thread; 0 when they cannot be read. */
uint64_t privileges_effective(void);

/* "cap_bpf,cap_perfmon"; names of others as numbers.  Cut to fit. */
void privileges_names(uint64_t mask, char *out, size_t bytes);

/* Started with more than the user has: file capabilities. */
bool privileges_elevated(void);

/*
 * First of all: an elevated program forgets the environment variables that name
 * files, and makes its capabilities ineffective.  0; -EPERM for a program that
 * is setuid, for which it is not made.
 */
int privileges_begin(void);

/* What is permitted becomes effective, in the calling thread. */
int privileges_raise(void);

/*
 * Root becomes this user, and keeps what a session needs as permitted.  Before
 * the first thread.  0; -ENOENT no such user, -EPERM not root; why gets one
 * line.
 */
int privileges_become(const char *user, char *why, size_t why_bytes);

/*
 * The calling thread keeps those of mask that it has, effective, and gives up
 * all others, with the inheritable and ambient ones, for good.  Also those that
 * privileges_forbid named.  0 or -errno.
 */
int privileges_keep(uint64_t mask);

/* What the calling thread has of mask, the program that it executes has too,
 * whoever its user is.  Async-signal-safe: between fork and exec.  0 or -errno. */
int privileges_pass_on(uint64_t mask);

/* No thread may keep these from its next privileges_keep on.  Any thread. */
void privileges_forbid(uint64_t mask);
/* Another server is watched: they may again, if they still have them. */
void privileges_permit(void);

/* What it takes to listen there, "[ADDR:]PORT": CAP_NET_BIND_SERVICE below
 * port 1024, else none.  NULL is legal. */
uint64_t privileges_for_port(const char *listen);

/* No program that this process starts can gain any. */
void privileges_seal(void);

/* May an elevated program load this file?  Only when it belongs to root or to the
 * owner of the program, and nobody else can write it. */
bool privileges_trust(const struct stat *file);

/* What has been learnt of the server, for what is needed from now on. */
struct privileges_facts {
	bool requests;      /* the source of requests works, or is not wanted */
	bool by_packets;    /* and it is that of the packets, C */
	bool tls;           /* the server has encrypted connections */
	bool counters;      /* that only CAP_SYS_ADMIN may read are wanted */
	bool agents;        /* every GPU process has its agent, or never will */
	bool filtered;      /* a process of the server has seccomp filters */
	bool other_network; /* than ours, or it could not be told */
	bool other_user;    /* a process of the server is not ours */
	bool model;         /* its config.json is read */
};

/* Fill in what the processes of the server say; the rest of *f is the caller's. */
struct target;
void privileges_look(const struct target *t, struct privileges_facts *f);

/* Those of PRIVILEGES_COUNTERS that this machine's driver asks for: 0 when its
 * counters are open to all. */
uint64_t privileges_counters(void);

/* Of PRIVILEGES_ALL, those that it still makes sense to keep. */
uint64_t privileges_needed(const struct privileges_facts *f);

#endif
