#include "wire/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HEARTBEAT_LIVE_NS 2000000000ull
/* How far a reader's clock may be behind that of another, who looked at it
 * later; what is further ahead is no heartbeat. */
#define HEARTBEAT_AHEAD_NS 30000000000ull
#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif

static bool capacity_ok(uint32_t capacity)
{
	return capacity > 0 && capacity <= RING_CAPACITY_MAX &&
	       (capacity & (capacity - 1)) == 0;
}

static size_t ring_bytes(uint32_t capacity)
{
	return RING_HEADER_BYTES + (size_t)capacity * RECORD_BYTES;
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Hardened systems (vm.memfd_noexec) refuse a memfd that may be executed, old
 * kernels the flag that says it may not. */
static int make_memfd(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(RING_NAME, flags | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(RING_NAME, flags) : fd;
}

/* Map a new file of `bytes` and seal its size; NULL with errno. */
static void *map_sealed(int fd, size_t bytes)
{
	void *p;

	if (ftruncate(fd, (off_t)bytes) < 0)
		return NULL;
	/* Memory that runs out later would be a SIGBUS in the writer. */
	if (fallocate(fd, 0, 0, (off_t)bytes) < 0)
		return NULL;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
	    0) {
		int saved = errno;

		munmap(p, bytes);
		errno = saved;
		return NULL;
	}
	return p;
}

int ring_create(struct ring_writer *w, uint32_t capacity)
{
	struct ring_header *h;
	struct stat st;
	int fd, err;

	if (!capacity_ok(capacity))
		return -EINVAL;
	fd = make_memfd();
	if (fd < 0)
		return -errno;
	h = fstat(fd, &st) ? NULL : map_sealed(fd, ring_bytes(capacity));
	if (!h) {
		err = -errno;
		close(fd);
		return err;
	}
	h->version = RING_VERSION;
	h->record_version = RECORD_VERSION;
	h->record_bytes = RECORD_BYTES;
	h->capacity = capacity;
	h->agent_pid = (uint32_t)getpid();
	h->start_ns = monotonic_ns();
	/* A child of fork is not this writer. */
	madvise(h, ring_bytes(capacity), MADV_DONTFORK);
	/* The magic last: a reader that races sees no ring or a whole one. */
	__atomic_store_n(&h->magic, RING_MAGIC, __ATOMIC_RELEASE);
	*w = (struct ring_writer){
		.h = h,
		.slots = (struct record *)((char *)h + RING_HEADER_BYTES),
		.mask = capacity - 1,
		.fd = fd,
		.device = st.st_dev,
		.inode = st.st_ino,
	};
	return 0;
}

int ring_write(struct ring_writer *w, const struct record *r)
{
	uint64_t tail = atomic_load_explicit(&w->h->tail, memory_order_acquire);

	/* A tail beyond head is a reader's nonsense: the ring counts as full,
	 * since no slot is known to have been read. */
	if (w->head - tail > w->mask) {
		atomic_fetch_add_explicit(&w->h->lost, 1, memory_order_relaxed);
		return -ENOSPC;
	}
	memcpy(&w->slots[w->head & w->mask], r, sizeof(*r));
	w->head++;
	atomic_store_explicit(&w->h->head, w->head, memory_order_release);
	return 0;
}

/* Is the descriptor still that of the ring? */
static bool is_ours(const struct ring_writer *w)
{
	struct stat st;

	return !fstat(w->fd, &st) && st.st_dev == w->device &&
	       st.st_ino == w->inode;
}

void ring_release(struct ring_writer *w)
{
	/* Nobody reads now; the next reader begins after what is gone. */
	atomic_store_explicit(&w->h->tail, w->head, memory_order_release);
	if (is_ours(w))
		fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  RING_HEADER_BYTES,
			  (off_t)(ring_bytes(w->mask + 1) - RING_HEADER_BYTES));
}

int ring_restore(struct ring_writer *w)
{
	if (!is_ours(w))
		return -EBADF;
	return fallocate(w->fd, 0, 0, (off_t)ring_bytes(w->mask + 1)) ? -errno
								      : 0;
}

void ring_destroy(struct ring_writer *w)
{
	if (!w->h)
		return;
	munmap(w->h, ring_bytes(w->mask + 1));
	if (is_ours(w))
		close(w->fd);
	*w = (struct ring_writer){ .fd = -1 };
}

void ring_forget(struct ring_writer *w)
{
	if (w->h && is_ours(w))
		close(w->fd);
	*w = (struct ring_writer){ .fd = -1 };
}

/* Sizes that cannot change under a mapping: sealed, and as announced. */
static int check_file(int fd, uint32_t capacity)
{
	const int need = F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & need) != need)
		return -EPROTO;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 0 || (uint64_t)st.st_size != ring_bytes(capacity))
		return -EPROTO;
	return 0;
}

