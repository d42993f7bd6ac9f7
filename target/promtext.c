#include "target/promtext.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 64u

struct promtext {
	struct promtext_handler handler;
	void *arg;
	locale_t c; /* numbers have a point, whatever the user's locale */
	struct promtext_stats stats;
	size_t n;
	bool skipping; /* the rest of a line that is too long */
	char family[PROMTEXT_NAME_MAX];
	enum promtext_type type;
	struct promtext_sample sample;
	char line[PROMTEXT_LINE_MAX + 1];
	/* Values are never longer than what they were written as. */
	char text[PROMTEXT_LINE_MAX + 1];
};

/* What is left of a line, and where resolved text goes. */
struct cursor {
	const char *p, *end;
	char *out;
};

static const struct {
	const char *name;
	enum promtext_type type;
} types[] = {
	{ "counter", PROMTEXT_COUNTER },
	{ "gauge", PROMTEXT_GAUGE },
	{ "histogram", PROMTEXT_HISTOGRAM },
	{ "gaugehistogram", PROMTEXT_GAUGE_HISTOGRAM },
	{ "summary", PROMTEXT_SUMMARY },
	{ "info", PROMTEXT_INFO },
	{ "stateset", PROMTEXT_STATESET },
};

/* What the name of a sample may add to that of its family. */
static const char *const suffixes[] = { "",        "_total",  "_created",
					"_bucket", "_sum",    "_count",
					"_gsum",   "_gcount", "_info" };

static void skip_blanks(struct cursor *c)
{
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\t'))
		c->p++;
}

static bool at(const struct cursor *c, char want)
{
	return c->p < c->end && *c->p == want;
}

static bool take(struct cursor *c, char want)
{
	if (!at(c, want))
		return false;
	c->p++;
	return true;
}

static bool is_name(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
	       (ch >= '0' && ch <= '9') || ch == '_' || ch == ':';
}

/* A bare name, copied; NULL when there is none or it begins with a digit. */
static const char *take_name(struct cursor *c)
{
	const char *name = c->out;

	if (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		return NULL;
	while (c->p < c->end && is_name(*c->p))
		*c->out++ = *c->p++;
	if (c->out == name)
		return NULL;
	*c->out++ = '\0';
	return name;
}

/* Text in quotes, escapes resolved; an unknown escape stays as it is. */
static const char *take_quoted(struct cursor *c)
{
	const char *value = c->out;

	if (!take(c, '"'))
		return NULL;
	while (c->p < c->end && *c->p != '"') {
		char ch = *c->p++;

		if (ch == '\\' && c->p < c->end) {
			ch = *c->p++;
			if (ch == 'n')
				ch = '\n';
			else if (ch != '\\' && ch != '"')
				*c->out++ = '\\';
		}
		*c->out++ = ch;
	}
	if (!take(c, '"'))
		return NULL;
	*c->out++ = '\0';
	return value;
}

/* One of name="value", or a metric's name in quotes where that is allowed. */
static bool take_label(struct cursor *c, struct promtext_sample *s)
{
	struct promtext_label *l = &s->labels[s->n_labels];
	const char *name = at(c, '"') ? take_quoted(c) : take_name(c);
	bool quoted = name && c->p[-1] == '"';
	const char *value;

	if (!name)
		return false;
	skip_blanks(c);
	if (!take(c, '=')) {
		if (!quoted || s->name || s->n_labels)
			return false;
		s->name = name;
		return true;
	}
	skip_blanks(c);
	value = take_quoted(c);
	if (!value || s->n_labels == PROMTEXT_LABELS_MAX)
		return false;
	*l = (struct promtext_label){ name, value };
	s->n_labels++;
	return true;
}

/* {a="b",c="d",} or nothing. */
static bool take_labels(struct cursor *c, struct promtext_sample *s)
{
	if (!take(c, '{'))
		return true;
	for (;;) {
		skip_blanks(c);
		if (take(c, '}'))
			return true;
		if (!take_label(c, s))
			return false;
		skip_blanks(c);
		if (!take(c, ',') && !at(c, '}'))
			return false;
	}
}

/* A word that is a number as a whole. */
static bool take_number(struct cursor *c, locale_t where, double *out)
{
	char text[NUMBER_BYTES], *end;
	size_t n = 0;
	double v;

	while (c->p < c->end && *c->p != ' ' && *c->p != '\t') {
		if (n + 1 == sizeof(text))
			return false;
		text[n++] = *c->p++;
	}
	text[n] = '\0';
	v = strtod_l(text, &end, where);
	if (n == 0 || *end)
		return false;
	*out = v;
	return true;
}

static bool belongs(const char *family, const char *name)
{
	size_t n = strlen(family);

	if (n == 0 || strncmp(name, family, n) != 0)
		return false;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (!strcmp(name + n, suffixes[i]))
			return true;
	return false;
}

static bool read_sample(struct promtext *x, struct cursor *c)
{
	struct promtext_sample *s = &x->sample;

	s->name = NULL;
	s->n_labels = 0;
	s->timestamp = NAN;
	s->exemplar = false;
	if (!at(c, '{')) {
		s->name = take_name(c);
		if (!s->name)
			return false;
	}
	skip_blanks(c);
	if (!take_labels(c, s) || !s->name)
		return false;
	skip_blanks(c);
	if (!take_number(c, x->c, &s->value))
		return false;
	skip_blanks(c);
	if (c->p < c->end && *c->p != '#') {
		if (!take_number(c, x->c, &s->timestamp))
			return false;
		skip_blanks(c);
	}
	s->exemplar = at(c, '#');
	if (c->p < c->end && !s->exemplar)
		return false;
	s->type = belongs(x->family, s->name) ? x->type : PROMTEXT_UNTYPED;
	return true;
}

static bool take_word(struct cursor *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return false;
	if (c->p + n < c->end && c->p[n] != ' ' && c->p[n] != '\t')
		return false;
	c->p += n;
	skip_blanks(c);
	return true;
}

static enum promtext_type take_type(struct cursor *c)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (take_word(c, types[i].name))
			return types[i].type;
	return PROMTEXT_UNTYPED;
}

