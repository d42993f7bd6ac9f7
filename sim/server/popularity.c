#include "sim/server/popularity.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/record.h"

#define BUILT_IN_LAYERS 94u
#define BUILT_IN_EXPERTS 128u
#define LAYER_STRIDE 31u /* to the layer that lends its values */

static const uint16_t built_in[BUILT_IN_LAYERS * BUILT_IN_EXPERTS] = {
#include "sim/models/popularity_qwen3_235b.inc"
};

struct popularity {
	unsigned layers, experts;
	double *weight; /* layer x expert */
};

static int take_built_in(struct popularity *p)
{
	size_t n = sizeof(built_in) / sizeof(built_in[0]);

	p->layers = BUILT_IN_LAYERS;
	p->experts = BUILT_IN_EXPERTS;
	p->weight = malloc(n * sizeof(*p->weight));
	if (!p->weight)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		p->weight[i] = built_in[i];
	return 0;
}

/* The numbers of one line; how many, or -EINVAL. */
static int parse_line(const char *line, double *out)
{
	int n = 0;

	for (;;) {
		char *end;

		line += strspn(line, ", \t\r\n");
		if (!*line)
			return n;
		if (n == (int)EXPERTS_MAX)
			return -EINVAL;
		out[n] = strtod(line, &end);
		if (end == line || !isfinite(out[n]) || out[n] <= 0)
			return -EINVAL;
		line = end;
		n++;
	}
}

static int take_line(struct popularity *p, const double *values, int n)
{
	if (n < 2 || p->layers == LAYERS_MAX)
		return -EINVAL;
	if (p->layers && p->experts != (unsigned)n)
		return -EINVAL;
	if (!p->weight)
		p->weight = malloc(sizeof(*p->weight) * LAYERS_MAX * (size_t)n);
	if (!p->weight)
		return -ENOMEM;
	p->experts = (unsigned)n;
	memcpy(p->weight + (size_t)p->layers++ * p->experts, values,
	       sizeof(*values) * (size_t)n);
	return 0;
}

static int take_file(struct popularity *p, FILE *f)
{
	double values[EXPERTS_MAX];
	char *line = NULL;
	size_t bytes = 0;
	int err = 0;

	while (!err && getline(&line, &bytes, f) > 0) {
		if (*line == '#')
			continue;
		int n = parse_line(line, values);

		if (n)
			err = n < 0 ? n : take_line(p, values, n);
	}
	free(line);
	if (!err && (ferror(f) || !p->layers))
		err = -EINVAL;
	return err;
}

int popularity_new(struct popularity **out, const char *file, char *why,
		   size_t why_bytes)
{
	struct popularity *p = calloc(1, sizeof(*p));
	FILE *f = NULL;
	int err;

	if (!p)
		return -ENOMEM;
	if (!file) {
		err = take_built_in(p);
	} else if ((f = fopen(file, "re"))) {
		err = take_file(p, f);
		fclose(f);
		if (err == -EINVAL)
			snprintf(why, why_bytes,
				 "%s: not a table of numbers above 0, a line "
				 "a layer",
				 file);
	} else {
		err = -errno;
		snprintf(why, why_bytes, "%s: %s", file, strerror(errno));
	}
	if (err) {
		popularity_free(p);
		return err;
	}
	*out = p;
	return 0;
}

void popularity_free(struct popularity *p)
{
	if (!p)
		return;
	free(p->weight);
	free(p);
}

double popularity_at(const struct popularity *p, unsigned layer,
		     unsigned expert)
{
	unsigned row =
		layer + layer / p->layers + expert / p->experts * LAYER_STRIDE;
	unsigned column = expert % p->experts;

	/* A layer that repeats a row must not repeat its favourites. */
	column = (column + layer / p->layers * LAYER_STRIDE) % p->experts;
	return p->weight[(size_t)(row % p->layers) * p->experts + column];
}
