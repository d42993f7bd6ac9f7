#include "exporter/negotiate.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

/* A piece of a header. */
struct span {
	const char *at;
	size_t n;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static void trim(struct span *s)
{
	while (s->n && is_space(s->at[0])) {
		s->at++;
		s->n--;
	}
	while (s->n && is_space(s->at[s->n - 1]))
		s->n--;
}

/* What lies before the next separator, quoted ones left alone; moves *from
 * behind it.  false at the end. */
static bool next_piece(const char **from, char separator, const char *end,
		       struct span *out)
{
	const char *p = *from;
	bool quoted = false;

	if (!p)
		return false;
	for (; p < end && (quoted || *p != separator); p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (quoted && *p == '\\' && p + 1 < end)
			p++;
	}
	*out = (struct span){ *from, (size_t)(p - *from) };
	trim(out);
	*from = p < end ? p + 1 : NULL;
	return true;
}

static bool is(struct span s, const char *word)
{
	return strlen(word) == s.n && strncasecmp(s.at, word, s.n) == 0;
}

static void split(struct span piece, char at, struct span *name,
		  struct span *value)
{
	const char *p = memchr(piece.at, at, piece.n);
	size_t n = p ? (size_t)(p - piece.at) : piece.n;

	*name = (struct span){ piece.at, n };
	*value = (struct span){ p ? p + 1 : NULL, p ? piece.n - n - 1 : 0 };
	trim(name);
	trim(value);
	if (value->n >= 2 && value->at[0] == '"' &&
	    value->at[value->n - 1] == '"') {
		value->at++;
		value->n -= 2;
	}
}

/* 0 to 1000; what is no quality is 0, so that nonsense wins nothing. */
static int quality(struct span v)
{
	int q = 0, scale = 1000;

	if (!v.n || (v.at[0] != '0' && v.at[0] != '1') || v.n > 5 ||
	    (v.n > 1 && v.at[1] != '.'))
		return 0;
	q = v.at[0] == '1' ? 1000 : 0;
	for (size_t i = 2; i < v.n; i++) {
		if (v.at[i] < '0' || v.at[i] > '9')
			return 0;
		scale /= 10;
		q += (v.at[i] - '0') * scale;
	}
	return q > 1000 ? 0 : q;
}

static const char *known_escaping(struct span v)
{
	static const char *const words[] = { "allow-utf-8", "underscores",
					     "dots", "values" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (is(v, words[i]))
			return words[i];
	return NULL;
}

/* One media range of Accept. */
struct range {
	struct span type;
	struct span version, proto, encoding; /* n 0: not given */
	const char *escaping;
	int q;
};

static void read_range(struct span piece, struct range *r)
{
	const char *from = piece.at, *end = piece.at + piece.n;
	struct span part, name, value;

	*r = (struct range){ .q = 1000 };
	next_piece(&from, ';', end, &r->type);
	while (next_piece(&from, ';', end, &part)) {
		split(part, '=', &name, &value);
		if (is(name, "q"))
			r->q = quality(value);
		else if (is(name, "version"))
			r->version = value;
		else if (is(name, "proto"))
			r->proto = value;
		else if (is(name, "encoding"))
			r->encoding = value;
		else if (is(name, "escaping"))
			r->escaping = known_escaping(value);
	}
}

/* Absent, or this one. */
static bool wants(struct span given, const char *ours)
{
	return !given.n || is(given, ours);
}

static bool offered(const struct range *r, enum wire_format *out)
{
	if (is(r->type, "application/vnd.google.protobuf")) {
		*out = WIRE_PROTOBUF;
		return wants(r->proto, "io.prometheus.client.MetricFamily") &&
		       wants(r->encoding, "delimited");
	}
	if (is(r->type, "application/openmetrics-text") ||
	    is(r->type, "application/*")) {
		*out = WIRE_OPENMETRICS;
		return wants(r->version, "1.0.0");
	}
	*out = WIRE_PROMETHEUS;
	return (is(r->type, "text/plain") || is(r->type, "text/*") ||
		is(r->type, "*/*")) &&
	       wants(r->version, "0.0.4");
}

void negotiate_format(const char *accept, struct wanted *out)
{
	const char *from = accept,
		   *end = accept ? accept + strlen(accept) : NULL;
	struct span piece;
	struct range r;
	int best = 0;

	*out = (struct wanted){ .format = WIRE_PROMETHEUS };
	while (next_piece(&from, ',', end, &piece)) {
		enum wire_format f;

		read_range(piece, &r);
		if (r.q <= best || !offered(&r, &f))
			continue;
		best = r.q;
		*out = (struct wanted){ f, r.escaping };
	}
}

bool negotiate_gzip(const char *accept_encoding)
{
	const char *from = accept_encoding;
	const char *end = from ? from + strlen(from) : NULL;
	int named = -1, any = -1;
	struct span piece;
	struct range r;

	while (next_piece(&from, ',', end, &piece)) {
		read_range(piece, &r);
		if (is(r.type, "gzip") || is(r.type, "x-gzip"))
			named = r.q;
		else if (is(r.type, "*"))
			any = r.q;
	}
	return (named >= 0 ? named : any) > 0;
}
