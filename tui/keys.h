/*
 * keys.h - the one table of keys: what they do, the help, the key bar
 */
#ifndef MOETOP_TUI_KEYS_H
#define MOETOP_TUI_KEYS_H

#include <stdbool.h>

enum action {
	ACTION_SCREEN, /* the screen whose key it is */
	ACTION_NEXT,
	ACTION_PREVIOUS,
	ACTION_HELP,
	ACTION_EXPLAIN,
	ACTION_LEAVE, /* what lies over the screen, then help, then a mark */
	ACTION_FILTER,
	ACTION_SORT,
	ACTION_REVERSE,
	ACTION_PAUSE,
	ACTION_FASTER,
	ACTION_SLOWER,
	ACTION_ZOOM,
	ACTION_WHAT_IF,
	ACTION_WINDOW,
	ACTION_RESET,
	ACTION_SETUP,
	ACTION_THEME,
	ACTION_LOG,
	ACTION_REDRAW,
	ACTION_SCREEN_KEY, /* the screen's own: only described here */
	ACTION_QUIT,
};

struct binding {
	int keys[6];      /* characters or enum input; 0 ends */
	const char *name; /* "q", "+ =" */
	const char *help; /* what it does */
	const char *bar;  /* key, blank, word; NULL: not in the key bar */
	unsigned rank;    /* in the key bar, the highest goes first; 0 never */
	enum action action;
};

#define BINDINGS 24u
extern const struct binding bindings[BINDINGS];

/* NULL when no binding has the key. */
const struct binding *binding_find(int key);

#endif
