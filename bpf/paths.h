/*
 * paths.h - the hashes of paths that a BPF program is taught
 *
 * Half of its table is kept for what it learns by itself; clients that try
 * random paths end the reports, not the counting.
 */
#ifndef MOETOP_BPF_PATHS_H
#define MOETOP_BPF_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/path.h"

struct paths {
	int map;
	uint32_t taught;
};

/* Teach all that bpf/endpoints.h knows, plain and in Huffman's code.  0 or
 * -errno. */
int paths_init(struct paths *p, int map);

/* A path that no table knew; whether more of them are wanted. */
bool paths_learn(struct paths *p, const struct path_record *r);

#endif
