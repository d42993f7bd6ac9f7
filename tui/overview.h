/*
 * overview.h - the parts of the overview screen
 *
 * Each draws from v->shot into its rectangle, which may be empty or smaller
 * than it would like.
 */
#ifndef MOETOP_TUI_OVERVIEW_H
#define MOETOP_TUI_OVERVIEW_H

#include "tui/layout.h"
#include "tui/screen.h"

#define OVERVIEW_GRAPHS 8

/* MBU, MFU, phi and eta, a row each. */
void overview_bars(struct view *v, struct rect r);

/* The decode step by kernel group, and its legend. */
void overview_step(struct view *v, struct rect r);

/* Requests, latencies, tokens, the server's options: a row each, in this
 * order.  Whether there is anything in the last one. */
bool overview_has_server(const struct snapshot *s);
void overview_requests(struct view *v, struct rect r);

/* A few quantities across the layers, first to last. */
int overview_strip_count(const struct snapshot *s);
void overview_strips(struct view *v, struct rect r);

void overview_history(struct view *v, struct rect r,
		      const struct overview_layout *l);

#endif
