/*
 * endpoints.h - what the paths of inference servers are for
 *
 * The table holds the HTTP and gRPC interfaces of vLLM and SGLang.  A server may
 * be mounted below a prefix (root_path), so a path is classified by the longest
 * entry that it ends with.
 */
#ifndef MOETOP_BPF_ENDPOINTS_H
#define MOETOP_BPF_ENDPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/requests.h"

struct endpoint_path {
	const char *path;
	enum endpoint endpoint;
};

/* All known paths; *n entries, static. */
const struct endpoint_path *endpoints_table(size_t *n);

/* FNV-1a, 64 bits, as the BPF program computes it over a path. */
uint64_t endpoints_hash(const char *path, size_t bytes);

/*
 * Class of a path of which the last bytes are known; without the query.
 * ENDPOINT_OTHER when no entry fits.
 */
enum endpoint endpoints_classify(const char *tail, size_t bytes);

/*
 * Class of a path in Huffman's code (bpf/huffman.h), query and all, of which
 * the last bytes are known; whole: these are all.  Where the beginning is
 * missing so is the first bit of a character, and each of eight is tried: a
 * known path does not come out by chance.
 */
enum endpoint endpoints_classify_coded(const uint8_t *tail, size_t bytes,
				       bool whole);

#endif
