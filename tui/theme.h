/*
 * theme.h - what a piece of the screen means, and how that looks
 *
 * Screens draw with meanings (enum style).  A theme gives each meaning a colour,
 * and theme_look says it for a terminal of so many colours.  Colour is never
 * the only carrier: whatever a style says, a glyph or a word says too.
 *
 * The default theme leaves the terminal's own background and text alone; its
 * hues stay apart for the common colour blindnesses (blue against orange, after
 * Okabe and Ito) and can be read on a dark and on a light background.  The
 * others paint the background too.  In these, every text has a contrast of at
 * least 4.5 to 1 (WCAG 2.1, 1.4.3) in 16 million and in 256 colours.
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

/* Colours that a terminal can show. */
enum color_depth {
	DEPTH_MONO, /* attributes only */
	DEPTH_8,
	DEPTH_256,
	DEPTH_TRUE, /* 24 bits */
	DEPTHS
};

struct look {
	int fg, bg; /* number of the colour, DEPTH_TRUE: 0xrrggbb; -1: own */
	unsigned attributes;
};

#define THEMES 11u
#define THEME_DEFAULT 0u

struct theme_name {
	const char *name; /* of the option: "dark" */
	const char *help; /* a few words */
};
extern const struct theme_name theme_names[THEMES];

/* The theme of that name, or THEMES. */
unsigned theme_find(const char *name);

struct look theme_look(unsigned theme, enum style s, enum color_depth d);

/* The look of a number that differs from a moment ago. */
struct look theme_look_changed(unsigned theme, enum style s,
			       enum color_depth d);

/* Of a theme that paints it; -1: the terminal's own. */
int theme_background(unsigned theme);

/* 0xrrggbb of one of the 256 colours from 16 on (xterm's cube and greys), and
 * the nearest of these to a colour. */
int color_of_256(int number);
int color_to_256(int rgb);

/* 1 to 21, WCAG 2.1: (L1 + 0.05) / (L2 + 0.05). */
double color_contrast(int rgb, int other);

#endif
