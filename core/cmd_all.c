/* The loop of --all: a daemon that outlives the servers it watches. */
#include "core/broker.h"
#include "core/fleet.h"
#include "core/given_model.h"
#include "core/loop.h"
#include "core/privileges.h"
#include "core/say.h"
#include "core/views.h"
#include "target/discover.h"
#include "wire/clock.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define TICK_NS (100 * NS_PER_MS)
/* Looking for servers takes a fiftieth of the time at most. */
#define LOOK_NS (2 * NS_PER_S)
#define LOOK_SHARE 50

struct all {
	const struct settings *settings;
	struct target_model model;
	struct broker *broker; /* calls the fleet */
	struct fleet *fleet;
	const struct snapshot *const *list; /* of the last interval */
	unsigned n;
	struct loop *loop;
	struct views *views;
	int look_timer;
	long published;
};

static void work_tick(void *arg)
{
	struct all *a = arg;

	fleet_tick(a->fleet);
}

static void work_look(void *arg)
{
	struct all *a = arg;
	uint64_t start = clock_now_ns(), period;

	fleet_look(a->fleet);
	period = (clock_now_ns() - start) * LOOK_SHARE;
	loop_set_period(a->loop, a->look_timer,
			period > LOOK_NS ? period : LOOK_NS);
}

static void work_snapshots(void *arg)
{
	struct all *a = arg;

	a->list = fleet_snapshots(a->fleet, &a->n);
}

static void work_free(void *arg)
{
	struct all *a = arg;

	fleet_free(a->fleet);
}

static void on_tick(void *arg)
{
	struct all *a = arg;

	broker_call(a->broker, work_tick, a);
	views_tick(a->views);
}

static void on_look(void *arg)
{
	struct all *a = arg;

	broker_call(a->broker, work_look, a);
}

static void on_interval(void *arg)
{
	struct all *a = arg;
	int err;

	broker_call(a->broker, work_snapshots, a);
	err = views_publish_all(a->views, a->list, a->n,
				fleet_left_out(a->fleet));
	a->published++;
	if (err)
		loop_stop(a->loop, views_failed(err));
	else if (a->settings->count && a->published >= a->settings->count)
		loop_stop(a->loop, STATUS_OK);
}

static void on_signal(void *arg, int signo)
{
	struct all *a = arg;

	if (signo != SIGWINCH)
		loop_stop(a->loop, STATUS_OK);
}

static void on_wish(void *arg, unsigned wish)
{
	(void)arg; /* there is no screen to wish at */
	(void)wish;
}

static int open_loop(struct all *a)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH, 0 };
	uint64_t interval_ns = (uint64_t)(a->settings->interval * 1e9);
	int err = loop_new(&a->loop);

	if (!err)
		err = loop_signals(a->loop, signals, on_signal, a);
	if (!err)
		a->look_timer = loop_every(a->loop, LOOK_NS, on_look, a);
	if (!err && (a->look_timer < 0 ||
		     loop_every(a->loop, TICK_NS, on_tick, a) < 0 ||
		     loop_every(a->loop, interval_ns, on_interval, a) < 0))
		err = -ENOSPC;
	if (!err)
		err = fleet_new(&a->fleet, a->settings, &a->model,
				discover_servers);
	if (!err)
		err = broker_new(&a->broker, PRIVILEGES_ALL);
	if (err)
		return say(STATUS_RUNTIME,
			   "start: %s; look at the limits of this shell",
			   strerror(-err));
	return STATUS_OK;
}

static int open_views(struct all *a)
{
	const struct views_config config = { .settings = a->settings,
					     .loop = a->loop,
					     .wish = on_wish,
					     .arg = a };
	char why[256] = "";
	int err = views_open(&a->views, &config, why, sizeof(why));

	return err ? say_why(err, why, "see moetop help") : STATUS_OK;
}

int fleet_run(const struct settings *settings)
{
	struct all a = { .settings = settings };
	int status;

	privileges_seal();
	status = given_model_read(settings, &a.model);
	if (!status)
		status = open_loop(&a);
	(void)privileges_keep(privileges_for_port(settings->listen));
	if (!status)
		status = open_views(&a);
	(void)privileges_keep(0);
	if (!status) {
		on_look(&a);
		on_tick(&a);
		status = loop_run(a.loop);
	}
	if (status < 0)
		status = say(STATUS_RUNTIME, "loop: %s; report this",
			     strerror(-status));
	views_close(a.views);
	if (a.broker)
		broker_call(a.broker, work_free, &a);
	broker_free(a.broker);
	loop_free(a.loop);
	return status;
}
