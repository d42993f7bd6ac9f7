#include "sim/gpu/cupti_played.h"
#include "sim/gpu/cupti_state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * The life of a record: planned at launch (cupti_on_records, which also sees to
 * the room for it), pending until its end has passed, written into the oldest
 * open buffer, handed out with it when that is full or flushed.
 */

/* ---- buffers -------------------------------------------------------------------- */

static void list_add(struct buffers *l, struct buffer *b)
{
	b->next = NULL;
	if (l->tail)
		l->tail->next = b;
	else
		l->head = b;
	l->tail = b;
}

static struct buffer *list_take(struct buffers *l)
{
	struct buffer *b = l->head;

	if (b) {
		l->head = b->next;
		if (!l->head)
			l->tail = NULL;
	}
	return b;
}

/* Ask the client for a buffer; false when it has none that can be used. */
static bool request(struct client *c)
{
	struct cupti_buffer_info info = { sizeof(info) };
	cupti_buffer_requested_v2 fn_v2;
	cupti_buffer_requested fn;
	uint8_t *p = NULL;
	size_t slot = cupti_played_bytes(CUPTI_KIND_KERNEL); /* the longest */
	size_t bytes = 0, max = 0;
	struct buffer *b;

	pthread_mutex_lock(&cupti.lock);
	fn = c->requested;
	fn_v2 = c->requested_v2;
	pthread_mutex_unlock(&cupti.lock);
	if (fn)
		fn(&p, &bytes, &max);
	else if (fn_v2)
		fn_v2(&p, &bytes, &max, &info);
	if (!p)
		return false;
	b = calloc(1, sizeof(*b));
	if (!b || bytes < slot || (uintptr_t)p % 8) {
		free(b);
		return false;
	}
	b->p = p;
	b->bytes = bytes;
	b->slots = bytes / slot;
	if (max && max < b->slots)
		b->slots = max;
	pthread_mutex_lock(&cupti.lock);
	list_add(&c->open, b);
	c->slots_free += b->slots;
	pthread_mutex_unlock(&cupti.lock);
	return true;
}

static void close_oldest(struct client *c)
{
	struct buffer *b = list_take(&c->open);

	c->slots_free -= b->slots - b->count;
	list_add(&c->full, b);
}

/* Write pending records that have ended; false if there was no room for one. */
static bool write_ended(struct client *c, bool forced)
{
	uint64_t now = cupti_monotonic_ns();
	size_t kept = 0;
	bool room = true;

	for (size_t i = 0; i < c->pending_count; i++) {
		struct pending *x = &c->pending[i];
		bool ended = x->r.end_ns <= now;
		struct buffer *b = c->open.head;

		if (!(ended || forced) || !b) {
			room = room && !(ended || forced);
			c->pending[kept++] = *x;
			continue;
		}
		b->used += cupti_record_write(b->p + b->used, x, !ended);
		b->count++;
		c->slots_free--;
		if (b->count == b->slots)
			close_oldest(c);
	}
	c->pending_count = kept;
	return room;
}

/* Hand out what is full.  delivery is held. */
static void hand_out(struct client *c)
{
	struct cupti_buffer_info info = { sizeof(info) };
	cupti_buffer_completed_v2 fn_v2;
	cupti_buffer_completed fn;
	struct buffers full;
	struct buffer *b;

	pthread_mutex_lock(&cupti.lock);
	fn = c->completed;
	fn_v2 = c->completed_v2;
	full = c->full;
	c->full = (struct buffers){ NULL, NULL };
	pthread_mutex_unlock(&cupti.lock);
	while ((b = list_take(&full))) {
		if (fn)
			fn(NULL, 0, b->p, b->bytes, b->used);
		else if (fn_v2)
			fn_v2(b->p, b->bytes, b->used, &info);
		free(b);
	}
}

static void flush(struct client *c, bool forced)
{
	bool more = true;

	for (int tries = 0; more && tries < 1000; tries++) {
		bool room;

		pthread_mutex_lock(&cupti.lock);
		room = write_ended(c, forced);
		pthread_mutex_unlock(&cupti.lock);
		more = !room && request(c);
	}
	pthread_mutex_lock(&cupti.lock);
	if (forced) { /* what found no room now never will */
		c->dropped += c->pending_count;
		c->pending_count = 0;
	}
	while (c->open.head && (forced || c->open.head->count))
		close_oldest(c);
	pthread_mutex_unlock(&cupti.lock);
	if (forced || !simgpu_fault("starve", NULL))
		hand_out(c);
}

void cupti_flush(bool forced)
{
	pthread_mutex_lock(&cupti.delivery);
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		flush(&cupti.client[i], forced);
	pthread_mutex_unlock(&cupti.delivery);
}

static void drop_buffers(struct buffers *l)
{
	struct buffer *b;

	while ((b = list_take(l)))
		free(b);
}

void cupti_client_forget(struct client *c)
{
	drop_buffers(&c->open);
	drop_buffers(&c->full);
	c->slots_free = 0;
	c->pending_count = 0;
	c->requested = NULL;
	c->completed = NULL;
	c->requested_v2 = NULL;
	c->completed_v2 = NULL;
}

/* ---- records of a launch ------------------------------------------------------------ */

static bool client_wants_records(struct client *c)
{
	return (c->requested || c->requested_v2) &&
	       (atomic_load(&c->kinds[CUPTI_KIND_KERNEL]) ||
		atomic_load(&c->kinds[CUPTI_KIND_CONCURRENT_KERNEL]) ||
		atomic_load(&c->kinds[CUPTI_KIND_MEMCPY]) ||
		atomic_load(&c->kinds[CUPTI_KIND_MEMSET]));
}

