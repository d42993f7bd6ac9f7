#include "tui/line.h"

#include <stdio.h>
#include <string.h>

#include "tui/screen.h"

#define CONTROL(letter) ((letter)&0x1f)
#define BACKSPACE 127

void line_set(struct line *l, const char *text, size_t most)
{
	l->most = most && most < LINE_BYTES ? most : LINE_BYTES - 1;
	snprintf(l->text, l->most + 1, "%s", text);
	l->at = strlen(l->text);
}

static bool inside_character(const struct line *l, size_t at)
{
	return ((unsigned char)l->text[at] & 0xc0) == 0x80;
}

static void left(struct line *l)
{
	if (l->at)
		l->at--;
	while (l->at && inside_character(l, l->at))
		l->at--;
}

static void right(struct line *l)
{
	if (l->text[l->at])
		l->at++;
	while (inside_character(l, l->at))
		l->at++;
}

/* From byte `from` to the cursor, which goes there. */
static void cut(struct line *l, size_t from)
{
	memmove(l->text + from, l->text + l->at, strlen(l->text + l->at) + 1);
	l->at = from;
}

static void cut_left(struct line *l)
{
	size_t end = l->at, from;

	left(l);
	from = l->at;
	l->at = end;
	cut(l, from);
}

static void cut_word(struct line *l)
{
	size_t from = l->at;

	while (from && l->text[from - 1] == ' ')
		from--;
	while (from && l->text[from - 1] != ' ')
		from--;
	cut(l, from);
}

static void insert(struct line *l, int key)
{
	char bytes[4];
	size_t n = utf8_encode((uint32_t)key, bytes), used = strlen(l->text);

	if (used + n > l->most)
		return;
	memmove(l->text + l->at + n, l->text + l->at, used - l->at + 1);
	memcpy(l->text + l->at, bytes, n);
	l->at += n;
}

static bool move(struct line *l, int key)
{
	switch (key) {
	case INPUT_LEFT:
	case CONTROL('B'):
		left(l);
		return true;
	case INPUT_RIGHT:
	case CONTROL('F'):
		right(l);
		return true;
	case INPUT_HOME:
	case CONTROL('A'):
		l->at = 0;
		return true;
	case INPUT_END:
	case CONTROL('E'):
		l->at = strlen(l->text);
		return true;
	default:
		return false;
	}
}

bool line_key(struct line *l, int key)
{
	if (move(l, key))
		return true;
	switch (key) {
	case BACKSPACE:
	case CONTROL('H'):
		cut_left(l);
		return true;
	case INPUT_DELETE:
		if (l->text[l->at]) {
			right(l);
			cut_left(l);
		}
		return true;
	case CONTROL('U'):
		cut(l, 0);
		return true;
	case CONTROL('K'):
		l->text[l->at] = '\0';
		return true;
	case CONTROL('W'):
		cut_word(l);
		return true;
	default:
		break;
	}
	if (key < ' ' || (key >= BACKSPACE && key < 0xa0) || key >= 0x110000)
		return false;
	insert(l, key);
	return true;
}

void line_draw(struct grid *g, struct rect r, const struct line *l,
	       enum style s)
{
	int before = grid_width(g, l->text, l->at), x = 0;
	const char *p = l->text;
	bool drawn = false;

	if (before >= r.w)
		x = r.w - 1 - before;
	while (*p) {
		bool here = p == l->text + l->at;
		uint32_t c = utf8_next(&p);
		drawn |= here;
		x += grid_put(g, r, x, 0, here ? STYLE_CURSOR : s, c);
	}
	if (!drawn)
		grid_put(g, r, x, 0, STYLE_CURSOR, ' ');
}
