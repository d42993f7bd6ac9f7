#include "sim/server/routing.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/server/popularity.h"
#include "sim/server/rng.h"
#include "wire/record.h"

#define SHARE_ONE (1u << 20) /* shares are integers, so that sets are exact */
#define SETS_PER_SHUFFLE 16u /* their points are spread evenly */

struct routing {
	unsigned layers, experts, top_k;
	uint32_t persistence; /* of 65536 */
	uint64_t *salt;       /* per layer */
	uint32_t *share;      /* layer x expert, of SHARE_ONE */
	uint16_t *pool;       /* layer x ROUTING_POOL x top_k */
};

int routing_parse(const char *text, struct routing_options *out)
{
	char *end;

	if (!strcmp(text, "uniform")) {
		out->kind = ROUTING_UNIFORM;
	} else if (!strncmp(text, "zipf:", 5)) {
		double a = strtod(text + 5, &end);

		if (end == text + 5 || *end || !(a >= 0 && a <= 8))
			return -EINVAL;
		out->kind = ROUTING_ZIPF;
		out->exponent = a;
	} else if (!strcmp(text, "popularity")) {
		out->kind = ROUTING_POPULARITY;
		out->file = NULL;
	} else if (!strncmp(text, "popularity:", 11) && text[11]) {
		out->kind = ROUTING_POPULARITY;
		out->file = text + 11;
	} else {
		return -EINVAL;
	}
	return 0;
}

static void shuffle(struct rng *r, uint16_t *v, unsigned n)
{
	for (unsigned i = n; i > 1; i--) {
		unsigned j = rng_below(r, i);
		uint16_t t = v[i - 1];

		v[i - 1] = v[j];
		v[j] = t;
	}
}

/*
 * Scale weights to shares that add up to k exactly, none above 1.  What the
 * cap cuts off goes to the others, in proportion to their weights.
 */
static void weights_to_shares(const double *w, unsigned n, unsigned k,
			      uint32_t *share)
{
	double scale = 0;
	uint64_t total = 0, want = (uint64_t)k * SHARE_ONE;

	for (unsigned round = 0; round <= n; round++) {
		double open = 0, before = scale;
		unsigned capped = 0;

		for (unsigned e = 0; e < n; e++) {
			if (scale * w[e] >= 1)
				capped++;
			else
				open += w[e];
		}
		if (open > 0)
			scale = (double)(k - capped) / open;
		if (scale <= before)
			break;
	}
	for (unsigned e = 0; e < n; e++) {
		double s = fmin(scale * w[e], 1) * SHARE_ONE;

		share[e] = (uint32_t)s;
		total += share[e];
	}
	while (total < want)
		for (unsigned e = 0; e < n && total < want; e++)
			if (share[e] < SHARE_ONE) {
				share[e]++;
				total++;
			}
}

static void fill_weights(const struct routing_options *o,
			 const struct popularity *p, unsigned layer,
			 unsigned experts, struct rng *rng, double *w)
{
	uint16_t order[EXPERTS_MAX];

	for (unsigned e = 0; e < experts; e++)
		order[e] = (uint16_t)e;
	if (o->kind == ROUTING_ZIPF)
		shuffle(rng, order, experts);
	for (unsigned e = 0; e < experts; e++) {
		if (o->kind == ROUTING_UNIFORM)
			w[e] = 1;
		else if (o->kind == ROUTING_ZIPF)
			w[e] = pow(order[e] + 1.0, -o->exponent);
		else
			w[e] = popularity_at(p, layer, e);
	}
}

/* One set: the experts whose intervals hold u, u + 1, ... u + k - 1. */
static void draw_set(const uint32_t *ends, const uint16_t *order, unsigned n,
		     unsigned k, uint32_t u, uint16_t *set)
{
	unsigned low = 0;

	assert(n > 0);
	for (unsigned j = 0; j < k; j++) {
		uint32_t point = u + j * SHARE_ONE;
		unsigned high = n - 1;

		while (low < high) {
			unsigned mid = (low + high) / 2;

			if (ends[mid] > point)
				high = mid;
			else
				low = mid + 1;
		}
		set[j] = order[low];
	}
}

