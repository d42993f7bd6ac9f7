#include "wire/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HEARTBEAT_LIVE_NS 2000000000ull
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
	int fd, err;

	if (!capacity_ok(capacity))
		return -EINVAL;
	fd = make_memfd();
	if (fd < 0)
		return -errno;
	h = map_sealed(fd, ring_bytes(capacity));
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
	/* The magic last: a reader that races sees no ring or a whole one. */
	__atomic_store_n(&h->magic, RING_MAGIC, __ATOMIC_RELEASE);
	*w = (struct ring_writer){
		.h = h,
		.slots = (struct record *)((char *)h + RING_HEADER_BYTES),
		.mask = capacity - 1,
		.fd = fd,
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

void ring_destroy(struct ring_writer *w)
{
	if (!w->h)
		return;
	munmap(w->h, ring_bytes(w->mask + 1));
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
	return beat_ns && beat_ns <= now_ns &&
	       now_ns - beat_ns < HEARTBEAT_LIVE_NS;
}

int ring_open(struct ring_reader *r, int fd, uint64_t now_ns)
{
	struct ring_header *copy, *h;
	uint32_t capacity;
	size_t bytes;
	uint64_t head, tail;
	int err;

	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	err = check_header(fd, copy);
	capacity = copy->capacity;
	if (!err &&
	    heartbeat_live(atomic_load(&copy->control.heartbeat_ns), now_ns))
		err = -EBUSY;
	free(copy);
	if (err)
		return err;
	bytes = ring_bytes(capacity);
	h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h == MAP_FAILED)
		return -errno;
	head = atomic_load_explicit(&h->head, memory_order_acquire);
	tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
	if (head - tail > capacity) {
		munmap(h, bytes);
		return -EPROTO;
	}
	*r = (struct ring_reader){
		.h = h,
		.slots = (const struct record *)((char *)h + RING_HEADER_BYTES),
		.map_bytes = bytes,
		.tail = tail,
		.mask = capacity - 1,
	};
	return 0;
}

int ring_read(struct ring_reader *r, struct record *out, size_t max)
{
	uint64_t head = atomic_load_explicit(&r->h->head, memory_order_acquire);
	uint64_t ready = head - r->tail;
	size_t n;

	if (ready > (uint64_t)r->mask + 1)
		return -EPROTO;
	n = ready < max ? (size_t)ready : max;
	for (size_t i = 0; i < n; i++)
		memcpy(&out[i], &r->slots[(r->tail + i) & r->mask],
		       sizeof(*out));
	r->tail += n;
	atomic_store_explicit(&r->h->tail, r->tail, memory_order_release);
	return (int)n;
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

void ring_close(struct ring_reader *r)
{
	if (!r->h)
		return;
	munmap(r->h, r->map_bytes);
	*r = (struct ring_reader){ 0 };
}
