#include "core/settings_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	ON_VIEW = 1 << COMMAND_VIEW,
	ON_RUN = 1 << COMMAND_RUN,
	ON_DEMO = 1 << COMMAND_DEMO,
	ON_DOCTOR = 1 << COMMAND_DOCTOR,
	ON_PLAN = 1 << COMMAND_PLAN,
	ON_RECORD = 1 << COMMAND_RECORD,
	ON_REPLAY = 1 << COMMAND_REPLAY,
	ON_VIEWS = ON_VIEW | ON_DEMO | ON_REPLAY,
	ON_LIVE = ON_VIEW | ON_DEMO | ON_DOCTOR | ON_RECORD,
	ON_ALL = (1 << COMMANDS) - 1,
};

#define ROW(id, l, n, on, kind, a, def, lo, hi, h) \
	{ .name = (n),                             \
	  .arg = (a),                              \
	  .help = (h),                             \
	  .letter = (l),                           \
	  .offset = offsetof(struct settings, id), \
	  .type = OPTION_##kind,                   \
	  .commands = (unsigned)(on),              \
	  .init = (def),                           \
	  .min = (lo),                             \
	  .max = (hi) },
const struct option settings_options[] = {
#define FLAG(id, l, n, on, h) ROW(id, l, n, on, FLAG, "", 0, 0, 0, h)
#define NUMBER(id, l, n, on, a, def, lo, hi, h) \
	ROW(id, l, n, on, NUMBER, a, def, lo, hi, h)
#define INTEGER(id, l, n, on, a, def, lo, hi, h) \
	ROW(id, l, n, on, INTEGER, a, def, lo, hi, h)
#define TEXT(id, l, n, on, a, h) ROW(id, l, n, on, TEXT, a, 0, 0, 0, h)
#define LIST(id, l, n, on, a, h) ROW(id, l, n, on, LIST, a, 0, 0, 0, h)
#define CHOICE(id, l, n, on, w, def, h) \
	ROW(id, l, n, on, CHOICE, w, def, 0, 0, h)
#include "core/settings.def"
};
#define OPTIONS (sizeof(settings_options) / sizeof(settings_options[0]))
const size_t settings_n_options = OPTIONS;
_Static_assert(OPTIONS <= SETTINGS_OPTIONS_MAX, "room for their origins");

int settings_refuse(char *why, size_t bytes, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, bytes, format, ap);
	va_end(ap);
	return -EINVAL;
}

bool settings_kept(const struct option *o)
{
	static const char *const not [] = {
		"pid",  "config", "help",  "version", "json", "headless",
		"once", "output", "count", "all",     "user",
	};

	if (!(o->commands & ON_VIEW))
		return false;
	for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++)
		if (!strcmp(o->name, not [i]))
			return false;
	return true;
}

/* ---- values ------------------------------------------------------------ */

static void *member(struct settings *s, const struct option *o)
{
	return (char *)s + o->offset;
}

void settings_defaults(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < OPTIONS; i++) {
		const struct option *o = &settings_options[i];

		if (o->type == OPTION_NUMBER)
			*(double *)member(s, o) = o->init;
		else if (o->type == OPTION_INTEGER)
			*(long *)member(s, o) = (long)o->init;
		else if (o->type == OPTION_CHOICE)
			*(int *)member(s, o) = (int)o->init;
	}
}

static int set_number(struct settings *s, const struct option *o,
		      const char *text, char *why, size_t bytes)
{
	bool whole = o->type == OPTION_INTEGER;
	char *end = NULL;
	double v = strtod(text, &end);

	if (isspace((unsigned char)text[0]) || end == text || *end ||
	    !isfinite(v) || (whole && v != floor(v)))
		return settings_refuse(
			why, bytes,
			"--%s: '%.60s' is not a %snumber; give one from %.15g "
			"to %.15g",
			o->name, text, whole ? "whole " : "", o->min, o->max);
	if (v < o->min || v > o->max)
		return settings_refuse(
			why, bytes,
			"--%s: %.60s is out of range; give a number from "
			"%.15g to %.15g",
			o->name, text, o->min, o->max);
	if (whole)
		*(long *)member(s, o) = (long)v;
	else
		*(double *)member(s, o) = v;
	return 0;
}

void settings_usable_words(const char *words, char *out, size_t bytes)
{
	size_t n = 0;

	while (*words) {
		size_t len = strcspn(words, "|");

		if (*words != '!' && n < bytes)
			n += (size_t)snprintf(out + n, bytes - n, "%s%.*s",
					      n ? "|" : "", (int)len, words);
		words += len + (words[len] == '|');
	}
}

