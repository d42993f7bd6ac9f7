/*
 * rungs.h - the BPF programs of the data sources, to load and attach
 */
#ifndef MOETOP_BPF_RUNGS_H
#define MOETOP_BPF_RUNGS_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/shared.h"

#define RUNGS 5u
#define RUNG_LINKS_MAX 16u

struct bpf_object;
struct bpf_link;

struct rung {
	const char *letter;
	const char *name;  /* the letter and the hooks */
	const char *needs; /* of the kernel and in privileges */
	const void *(*bytes)(size_t *n);
};

/* Best first: RUNGS of them, static. */
extern const struct rung rungs[RUNGS];

struct rung_programs {
	struct bpf_object *object;
	struct bpf_link *links[RUNG_LINKS_MAX];
	unsigned n_links;
	struct tracker_shared *shared;  /* mapped */
	int paths, histograms, records; /* maps */
	int walk; /* descriptor of the iterator's link, -1 without */
	/* UNIX sockets: maps, and the link of the iterator over connections;
	 * -1 where the source cannot see them */
	int listeners, names, conns, gone;
};

/*
 * Load; nothing is attached yet.  0, and rung_close later, or -errno with
 * nothing left behind.
 */
int rung_load(const struct rung *r, struct rung_programs *out);

/* 0 or -errno.  What was attached stays so until rung_detach. */
int rung_attach(struct rung_programs *p);
void rung_detach(struct rung_programs *p);

/* Follow these ports (host order) and no others. */
void rung_ports(struct rung_programs *p, const uint16_t *ports, size_t n);

/*
 * Follow the UNIX stream sockets that these inodes are the listeners of, and no
 * others; at most UNIX_LISTENERS_MAX.  0, -EOPNOTSUPP where the source cannot, or -errno.
 */
int rung_unix(struct rung_programs *p, const uint64_t *inodes, size_t n);

/* A consistent-enough copy: each word is read once, atomically. */
void rung_read(const struct rung_programs *p, struct request_gauges *gauges,
	       struct request_counters *counters);

/* Calls missed because a program was running on the CPU already. */
uint64_t rung_missed(const struct rung_programs *p);

/*
 * Walk over the open sockets (bpf/existing.h).  -EOPNOTSUPP where the source
 * or the kernel has no iterator, or -errno.
 */
int rung_walk(struct rung_programs *p);

void rung_close(struct rung_programs *p); /* of all zero bytes: nothing */

#endif
