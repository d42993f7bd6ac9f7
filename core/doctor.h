/*
 * doctor.h - what works here, and what would fix the rest
 *
 * A table of checks, each a function of one doctor_*.c; a check says one line
 * or several.  Every need is looked at in the way that the collector would use
 * it; nothing in the server is stopped, loaded or woken.  Last come the tiers:
 * one line each, drawn from all that was found.
 *
 * Files of /proc, /sys, /etc and /run are taken below `root`, which tests set
 * (MOETOP_SYSROOT), so that every case can be shown.  docs/DOCTOR.md lists the
 * checks and the JSON.
 */
#ifndef MOETOP_CORE_DOCTOR_H
#define MOETOP_CORE_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/settings.h"
#include "core/source.h"
#include "target/target.h"

#define DOCTOR_LINES_MAX 128u

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_MISSING, /* not there, or not granted */
	DOCTOR_BROKEN,  /* there, and it does not work or stands in the way */
	DOCTOR_UNKNOWN, /* could not be told */
	DOCTOR_STATES
};

struct doctor_line {
	char id[32]; /* "kernel.btf"; "T1" for a tier */
	enum tier tier;
	enum doctor_state state;
	char what[256], remedy[256]; /* remedy: "" none */
};

/* Facts that one check finds and another needs. */
struct doctor_facts {
	uint64_t capabilities; /* effective */
	bool in_container;     /* moetop itself */
	bool in_userns;        /* not the first user namespace */
	bool own_pidns;        /* not the first pid namespace */
	int yama;              /* ptrace_scope, 0 without yama */
	bool requests;         /* a source of requests works */
	char requests_what[160], requests_remedy[256];
	bool estimates;   /* or can at least be estimated */
	bool attachable;  /* nothing is known that forbids to trace */
	unsigned present; /* ranks that have an agent */
	unsigned early;   /* since before CUDA started */
	unsigned ready;   /* with an agent, or that could get one */
	bool gpm, gpus;
	bool counters_denied; /* profiling counters, to moetop */
	bool sampled;         /* another moetop samples them */
};

struct doctor {
	const struct settings *settings;
	const char *root;            /* "" the machine itself */
	const struct target *target; /* NULL without -p */
	char program[PATH_MAX];      /* of this moetop */
	struct doctor_facts facts;
	unsigned n;
	struct doctor_line lines[DOCTOR_LINES_MAX];
	/* of the check that runs */
	const char *id;
	enum tier tier;
};

/* Run all checks.  t is NULL without a server; all is borrowed. */
void doctor_run(struct doctor *d, const struct settings *s, const char *root,
		const struct target *t);

/* The line of a tier. */
const struct doctor_line *doctor_tier(const struct doctor *d, enum tier tier);

/* Do all of these tiers work?  A bit for each. */
bool doctor_works(const struct doctor *d, unsigned tiers);

/* The tiers of --tier, "T1,T2": bits; 0 when one of them is none. */
unsigned doctor_tiers(const char *words);

/* "ok", "missing", "broken", "unknown"; "T0" .. "C". */
const char *doctor_state_name(enum doctor_state s);
const char *doctor_tier_name(enum tier t);

void doctor_print(const struct doctor *d, FILE *f);
/* One object on one line; asked: bits of tiers.  0 or -ENOMEM. */
int doctor_print_json(const struct doctor *d, unsigned asked, FILE *f);

/* ---- for the checks ------------------------------------------------------ */

/* A line of the check that runs; remedy may be "".  part, if not NULL, is added
 * to its id: "rung" and "K" make "rung.K". */
void doctor_say(struct doctor *d, const char *part, enum doctor_state state,
		const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* The first line of that id, or of what begins with it, that is missing or
 * broken; NULL none. */
const struct doctor_line *doctor_obstacle(const struct doctor *d,
					  const char *prefix);

/* How to get capabilities here: setcap, or the options of a container. */
void doctor_grant(const struct doctor *d, char *out, size_t bytes);

/* At most room - 1 bytes of a file below root, ended by NUL.  How many, or
 * -errno. */
ssize_t doctor_read(const struct doctor *d, const char *path, char *buf,
		    size_t room);
/* The same of /proc/PID/NAME: below root where it is there, else the machine's. */
ssize_t doctor_read_process(const struct doctor *d, pid_t pid, const char *name,
			    char *buf, size_t room);
ssize_t doctor_link(const struct doctor *d, const char *path, char *buf,
		    size_t room);
bool doctor_exists(const struct doctor *d, const char *path);

/* The process that stands for the server: its first GPU process, else pid. */
pid_t doctor_first(const struct doctor *d);

/* The checks, in groups; each says its lines. */
void doctor_kernel(struct doctor *d);
void doctor_btf(struct doctor *d);
void doctor_bpf(struct doctor *d);
void doctor_lockdown(struct doctor *d);
void doctor_yama(struct doctor *d);
void doctor_userns(struct doctor *d);
void doctor_container(struct doctor *d);
void doctor_privileges(struct doctor *d);
void doctor_rungs(struct doctor *d);
/* A part of that one: on a source that works. */
struct tracker;
void doctor_tls(struct doctor *d, struct tracker *t);
void doctor_server(struct doctor *d);
void doctor_model(struct doctor *d);
void doctor_engine(struct doctor *d);
void doctor_boundaries(struct doctor *d);
void doctor_seccomp(struct doctor *d);
void doctor_lsm(struct doctor *d);
void doctor_ptrace(struct doctor *d);
void doctor_agent_file(struct doctor *d);
void doctor_ranks(struct doctor *d);
void doctor_cupti(struct doctor *d);
void doctor_profiler(struct doctor *d);
void doctor_kernels(struct doctor *d);
void doctor_driver(struct doctor *d);
void doctor_gpus(struct doctor *d);
void doctor_counters(struct doctor *d);
void doctor_holders(struct doctor *d);
void doctor_sampling(struct doctor *d);
void doctor_terminal(struct doctor *d);
void doctor_listen(struct doctor *d);
/* The tiers, from all that was found before. */
void doctor_tier_lines(struct doctor *d);

#endif
