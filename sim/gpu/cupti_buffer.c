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
static bool request(void)
{
	cupti_buffer_requested fn;
	uint8_t *p = NULL;
	size_t bytes = 0, max = 0;
	struct buffer *b;

	pthread_mutex_lock(&cupti.lock);
	fn = cupti.requested;
	pthread_mutex_unlock(&cupti.lock);
	if (fn)
		fn(&p, &bytes, &max);
	if (!p)
		return false;
	b = calloc(1, sizeof(*b));
	if (!b || bytes < CUPTI_RECORD_MAX_BYTES || (uintptr_t)p % 8) {
		free(b);
		return false;
	}
	b->p = p;
	b->bytes = bytes;
	b->slots = bytes / CUPTI_RECORD_MAX_BYTES;
	if (max && max < b->slots)
		b->slots = max;
	pthread_mutex_lock(&cupti.lock);
	list_add(&cupti.open, b);
	cupti.slots_free += b->slots;
	pthread_mutex_unlock(&cupti.lock);
	return true;
}

static void close_oldest(void)
{
	struct buffer *b = list_take(&cupti.open);

	cupti.slots_free -= b->slots - b->count;
	list_add(&cupti.full, b);
}

/* Write pending records that have ended; false if there was no room for one. */
static bool write_ended(bool forced)
{
	uint64_t now = cupti_monotonic_ns();
	size_t kept = 0;
	bool room = true;

	for (size_t i = 0; i < cupti.pending_count; i++) {
		struct pending *x = &cupti.pending[i];
		bool ended = x->r.end_ns <= now;
		struct buffer *b = cupti.open.head;

		if (!(ended || forced) || !b) {
			room = room && !(ended || forced);
			cupti.pending[kept++] = *x;
			continue;
		}
		b->used += cupti_record_write(b->p + b->used, x, !ended);
		b->count++;
		cupti.slots_free--;
		if (b->count == b->slots)
			close_oldest();
	}
	cupti.pending_count = kept;
	return room;
}

/* Hand out what is full.  delivery is held. */
static void hand_out(void)
{
	cupti_buffer_completed fn;
	struct buffers full;
	struct buffer *b;

	pthread_mutex_lock(&cupti.lock);
	fn = cupti.completed;
	full = cupti.full;
	cupti.full = (struct buffers){ NULL, NULL };
	pthread_mutex_unlock(&cupti.lock);
	while ((b = list_take(&full))) {
		if (fn)
			fn(NULL, 0, b->p, b->bytes, b->used);
		free(b);
	}
}

void cupti_flush(bool forced)
{
	bool more = true;

	pthread_mutex_lock(&cupti.delivery);
	for (int tries = 0; more && tries < 1000; tries++) {
		bool room;

		pthread_mutex_lock(&cupti.lock);
		room = write_ended(forced);
		pthread_mutex_unlock(&cupti.lock);
		more = !room && request();
	}
	pthread_mutex_lock(&cupti.lock);
	if (forced) { /* what found no room now never will */
		cupti.dropped += cupti.pending_count;
		cupti.pending_count = 0;
	}
	while (cupti.open.head && (forced || cupti.open.head->count))
		close_oldest();
	pthread_mutex_unlock(&cupti.lock);
	if (forced || !simgpu_fault("starve", NULL))
		hand_out();
	pthread_mutex_unlock(&cupti.delivery);
}

/* ---- records of a launch ------------------------------------------------------------ */

bool cupti_records_wanted(void)
{
	return cupti.requested &&
	       (atomic_load(&cupti.kinds[CUPTI_KIND_KERNEL]) ||
		atomic_load(&cupti.kinds[CUPTI_KIND_CONCURRENT_KERNEL]) ||
		atomic_load(&cupti.kinds[CUPTI_KIND_MEMCPY]) ||
		atomic_load(&cupti.kinds[CUPTI_KIND_MEMSET]));
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

static bool kind_wanted(const struct simgpu_record *r)
{
	if (r->name)
		return atomic_load(&cupti.kinds[CUPTI_KIND_KERNEL]) ||
		       atomic_load(&cupti.kinds[CUPTI_KIND_CONCURRENT_KERNEL]);
	return atomic_load(&cupti.kinds[r->copy_kind ? CUPTI_KIND_MEMCPY
						     : CUPTI_KIND_MEMSET]);
}

static bool pending_add(const struct pending *x)
{
	if (cupti.pending_count == cupti.pending_room) {
		size_t room =
			cupti.pending_room ? 2 * cupti.pending_room : 1024;
		void *v = realloc(cupti.pending, room * sizeof(*cupti.pending));

		if (!v)
			return false;
		cupti.pending = v;
		cupti.pending_room = room;
	}
	cupti.pending[cupti.pending_count++] = *x;
	return true;
}

/* Make room for one more; lock is released meanwhile.  false: none. */
static bool room_for_one(void)
{
	while (cupti.pending_count >= cupti.slots_free) {
		bool got;

		pthread_mutex_unlock(&cupti.lock);
		got = request();
		pthread_mutex_lock(&cupti.lock);
		if (!got)
			return false;
	}
	return true;
}

/* Take one record in; lock is held.  false: a fatal error happens here. */
static bool take(struct pending *x, const struct faults *f, bool *declined)
{
	if (x->r.name) {
		cupti.kernels++;
		if (f->fatal_after && cupti.kernels >= f->fatal_after)
			return false;
		x->zero = f->zero && cupti.kernels > f->zero_after;
		x->serial = atomic_load(&cupti.kinds[CUPTI_KIND_KERNEL]);
		if (f->drop_every && cupti.kernels % f->drop_every == 0) {
			cupti.dropped++;
			return true;
		}
	}
	/* A client that said no is asked again at the next launch. */
	if (*declined || !room_for_one() || !pending_add(x)) {
		*declined = true;
		cupti.dropped++;
	}
	return true;
}

void cupti_on_records(const struct simgpu_record *r, size_t n)
{
	struct pending x = { 0 };
	struct faults f;
	bool declined = false, fatal = false;
	int64_t offset;

	if (atomic_load(&cupti.dead))
		return;
	faults_read(&f);
	offset = cupti_offset_ns();
	pthread_mutex_lock(&cupti.lock);
	for (size_t i = 0; i < n && !fatal; i++) {
		if (!kind_wanted(&r[i]))
			continue;
		x.r = r[i];
		x.shift_ns = offset + cupti_jitter_ns(f.jitter_ns);
		fatal = !take(&x, &f, &declined);
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

static void wait_work(void)
{
	struct timespec ts;

	while (!cupti.worker_stop && !cupti.pending_count && !cupti.full.head)
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
		pthread_mutex_lock(&cupti.lock);
		write_ended(false);
		pthread_mutex_unlock(&cupti.lock);
		if (!stop && !simgpu_fault("starve", NULL))
			hand_out();
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
