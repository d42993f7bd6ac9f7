#include "core/worker.h"
#include "core/privileges.h"
#include "wire/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change;
	bool stop, ended;
	bool due;        /* no rest before the next step */
	unsigned owners; /* the thread and whoever started it */
	uint64_t period_ns;
	const struct worker_job *job;
	void *arg;
};

/* With the lock held: until *flag is set, or the time is over. */
static void wait_for(struct worker *w, const bool *flag, uint64_t ns)
{
	uint64_t until_ns = clock_now_ns() + ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_S),
				  .tv_nsec = (long)(until_ns % NS_PER_S) };

	while (!*flag && clock_now_ns() < until_ns)
		pthread_cond_timedwait(&w->change, &w->lock, &until);
}

static bool rest(struct worker *w)
{
	bool stop;

	pthread_mutex_lock(&w->lock);
	wait_for(w, &w->due, w->period_ns);
	w->due = false;
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

static void destroy(struct worker *w)
{
	pthread_cond_destroy(&w->change);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* With the lock held, which is given back. */
static void disown(struct worker *w)
{
	bool last = --w->owners == 0;

	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	w->job->free(w->arg);
	destroy(w);
}

static void *run(void *arg)
{
	struct worker *w = arg;

	prctl(PR_SET_NAME, "moetop-worker");
	do {
		/* refused: it works with what it has */
		(void)privileges_keep(w->job->privileges);
		w->job->step(w->arg);
	} while (!rest(w));
	w->job->end(w->arg);
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	pthread_cond_broadcast(&w->change);
	disown(w);
	return NULL;
}

static int start_thread(struct worker *w)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&w->thread, NULL, run, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

int worker_start(struct worker **out, uint64_t period_ns,
		 const struct worker_job *job, void *arg)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct worker){
		.owners = 2, .period_ns = period_ns, .job = job, .arg = arg
	};
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->change, &attr);
	pthread_condattr_destroy(&attr);
	err = start_thread(w);
	if (err) {
		destroy(w);
		return err;
	}
	*out = w;
	return 0;
}

void worker_wake(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->due = true;
	pthread_cond_broadcast(&w->change);
	pthread_mutex_unlock(&w->lock);
}

void worker_stop(struct worker *w)
{
	pthread_t thread;
	bool joinable;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = w->due = true;
	pthread_cond_broadcast(&w->change);
	wait_for(w, &w->ended, WORKER_GRACE_MS * NS_PER_MS);
	thread = w->thread;
	joinable = w->ended;
	disown(w);
	if (joinable)
		pthread_join(thread, NULL);
	else
		pthread_detach(thread);
}
