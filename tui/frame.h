/*
 * frame.h - what surrounds every screen: header, tiers, message and key bar
 */
#ifndef MOETOP_TUI_FRAME_H
#define MOETOP_TUI_FRAME_H

#include "tui/layout.h"
#include "tui/screen.h"

/* Something is missing that a command or a setting would bring. */
bool frame_has_remedy(const struct snapshot *s);
bool frame_has_message(const struct view *v);

/* Draws all but the body and fills v->zones. */
void frame_draw(struct view *v, const struct frame_layout *l);

#endif
