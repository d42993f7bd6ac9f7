/*
 * views.h - where snapshots go: the screen, HTTP, JSON lines, a recording
 *
 * Any of them together, as the settings say.  The screen is woken by the loop,
 * HTTP serves from threads of its own.
 */
#ifndef MOETOP_CORE_VIEWS_H
#define MOETOP_CORE_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/loop.h"
#include "core/settings.h"
#include "model/snapshot.h"

struct recorder;
struct views;

struct views_config {
	const struct settings *settings;
	struct loop *loop;
	bool screen;               /* take the terminal */
	struct recorder *recorder; /* borrowed; NULL: none */
	/* Called with enum tui_wish bits, those that views cannot fulfil. */
	void (*wish)(void *arg, unsigned wish);
	/* The interval was set on the set-up screen; NULL legal. */
	void (*interval)(void *arg, double interval_s);
	void *arg;
};

/* 0 and *out (free with views_close), or -errno with one line in why. */
int views_open(struct views **out, const struct views_config *config, char *why,
	       size_t why_bytes);

/* Show, serve, print and record.  0, or -errno of standard output (-EPIPE:
 * nobody reads it any more) or of the recorder; the other views have it all the
 * same. */
int views_publish(struct views *v, const struct snapshot *s);

/* The snapshots of all servers but left_out: served, and a line of JSON for
 * each; the last one of a server that has ended is printed once. */
int views_publish_all(struct views *v, const struct snapshot *const *list,
		      unsigned n, unsigned left_out);

/* The status to end with after that error, which is said unless it is -EPIPE:
 * a reader that has had enough is no failure. */
int views_failed(int err);

/* The interval is another now: said on the screen. */
void views_interval(struct views *v, double interval_s);
/* A line for the screen's message bar and log; nothing without a screen. */
void views_say(struct views *v, const char *text);

/* SIGWINCH arrived. */
void views_resized(struct views *v);
/* Tell the service manager that we live; ten times a second. */
void views_tick(struct views *v);

void views_close(struct views *v); /* NULL is legal */

/* Whether these settings mean the screen. */
bool views_want_screen(const struct settings *s);

#endif
