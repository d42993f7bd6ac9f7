/*
 * value.h - a number that knows whether it is known, and where it is from
 *
 * Unknown is VALUE_NO_DATA, never 0.  A view prints it as `-`, null, or not at
 * all.  The order of the sources is their rank as evidence: a derived value has
 * the weakest source among its inputs.
 */
#ifndef MOETOP_MODEL_VALUE_H
#define MOETOP_MODEL_VALUE_H

#include <math.h>
#include <stdbool.h>

enum value_state { VALUE_NO_DATA, VALUE_WARMING, VALUE_STALE, VALUE_OK };

enum value_source {
	SOURCE_MEASURED,
	SOURCE_INFERRED, /* derived from other measurements */
	SOURCE_MODELLED, /* a formula with an assumption */
	SOURCE_SCRAPED,  /* the engine's own claim */
	SOURCES
};

struct value {
	double v; /* meaningful when known */
	enum value_state state;
	enum value_source source;
};

/* Has a number to show, possibly an old one. */
static inline bool value_known(struct value x)
{
	return x.state == VALUE_OK || x.state == VALUE_STALE;
}

/* A finite v makes an OK value, anything else NO_DATA. */
static inline struct value value_make(double v, enum value_source source)
{
	if (!isfinite(v))
		return (struct value){ .source = source };
	return (struct value){ .v = v, .state = VALUE_OK, .source = source };
}

/* num / den, or NO_DATA when den is not positive. */
static inline struct value value_ratio(double num, double den,
				       enum value_source source)
{
	return value_make(den > 0 ? num / den : NAN, source);
}

static inline enum value_source source_weaker(enum value_source a,
					      enum value_source b)
{
	return a > b ? a : b;
}

/* "ok", "warming", "no_data", "stale"; "measured", ... */
const char *value_state_name(enum value_state s);
const char *value_source_name(enum value_source s);

#endif
