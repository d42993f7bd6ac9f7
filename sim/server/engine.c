#include "sim/server/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct list {
	struct request *first, **end;
};

struct engine {
	struct engine_gpu gpu;
	struct sched sched;
	int fd;
	pthread_mutex_t in_lock; /* guards inbox, aborts, stop */
	pthread_cond_t wake;
	struct list inbox;
	bool aborts, stop;
	pthread_mutex_t out_lock; /* guards outbox, stats, outputs */
	struct list outbox;
	struct engine_stats stats;
};

static void list_init(struct list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_add(struct list *l, struct request *q)
{
	q->next = NULL;
	*l->end = q;
	l->end = &q->next;
}

static struct request *list_take(struct list *l)
{
	struct request *q = l->first;

	list_init(l);
	return q;
}

int engine_new(struct engine **out, const struct engine_gpu *gpu,
	       const struct sched_limits *limits)
{
	struct engine *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->gpu = *gpu;
	e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = e->fd < 0 ? -errno : sched_init(&e->sched, limits);
	if (err) {
		if (e->fd >= 0)
			close(e->fd);
		free(e);
		return err;
	}
	list_init(&e->inbox);
	list_init(&e->outbox);
	pthread_mutex_init(&e->in_lock, NULL);
	pthread_mutex_init(&e->out_lock, NULL);
	pthread_cond_init(&e->wake, NULL);
	*out = e;
	return 0;
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	sched_fini(&e->sched);
	close(e->fd);
	pthread_mutex_destroy(&e->in_lock);
	pthread_mutex_destroy(&e->out_lock);
	pthread_cond_destroy(&e->wake);
	free(e);
}

void engine_submit(struct engine *e, struct request *q)
{
	q->tokens = q->pending = 0;
	q->ended = q->done = q->listed = false;
	pthread_mutex_lock(&e->in_lock);
	list_add(&e->inbox, q);
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->in_lock);
}

void engine_abort(struct engine *e, struct request *q)
{
	atomic_store_explicit(&q->seq.abort, true, memory_order_release);
	pthread_mutex_lock(&e->in_lock);
	e->aborts = true;
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->in_lock);
}

void engine_stop(struct engine *e)
{
	pthread_mutex_lock(&e->in_lock);
	e->stop = true;
	pthread_cond_signal(&e->wake);
	pthread_mutex_unlock(&e->in_lock);
}

void engine_stats(struct engine *e, struct engine_stats *out)
{
	pthread_mutex_lock(&e->out_lock);
	*out = e->stats;
	pthread_mutex_unlock(&e->out_lock);
}

int engine_fd(const struct engine *e)
{
	return e->fd;
}

struct request *engine_take(struct engine *e)
{
	struct request *first;

	pthread_mutex_lock(&e->out_lock);
	first = list_take(&e->outbox);
	for (struct request *q = first; q; q = q->next) {
		q->tokens = q->pending;
		q->ended = q->done;
		/* From here on the engine may list it again. */
		q->taken = q->next;
		q->pending = 0;
		q->listed = false;
	}
	pthread_mutex_unlock(&e->out_lock);
	return first;
}

/* ---- the loop, out_lock held in the callbacks ---------------------------- */

static void output(struct engine *e, struct request *q)
{
	if (q->listed)
		return;
	q->listed = true;
	list_add(&e->outbox, q);
}

static void on_token(void *arg, struct seq *s, bool last)
{
	struct engine *e = arg;
	struct request *q = s->owner;

	q->pending++;
	q->done = last;
	e->stats.generation_tokens++;
	e->stats.finished += last;
	if (s->generated == 1)
		e->stats.prompt_tokens += s->prompt_tokens;
	output(e, q);
}

static void on_gone(void *arg, struct seq *s)
{
	struct engine *e = arg;
	struct request *q = s->owner;

	q->done = true;
	e->stats.aborted++;
	output(e, q);
}

static void tell(const struct engine *e)
{
	const uint64_t one = 1;

	/* Full means that the reader has not read yet: it will. */
	if (write(e->fd, &one, sizeof(one)) < 0)
		return;
}

/* Wait for something to do; false: stop. */
static bool wait_for_work(struct engine *e)
{
	bool idle = !e->sched.running_n && !e->sched.waiting_n;
	struct request *q, *next;
	bool stop, aborts;

	pthread_mutex_lock(&e->in_lock);
	while (!e->stop && !e->aborts && !e->inbox.first && idle)
		pthread_cond_wait(&e->wake, &e->in_lock);
	stop = e->stop;
	aborts = e->aborts;
	e->aborts = false;
	q = list_take(&e->inbox);
	pthread_mutex_unlock(&e->in_lock);

	for (; q; q = next) {
		next = q->next;
		q->seq.owner = q;
		sched_add(&e->sched, &q->seq);
	}
	if (aborts) {
		pthread_mutex_lock(&e->out_lock);
		sched_reap(&e->sched, on_gone, e);
		pthread_mutex_unlock(&e->out_lock);
		tell(e);
	}
	return !stop;
}

static void publish(struct engine *e, const struct sched_step *step)
{
	uint64_t kv = 0;

	for (unsigned i = 0; i < e->sched.running_n; i++)
		kv += e->sched.running[i]->computed;
	e->stats.running = e->sched.running_n;
	e->stats.waiting = e->sched.waiting_n;
	e->stats.kv_tokens = kv;
	e->stats.steps += step->items_n > 0;
	e->stats.step_tokens += step->tokens;
}

int engine_run(struct engine *e)
{
	struct sched_step step;
	int err = 0;

	while (!err && wait_for_work(e)) {
		sched_plan(&e->sched, &step);
		if (step.items_n) {
			pthread_mutex_lock(&e->out_lock);
			e->stats.running = e->sched.running_n;
			e->stats.waiting = e->sched.waiting_n;
			pthread_mutex_unlock(&e->out_lock);
			err = e->gpu.step(e->gpu.arg, &step);
		}
		pthread_mutex_lock(&e->out_lock);
		if (step.items_n && !err)
			sched_commit(&e->sched, &step, on_token, e);
		publish(e, &step);
		pthread_mutex_unlock(&e->out_lock);
		tell(e);
	}
	return err;
}
