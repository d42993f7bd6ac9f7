#include "tui/escape.h"

#define ESC 27
#define X10_BYTES 6u /* ESC [ M button x y */

static struct escape_event key(int c)
{
	return (struct escape_event){ .key = c };
}

static enum mouse kind_of(int button, bool release)
{
	int which = button & 3;

	if (button & 64)
		return which == 0   ? MOUSE_UP
		       : which == 1 ? MOUSE_DOWN
				    : MOUSE_NONE;
	if (button & 128)
		return MOUSE_NONE;
	if (release)
		return which == 0 || which == 3 ? MOUSE_RELEASE : MOUSE_NONE;
	if (button & 32)
		return which == 0 ? MOUSE_DRAG : MOUSE_NONE;
	return which == 0 ? MOUSE_PRESS : which == 2 ? MOUSE_RIGHT : MOUSE_NONE;
}

static unsigned report(struct escape *e, int button, bool release, int x, int y,
		       struct escape_event *out)
{
	e->n = 0;
	*out = (struct escape_event){ .mouse = kind_of(button, release),
				      .x = x - 1,
				      .y = y - 1 };
	return out->mouse != MOUSE_NONE && x > 0 && y > 0;
}

/* ESC [ < n ; n ; n final */
static unsigned sgr(struct escape *e, struct escape_event *out)
{
	int number[3] = { 0 }, final = e->bytes[e->n - 1];
	unsigned i = 0;

	for (unsigned k = 3; k + 1 < e->n; k++) {
		int c = e->bytes[k];

		if (c == ';' && i < 2)
			i++;
		else if (c >= '0' && c <= '9' && number[i] < 100000)
			number[i] = number[i] * 10 + c - '0';
		else
			final = 0;
	}
	if (i == 2 && (final == 'M' || final == 'm'))
		return report(e, number[0], final == 'm', number[1], number[2],
			      out);
	e->n = 0;
	return 0;
}

static unsigned control(struct escape *e, int c, struct escape_event *out)
{
	bool x10 = e->n > 2 && e->bytes[2] == 'M';

	if (x10 && e->n < X10_BYTES)
		return 0;
	if (x10)
		return report(e, e->bytes[3] - 32, (e->bytes[3] & 3) == 3,
			      e->bytes[4] - 32, e->bytes[5] - 32, out);
	if (e->n == 3 && c == 'M')
		return 0;
	if (e->n > 2 && (c < 0x20 || (c >= 0x40 && c <= 0x7e))) {
		if (e->bytes[2] == '<')
			return sgr(e, out);
		e->n = 0;
	}
	return 0;
}

unsigned escape_feed(struct escape *e, int c, struct escape_event out[2])
{
	if (!e->n && c != ESC) {
		out[0] = key(c);
		return 1;
	}
	if (e->n == 1 && c != '[' && c != 'O') {
		out[0] = key(ESC);
		out[1] = key(c);
		e->n = c == ESC;
		return 1 + (c != ESC);
	}
	if (e->n > 1 && c == ESC) { /* broken off */
		e->n = 1;
		return 0;
	}
	e->bytes[e->n < ESCAPE_BYTES ? e->n++ : ESCAPE_BYTES - 1] = c;
	if (e->n < 3)
		return 0;
	if (e->bytes[1] == 'O') {
		e->n = 0;
		return 0;
	}
	return control(e, c, out);
}

bool escape_flush(struct escape *e, struct escape_event *out)
{
	if (e->n != 1)
		return false;
	e->n = 0;
	*out = key(ESC);
	return true;
}
