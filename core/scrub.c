#include "core/scrub.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MIN 3u
#define WHOLE_MIN 2u
#define VALUE_MIN 8u

struct word {
	char *text;
	size_t bytes;
	const char *by;
	bool whole;
};

struct scrub {
	unsigned n;
	struct word words[SCRUB_WORDS_MAX];
};

struct scrub *scrub_new(void)
{
	return calloc(1, sizeof(struct scrub));
}

void scrub_free(struct scrub *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++)
		free(s->words[i].text);
	free(s);
}

/* ---- collecting ----------------------------------------------------------- */

/* Longer words first: one may be part of another. */
bool scrub_word(struct scrub *s, const char *word, const char *by, bool whole)
{
	size_t bytes = strlen(word);
	unsigned at = 0;
	char *text;

	if (bytes < (whole ? WHOLE_MIN : WORD_MIN) || s->n == SCRUB_WORDS_MAX)
		return false;
	while (at < s->n && s->words[at].bytes >= bytes) {
		if (!strcmp(s->words[at].text, word))
			return true;
		at++;
	}
	text = strdup(word);
	if (!text)
		return false;
	memmove(&s->words[at + 1], &s->words[at],
		(s->n - at) * sizeof(s->words[0]));
	s->words[at] = (struct word){ text, bytes, by, whole };
	s->n++;
	return true;
}

static bool contains(const char *name, size_t n, const char *part)
{
	size_t len = strlen(part);

	for (size_t i = 0; i + len <= n; i++)
		if (!strncasecmp(name + i, part, len))
			return true;
	return false;
}

