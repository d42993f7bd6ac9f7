/*
 * experts.h - the parts of the experts screen beside its heat map
 */
#ifndef MOETOP_TUI_EXPERTS_H
#define MOETOP_TUI_EXPERTS_H

#include "model/experts.h"
#include "tui/heat.h"
#include "tui/screen.h"

/* What the screen shows, found once for a picture. */
struct experts_view {
	const struct snapshot_experts *e;
	unsigned routed, ep;    /* ep 0: the layout over ranks is not known */
	unsigned layer, expert; /* under the cursor */
	struct experts_layer here;
	struct experts_summary all;
	struct heat map;
};

#define EXPERTS_PANEL_W 34 /* at least, to stand beside the map */
#define EXPERTS_LINES 3    /* of what stands below it */

/* Under the cursor, effective experts, never used ones, the hottest ten, the
 * ranks. */
void experts_panel(struct view *v, struct rect r, const struct experts_view *x);

/* The same in a few lines, as much as fits. */
void experts_lines(struct view *v, struct rect r, const struct experts_view *x);

/* The expert under the cursor, in one line. */
void experts_cursor(struct view *v, struct rect r,
		    const struct experts_view *x);

/* What colours and glyphs stand for, in one line. */
void experts_legend(struct view *v, struct rect r,
		    const struct experts_view *x);

#endif
