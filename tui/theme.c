#include "tui/theme.h"

#include <stddef.h>

enum { OWN = -1 };

/* One row per style: 256 colours, 8 colours, attributes with colours,
 * attributes without. */
static const struct theme_row {
	short fg256, bg256, fg8, bg8;
	unsigned char colored, mono;
} rows[STYLES] = {
	[STYLE_NORMAL] = { OWN, OWN, OWN, OWN, 0, 0 },
	[STYLE_DIM] = { 245, OWN, OWN, OWN, 0, 0 },
	[STYLE_STRONG] = { OWN, OWN, OWN, OWN, LOOK_BOLD, LOOK_BOLD },
	[STYLE_TITLE] = { 32, OWN, 6, OWN, LOOK_BOLD, LOOK_BOLD },
	[STYLE_FRAME] = { 243, OWN, OWN, OWN, 0, 0 },
	[STYLE_STALE] = { 243, OWN, OWN, OWN, LOOK_DIM, LOOK_DIM },
	[STYLE_GOOD] = { 36, OWN, 2, OWN, 0, 0 },
	[STYLE_WARN] = { 172, OWN, 3, OWN, LOOK_BOLD, LOOK_BOLD },
	[STYLE_BAD] = { 167, OWN, 1, OWN, LOOK_BOLD, LOOK_BOLD },
	[STYLE_BAR] = { 68, OWN, 4, OWN, 0, 0 },
	[STYLE_BAR_WASTE] = { 172, OWN, 3, OWN, 0, 0 },
	[STYLE_BAR_COST] = { 172, OWN, 3, OWN, 0, 0 },
	[STYLE_BAR_GAIN] = { 36, OWN, 2, OWN, 0, 0 },
	[STYLE_BAR_EMPTY] = { 240, OWN, OWN, OWN, 0, 0 },
	[STYLE_SPARK] = { 68, OWN, 4, OWN, 0, 0 },
	[STYLE_KEY] = { OWN, OWN, OWN, OWN, LOOK_BOLD, LOOK_BOLD },
	[STYLE_KEY_TEXT] = { 245, OWN, OWN, OWN, 0, 0 },
	[STYLE_KEY_ACTIVE] = { OWN, OWN, OWN, OWN, LOOK_REVERSE, LOOK_REVERSE },
	[STYLE_MESSAGE] = { OWN, OWN, OWN, OWN, LOOK_REVERSE, LOOK_REVERSE },
	[STYLE_ALERT] = { 167, OWN, 1, OWN, LOOK_REVERSE | LOOK_BOLD,
			  LOOK_REVERSE | LOOK_BOLD },
	[STYLE_GROUP + 0] = { 172, OWN, 3, OWN, 0, LOOK_BOLD },
	[STYLE_GROUP + 1] = { 170, OWN, 5, OWN, 0, 0 },
	[STYLE_GROUP + 2] = { 68, OWN, 4, OWN, 0, 0 },
	[STYLE_GROUP + 3] = { 36, OWN, 2, OWN, 0, 0 },
	[STYLE_GROUP + 4] = { 179, OWN, 6, OWN, 0, 0 },
	[STYLE_GROUP + 5] = { 245, OWN, OWN, OWN, 0, 0 },
	[STYLE_GROUP + 6] = { 240, OWN, OWN, OWN, 0, 0 },
	[STYLE_CURSOR] = { OWN, OWN, OWN, OWN, LOOK_REVERSE, LOOK_REVERSE },
	[STYLE_HEAT + 0] = { 60, OWN, 4, OWN, 0, 0 },
	[STYLE_HEAT + 1] = { 61, OWN, 4, OWN, 0, 0 },
	[STYLE_HEAT + 2] = { 31, OWN, 6, OWN, 0, 0 },
	[STYLE_HEAT + 3] = { 30, OWN, 6, OWN, 0, 0 },
	[STYLE_HEAT + 4] = { 36, OWN, 2, OWN, 0, 0 },
	[STYLE_HEAT + 5] = { 71, OWN, 2, OWN, 0, 0 },
	[STYLE_HEAT + 6] = { 148, OWN, 3, OWN, 0, LOOK_BOLD },
	[STYLE_HEAT + 7] = { 220, OWN, 3, OWN, LOOK_BOLD, LOOK_BOLD },
};

struct look theme_look(enum style s, int colors)
{
	const struct theme_row *r = &rows[s < STYLES ? s : STYLE_NORMAL];

	if (colors >= 256)
		return (struct look){ r->fg256, r->bg256, r->colored };
	if (colors >= 8)
		return (struct look){ r->fg8, r->bg8, r->colored };
	return (struct look){ OWN, OWN, r->mono };
}
