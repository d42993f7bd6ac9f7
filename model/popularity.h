/*
 * popularity.h - expert popularity from a file, and what it makes of a batch
 *
 * The file is a table of numbers, a line for each MoE layer, a column for each
 * expert, separated by commas (blanks, semicolons and tabs will do): chances
 * that a token picks the expert, which sum to k, or anything proportional to
 * them, as counts of tokens.  Blank lines and lines that begin with # are left
 * out.  Every line is scaled to the sum k.
 *
 *	U  = mean over lines of sum over experts 1 - (1 - q)^B
 *	F1 = mean over lines of sum over experts B q (1 - q)^(B-1)
 *
 * Tokens pick independently of one another: the batch touches as many experts
 * as tokens of unrelated requests would.
 */
#ifndef MOETOP_MODEL_POPULARITY_H
#define MOETOP_MODEL_POPULARITY_H

#include <stddef.h>
#include <stdint.h>

#define POPULARITY_LAYERS_MAX 1024u
#define POPULARITY_CELLS_MAX (1u << 20) /* layers x experts */
#define POPULARITY_BYTES_MAX (32u << 20)

struct popularity {
	uint32_t layers, experts;
	double chance[]; /* [layers][experts], 0..1, each layer sums to k */
};

/*
 * The table of text[bytes] for experts of which every token takes k.  0 and
 * *out, to be freed with free(); -EINVAL with one line in why: a number that is
 * none or negative, another number of columns, a line whose sum is 0, an expert
 * that would be picked more than once per token, no or too many lines; -ENOMEM.
 */
int popularity_parse(const char *text, size_t bytes, uint32_t experts, double k,
		     struct popularity **out, char *why, size_t why_bytes);

/* U and F1 at b tokens, b > 0. */
double popularity_active(const struct popularity *p, double b);
double popularity_single(const struct popularity *p, double b);

#endif
