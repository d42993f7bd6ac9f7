#include "core/session.h"
#include "core/broker.h"
#include "core/given_model.h"
#include "core/loop.h"
#include "core/privileges.h"
#include "core/say.h"
#include "core/source.h"
#include "core/views.h"
#include "core/watch.h"
#include "tui/tui.h"
#include "wire/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICK_NS (100 * NS_PER_MS)
#define ONCE_LIMIT_S 20
#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 60.0

struct session {
	const struct session_config *config;
	const struct settings *settings;
	struct broker *broker; /* calls all of watch */
	struct watch *watch;
	uint64_t privileges;                   /* that it has left */
	struct privileges_facts learnt, facts; /* then; with the processes' */
	const struct snapshot *newest;         /* of watch, or NULL */
	FILE *sampled_steps;                   /* or NULL */
	struct loop *loop;
	struct views *views;
	int pidfd, interval_timer;
	double interval_s;
	long published;
	bool screen, gone, there;
};

/* ---- what the broker does ---------------------------------------------- */

static void work_tick(void *arg)
{
	struct session *s = arg;

	s->there = watch_tick(s->watch);
}

static void work_snapshot(void *arg)
{
	struct session *s = arg;

	s->newest = watch_snapshot(s->watch);
}

static void work_gone(void *arg)
{
	struct session *s = arg;

	watch_end(s->watch);
	s->newest = watch_snapshot(s->watch);
}

static void work_free(void *arg)
{
	struct session *s = arg;

	watch_free(s->watch);
}

/* ---- ends -------------------------------------------------------------- */

static void publish(struct session *s, const struct snapshot *snapshot)
{
	int err = views_publish(s->views, snapshot);

	s->published++;
	if (err)
		loop_stop(s->loop, views_failed(err));
}

static void on_gone(void *arg)
{
	struct session *s = arg;

	if (s->gone)
		return;
	s->gone = true;
	loop_unwatch(s->loop, s->pidfd);
	broker_call(s->broker, work_gone, s);
	publish(s, s->newest);
	if (s->screen) /* it keeps the last state until the user leaves */
		return;
	loop_stop(s->loop, say(STATUS_TARGET,
			       "pid %d: the server has ended; start it again "
			       "and attach anew",
			       (int)watch_pid(s->watch)));
}

static bool complete(const struct snapshot *s)
{
	return s->health.windows > 0 && s->regime != REGIME_UNKNOWN &&
	       value_known(s->metrics[METRIC_IN_FLIGHT]);
}

static void once(struct session *s, const struct snapshot *snapshot)
{
	bool late = snapshot->uptime_s >= ONCE_LIMIT_S;

	if (!complete(snapshot) && !late)
		return;
	publish(s, snapshot);
	if (!s->settings->json) {
		const struct tui_options plain = { .ascii =
							   s->settings->ascii };

		tui_print(stdout, &snapshot, 1, 100, 30,
			  (unsigned)s->settings->screen, &plain);
	}
	loop_stop(s->loop, STATUS_OK);
}

/* ---- privileges -------------------------------------------------------- */

static bool agents_settled(const struct session *s, const struct snapshot *now)
{
	const struct snapshot_target *t = &now->target;

	if (s->settings->no_inject)
		return true;
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (!t->ranks[i].attached &&
		    !strcmp(t->ranks[i].agent, "absent"))
			return false;
	return t->n_ranks > 0;
}

static void work_look(void *arg)
{
	struct session *s = arg;

	privileges_look(watch_target(s->watch), &s->facts);
}

/* Once the server is known, much will never be needed again. */
static void drop_unneeded(struct session *s, const struct snapshot *now)
{
	const struct snapshot_tier *t1 = &now->health.tiers[TIER_T1];
	const struct privileges_facts facts = {
		.requests = s->settings->no_bpf || t1->state == TIER_OK,
		.by_packets = now->health.rung[0] == 'C',
		.tls = now->requests.tls > 0,
		.counters = s->settings->counters != COUNTERS_OFF &&
			    privileges_counters() >> CAP_SYS_ADMIN & 1,
		.agents = agents_settled(s, now),
		.model = watch_target(s->watch)->have_arch,
	};
	uint64_t need;

	if (!memcmp(&facts, &s->learnt, sizeof(facts)))
		return;
	s->learnt = s->facts = facts;
	broker_call(s->broker, work_look, s);
	need = s->privileges & privileges_needed(&s->facts);
	if (need == s->privileges)
		return;
	s->privileges = need;
	broker_keep(s->broker, need);
}

/* ---- what the loop calls ----------------------------------------------- */

static void on_tick(void *arg)
{
	struct session *s = arg;

	if (!s->gone) {
		broker_call(s->broker, work_tick, s);
		if (!s->there)
			on_gone(s);
	}
	views_tick(s->views);
}

static void on_interval(void *arg)
{
	const struct snapshot *snapshot;
	struct session *s = arg;

	if (s->gone)
		return;
	broker_call(s->broker, work_snapshot, s);
	snapshot = s->newest;
	drop_unneeded(s, snapshot);
	if (s->config->once) {
		once(s, snapshot);
		return;
	}
	publish(s, snapshot);
	if (s->settings->count && s->published >= s->settings->count)
		loop_stop(s->loop, STATUS_OK);
}

static void on_signal(void *arg, int signo)
{
	struct session *s = arg;

	if (signo == SIGWINCH)
		views_resized(s->views);
	else
		loop_stop(s->loop, STATUS_OK);
}

static void set_interval(void *arg, double interval_s)
{
	struct session *s = arg;

	if (interval_s < INTERVAL_MIN_S)
		interval_s = INTERVAL_MIN_S;
	if (interval_s > INTERVAL_MAX_S)
		interval_s = INTERVAL_MAX_S;
	s->interval_s = interval_s;
	loop_set_period(s->loop, s->interval_timer,
			(uint64_t)(interval_s * 1e9));
}

