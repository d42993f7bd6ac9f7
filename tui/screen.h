/*
 * screen.h - the screens, and what they draw from
 *
 * A screen is a const struct; screens[] in view.c is the list that the keys,
 * the key bar and the help are made from.  To add one, write its file and put
 * it there.
 */
#ifndef MOETOP_TUI_SCREEN_H
#define MOETOP_TUI_SCREEN_H

#include "model/explain.h"
#include "model/snapshot.h"
#include "tui/curve.h"
#include "tui/grid.h"
#include "tui/history.h"
#include "tui/line.h"
#include "tui/log.h"
#include "tui/theme.h"

#define SCREENS 7u /* 1 to 6, and help */
#define SCREEN_HELP (SCREENS - 1)

/* Keys that are no character. */
enum input {
	INPUT_NONE = 0,
	INPUT_TAB = '\t',
	INPUT_REDRAW = 12, /* Ctrl-L */
	INPUT_ENTER = '\r',
	INPUT_ESCAPE = 27,
	INPUT_UP = 0x110000,
	INPUT_DOWN,
	INPUT_PAGE_UP,
	INPUT_PAGE_DOWN,
	INPUT_HOME,
	INPUT_END,
	INPUT_BACK_TAB,
	INPUT_F1,
	INPUT_LEFT,
	INPUT_RIGHT,
	INPUT_F2,
	INPUT_DELETE,
};

#define FILTER_BYTES 64u

/* What a screen remembers while another one is shown.  Reset by ACTION_RESET
 * to zero. */
struct screen_state {
	int scroll;    /* first row of its table */
	unsigned sort; /* which of its orders */
	bool reverse;  /* the other way round */
	bool clicked;  /* that order was clicked, the sort key skips it */
	bool selected; /* row `cursor` of the table is marked */
	int cursor;    /* of the rows that pass the filter, in their order */
	char filter[FILTER_BYTES]; /* "": every row; see screen_passes */
};

/* The heat map of screen 3. */
struct experts_state {
	int layer, expert; /* cursor; brought into range when drawn */
	bool by_layer;     /* every layer on a scale of its own */
	bool by_rank;      /* a gap between the ranks of a layer */
};

/* The curve of screen 6. */
struct valley_state {
	bool what_if;       /* the cursor is shown */
	double octaves;     /* its place: log2 of tokens per step */
	struct curve curve; /* of the snapshot that was drawn last */
};

#define ZONES_MAX 256u

/* A part of the picture that the mouse acts on. */
enum zone_kind {
	ZONE_KEY,     /* value: the key that a click is */
	ZONE_COLUMN,  /* value: column, for screen.column_clicked */
	ZONE_ROW,     /* value: row of the table, which a click selects */
	ZONE_PICTURE, /* for screen.clicked; drags too */
	ZONE_COVER,   /* hides what lies below it, and does nothing */
};

struct zone {
	struct rect r; /* of the grid */
	enum zone_kind kind;
	int value;
};

/* What lies over a screen. */
enum panel { PANEL_NONE, PANEL_EXPLAIN, PANEL_LOG, PANEL_SETUP };

/* A number of the picture that can be explained. */
struct number {
	struct rect r;  /* one row */
	unsigned about; /* enum explain_id */
};
#define NUMBERS_MAX 2048u

/* The cursor of the explanation. */
struct focus {
	bool placed;
	int x, y; /* a cell of the number, or where it was last */
};

struct setup;

/* The whole view: history, the snapshot shown, and the picture of it. */
struct view {
	struct grid grid;
	struct history history;
	struct snapshot shot;
	bool have;   /* shot holds a snapshot */
	bool paused; /* shot stays, history goes on */
	unsigned screen, before_help;
	struct screen_state state[SCREENS];
	struct experts_state experts;
	struct valley_state valley;
	enum panel panel;
	struct focus focus;
	unsigned n_numbers; /* of the last picture with an explanation */
	struct number numbers[NUMBERS_MAX];
	bool repaint;        /* the terminal is to be drawn again as a whole */
	struct setup *setup; /* owned; NULL: there is nothing to set up */
	struct log log;
	int log_scroll;
	bool filtering;     /* the filter is being typed */
	struct line filter; /* what is typed */
	char filter_before[FILTER_BYTES];
	bool dragging;
	struct zone dragged;
	unsigned theme;
	bool highlight;         /* mark what changed */
	bool changed[EXPLAINS]; /* with the newest snapshot */
	char notice[LOG_BYTES]; /* in the message bar, "" none */
	unsigned notice_left;   /* snapshots that it stays */
	unsigned n_zones;
	struct zone zones[ZONES_MAX]; /* of the last picture */
};

struct screen {
	const char *title; /* in the key bar and the help */
	int key;           /* shows it */
	bool absent;       /* announced only: this version has it not */
	bool sorts;        /* has more than one order (the sort key) */
	bool filters;      /* has rows that screen_passes looks at */
	/* Draw v->shot (there is one) into the body; v->grid is blank. */
	void (*draw)(struct view *v, struct rect body);
	/* A key that no binding took; true when it changed something. */
	bool (*key_pressed)(struct view *v, int key);
	/* A click on a heading, ZONE_COLUMN; NULL: nothing happens. */
	bool (*column_clicked)(struct view *v, unsigned column);
	/* A click in a ZONE_PICTURE or a drag that began in one, at x, y of
	 * that zone (a drag may leave it); NULL: nothing happens. */
	bool (*clicked)(struct view *v, const struct zone *z, int x, int y);
};

extern const struct screen screen_overview, screen_layers, screen_experts,
	screen_requests, screen_kernels, screen_valley, screen_help;
extern const struct screen *const screens[SCREENS];

static inline struct screen_state *screen_state(struct view *v)
{
	return &v->state[v->screen];
}

/* Keys that scroll; true when key is one.  The position is brought into range
 * when the rows are next drawn, by screen_first. */
bool screen_scroll(struct view *v, int key);

/* First row to draw, of n of which `shown` fit; keeps the cursor among the n,
 * and in sight when it is selected. */
int screen_first(struct view *v, int n, int shown);

/* The same keys for a table whose rows can be selected: they move the cursor,
 * and the table scrolls along; screen_first keeps it in sight. */
bool screen_select(struct view *v, int key);

/* Whether a row with this text is shown: it holds the filter of the screen,
 * whatever the case of its letters. */
bool screen_passes(const struct view *v, const char *text);

/* Announce a zone of the picture being drawn; beyond ZONES_MAX it is lost. */
void screen_zone(struct view *v, struct rect r, enum zone_kind kind, int value);

#endif
