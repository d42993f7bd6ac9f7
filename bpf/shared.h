/*
 * shared.h - the memory that a BPF program of the tracker and its loader share
 *
 * The program counts in it and the loader, which maps it, alone writes the
 * settings.
 */
#ifndef MOETOP_BPF_SHARED_H
#define MOETOP_BPF_SHARED_H

#include "bpf/http.h"
#include "wire/requests.h"

#define PORT_WORDS 1024 /* one bit per port */
#define UNIX_LISTENERS_MAX 16
#define LIBSSL_FILES_MAX 64 /* probed libraries, of one process each */

/* The address of a listener of UNIX sockets: the rounds of the walk that found
 * it last and first. */
struct unix_name {
	__u64 seen, born;
};

/* Which guesses have had their time. */
enum settle { SETTLE_NONE, SETTLE_SURE, SETTLE_ALL };

struct tracker_shared {
	struct request_gauges gauges;
	struct request_counters counters;
	__u64 ports_on[PORT_WORDS];   /* follow new connections to these */
	__u64 ports_seen[PORT_WORDS]; /* may have followed connections */
	__u32 netns_inode;
	__u32 paths_wanted; /* report paths that no table knows */
	__u32 settle;       /* by the walk over sockets: enum settle */
	__u32 unix_on;      /* follow UNIX sockets, too */
	__u64 round;        /* of the walk */
	__u64 unix_since;   /* connections of listeners that were found in this
			       round or later may be older than we */
	__u64 oldest_ns;    /* start of the oldest request seen by the walk */
	__u64 listens; /* times that a TCP socket began or ceased to listen */
	__u64 listeners; /* sum over those that the walk saw, and who holds them */
	__u32 tls_returns; /* that of SSL_write should be probed (libssl.h) */
	__u32 registers; /* of a system call, where on its stack; 0: not known */
};

#endif