static bool sounds_secret(const char *name, size_t n)
{
	static const char *const parts[] = { "key",  "token", "secret", "pass",
					     "auth", "cred",  "cookie" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (contains(name, n, parts[i]))
			return true;
	return false;
}

/* What every bug report needs, and nobody minds. */
static bool is_public(const char *name, size_t n)
{
	return (n == 4 && !memcmp(name, "TERM", 4)) ||
	       (n == 4 && !memcmp(name, "LANG", 4)) ||
	       (n == 9 && !memcmp(name, "COLORTERM", 9)) ||
	       (n > 3 && !memcmp(name, "LC_", 3));
}

void scrub_environ(struct scrub *s, const char *data, size_t bytes)
{
	const char *end = data + bytes;

	for (const char *v = data; v < end;
	     v += strnlen(v, (size_t)(end - v)) + 1) {
		const char *is = memchr(v, '=', strnlen(v, (size_t)(end - v)));
		char value[4096];
		size_t n, len;

		if (!is || is_public(v, (size_t)(is - v)))
			continue;
		n = (size_t)(is - v);
		len = strnlen(is + 1, (size_t)(end - is - 1));
		snprintf(value, sizeof(value), "%.*s", (int)len, is + 1);
		if (len >= VALUE_MIN || sounds_secret(v, n))
			scrub_word(s, value, "<env>", len < VALUE_MIN);
	}
}

void scrub_cmdline(struct scrub *s, const char *data, size_t bytes)
{
	const char *end = data + bytes;
	bool secret = false, several = false;

	for (const char *a = data; a < end;
	     a += strnlen(a, (size_t)(end - a)) + 1) {
		size_t len = strnlen(a, (size_t)(end - a));
		const char *is = memchr(a, '=', len);
		char value[4096];

		snprintf(value, sizeof(value), "%.*s", (int)len, a);
		if (secret && a[0] != '-')
			scrub_word(s, value, "<key>", len < VALUE_MIN);
		/* --api-key takes all words up to the next option */
		if (a[0] == '-') {
			secret = !is && sounds_secret(a, len);
			several = secret && contains(a, len, "api");
		} else if (!several) {
			secret = false;
		}
		if (a[0] != '-' || !is || !sounds_secret(a, (size_t)(is - a)))
			continue;
		snprintf(value, sizeof(value), "%.*s",
			 (int)(len - (size_t)(is + 1 - a)), is + 1);
		scrub_word(s, value, "<key>", true);
	}
}

/* ---- shapes --------------------------------------------------------------- */

/* A rule looks at p, with `before` the character in front of it.  It returns
 * how many bytes it takes and what stands for them, else 0. */
struct match {
	size_t bytes;
	const char *by;
	size_t keep; /* of the end, which stay */
};

static size_t span(const char *p, const char *more)
{
	size_t n = 0;

	while (p[n] && (isalnum((unsigned char)p[n]) || strchr(more, p[n])))
		n++;
	return n;
}

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool path_may_stay(const char *p, size_t n)
{
	static const char *const roots[] = { "/proc/", "/sys/", "/dev/",
					     "/etc/" };

	if (memmem(p, n, "/root/", 6))
		return false;
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		if (!strncmp(p, roots[i], strlen(roots[i])))
			return true;
	return false;
}

static bool match_path(const char *p, char before, struct match *m)
{
	size_t n = strcspn(p, " \t\n\"',;()<>|&"), base;
	size_t root = strspn(p, "/"); /* "file:///a", "//a" */

	if (!root || (root == 2 && before == ':') || is_word_char(before) ||
	    before == '/')
		return false;
	while (n && strchr(".:", p[n - 1]))
		n--;
	if (n <= root || path_may_stay(p + root - 1, n - root + 1))
		return false;
	base = n;
	while (base > root && p[base - 1] != '/')
		base--;
	if (base == root)
		return false;
	*m = (struct match){ n, "...", n - base + 1 };
	return true;
}

static bool match_ipv4(const char *p, char before, struct match *m)
{
	size_t n = 0;

	if (is_word_char(before) || before == '.' || before == '-')
		return false;
	for (unsigned part = 0; part < 4; part++) {
		size_t digits = strspn(p + n, "0123456789");

		if (digits < 1 || digits > 3)
			return false;
		n += digits;
		if (part < 3 && p[n++] != '.')
			return false;
	}
	if (is_word_char(p[n]) ||
	    (p[n] == '.' && isdigit((unsigned char)p[n + 1])))
		return false;
	if (!strncmp(p, "127.0.0.1", n) || !strncmp(p, "0.0.0.0", n))
		return false;
	*m = (struct match){ n, "<address>", 0 };
	return true;
}

/* IPv6 and MAC: hexadecimal groups and colons, "::" or five colons. */
static bool match_ipv6(const char *p, char before, struct match *m)
{
	size_t n = strspn(p, "0123456789abcdefABCDEF:."), colons = 0;
	bool twice = false;

	if (is_word_char(before) || before == ':')
		return false;
	while (n && strchr(".:", p[n - 1]))
		n--;
	for (size_t i = 0; i < n; i++) {
		colons += p[i] == ':';
		twice |= i && p[i] == ':' && p[i - 1] == ':';
	}
	if (colons < 2 || (!twice && colons < 5) || is_word_char(p[n]) ||
	    (n == 3 && !strncmp(p, "::1", 3)))
		return false;
	*m = (struct match){ n, "<address>", 0 };
	return true;
}

static bool match_url(const char *p, char before, struct match *m)
{
	size_t n;

	(void)before;
	if (strncmp(p, "://", 3))
		return false;
	n = 3 + strcspn(p + 3, ":/ \t\n\"'\\");
	/* user:password@host */
	if (p[n] == ':' && strcspn(p + n, "@") < strcspn(p + n, "/ \t\n\"'"))
		n += strcspn(p + n, "/ \t\n\"'");
	if (n == 3 || !strncmp(p + 3, "127.0.0.1", 9) ||
	    !strncmp(p + 3, "localhost", 9))
		return false;
	*m = (struct match){ n, "://<host>", 0 };
	return true;
}

static bool match_mail(const char *p, char before, struct match *m)
{
	size_t n = span(p, "._+-"), host;

	if (is_word_char(before) || !n || p[n] != '@')
		return false;
	host = span(p + n + 1, ".-");
	if (!memchr(p + n + 1, '.', host))
		return false;
	*m = (struct match){ n + 1 + host, "<mail>", 0 };
	return true;
}

static bool match_key(const char *p, char before, struct match *m)
{
	static const char *const begins[] = {
		"sk-",    "hf_",  "ghp_", "gho_",  "ghs_",    "github_pat_",
		"glpat-", "xoxb", "xoxp", "AKIA",  "ASIA",    "eyJ",
		"nvapi-", "AIza", "ya29", "pypi-", "Bearer ",
	};

	if (is_word_char(before))
		return false;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		size_t len = strlen(begins[i]), n;

		if (strncmp(p, begins[i], len))
			continue;
		n = len + span(p + len, "_.-+/=");
		if (n < 12)
			continue;
		*m = (struct match){ n, "<key>", 0 };
		return true;
	}
	return false;
}

