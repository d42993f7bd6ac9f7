/*
 * A recording in any view.  The screen and HTTP get one snapshot per interval;
 * JSON alone gets them all at once.
 */
#include "core/commands.h"
#include "core/loop.h"
#include "core/say.h"
#include "core/views.h"
#include "exporter/exporter.h"
#include "tui/tui.h"
#include "wire/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS (100 * NS_PER_MS)

struct replay {
	const struct settings *settings;
	struct player *player;
	struct loop *loop;
	struct views *views;
	int timer;
	double interval_s;
	long shown;
	bool ended;
	int read_error, write_error; /* -errno, told when the screen is gone */
	struct snapshot snapshot;
};

/* Is there more to show? */
static bool show_next(struct replay *r)
{
	int err = player_next(r->player, &r->snapshot);

	if (err < 0)
		r->read_error = err;
	if (err <= 0)
		return false;
	r->shown++;
	r->write_error = views_publish(r->views, &r->snapshot);
	return !r->write_error &&
	       (!r->settings->count || r->shown < r->settings->count);
}

static int say_errors(const struct replay *r)
{
	if (r->read_error)
		return say(status_of(r->read_error),
			   "%s: %s; the snapshots up to here are good",
			   r->settings->rest[0],
			   r->read_error == -EBADMSG
				   ? "damaged"
				   : strerror(-r->read_error));
	return r->write_error ? views_failed(r->write_error) : STATUS_OK;
}

/* Else screen and HTTP keep the last one until the user leaves. */
static bool leave(const struct replay *r)
{
	return r->ended &&
	       (r->read_error || r->write_error || r->settings->count);
}

static void on_interval(void *arg)
{
	struct replay *r = arg;

	if (r->ended || show_next(r))
		return;
	r->ended = true;
	if (leave(r))
		loop_stop(r->loop, STATUS_OK);
}

static void on_tick(void *arg)
{
	struct replay *r = arg;

	views_tick(r->views);
}

static void on_signal(void *arg, int signo)
{
	struct replay *r = arg;

	if (signo == SIGWINCH)
		views_resized(r->views);
	else
		loop_stop(r->loop, STATUS_OK);
}

static void set_interval(void *arg, double interval_s)
{
	struct replay *r = arg;

	if (interval_s < 0.02)
		interval_s = 0.02;
	if (interval_s > 60)
		interval_s = 60;
	r->interval_s = interval_s;
	loop_set_period(r->loop, r->timer, (uint64_t)(interval_s * 1e9));
}

static void on_wish(void *arg, unsigned wish)
{
	struct replay *r = arg;

	if (wish & TUI_QUIT)
		loop_stop(r->loop, STATUS_OK);
	if (wish & (TUI_FASTER | TUI_SLOWER)) {
		set_interval(r, r->interval_s * (wish & TUI_FASTER ? 0.5 : 2));
		views_interval(r->views, r->interval_s);
	}
}

static int open_all(struct replay *r)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH, 0 };
	const struct views_config config = { .settings = r->settings,
					     .screen = views_want_screen(
						     r->settings),
					     .wish = on_wish,
					     .interval = set_interval,
					     .arg = r };
	struct views_config with_loop = config;
	char why[256] = "";
	int err;

	err = player_open(&r->player, r->settings->rest[0], why, sizeof(why));
	if (!err)
		err = loop_new(&r->loop);
	if (!err)
		err = loop_signals(r->loop, signals, on_signal, r);
	with_loop.loop = r->loop;
	if (!err)
		err = views_open(&r->views, &with_loop, why, sizeof(why));
	if (!err)
		return STATUS_OK;
	return say_why(err, why, "name a file that moetop record made");
}

static int run(struct replay *r)
{
	int status = open_all(r), err;

	if (status)
		return status;
	if (r->settings->json && !r->settings->listen) {
		while (show_next(r))
			;
		return STATUS_OK;
	}
	r->interval_s = r->settings->interval;
	r->timer = loop_every(r->loop, (uint64_t)(r->interval_s * 1e9),
			      on_interval, r);
	err = loop_every(r->loop, TICK_NS, on_tick, r);
	if (r->timer < 0 || err < 0)
		return say(STATUS_RUNTIME, "replay: no timer; report this");
	on_interval(r);
	return leave(r) ? STATUS_OK : loop_run(r->loop);
}

int cmd_replay(const struct settings *s)
{
	struct replay *r = calloc(1, sizeof(*r));
	int status;

	if (!r)
		return say(STATUS_RUNTIME, "replay: no memory; free some");
	r->settings = s;
	status = run(r);
	views_close(r->views);
	loop_free(r->loop);
	player_close(r->player);
	if (!status)
		status = say_errors(r);
	free(r);
	return status;
}
