/*
 * escape.h - what a terminal sends beyond keys: the mouse, and what to ignore
 *
 * A state machine fed with characters, in pieces of any size.  It knows the
 * mouse reports of xterm, 1006 ("ESC [ < button ; x ; y M") and the older one
 * of three bytes, and swallows control sequences that it does not know, so that
 * their letters are not taken for keys.
 */
#ifndef MOETOP_TUI_ESCAPE_H
#define MOETOP_TUI_ESCAPE_H

#include <stdbool.h>

#define ESCAPE_BYTES 24u

struct escape {
	unsigned n;              /* characters held back; 0: none */
	int bytes[ESCAPE_BYTES]; /* the last ones overwrite, when too many */
};

enum mouse {
	MOUSE_NONE,
	MOUSE_PRESS, /* of the left button */
	MOUSE_DRAG,  /* moved with it down */
	MOUSE_RELEASE,
	MOUSE_RIGHT, /* pressed */
	MOUSE_UP,    /* wheel */
	MOUSE_DOWN,
};

struct escape_event {
	enum mouse mouse; /* at x, y from 0; MOUSE_NONE: the key */
	int key;          /* a character */
	int x, y;
};

/* Take a character; returns how many events it makes, at most 2. */
unsigned escape_feed(struct escape *e, int c, struct escape_event out[2]);

/* There is nothing more to read for now: a lone escape is the key.  True and
 * *out when it was. */
bool escape_flush(struct escape *e, struct escape_event *out);

#endif