/* NAME, quotes, = or : or a gap, VALUE. */
static bool match_named(const char *p, char before, struct match *m)
{
	static const char *const names[] = {
		"api_key",      "api-key",    "apikey",        "password",
		"passwd",       "secret",     "authorization", "access_token",
		"access-token", "hf_token",   "hf-token",      "auth_token",
		"credential",   "secret_key", "access_key",    "private_key",
	};

	if (isalnum((unsigned char)before))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]), gap, value;

		if (strncasecmp(p, names[i], len))
			continue;
		gap = strspn(p + len, "\"'=: \t");
		value = strcspn(p + len + gap, " \t\n\"',;");
		if (!gap || !value)
			continue;
		if (!strncasecmp(p + len + gap, "bearer ", 7) ||
		    !strncasecmp(p + len + gap, "basic ", 6))
			value += 1 + strcspn(p + len + gap + value + 1,
					     " \t\n\"',;");
		*m = (struct match){ len + gap + value, "<key>", 0 };
		return true;
	}
	return false;
}

static bool match_opaque(const char *p, char before, struct match *m)
{
	size_t n = span(p, "+/=_-"), upper = 0, lower = 0, digits = 0;
	size_t hex = strspn(p, "0123456789abcdefABCDEF");

	if (is_word_char(before))
		return false;
	if (hex >= 32 && !is_word_char(p[hex])) {
		*m = (struct match){ hex, "<id>", 0 };
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		upper += isupper((unsigned char)p[i]) != 0;
		lower += islower((unsigned char)p[i]) != 0;
		digits += isdigit((unsigned char)p[i]) != 0;
	}
	if (n < 40 || upper < 4 || lower < 4 || digits < 4)
		return false;
	*m = (struct match){ n, "<key>", 0 };
	return true;
}

static bool match_word(const struct scrub *s, const char *p, char before,
		       struct match *m)
{
	for (unsigned i = 0; i < s->n; i++) {
		const struct word *w = &s->words[i];

		if (p[0] != w->text[0] || strncmp(p, w->text, w->bytes))
			continue;
		if (w->whole &&
		    (is_word_char(before) || is_word_char(p[w->bytes])))
			continue;
		*m = (struct match){ w->bytes, w->by, 0 };
		return true;
	}
	return false;
}

static bool match_shape(const char *p, char before, struct match *m)
{
	static bool (*const shapes[])(const char *, char, struct match *) = {
		match_url,  match_key,  match_named, match_mail,
		match_ipv4, match_ipv6, match_path,  match_opaque,
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (shapes[i](p, before, m))
			return true;
	return false;
}

/* ---- the text ------------------------------------------------------------- */

static char *one_pass(const struct scrub *s, const char *text, bool shapes)
{
	char *out = NULL, before = '\0';
	size_t room = 0;
	FILE *f = open_memstream(&out, &room);

	if (!f)
		return NULL;
	for (const char *p = text; *p;) {
		struct match m;

		if (shapes ? !match_shape(p, before, &m)
			   : !match_word(s, p, before, &m)) {
			fputc(*p, f);
			before = *p++;
			continue;
		}
		fputs(m.by, f);
		fwrite(p + m.bytes - m.keep, 1, m.keep, f);
		p += m.bytes;
		before = p[-1];
	}
	if (fclose(f)) {
		free(out);
		return NULL;
	}
	return out;
}

char *scrub_text(const struct scrub *s, const char *text)
{
	char *words = one_pass(s, text, false), *out;

	if (!words)
		return NULL;
	out = one_pass(s, words, true);
	free(words);
	return out;
}
