/*
 * path.h - a request path that no table knows, from the BPF program to its
 * loader, which classifies it and teaches the program its hash
 */
#ifndef MOETOP_BPF_PATH_H
#define MOETOP_BPF_PATH_H

#ifdef __bpf__
#include "bpf/kernel.h"
#else
#include <linux/types.h>
#endif

#define PATH_TAIL_BYTES 64u
#define PATHS_MAX 1024u /* hashes that the program can be taught */

struct path_record {
	__u64 hash;
	__u32 bytes; /* of the whole path */
	__u32 coded; /* by Huffman's code of RFC 7541, query and all */
	/* A ring: the byte after the last is at bytes % PATH_TAIL_BYTES. */
	char tail[PATH_TAIL_BYTES];
};

_Static_assert(sizeof(struct path_record) == 80, "shared layout");

#endif
