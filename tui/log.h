/*
 * log.h - the last messages, with their time
 *
 * A ring of fixed size: what is pushed out is counted.
 */
#ifndef MOETOP_TUI_LOG_H
#define MOETOP_TUI_LOG_H

#include "tui/grid.h"

#define LOG_LINES 100u
#define LOG_BYTES 160u

struct log {
	unsigned n, newest; /* lines in use; index of the newest */
	unsigned long pushed_out;
	struct log_line {
		double time; /* unix seconds */
		char text[LOG_BYTES];
	} line[LOG_LINES];
};

/* All-zero is the empty log.  A message that is the same as the newest one, or
 * empty, is none. */
void log_add(struct log *l, double time, const char *text);

/* Newest below; scroll counts the lines from the newest up, and is brought into
 * range. */
void log_draw(struct grid *g, struct rect r, const struct log *l, int *scroll);

#endif