/* Any other comment is legal and says nothing. */
static void read_comment(struct promtext *x, struct cursor *c)
{
	enum promtext_type type = PROMTEXT_UNTYPED;
	bool help, typed;
	const char *name;

	skip_blanks(c);
	if (take_word(c, "EOF")) {
		x->stats.ended = true;
		return;
	}
	help = take_word(c, "HELP");
	typed = !help && take_word(c, "TYPE");
	if (!help && !typed)
		return;
	name = at(c, '"') ? take_quoted(c) : take_name(c);
	if (!name || strlen(name) >= sizeof(x->family)) {
		x->stats.bad_lines++;
		return;
	}
	skip_blanks(c);
	if (typed) {
		type = take_type(c);
		memcpy(x->family, name, strlen(name) + 1);
		x->type = type;
	}
	x->stats.families++;
	if (x->handler.family)
		x->handler.family(x->arg, name, type);
}

static void read_line(struct promtext *x)
{
	struct cursor c = { x->line, x->line + x->n, x->text };

	x->n = 0;
	if (c.end > c.p && c.end[-1] == '\r')
		c.end--;
	if (c.end - c.p >= 3 && !memcmp(c.p, "\xef\xbb\xbf", 3))
		c.p += 3;
	skip_blanks(&c);
	while (c.end > c.p && (c.end[-1] == ' ' || c.end[-1] == '\t'))
		c.end--;
	if (c.p == c.end)
		return;
	if (memchr(c.p, '\0', (size_t)(c.end - c.p))) {
		x->stats.bad_lines++;
	} else if (take(&c, '#')) {
		read_comment(x, &c);
	} else if (read_sample(x, &c)) {
		x->stats.samples++;
		if (x->handler.sample)
			x->handler.sample(x->arg, &x->sample);
	} else {
		x->stats.bad_lines++;
	}
}

int promtext_new(struct promtext **out, const struct promtext_handler *handler,
		 void *arg)
{
	struct promtext *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	x->c = newlocale(LC_ALL_MASK, "C", NULL);
	if (!x->c) {
		free(x);
		return -ENOMEM;
	}
	x->handler = *handler;
	x->arg = arg;
	*out = x;
	return 0;
}

void promtext_feed(struct promtext *x, const char *bytes, size_t n)
{
	const char *end = bytes + n;

	while (n && bytes < end) {
		size_t left = (size_t)(end - bytes);
		const char *eol = memchr(bytes, '\n', left);
		size_t part = eol ? (size_t)(eol - bytes) : left;

		if (!x->skipping && part > PROMTEXT_LINE_MAX - x->n) {
			x->skipping = true;
			x->stats.long_lines++;
			x->n = 0;
		}
		if (!x->skipping) {
			memcpy(x->line + x->n, bytes, part);
			x->n += part;
		}
		bytes += part;
		if (!eol)
			return;
		bytes++;
		if (!x->skipping)
			read_line(x);
		x->skipping = false;
	}
}

void promtext_finish(struct promtext *x)
{
	if (!x->skipping && x->n)
		read_line(x);
	x->skipping = false;
	x->n = 0;
}

const struct promtext_stats *promtext_stats(const struct promtext *x)
{
	return &x->stats;
}

void promtext_free(struct promtext *x)
{
	if (!x)
		return;
	freelocale(x->c);
	free(x);
}

const char *promtext_label(const struct promtext_sample *s, const char *name)
{
	for (unsigned i = 0; i < s->n_labels; i++)
		if (!strcmp(s->labels[i].name, name))
			return s->labels[i].value;
	return NULL;
}
