/*
 * format.h - numbers as people read them: three digits, a unit, a source mark
 *
 * The mark follows the value: none measured, ~ inferred, ≈ modelled, § scraped
 * (as the engine claims).  Unknown is "-", a value that is still being
 * gathered is "…".  Bytes are decimal (1 GB = 10^9).  No text is longer than
 * NUMBER_TEXT - 1 bytes, whatever the number.
 */
#ifndef MOETOP_TUI_FORMAT_H
#define MOETOP_TUI_FORMAT_H

#include "model/value.h"
#include "tui/theme.h"

#define NUMBER_TEXT 24u

enum number_form {
	NUMBER_COUNT,         /* 14, 61.3, 12.3 k */
	NUMBER_RATIO,         /* 0.64 */
	NUMBER_PERCENT,       /* of a ratio: 61 %, 1.8 % */
	NUMBER_PERCENT_WHOLE, /* 61 %, 2 % */
	NUMBER_SECONDS,       /* 16.8 ms */
	NUMBER_MICROS, /* of seconds, always in µs, for columns: 178.2 */
	NUMBER_BYTES,
	NUMBER_BYTES_RATE,
	NUMBER_RATE, /* 3.1/s */
	NUMBER_USD,  /* $4.10 */
};

static inline double known_or_nan(struct value v)
{
	return value_known(v) ? v.v : NAN;
}

/* Not finite is "-". */
void format_number(char out[NUMBER_TEXT], double v, enum number_form form);

/* With source mark. */
void format_value(char out[NUMBER_TEXT], struct value v, enum number_form form);

/* The same for a column: a stale value stands in parentheses. */
void format_column(char out[NUMBER_TEXT], struct value v,
		   enum number_form form);

/* "", "~", "≈", "§" */
const char *format_mark(enum value_source s);

/* fresh for a value that is ok, else dim or stale. */
enum style format_style(struct value v, enum style fresh);

/* Time since something, "00:12:31", "3d 04:05:06"; "-" when not finite. */
void format_elapsed(char out[NUMBER_TEXT], double seconds);

/* Local time of day of a unix time, "14:03:59". */
void format_clock(char out[NUMBER_TEXT], double unix_seconds);

#endif
