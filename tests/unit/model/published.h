/* published.h - measurements that others published, and what was predicted */
#ifndef MOETOP_TESTS_UNIT_MODEL_PUBLISHED_H
#define MOETOP_TESTS_UNIT_MODEL_PUBLISHED_H

#include "tests/unit/model/plan_models.h"

#define ROWS_MAX 256u
#define LINE_BYTES 1024u

struct published {
	char line[LINE_BYTES];
	const char *source, *model, *hardware, *metric, *kind;
	const char *prediction; /* of the reference arithmetic, "" none */
	double b, value;
	double ours; /* NAN: not predicted here */
};

static struct published rows[ROWS_MAX];
static unsigned n_rows;

/* The next field of a line; quotes are taken off, "" inside them stays out. */
static inline char *next_field(char **at)
{
	char *out = *at, *to = *at, *p = *at;
	bool quoted = *p == '"';

	for (p += quoted; *p && (quoted || *p != ','); p++) {
		if (quoted && *p == '"' && p[1] == '"') {
			p++;
		} else if (quoted && *p == '"') {
			quoted = false;
			continue;
		}
		*to++ = *p;
	}
	*at = *p ? p + 1 : p;
	*to = '\0';
	return out;
}

/* source,url,model,hardware,B,metric,value,unit,note,model_prediction,
 * rel_error,prediction_kind */
static inline int published_load(void **state)
{
	FILE *f = fopen("tests/data/published.csv", "re");
	char head[LINE_BYTES];

	(void)state;
	if (!f || !fgets(head, sizeof(head), f))
		return -1;
	while (n_rows < ROWS_MAX) {
		struct published *r = &rows[n_rows];
		char *at = r->line, *field[12];

		if (!fgets(r->line, sizeof(r->line), f))
			break;
		r->line[strcspn(r->line, "\r\n")] = '\0';
		for (unsigned i = 0; i < 12; i++)
			field[i] = next_field(&at);
		r->source = field[0];
		r->model = field[2];
		r->hardware = field[3];
		r->b = strtod(field[4], NULL);
		r->metric = field[5];
		r->value = strtod(field[6], NULL);
		r->prediction = field[9];
		r->kind = field[11];
		r->ours = NAN;
		n_rows++;
	}
	fclose(f);
	return 0;
}

/* Parts of the names; "" fits all. */
static inline struct published *find_row(const char *source, const char *model,
					 const char *metric, double b)
{
	for (unsigned i = 0; i < n_rows; i++) {
		struct published *r = &rows[i];

		if (strstr(r->source, source) && strstr(r->model, model) &&
		    strstr(r->metric, metric) && (b < 0 || r->b == b))
			return r;
	}
	return NULL;
}

static inline double error_of(const struct published *r)
{
	return r->ours / r->value - 1;
}

/* Whether ours is the reference's to the digits printed there: two decimals or
 * four digits, whichever is less. */
static inline bool as_reference(const struct published *r)
{
	double want = strtod(r->prediction, NULL);
	const char *point = strchr(r->prediction, '.');
	double digit = pow(10, point ? -(double)strlen(point + 1) : 0);

	return fabs(r->ours - want) <=
	       fmax(0.501 * digit, fmin(0.5, 5.1e-4 * fabs(want)));
}

#endif