static void fill_pool(struct routing *r, unsigned layer, struct rng *rng)
{
	const uint32_t *share = r->share + (size_t)layer * r->experts;
	uint16_t *pool = r->pool + (size_t)layer * ROUTING_POOL * r->top_k;
	const uint32_t stratum = SHARE_ONE / SETS_PER_SHUFFLE;
	uint16_t order[EXPERTS_MAX];
	uint32_t ends[EXPERTS_MAX];

	for (unsigned e = 0; e < r->experts; e++)
		order[e] = (uint16_t)e;
	for (unsigned i = 0; i < ROUTING_POOL; i++) {
		if (i % SETS_PER_SHUFFLE == 0) {
			uint32_t sum = 0;

			shuffle(rng, order, r->experts);
			for (unsigned e = 0; e < r->experts; e++)
				ends[e] = sum += share[order[e]];
		}
		draw_set(ends, order, r->experts, r->top_k,
			 i % SETS_PER_SHUFFLE * stratum +
				 rng_below(rng, stratum),
			 pool + (size_t)i * r->top_k);
	}
}

static int routing_fill(struct routing *r, const struct routing_options *o,
			char *why, size_t why_bytes)
{
	struct popularity *p = NULL;
	double w[EXPERTS_MAX];
	int err = 0;

	if (o->kind == ROUTING_POPULARITY)
		err = popularity_new(&p, o->file, why, why_bytes);
	if (err)
		return err;
	for (unsigned l = 0; l < r->layers; l++) {
		struct rng rng = { mix64(o->seed ^ mix64(l + 1)) };

		r->salt[l] = rng_next(&rng);
		fill_weights(o, p, l, r->experts, &rng, w);
		weights_to_shares(w, r->experts, r->top_k,
				  r->share + (size_t)l * r->experts);
		fill_pool(r, l, &rng);
	}
	popularity_free(p);
	return 0;
}

int routing_new(struct routing **out, const struct routing_options *o,
		unsigned layers, unsigned experts, unsigned top_k, char *why,
		size_t why_bytes)
{
	struct routing *r;
	int err;

	if (!layers || layers > LAYERS_MAX || experts > EXPERTS_MAX || !top_k ||
	    top_k > ROUTING_TOP_K_MAX || top_k > experts ||
	    !(o->persistence >= 0 && o->persistence <= 1)) {
		snprintf(why, why_bytes,
			 "%u layers, %u experts, top-%u: "
			 "out of range",
			 layers, experts, top_k);
		return -EINVAL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->layers = layers;
	r->experts = experts;
	r->top_k = top_k;
	r->persistence = (uint32_t)(o->persistence * 65536);
	r->salt = calloc(layers, sizeof(*r->salt));
	r->share = calloc((size_t)layers * experts, sizeof(*r->share));
	r->pool =
		calloc((size_t)layers * ROUTING_POOL * top_k, sizeof(*r->pool));
	err = -ENOMEM;
	if (r->salt && r->share && r->pool)
		err = routing_fill(r, o, why, why_bytes);
	if (err) {
		routing_free(r);
		return err;
	}
	*out = r;
	return 0;
}

void routing_free(struct routing *r)
{
	if (!r)
		return;
	free(r->salt);
	free(r->share);
	free(r->pool);
	free(r);
}

const uint16_t *routing_pick(const struct routing *r, unsigned layer,
			     uint64_t token_key, uint64_t seq_key)
{
	uint64_t h = mix64(token_key ^ r->salt[layer]);
	uint64_t set = h & (ROUTING_POOL - 1);

	if (((h >> 16) & 0xffff) < r->persistence)
		set = mix64(seq_key ^ r->salt[layer] ^ (h % ROUTING_TASTE)) &
		      (ROUTING_POOL - 1);
	return r->pool + ((size_t)layer * ROUTING_POOL + set) * r->top_k;
}

double routing_share(const struct routing *r, unsigned layer, unsigned expert)
{
	return (double)r->share[(size_t)layer * r->experts + expert] /
	       SHARE_ONE;
}