static void on_wish(void *arg, unsigned wish)
{
	struct session *s = arg;

	if (wish & TUI_QUIT)
		loop_stop(s->loop, STATUS_OK);
	if (wish & TUI_FASTER)
		set_interval(s, s->interval_s / 2);
	if (wish & TUI_SLOWER)
		set_interval(s, s->interval_s * 2);
	if (wish & (TUI_FASTER | TUI_SLOWER))
		views_interval(s->views, s->interval_s);
	if (wish & TUI_WINDOW)
		watch_context(s->watch)->window_wish++;
}

/* ---- set-up ------------------------------------------------------------ */

struct opening {
	struct session *session;
	struct target_model model;
	char why[256];
	int err;
};

static void work_open(void *arg)
{
	struct opening *o = arg;
	struct session *s = o->session;
	const struct watch_config config = { .settings = s->settings,
					     .model = &o->model,
					     .pid = s->config->pid,
					     .nvml_path =
						     s->config->nvml_path };

	o->err = watch_new(&s->watch, &config, o->why, sizeof(o->why));
}

static int open_broker(struct session *s)
{
	int err;

	s->privileges = PRIVILEGES_ALL;
	if (s->settings->no_bpf)
		s->privileges &= ~(PRIVILEGES_BPF | PRIVILEGES_BPF_MORE);
	if (s->settings->counters != COUNTERS_OFF)
		s->privileges |= privileges_counters();
	privileges_seal();
	privileges_permit();
	err = broker_new_from(s->config->keeper, &s->broker, s->privileges);
	if (err)
		return say(STATUS_RUNTIME,
			   "start: %s; look at the limits of this shell",
			   strerror(-err));
	return STATUS_OK;
}

static int open_target(struct session *s)
{
	struct opening o = { .session = s };
	int status = given_model_read(s->settings, &o.model), err;

	if (status)
		return status;
	broker_call(s->broker, work_open, &o);
	err = o.err;

	if (err == -ESRCH)
		return say(STATUS_TARGET,
			   "pid %d: no such process; give the pid of a running "
			   "server",
			   (int)s->config->pid);
	if (err)
		return say(status_of(err),
			   "pid %d: %s; try it as root, or as its user",
			   (int)s->config->pid, strerror(-err));
	/* Told at once when it ends; without, the look once a second tells. */
	s->pidfd = (int)syscall(SYS_pidfd_open, watch_pid(s->watch), 0);
	return STATUS_OK;
}

static int open_steps(struct session *s)
{
	const char *path = s->settings->sampled_steps;

	if (!path)
		return STATUS_OK;
	s->sampled_steps = fopen(path, "ae");
	watch_context(s->watch)->sampled_steps = s->sampled_steps;
	if (s->sampled_steps)
		return STATUS_OK;
	return say(status_of(-errno),
		   "--sampled-steps: %s: %s; name a file that can be written",
		   path, strerror(errno));
}

static int open_loop(struct session *s)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH, 0 };
	int err = loop_new(&s->loop);

	if (!err)
		err = loop_signals(s->loop, signals, on_signal, s);
	if (!err && s->pidfd >= 0)
		err = loop_watch(s->loop, s->pidfd, on_gone, s);
	if (!err && loop_every(s->loop, TICK_NS, on_tick, s) < 0)
		err = -ENOSPC;
	s->interval_s = s->settings->interval;
	s->interval_timer =
		err ? -1
		    : loop_every(s->loop, (uint64_t)(s->interval_s * 1e9),
				 on_interval, s);
	if (!err && s->interval_timer < 0)
		err = -ENOSPC;
	if (err)
		return say(STATUS_RUNTIME,
			   "start: %s; look at the limits of this shell",
			   strerror(-err));
	return STATUS_OK;
}

static int open_views(struct session *s)
{
	const struct views_config config = { .settings = s->settings,
					     .loop = s->loop,
					     .screen = s->screen,
					     .recorder = s->config->recorder,
					     .wish = on_wish,
					     .interval = set_interval,
					     .arg = s };
	char why[256] = "";
	int err = views_open(&s->views, &config, why, sizeof(why));

	if (!err)
		return STATUS_OK;
	return say_why(err, why, "see moetop help");
}

static int run(struct session *s)
{
	int status = open_broker(s);

	if (!status)
		status = open_target(s);
	if (!status)
		status = open_steps(s);
	if (!status)
		status = open_loop(s);
	/* the files that the user named are open; the views may start threads */
	(void)privileges_keep(privileges_for_port(s->settings->listen));
	if (!status)
		status = open_views(s);
	(void)privileges_keep(0);
	if (status)
		return status;
	on_tick(s);
	status = s->gone && !s->screen ? STATUS_TARGET : loop_run(s->loop);
	if (status < 0)
		return say(STATUS_RUNTIME, "loop: %s; report this",
			   strerror(-status));
	return status;
}

int session_run(const struct session_config *config)
{
	struct session *s = calloc(1, sizeof(*s));
	int status;

	if (!s)
		return say(STATUS_RUNTIME, "start: no memory; free some");
	s->config = config;
	s->settings = config->settings;
	s->pidfd = -1;
	s->screen = views_want_screen(s->settings) && !config->once;
	status = run(s);
	views_close(s->views);
	if (s->broker)
		broker_call(s->broker, work_free, s);
	broker_free(s->broker);
	loop_free(s->loop);
	if (s->pidfd >= 0)
		close(s->pidfd);
	if (s->sampled_steps)
		fclose(s->sampled_steps);
	free(s);
	return status;
}
