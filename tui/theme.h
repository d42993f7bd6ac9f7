/*
 * theme.h - what a piece of the screen means, and how that looks
 *
 * Screens draw with meanings (enum style).  A theme turns a meaning into
 * colours and attributes for terminals of 256, 8 and no colours.  Colour is
 * never the only carrier: whatever a style says, a glyph or a word says too.
 * The hues stay apart for the common colour blindnesses (blue against orange,
 * after Okabe and Ito) and are readable on a dark and on a light background.
 */
#ifndef MOETOP_TUI_THEME_H
#define MOETOP_TUI_THEME_H

enum style {
	STYLE_NORMAL,
	STYLE_DIM,    /* labels, units, separators */
	STYLE_STRONG, /* the numbers and words to look at first */
	STYLE_TITLE,  /* section headings */
	STYLE_FRAME,  /* lines and boxes */
	STYLE_STALE,  /* a value that is no longer fresh */
	STYLE_GOOD,
	STYLE_WARN,
	STYLE_BAD,
	STYLE_BAR,       /* an amount, without judgement */
	STYLE_BAR_WASTE, /* the part of it that was for nothing */
	STYLE_BAR_COST,  /* more is worse */
	STYLE_BAR_GAIN,  /* more is better */
	STYLE_BAR_EMPTY,
	STYLE_SPARK,
	STYLE_KEY,        /* the key in the key bar */
	STYLE_KEY_TEXT,   /* what it does */
	STYLE_KEY_ACTIVE, /* the screen that is shown */
	STYLE_MESSAGE,    /* message bar, reverse */
	STYLE_ALERT,      /* message bar, something is wrong */
	STYLE_GROUP,      /* first of 7: kernel groups, then idle */
	STYLE_GROUP_LAST = STYLE_GROUP + 6,
	STYLE_CURSOR, /* what the cursor is on, reverse */
	STYLE_HEAT,   /* first of HEAT_LEVELS, few to many */
	STYLE_HEAT_LAST = STYLE_HEAT + 7,
	STYLES
};

#define HEAT_LEVELS 8

enum look_attribute {
	LOOK_BOLD = 1,
	LOOK_DIM = 2,
	LOOK_REVERSE = 4,
	LOOK_UNDERLINE = 8,
};

struct look {
	short fg, bg; /* terminal colour number, -1: the terminal's own */
	unsigned attributes;
};

/* The look of a style on a terminal with so many colours (0: none). */
struct look theme_look(enum style s, int colors);

#endif