static int set_choice(struct settings *s, const struct option *o,
		      const char *text, char *why, size_t bytes)
{
	const char *word = o->arg;
	char usable[SETTINGS_WORDS_BYTES];
	int index = 0;

	settings_usable_words(o->arg, usable, sizeof(usable));
	while (*word) {
		bool absent = *word == '!';
		size_t len = strcspn(word += absent, "|");

		if (strlen(text) == len && !strncmp(word, text, len)) {
			if (absent)
				return settings_refuse(
					why, bytes,
					"--%s=%s: not built into this "
					"version; give one of %s",
					o->name, text, usable);
			*(int *)member(s, o) = index;
			return 0;
		}
		index++;
		word += len + (word[len] == '|');
	}
	return settings_refuse(why, bytes,
			       "--%s: '%.60s' is not a choice; give one of %s",
			       o->name, text, usable);
}

static int add_value(struct settings *s, const struct option *o,
		     const char *text, char *why, size_t bytes)
{
	struct settings_list *list = member(s, o);

	if (list->n == SETTINGS_LIST_MAX)
		return settings_refuse(
			why, bytes,
			"--%s: given more than %u times; give fewer", o->name,
			SETTINGS_LIST_MAX);
	list->v[list->n++] = text;
	return 0;
}

int settings_put(struct settings *s, const struct option *o, const char *text,
		 char *why, size_t bytes)
{
	switch (o->type) {
	case OPTION_NUMBER:
	case OPTION_INTEGER:
		return set_number(s, o, text, why, bytes);
	case OPTION_CHOICE:
		return set_choice(s, o, text, why, bytes);
	case OPTION_TEXT:
	case OPTION_LIST:
		if (!*text)
			return settings_refuse(
				why, bytes, "--%s: empty; give it as --%s %s",
				o->name, o->name, o->arg);
		if (o->type == OPTION_LIST)
			return add_value(s, o, text, why, bytes);
		*(const char **)member(s, o) = text;
		return 0;
	case OPTION_FLAG:
		if (*text && strcmp(text, "true") && strcmp(text, "false"))
			return settings_refuse(why, bytes,
					       "--%s: '%.40s' is neither true "
					       "nor false; give one of them",
					       o->name, text);
		break;
	}
	*(bool *)member(s, o) = strcmp(text, "false") != 0;
	return 0;
}

/* ---- and back ---------------------------------------------------------- */

static const void *get(const struct settings *s, const struct option *o)
{
	return (const char *)s + o->offset;
}

static void get_choice(const struct option *o, int index, char *out,
		       size_t bytes)
{
	const char *word = o->arg;

	for (; index > 0; index--)
		word += strcspn(word, "|") + 1;
	word += *word == '!';
	snprintf(out, bytes, "%.*s", (int)strcspn(word, "|"), word);
}

void settings_word(const char *name, int index, char *out, size_t bytes)
{
	const struct option *o = settings_find(name, strlen(name));

	out[0] = '\0';
	if (o && o->type == OPTION_CHOICE)
		get_choice(o, index, out, bytes);
}

void settings_get(const struct settings *s, const struct option *o, char *out,
		  size_t bytes)
{
	const struct settings_list *list = get(s, o);
	const char *text = NULL;

	out[0] = '\0';
	switch (o->type) {
	case OPTION_FLAG:
		text = *(const bool *)get(s, o) ? "true" : "false";
		break;
	case OPTION_NUMBER:
		if (*(const double *)get(s, o) != 0)
			snprintf(out, bytes, "%.10g",
				 *(const double *)get(s, o));
		break;
	case OPTION_INTEGER:
		if (*(const long *)get(s, o) != 0)
			snprintf(out, bytes, "%ld", *(const long *)get(s, o));
		break;
	case OPTION_CHOICE:
		get_choice(o, *(const int *)get(s, o), out, bytes);
		break;
	case OPTION_TEXT:
		text = *(const char *const *)get(s, o);
		break;
	case OPTION_LIST:
		text = list->n ? list->v[0] : NULL;
		break;
	}
	if (text)
		snprintf(out, bytes, "%s", text);
}

const struct option *settings_find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (strlen(settings_options[i].name) == bytes &&
		    !strncmp(settings_options[i].name, name, bytes))
			return &settings_options[i];
	return NULL;
}
