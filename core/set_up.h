/*
 * set_up.h - the options as the set-up screen shows, changes and keeps them
 *
 * Works on a copy of the settings.  What a running moetop can change takes
 * effect at once; the rest from the next start on, when it has been saved to
 * the user's own file.
 */
#ifndef MOETOP_CORE_SET_UP_H
#define MOETOP_CORE_SET_UP_H

#include "core/settings.h"
#include "tui/tui.h"

struct set_up {
	struct settings now;
	struct tui_setup tui;
	/* Called after a change, with `now`. */
	void (*changed)(void *arg, const struct settings *now);
	void *arg;
	struct tui_option options[TUI_OPTIONS_MAX];
	unsigned char index[TUI_OPTIONS_MAX]; /* in settings_options */
	char texts[TUI_OPTIONS_MAX][TUI_VALUE_BYTES];
};

/* `from` must outlive it. */
void set_up_init(struct set_up *s, const struct settings *from,
		 void (*changed)(void *arg, const struct settings *now),
		 void *arg);

/* What the screen is to look like, in the locale of the environment, which is
 * set.  theme gets its name and must outlive the options. */
struct tui_options set_up_options(const struct settings *s, char theme[32]);

/* The interval that a key chose. */
void set_up_interval(struct set_up *s, double interval_s);

#endif
