#include "model/popularity.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 64u
#define ROUNDING 1.001 /* a chance of 1 in a file of few digits */

struct reader {
	const char *at, *end;
	unsigned line;
	char *why;
	size_t why_bytes;
};

static int refuse(const struct reader *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(const struct reader *r, const char *fmt, ...)
{
	char what[120];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	for (char *c = what; *c; c++) /* what a file holds may be anything */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	snprintf(r->why, r->why_bytes, "line %u: %s", r->line, what);
	return -EINVAL;
}

static bool is_separator(char c)
{
	return c == ',' || c == ';' || c == ' ' || c == '\t' || c == '\r';
}

/* The line that follows, without blank lines and comments. */
static bool next_line(struct reader *r, const char **line, size_t *bytes)
{
	while (r->at < r->end) {
		const char *p = r->at;
		const char *nl = memchr(p, '\n', (size_t)(r->end - p));
		size_t n = (size_t)((nl ? nl : r->end) - p), i = 0;

		r->at = nl ? nl + 1 : r->end;
		r->line++;
		while (i < n && is_separator(p[i]))
			i++;
		if (i == n || p[i] == '#')
			continue;
		*line = p;
		*bytes = n;
		return true;
	}
	return false;
}

/* -1: no number. */
static double number_of(const char *p, size_t n)
{
	char copy[NUMBER_BYTES], *end = NULL;
	double v;

	if (n == 0 || n >= sizeof(copy))
		return -1;
	memcpy(copy, p, n);
	copy[n] = '\0';
	v = strtod(copy, &end);
	return end == copy + n && isfinite(v) && v >= 0 ? v : -1;
}

static int read_numbers(const struct reader *r, const char *line, size_t bytes,
			uint32_t experts, double *out)
{
	uint32_t n = 0;

	for (size_t i = 0; i < bytes;) {
		size_t len = 0;
		double v;

		while (i < bytes && is_separator(line[i]))
			i++;
		while (i + len < bytes && !is_separator(line[i + len]))
			len++;
		if (len == 0)
			break;
		v = number_of(line + i, len);
		if (v < 0)
			return refuse(r,
				      "'%.*s' is not a chance or a count of "
				      "tokens",
				      (int)(len < 24 ? len : 24), line + i);
		if (n < experts)
			out[n] = v;
		n++;
		i += len;
	}
	if (n != experts)
		return refuse(r, "%u numbers, but the model has %u experts", n,
			      experts);
	return 0;
}

static int scale(const struct reader *r, uint32_t experts, double k,
		 double *chance)
{
	double sum = 0;

	for (uint32_t e = 0; e < experts; e++)
		sum += chance[e];
	if (!(sum > 0) || !isfinite(sum))
		return refuse(r, "all chances are 0");
	for (uint32_t e = 0; e < experts; e++) {
		double q = chance[e] / sum * k;

		if (q > ROUNDING)
			return refuse(r,
				      "expert %u would be picked %.2f times by "
				      "every token",
				      e, q);
		chance[e] = fmin(q, 1);
	}
	return 0;
}

static unsigned count_lines(struct reader r)
{
	const char *line;
	unsigned n = 0;
	size_t bytes;

	while (next_line(&r, &line, &bytes))
		n++;
	return n;
}

static unsigned lines_max(uint32_t experts)
{
	uint32_t fit = experts ? POPULARITY_CELLS_MAX / experts : 0;

	return fit < POPULARITY_LAYERS_MAX ? fit : POPULARITY_LAYERS_MAX;
}

int popularity_parse(const char *text, size_t bytes, uint32_t experts, double k,
		     struct popularity **out, char *why, size_t why_bytes)
{
	struct reader r = { .at = text,
			    .end = text + bytes,
			    .why = why,
			    .why_bytes = why_bytes };
	unsigned lines = count_lines(r), most = lines_max(experts);
	struct popularity *p;
	const char *line;
	size_t n;

	if (lines == 0 || lines > most) {
		snprintf(why, why_bytes,
			 "%u lines of numbers; give one for each MoE layer, at "
			 "most %u",
			 lines, most);
		return -EINVAL;
	}
	p = calloc(1,
		   sizeof(*p) + sizeof(p->chance[0]) * lines * (size_t)experts);
	if (!p)
		return -ENOMEM;
	p->experts = experts;
	while (next_line(&r, &line, &n)) {
		double *chance = p->chance + (size_t)p->layers++ * experts;

		if (read_numbers(&r, line, n, experts, chance) ||
		    scale(&r, experts, k, chance)) {
			free(p);
			return -EINVAL;
		}
	}
	*out = p;
	return 0;
}

double popularity_active(const struct popularity *p, double b)
{
	size_t n = (size_t)p->layers * p->experts;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double q = p->chance[i];

		if (q > 0)
			sum += q < 1 ? -expm1(b * log1p(-q)) : 1;
	}
	return sum / p->layers;
}

double popularity_single(const struct popularity *p, double b)
{
	size_t n = (size_t)p->layers * p->experts;
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		double q = p->chance[i];

		if (q >= 1)
			sum += b <= 1;
		else if (q > 0)
			sum += b * q * exp((b - 1) * log1p(-q));
	}
	return sum / p->layers;
}
