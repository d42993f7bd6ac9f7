/*
 * text.h - what the text formats share: numbers, strings, locale
 */
#ifndef MOETOP_EXPORTER_TEXT_H
#define MOETOP_EXPORTER_TEXT_H

#include <locale.h>
#include <stdbool.h>

#include "exporter/exporter.h"

/* The shortest decimal that reads back as v; at most 17 significant digits.
 * v is finite. */
void text_number(struct text *t, double v);

/*
 * s with the characters that the format reserves escaped and every byte that
 * is not UTF-8 replaced by U+FFFD.  Without the quotes.
 */
void text_json(struct text *t, const char *s);
void text_label(struct text *t, const char *s); /* also for HELP */

bool text_is_utf8(const char *s);
void text_utf8(struct text *t, const char *s); /* nothing else replaced */

/* "off", "missing", "ok". */
const char *tier_state_name(enum tier_state s);

/* Known and finite: has a number to print. */
static inline bool printable(struct value x)
{
	return value_known(x) && isfinite(x.v);
}

/* Numbers with a point, whatever the user's language; of this thread only. */
struct c_locale {
	locale_t c, old;
};
void c_locale_enter(struct c_locale *l);
void c_locale_leave(struct c_locale *l);

#endif
