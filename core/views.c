#include "core/views.h"
#include "core/notify.h"
#include "core/say.h"
#include "core/set_up.h"
#include "exporter/exporter.h"
#include "tui/tui.h"
#include "wire/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_LOOK_MS 100

struct views {
	struct views_config config;
	struct tui *tui;
	struct set_up set_up;
	double interval_s; /* that the screen has been told */
	struct http *http;
	bool json;
	struct text text; /* of the last JSON line */
	struct notify notify;
	bool told;          /* the service manager, that we are up */
	double published_s; /* unix seconds, of all servers */
};

bool views_want_screen(const struct settings *s)
{
	return !s->json && !s->headless && s->command != COMMAND_RECORD;
}

static void on_keys(void *arg)
{
	struct views *v = arg;
	unsigned wish = tui_input(v->tui);

	if (wish & ~(unsigned)TUI_REDRAW)
		v->config.wish(v->config.arg, wish & ~(unsigned)TUI_REDRAW);
}

/* On a thread of http's own; a screen would be spoilt. */
static void report(void *arg, const char *line)
{
	const struct views *v = arg;

	if (!v->config.screen)
		say(STATUS_OK, "%s", line);
}

static int open_http(struct views *v, char *why, size_t why_bytes)
{
	const struct settings *s = v->config.settings;
	const struct http_config config = {
		.listen = s->listen,
		.web_config = s->web_config,
		.all = s->all,
		.experts = s->expert_metrics,
		.series_max = (unsigned)s->max_series,
		.report = report,
		.arg = v,
	};

	return s->listen ? http_open(&v->http, &config, why, why_bytes) : 0;
}

static void on_change(void *arg, const struct settings *now)
{
	struct views *v = arg;
	char theme[32];
	const struct tui_options options = set_up_options(now, theme);

	tui_change(v->tui, &options);
	if (v->config.interval && now->interval != v->interval_s)
		v->config.interval(v->config.arg, now->interval);
	v->interval_s = now->interval;
}

static int open_screen(struct views *v, char *why, size_t why_bytes)
{
	const struct settings *s = v->config.settings;
	struct tui_options options;
	char theme[32];
	int err;

	if (!v->config.screen)
		return 0;
	set_up_init(&v->set_up, s, on_change, v);
	v->interval_s = s->interval;
	options = set_up_options(s, theme);
	options.setup = &v->set_up.tui;
	err = tui_open(&v->tui, &options);
	if (!err)
		err = loop_watch(v->config.loop, tui_fd(v->tui), on_keys, v);
	if (!err && s->bad_lines)
		tui_say(v->tui, s->first_bad);
	if (err == -ENOTTY)
		snprintf(why, why_bytes,
			 "screen: standard output is no terminal; use --json, "
			 "or --headless --listen PORT");
	else if (err)
		snprintf(why, why_bytes, "screen: %s; check TERM",
			 strerror(-err));
	return err;
}

void views_say(struct views *v, const char *text)
{
	if (v->tui)
		tui_say(v->tui, text);
}

void views_interval(struct views *v, double interval_s)
{
	char text[64];

	if (!v->tui)
		return;
	v->interval_s = interval_s;
	set_up_interval(&v->set_up, interval_s);
	snprintf(text, sizeof(text), "a picture every %.3g s", interval_s);
	tui_say(v->tui, text);
}

int views_open(struct views **out, const struct views_config *config, char *why,
	       size_t why_bytes)
{
	struct views *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	v->config = *config;
	v->json = config->settings->json;
	notify_init(&v->notify);
	err = open_http(v, why, why_bytes);
	if (!err)
		err = open_screen(v, why, why_bytes);
	if (err) {
		views_close(v);
		return err;
	}
	*out = v;
	return 0;
}

/* Is a signal that ends us waiting for the loop, which we hold up? */
static bool end_is_asked(void)
{
	sigset_t waiting;

	return !sigpending(&waiting) && (sigismember(&waiting, SIGINT) > 0 ||
					 sigismember(&waiting, SIGTERM) > 0 ||
					 sigismember(&waiting, SIGHUP) > 0);
}

/*
 * By pieces that a pipe takes without a wait once it is said to be writable:
 * nobody may be reading, and then we must still end when told to.
 */
static int write_out(const char *text, size_t bytes)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	ssize_t n;

	while (bytes) {
		int ready = poll(&p, 1, END_LOOK_MS);

		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0 && end_is_asked())
			return 0;
		if (ready <= 0)
			continue;
		n = write(STDOUT_FILENO, text,
			  bytes < PIPE_BUF ? bytes : PIPE_BUF);
		if (!n)
			return -EIO;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int print_json(struct views *v, const struct snapshot *s)
{
	v->text.bytes = 0;
	format_json.write(&v->text, s);
	return v->text.error ? v->text.error
			     : write_out(v->text.data, v->text.bytes);
}

int views_publish(struct views *v, const struct snapshot *s)
{
	int err = 0, recorded = 0;

	if (v->tui)
		tui_show(v->tui, s);
	if (v->http)
		http_publish(v->http, &s, 1, 0);
	if (v->json)
		err = print_json(v, s);
	if (v->config.recorder)
		recorded = recorder_write(v->config.recorder, s);
	return err ? err : recorded;
}

int views_publish_all(struct views *v, const struct snapshot *const *list,
		      unsigned n, unsigned left_out)
{
	int err = 0;

	if (v->http)
		http_publish(v->http, list, n, left_out);
	for (unsigned i = 0; v->json && i < n && !err; i++)
		if (!list[i]->health.target_gone ||
		    list[i]->health.target_gone_seconds > v->published_s)
			err = print_json(v, list[i]);
	v->published_s = clock_unix_s();
	return err;
}

int views_failed(int err)
{
	if (err == -EPIPE)
		return STATUS_OK;
	return say(status_of(err),
		   "output: %s; free some space, or write elsewhere",
		   strerror(-err));
}

void views_resized(struct views *v)
{
	if (v->tui)
		tui_resized(v->tui);
}

void views_tick(struct views *v)
{
	if (!v->told)
		notify_ready(&v->notify);
	v->told = true;
	if (v->http)
		http_turned(v->http);
	notify_alive(&v->notify, clock_now_ns());
}

void views_close(struct views *v)
{
	if (!v)
		return;
	if (v->tui) {
		loop_unwatch(v->config.loop, tui_fd(v->tui));
		tui_close(v->tui);
	}
	http_close(v->http);
	notify_fini(&v->notify);
	text_free(&v->text);
	free(v);
}
