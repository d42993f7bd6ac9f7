/*
 * routing.h - which experts a token picks
 *
 * Every layer has a share per expert: the probability that a token picks it,
 * at most 1, adding up to k.  Sets of k distinct experts whose shares are
 * exactly these are drawn beforehand by systematic sampling over shuffled
 * experts (Madow 1949), ROUTING_POOL of them a layer; a token takes one of them
 * by a hash of its key, so that a draw costs one multiplication and one load.
 *
 * With persistence P a token takes, with probability P, one of the few sets
 * that its own sequence prefers in that layer.
 *
 * Immutable once made: any thread may read.
 */
#ifndef MOETOP_SIM_SERVER_ROUTING_H
#define MOETOP_SIM_SERVER_ROUTING_H

#include <stddef.h>
#include <stdint.h>

#define ROUTING_POOL 8192u /* sets a layer */
#define ROUTING_TASTE 8u   /* sets that one sequence prefers in a layer */
#define ROUTING_TOP_K_MAX 64u

enum routing_kind { ROUTING_UNIFORM, ROUTING_ZIPF, ROUTING_POPULARITY };

struct routing_options {
	enum routing_kind kind;
	double exponent;    /* ROUTING_ZIPF: share ~ rank^-exponent */
	const char *file;   /* ROUTING_POPULARITY: numbers, a line a layer;
			       NULL: the built-in table of Qwen3-235B-A22B */
	double persistence; /* 0..1 */
	uint64_t seed;
};

struct routing;

/* "uniform", "zipf:A", "popularity", "popularity:FILE" (borrowed: file points
 * into text).  0 or -EINVAL; the other members of *out are left alone. */
int routing_parse(const char *text, struct routing_options *out);

/*
 * Layers or experts beyond a popularity table take the values of other layers.
 * 1 <= top_k <= experts <= EXPERTS_MAX, layers <= LAYERS_MAX, else -EINVAL; a
 * file that cannot be used: -errno or -EINVAL.  why gets one line.
 */
int routing_new(struct routing **out, const struct routing_options *o,
		unsigned layers, unsigned experts, unsigned top_k, char *why,
		size_t why_bytes);
void routing_free(struct routing *r);

/* The k experts of a token: token_key and seq_key are any hashes of the token
 * and of its sequence.  Borrowed from the pool. */
const uint16_t *routing_pick(const struct routing *r, unsigned layer,
			     uint64_t token_key, uint64_t seq_key);

/* The probability that a token picks this expert. */
double routing_share(const struct routing *r, unsigned layer, unsigned expert);

#endif
