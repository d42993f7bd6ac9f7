#include "tui/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct unit {
	double least; /* use from this absolute value on */
	double scale;
	const char *name;
};

/* Descending; the limits are where rounding to three digits reaches them. */
static const struct unit second_units[] = {
	{ 5995, 3600, " h" },       { 99.95, 60, " min" },
	{ 0.9995, 1, " s" },        { 0.9995e-3, 1e-3, " ms" },
	{ 0.9995e-6, 1e-6, " µs" }, { 0, 1e-9, " ns" },
};
static const struct unit byte_units[] = {
	{ 0.9995e15, 1e15, " PB" }, { 0.9995e12, 1e12, " TB" },
	{ 0.9995e9, 1e9, " GB" },   { 0.9995e6, 1e6, " MB" },
	{ 0.9995e3, 1e3, " kB" },   { 0, 1, " B" },
};
static const struct unit count_units[] = {
	{ 0.9995e12, 1e12, " T" },
	{ 0.9995e9, 1e9, " G" },
	{ 0.9995e6, 1e6, " M" },
	{ 9995, 1e3, " k" },
};

#define HUGE_NUMBER 1e18

static void three_digits(char out[NUMBER_TEXT], double v, const char *unit)
{
	double a = fabs(v);
	int decimals = a < 9.995 ? 2 : a < 99.95 ? 1 : 0;

	snprintf(out, NUMBER_TEXT, "%.*f%s", decimals, v, unit);
}

static void scaled(char out[NUMBER_TEXT], double v, const struct unit *u)
{
	while (u->least > fabs(v))
		u++;
	if (v == 0)
		snprintf(out, NUMBER_TEXT, "0%s", u->name);
	else
		three_digits(out, v / u->scale, u->name);
}

static void count(char out[NUMBER_TEXT], double v)
{
	double a = fabs(v);

	for (size_t i = 0; i < sizeof(count_units) / sizeof(*count_units); i++)
		if (a >= count_units[i].least) {
			three_digits(out, v / count_units[i].scale,
				     count_units[i].name);
			return;
		}
	if (v == floor(v) || a >= 99.95)
		snprintf(out, NUMBER_TEXT, "%.0f", v);
	else
		snprintf(out, NUMBER_TEXT, a < 0.0995 ? "%.2f" : "%.1f", v);
}

static void percent(char out[NUMBER_TEXT], double ratio, bool whole)
{
	double p = ratio * 100, a = fabs(p);

	if (p == 0)
		snprintf(out, NUMBER_TEXT, "0 %%");
	else if (a < (whole ? 0.5 : 0.05))
		snprintf(out, NUMBER_TEXT, "%s%s %%", p < 0 ? ">-" : "<",
			 whole ? "1" : "0.1");
	else
		snprintf(out, NUMBER_TEXT, "%.*f %%", !whole && a < 9.95, p);
}

static void usd(char out[NUMBER_TEXT], double v)
{
	char digits[NUMBER_TEXT];
	double a = fabs(v);

	if (a >= 9995)
		count(digits, a);
	else
		snprintf(digits, sizeof(digits), "%.*f",
			 a >= 99.5               ? 0
			 : a >= 0.0995 || v == 0 ? 2
						 : 4,
			 a);
	snprintf(out, NUMBER_TEXT, "%s$%.20s", v < 0 ? "-" : "", digits);
}

static void with_suffix(char out[NUMBER_TEXT], const char *suffix)
{
	size_t used = strlen(out);

	snprintf(out + used, NUMBER_TEXT - used, "%s", suffix);
}

void format_number(char out[NUMBER_TEXT], double v, enum number_form form)
{
	if (!isfinite(v)) {
		snprintf(out, NUMBER_TEXT, "-");
		return;
	}
	if (fabs(v) >= HUGE_NUMBER) {
		snprintf(out, NUMBER_TEXT, "%.1e", v);
		return;
	}
	switch (form) {
	case NUMBER_COUNT:
		count(out, v);
		break;
	case NUMBER_RATIO:
		three_digits(out, v, "");
		break;
	case NUMBER_PERCENT:
		percent(out, v, false);
		break;
	case NUMBER_PERCENT_WHOLE:
		percent(out, v, true);
		break;
	case NUMBER_SECONDS:
		scaled(out, v, second_units);
		break;
	case NUMBER_MICROS:
		snprintf(out, NUMBER_TEXT, "%.*f", fabs(v) < 0.99995e-3,
			 v * 1e6);
		break;
	case NUMBER_BYTES:
		scaled(out, v, byte_units);
		break;
	case NUMBER_BYTES_RATE:
		scaled(out, v, byte_units);
		with_suffix(out, "/s");
		break;
	case NUMBER_RATE:
		count(out, v);
		with_suffix(out, "/s");
		break;
	case NUMBER_USD:
		usd(out, v);
		break;
	}
}

void format_value(char out[NUMBER_TEXT], struct value v, enum number_form form)
{
	if (!value_known(v) || !isfinite(v.v)) {
		snprintf(out, NUMBER_TEXT,
			 v.state == VALUE_WARMING ? "…" : "-");
		return;
	}
	format_number(out, v.v, form);
	with_suffix(out, format_mark(v.source));
}

void format_column(char out[NUMBER_TEXT], struct value v, enum number_form form)
{
	char text[NUMBER_TEXT];

	format_value(text, v, form);
	if (v.state == VALUE_STALE && strlen(text) + 2 < NUMBER_TEXT)
		snprintf(out, NUMBER_TEXT, "(%.20s)", text);
	else
		snprintf(out, NUMBER_TEXT, "%s", text);
}

const char *format_mark(enum value_source s)
{
	static const char *const marks[SOURCES] = { "", "~", "≈", "§" };

	return (unsigned)s < SOURCES ? marks[s] : "?";
}

enum style format_style(struct value v, enum style fresh)
{
	if (v.state == VALUE_OK)
		return fresh;
	return v.state == VALUE_STALE ? STYLE_STALE : STYLE_DIM;
}

void format_elapsed(char out[NUMBER_TEXT], double seconds)
{
	if (!isfinite(seconds) || seconds < 0 || seconds > 1e10) {
		snprintf(out, NUMBER_TEXT, "-");
		return;
	}
	long s = (long)seconds, days = s / 86400;
	int used = 0;

	if (days)
		used = snprintf(out, NUMBER_TEXT, "%ldd ", days);
	snprintf(out + used, NUMBER_TEXT - (size_t)used, "%02d:%02d:%02d",
		 (int)(s / 3600 % 24), (int)(s / 60 % 60), (int)(s % 60));
}

void format_clock(char out[NUMBER_TEXT], double unix_seconds)
{
	struct tm tm;
	time_t t;

	snprintf(out, NUMBER_TEXT, "--:--:--");
	if (!isfinite(unix_seconds) || fabs(unix_seconds) > 1e11)
		return;
	t = (time_t)unix_seconds;
	if (localtime_r(&t, &tm))
		strftime(out, NUMBER_TEXT, "%H:%M:%S", &tm);
}
