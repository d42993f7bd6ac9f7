#include "core/server_pick.h"

#include "core/privileges.h"
#include "core/say.h"
#include "core/server_flight.h"
#include "core/set_up.h"
#include "core/worker.h"
#include "target/discover.h"
#include "wire/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of the worker and of the picker; the last of the two frees it. */
struct look {
	pthread_mutex_t lock;
	struct servers newest; /* guarded by it */
	struct servers found;  /* the worker's */
};

static void look_step(void *arg)
{
	struct look *l = arg;

	/* what was found before stays when it fails once */
	if (discover_servers(&l->found))
		return;
	server_flight_read(&l->found);
	pthread_mutex_lock(&l->lock);
	l->newest = l->found;
	pthread_mutex_unlock(&l->lock);
}

static void look_end(void *arg)
{
	(void)arg;
}

static void look_free(void *arg)
{
	struct look *l = arg;

	pthread_mutex_destroy(&l->lock);
	free(l);
}

static bool look_now(void *arg, struct servers *out)
{
	struct look *l = arg;

	pthread_mutex_lock(&l->lock);
	*out = l->newest;
	pthread_mutex_unlock(&l->lock);
	return true;
}

static const struct worker_job job = {
	.privileges = PRIVILEGES_LOOK | PRIVILEGES_NETWORK,
	.step = look_step,
	.end = look_end,
	.free = look_free,
};

static int pick(const struct settings *s, struct look *l, pid_t *pid)
{
	const struct tui_list list = { .look = look_now, .arg = l };
	char theme[32];
	const struct tui_options options = set_up_options(s, theme);
	int32_t picked = 0;
	int err = tui_pick(&options, &list, &picked);

	if (!err)
		*pid = (pid_t)picked;
	return err;
}

static int end(int err, int *status)
{
	if (err == -ECANCELED)
		*status = STATUS_OK;
	else
		*status = say(STATUS_RUNTIME,
			      "screen: %s; check TERM, or name a server with "
			      "-p PID",
			      strerror(-err));
	return -1;
}

int server_pick(const struct settings *s, const struct servers *found,
		pid_t *pid, int *status)
{
	struct look *l = calloc(1, sizeof(*l));
	struct worker *w;
	int err;

	if (!l)
		return end(-ENOMEM, status);
	pthread_mutex_init(&l->lock, NULL);
	l->newest = l->found = *found;
	err = worker_start(&w, NS_PER_S, &job, l);
	if (err) {
		look_free(l);
		return end(err, status);
	}
	err = pick(s, l, pid);
	worker_stop(w);
	return err ? end(err, status) : 0;
}
