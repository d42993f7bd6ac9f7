#include "core/worker.h"
#include "core/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
	uint64_t period_ns;
	void (*step)(void *arg);
	void (*release)(void *arg);
	void *arg;
};

/* Until the period is over; true when the worker shall end. */
static bool rest(struct worker *w)
{
	uint64_t until_ns = clock_now_ns() + w->period_ns;
	struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_S),
				  .tv_nsec = (long)(until_ns % NS_PER_S) };
	bool stop;

	pthread_mutex_lock(&w->lock);
	while (!w->stop && clock_now_ns() < until_ns)
		pthread_cond_timedwait(&w->wake, &w->lock, &until);
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

static void destroy(struct worker *w)
{
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void *run(void *arg)
{
	struct worker *w = arg;

	do {
		w->step(w->arg);
	} while (!rest(w));
	w->release(w->arg);
	destroy(w);
	return NULL;
}

static int start_thread(struct worker *w)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attr, run, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

int worker_start(struct worker **out, uint64_t period_ns,
		 void (*step)(void *arg), void (*release)(void *arg), void *arg)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	int err;

	if (!w)
		return -ENOMEM;
	*w = (struct worker){ .period_ns = period_ns,
			      .step = step,
			      .release = release,
			      .arg = arg };
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);
	err = start_thread(w);
	if (err) {
		destroy(w);
		return err;
	}
	*out = w;
	return 0;
}

void worker_stop(struct worker *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}