bool cupti_records_wanted(void)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (client_wants_records(&cupti.client[i]))
			return true;
	return false;
}

struct faults { /* 0: off */
	uint64_t zero_after, drop_every, fatal_after, jitter_ns;
	bool zero;
};

static void faults_read(struct faults *f)
{
	*f = (struct faults){ 0 };
	f->zero = simgpu_fault("zero_stamps", &f->zero_after);
	simgpu_fault("drop_records", &f->drop_every);
	simgpu_fault("fatal", &f->fatal_after);
	simgpu_fault("clock_jitter", &f->jitter_ns);
}

static bool kind_wanted(struct client *c, const struct simgpu_record *r)
{
	if (!c->requested && !c->requested_v2)
		return false;
	if (r->name)
		return atomic_load(&c->kinds[CUPTI_KIND_KERNEL]) ||
		       atomic_load(&c->kinds[CUPTI_KIND_CONCURRENT_KERNEL]);
	return atomic_load(&c->kinds[r->copy_kind ? CUPTI_KIND_MEMCPY
						  : CUPTI_KIND_MEMSET]);
}

static bool anyone_wants(const struct simgpu_record *r)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (kind_wanted(&cupti.client[i], r))
			return true;
	return false;
}

static bool pending_add(struct client *c, const struct pending *x)
{
	if (c->pending_count == c->pending_room) {
		size_t room = c->pending_room ? 2 * c->pending_room : 1024;
		void *v = realloc(c->pending, room * sizeof(*c->pending));

		if (!v)
			return false;
		c->pending = v;
		c->pending_room = room;
	}
	c->pending[c->pending_count++] = *x;
	return true;
}

/* Make room for one more; lock is released meanwhile.  false: none. */
static bool room_for_one(struct client *c)
{
	while (c->pending_count >= c->slots_free) {
		bool got;

		pthread_mutex_unlock(&cupti.lock);
		got = request(c);
		pthread_mutex_lock(&cupti.lock);
		if (!got)
			return false;
	}
	return true;
}

/* Take one record in for every client that wants it; lock is held.  false: a
 * fatal error happens here. */
static bool take(struct pending *x, const struct faults *f,
		 bool declined[CUPTI_CLIENTS])
{
	bool lost = false;

	if (x->r.name) {
		cupti.kernels++;
		if (f->fatal_after && cupti.kernels >= f->fatal_after)
			return false;
		x->zero = f->zero && cupti.kernels > f->zero_after;
		lost = f->drop_every && cupti.kernels % f->drop_every == 0;
	}
	for (int i = 0; i < CUPTI_CLIENTS; i++) {
		struct client *c = &cupti.client[i];

		if (!kind_wanted(c, &x->r))
			continue;
		x->serial = atomic_load(&c->kinds[CUPTI_KIND_KERNEL]);
		if (lost) {
			c->dropped++;
			continue;
		}
		/* One that said no is asked again at the next launch. */
		if (declined[i] || !room_for_one(c) || !pending_add(c, x)) {
			declined[i] = true;
			c->dropped++;
		}
	}
	return true;
}

void cupti_on_records(const struct simgpu_record *r, size_t n)
{
	struct pending x = { 0 };
	struct faults f;
	bool declined[CUPTI_CLIENTS] = { false }, fatal = false;
	int64_t offset;

	if (atomic_load(&cupti.dead))
		return;
	faults_read(&f);
	offset = cupti_offset_ns();
	pthread_mutex_lock(&cupti.lock);
	for (size_t i = 0; i < n && !fatal; i++) {
		if (!anyone_wants(&r[i]))
			continue;
		x.r = r[i];
		x.shift_ns = offset + cupti_jitter_ns(f.jitter_ns);
		fatal = !take(&x, &f, declined);
	}
	pthread_cond_signal(&cupti.wake);
	pthread_mutex_unlock(&cupti.lock);
	if (fatal) {
		atomic_store(&cupti.dead, true);
		cupti_state_error("simulated fatal error");
		cupti_teardown();
	}
}

/* ---- the worker ------------------------------------------------------------------------ */

static bool anything(void)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (cupti.client[i].pending_count || cupti.client[i].full.head)
			return true;
	return false;
}

static void wait_work(void)
{
	struct timespec ts;

	while (!cupti.worker_stop && !anything())
		pthread_cond_wait(&cupti.wake, &cupti.lock);
	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += CUPTI_WORKER_NS;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	/* Launches signal too; they need not be answered at once. */
	while (!cupti.worker_stop &&
	       pthread_cond_timedwait(&cupti.wake, &cupti.lock, &ts) == 0)
		;
}

static void deliver(struct client *c, bool stop)
{
	pthread_mutex_lock(&cupti.lock);
	write_ended(c, false);
	pthread_mutex_unlock(&cupti.lock);
	if (!stop && !simgpu_fault("starve", NULL))
		hand_out(c);
}

static void *worker_main(void *arg)
{
	bool stop = false;

	(void)arg;
	while (!stop) {
		pthread_mutex_lock(&cupti.lock);
		wait_work();
		stop = cupti.worker_stop;
		pthread_mutex_unlock(&cupti.lock);
		pthread_mutex_lock(&cupti.delivery);
		for (int i = 0; i < CUPTI_CLIENTS; i++)
			deliver(&cupti.client[i], stop);
		pthread_mutex_unlock(&cupti.delivery);
	}
	return NULL;
}

/* lock is held. */
void cupti_worker_start(void)
{
	pthread_condattr_t a;

	if (cupti.worker_runs)
		return;
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&cupti.wake, &a);
	pthread_condattr_destroy(&a);
	cupti.worker_stop = false;
	cupti.worker_runs =
		pthread_create(&cupti.worker, NULL, worker_main, NULL) == 0;
}