/* The geometry comes from a copy read once, not from the mapping. */
static int check_header(int fd, struct ring_header *h)
{
	ssize_t n = pread(fd, h, sizeof(*h), 0);

	if (n < 0)
		return -errno;
	if ((size_t)n != sizeof(*h) || h->magic != RING_MAGIC)
		return -EPROTO;
	if (h->version != RING_VERSION || h->record_version != RECORD_VERSION)
		return -EPROTONOSUPPORT;
	if (h->record_bytes != RECORD_BYTES || !capacity_ok(h->capacity))
		return -EPROTO;
	return check_file(fd, h->capacity);
}

static bool heartbeat_live(uint64_t beat_ns, uint64_t now_ns)
{
	if (!beat_ns)
		return false;
	return beat_ns <= now_ns ? now_ns - beat_ns < HEARTBEAT_LIVE_NS
				 : beat_ns - now_ns < HEARTBEAT_AHEAD_NS;
}

static void wake_agent(struct ring_control *c)
{
	atomic_fetch_add(&c->wake, 1);
	syscall(SYS_futex, &c->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Become the one reader; 0 or -EBUSY. */
static int take_session(struct ring_control *c, uint64_t mine, uint64_t now_ns)
{
	uint64_t other = atomic_load(&c->session);

	if (heartbeat_live(atomic_load(&c->heartbeat_ns), now_ns))
		return -EBUSY;
	if (!atomic_compare_exchange_strong(&c->session, &other, mine))
		return -EBUSY;
	atomic_store(&c->heartbeat_ns, now_ns);
	atomic_store(&c->detach, 0);
	wake_agent(c);
	return 0;
}

static uint64_t new_session(void)
{
	uint64_t s = 0;

	if (getrandom(&s, sizeof(s), GRND_NONBLOCK) != sizeof(s) || !s)
		s = monotonic_ns() ^ ((uint64_t)getpid() << 40) ^ 1;
	return s;
}

int ring_open(struct ring_reader *r, int fd, uint64_t now_ns)
{
	uint64_t head, tail, session = new_session();
	struct ring_header *copy, *h;
	uint32_t capacity;
	size_t bytes;
	int err;

	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	err = check_header(fd, copy);
	capacity = copy->capacity;
	free(copy);
	if (err)
		return err;
	bytes = ring_bytes(capacity);
	h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return -errno;
	head = atomic_load_explicit(&h->head, memory_order_acquire);
	tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
	err = head - tail > capacity
		      ? -EPROTO
		      : take_session(&h->control, session, now_ns);
	if (err) {
		munmap(h, bytes);
		return err;
	}
	*r = (struct ring_reader){
		.h = h,
		.slots = (const struct record *)((char *)h + RING_HEADER_BYTES),
		.map_bytes = bytes,
		.tail = tail,
		.mask = capacity - 1,
		.session = session,
	};
	return 0;
}

int ring_beat(struct ring_reader *r, uint64_t now_ns)
{
	if (atomic_load(&r->h->control.session) != r->session)
		return -EBUSY;
	atomic_store(&r->h->control.heartbeat_ns, now_ns);
	/* It fell asleep while we were stopped. */
	if (ring_agent_state(r) == AGENT_STUB)
		wake_agent(&r->h->control);
	return 0;
}

enum agent_state ring_agent_state(const struct ring_reader *r)
{
	uint32_t state = atomic_load(&r->h->state.state);

	return state < AGENT_STATES ? (enum agent_state)state : AGENT_ABSENT;
}

int ring_read(struct ring_reader *r, struct record *out, size_t max)
{
	uint64_t head = atomic_load_explicit(&r->h->head, memory_order_acquire);
	uint64_t ready = head - r->tail;
	size_t n, kept = 0;

	if (ready > (uint64_t)r->mask + 1)
		return -EPROTO;
	n = ready < max ? (size_t)ready : max;
	for (size_t i = 0; i < n; i++) {
		memcpy(&out[kept], &r->slots[(r->tail + i) & r->mask],
		       sizeof(*out));
		kept += out[kept].type != 0;
	}
	r->tail += n;
	atomic_store_explicit(&r->h->tail, r->tail, memory_order_release);
	return (int)kept;
}

uint64_t ring_lost(struct ring_reader *r)
{
	uint64_t lost = atomic_load_explicit(&r->h->lost, memory_order_relaxed);
	uint64_t since = lost - r->lost;

	/* A counter that runs backwards tells nothing. */
	if (lost < r->lost)
		since = 0;
	r->lost = lost;
	return since;
}

void ring_close(struct ring_reader *r, bool detach)
{
	struct ring_control *c = r->h ? &r->h->control : NULL;
	uint64_t mine = r->session;

	if (!c)
		return;
	if (atomic_load(&c->session) == mine) {
		if (detach)
			atomic_store(&c->detach, 1);
		atomic_store(&c->heartbeat_ns, 0);
		atomic_compare_exchange_strong(&c->session, &mine, 0);
	}
	munmap(r->h, r->map_bytes);
	*r = (struct ring_reader){ 0 };
}
