#include "exporter/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (64u << 20)
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Room for n more bytes and a NUL. */
static bool text_reserve(struct text *t, size_t n)
{
	size_t room = t->room ? t->room : 4096;
	char *data;

	if (t->error)
		return false;
	if (n >= TEXT_BYTES_MAX - t->bytes) {
		t->error = -EFBIG;
		return false;
	}
	if (t->bytes + n < t->room)
		return true;
	while (room <= t->bytes + n)
		room *= 2;
	data = realloc(t->data, room);
	if (!data) {
		t->error = -ENOMEM;
		return false;
	}
	t->data = data;
	t->room = room;
	return true;
}

void text_write(struct text *t, const void *data, size_t bytes)
{
	if (!text_reserve(t, bytes))
		return;
	if (bytes)
		memcpy(t->data + t->bytes, data, bytes);
	t->bytes += bytes;
	t->data[t->bytes] = '\0';
}

void text_printf(struct text *t, const char *format, ...)
{
	va_list ap, again;
	int n;

	if (!text_reserve(t, 0))
		return;
	va_start(ap, format);
	va_copy(again, ap);
	n = vsnprintf(t->data + t->bytes, t->room - t->bytes, format, ap);
	if (n < 0)
		t->error = -EINVAL;
	else if ((size_t)n >= t->room - t->bytes && text_reserve(t, (size_t)n))
		vsnprintf(t->data + t->bytes, t->room - t->bytes, format,
			  again);
	if (!t->error)
		t->bytes += (size_t)n;
	else
		t->data[t->bytes] = '\0';
	va_end(again);
	va_end(ap);
}

void text_free(struct text *t)
{
	free(t->data);
	*t = (struct text){ 0 };
}

void text_number(struct text *t, double v)
{
	char s[32];

	/* most are whole, and few of those are large */
	if (v == trunc(v) && fabs(v) < 1e15 && !(v == 0 && signbit(v))) {
		text_printf(t, "%lld", (long long)v);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(s, sizeof(s), "%.*g", digits, v);
		if (strtod(s, NULL) == v)
			break;
	}
	text_write(t, s, strlen(s));
}

static bool continues(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* Bytes of the valid UTF-8 character at s, 0 when there is none. */
static size_t utf8_length(const unsigned char *s)
{
	unsigned char c = s[0];

	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return continues(s[1]) ? 2 : 0;
	if (c >= 0xe0 && c <= 0xef) {
		if (!continues(s[1]) || !continues(s[2]) ||
		    (c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f))
			return 0;
		return 3;
	}
	if (c >= 0xf0 && c <= 0xf4) {
		if (!continues(s[1]) || !continues(s[2]) || !continues(s[3]) ||
		    (c == 0xf0 && s[1] < 0x90) || (c == 0xf4 && s[1] > 0x8f))
			return 0;
		return 4;
	}
	return 0;
}

/* Write s; escape() says what stands for an ASCII character, NULL itself. */
static void text_escaped(struct text *t, const char *s,
			 const char *(*escape)(char c, char room[8]))
{
	char room[8];

	while (*s) {
		size_t n = utf8_length((const unsigned char *)s);
		const char *instead = n == 1 ? escape(*s, room) : NULL;

		if (n == 0)
			instead = REPLACEMENT;
		if (instead)
			text_write(t, instead, strlen(instead));
		else
			text_write(t, s, n);
		s += n ? n : 1;
	}
}

static const char *escape_json(char c, char room[8])
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\t':
		return "\\t";
	}
	if ((unsigned char)c >= 0x20 && c != 0x7f)
		return NULL;
	snprintf(room, 8, "\\u%04x", (unsigned)(unsigned char)c);
	return room;
}

static const char *escape_label(char c, char room[8])
{
	(void)room;
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	}
	return NULL;
}

void text_json(struct text *t, const char *s)
{
	text_escaped(t, s, escape_json);
}

void text_label(struct text *t, const char *s)
{
	text_escaped(t, s, escape_label);
}

static const char *escape_nothing(char c, char room[8])
{
	(void)c;
	(void)room;
	return NULL;
}

void text_utf8(struct text *t, const char *s)
{
	text_escaped(t, s, escape_nothing);
}

bool text_is_utf8(const char *s)
{
	while (*s) {
		size_t n = utf8_length((const unsigned char *)s);

		if (!n)
			return false;
		s += n;
	}
	return true;
}

const char *tier_state_name(enum tier_state s)
{
	static const char *const names[] = {
		[TIER_OFF] = "off",
		[TIER_MISSING] = "missing",
		[TIER_OK] = "ok",
	};

	return (unsigned)s <= TIER_OK ? names[s] : "off";
}

void c_locale_enter(struct c_locale *l)
{
	l->c = newlocale(LC_ALL_MASK, "C", NULL);
	l->old = l->c ? uselocale(l->c) : NULL;
}

void c_locale_leave(struct c_locale *l)
{
	if (!l->c)
		return;
	uselocale(l->old);
	freelocale(l->c);
}
