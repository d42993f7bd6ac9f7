/*
 * picker.h - a list of servers to choose from, as a picture
 *
 * No terminal: tui/pick.c puts one around it.  The cursor stays on its server
 * while the list changes under it.
 */
#ifndef MOETOP_TUI_PICKER_H
#define MOETOP_TUI_PICKER_H

#include "model/servers.h"
#include "tui/escape.h"
#include "tui/grid.h"
#include "tui/line.h"

struct picker {
	struct grid grid;
	struct servers servers; /* by pid */
	bool looked;            /* servers holds a result */
	int32_t pid;            /* under the cursor; 0: the first one */
	int first, shown;       /* rows of the list on the screen, from row 2 */
	bool filtering;
	struct line filter;
	char before[LINE_BYTES];
	char message[128];
};

enum picked {
	PICKED_NOTHING,
	PICKED_SERVER, /* p->pid */
	PICKED_LEAVE,
};

enum picked picker_key(struct picker *p, int key);
enum picked picker_mouse(struct picker *p, enum mouse what, int x, int y);

void picker_draw(struct picker *p);

#endif
