#include "core/broker.h"
#include "core/privileges.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct broker {
	pthread_mutex_t lock;
	pthread_cond_t change;
	pthread_t thread;
	void (*fn)(void *arg); /* NULL: nothing to do */
	void *arg;
	bool stop;
	uint64_t mask;
};

static void *run(void *arg)
{
	struct broker *b = arg;

	prctl(PR_SET_NAME, "moetop-broker");
	/* refused: it works with what it has */
	(void)privileges_keep(b->mask);
	pthread_mutex_lock(&b->lock);
	while (!b->stop) {
		if (!b->fn) {
			pthread_cond_wait(&b->change, &b->lock);
			continue;
		}
		pthread_mutex_unlock(&b->lock);
		b->fn(b->arg);
		pthread_mutex_lock(&b->lock);
		b->fn = NULL;
		pthread_cond_broadcast(&b->change);
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

int broker_new(struct broker **out, uint64_t mask)
{
	struct broker *b = calloc(1, sizeof(*b));
	sigset_t all, old;
	int err;

	if (!b)
		return -ENOMEM;
	b->mask = mask;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->change, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&b->thread, NULL, run, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err) {
		pthread_cond_destroy(&b->change);
		pthread_mutex_destroy(&b->lock);
		free(b);
		return -err;
	}
	*out = b;
	return 0;
}

struct making {
	struct broker **out;
	uint64_t mask;
	int err;
};

static void make(void *arg)
{
	struct making *m = arg;

	m->err = broker_new(m->out, m->mask);
}

int broker_new_from(struct broker *from, struct broker **out, uint64_t mask)
{
	struct making m = { .out = out, .mask = mask };

	if (from)
		broker_call(from, make, &m);
	else
		make(&m);
	return m.err;
}

void broker_call(struct broker *b, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&b->lock);
	b->fn = fn;
	b->arg = arg;
	pthread_cond_broadcast(&b->change);
	while (b->fn)
		pthread_cond_wait(&b->change, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static void keep(void *arg)
{
	const uint64_t *mask = arg;

	(void)privileges_keep(*mask);
}

void broker_keep(struct broker *b, uint64_t mask)
{
	privileges_forbid(~mask);
	broker_call(b, keep, &mask);
}

void broker_free(struct broker *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->stop = true;
	pthread_cond_broadcast(&b->change);
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	pthread_cond_destroy(&b->change);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

int broker_once(uint64_t mask, void (*fn)(void *arg), void *arg)
{
	struct broker *b = NULL;
	int err = broker_new(&b, mask);

	if (!b)
		return err;
	broker_call(b, fn, arg);
	broker_free(b);
	return 0;
}
