/*
 * The embedded demo: a simulated server of our own, watched like any other.
 *
 * Server and GPU are simulated; agent, tracker, collector and views are the
 * real ones.
 */
#include "core/child.h"
#include "core/commands.h"
#include "core/paths.h"
#include "core/say.h"
#include "core/session.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define START_MS 60000

struct demo {
	char agent[PATH_MAX], sim[PATH_MAX], nvml[PATH_MAX];
};

static int find_parts(struct demo *d, const struct settings *s)
{
	if (path_agent(s->agent, d->agent, sizeof(d->agent)))
		return say(STATUS_USAGE,
			   "%s: agent not found; build or install it, or name "
			   "it with --agent PATH",
			   d->agent);
	if (path_sim("moetop-sim", d->sim, sizeof(d->sim)) ||
	    path_sim("lib/libnvidia-ml.so.1", d->nvml, sizeof(d->nvml)))
		return say(STATUS_RUNTIME,
			   "demo: the simulated server is not beside this "
			   "program; build it with make");
	return STATUS_OK;
}

static int start(struct demo *d, struct child *c, const struct settings *s)
{
	char *scenario = s->scenario ? (char *)(uintptr_t)s->scenario : "sweep";
	char *argv[] = { d->sim, "--port", "0", "--scenario", scenario, NULL };
	int err = child_set_rows(s);

	if (!err)
		err = child_start(c, argv, d->agent);

	if (err)
		return say(STATUS_RUNTIME,
			   "demo: %s: %s; build it again with make", d->sim,
			   strerror(-err));
	return STATUS_OK;
}

static int watch(const struct demo *d, struct child *c,
		 const struct settings *s)
{
	const struct session_config config = { .settings = s,
					       .pid = c->pid,
					       .nvml_path = d->nvml,
					       .once = s->once };
	uint16_t port;
	int err = child_wait_port(c, START_MS, &port);
	char words[256];

	if (!err)
		return session_run(&config);
	child_last_words(c, words, sizeof(words));
	if (words[0])
		return say(STATUS_RUNTIME,
			   "demo: the simulated server does not start: %s; %s",
			   words,
			   s->scenario ? "name a scenario of sim/scenarios"
				       : "build it again with make");
	return say(STATUS_RUNTIME,
		   "demo: the simulated server does not start: %s; try again",
		   strerror(-err));
}

int cmd_demo(const struct settings *s)
{
	struct child child;
	struct demo d;
	int status = find_parts(&d, s);

	if (!status)
		status = start(&d, &child, s);
	if (status)
		return status;
	status = watch(&d, &child, s);
	child_end(&child);
	return status;
}
