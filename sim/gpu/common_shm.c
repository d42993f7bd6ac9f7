#include "sim/gpu/common_shm.h"
#include "sim/gpu/common_gpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHM_DIR "/dev/shm"
/* A segment ends at most this long before one that was planned earlier. */
#define DISORDER_NS 100000000u
#define SHM_PREFIX "moetop-sim-gpu"

uint64_t sim_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The PID namespace of this process. */
static uint32_t pid_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint32_t)st.st_ino;
}

/* Field 22 of /proc/PID/stat, 0 when the process is gone. */
static uint64_t proc_start(uint32_t pid)
{
	char path[40], buf[1024], *p, *save = NULL;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	/* The name may hold anything; the fields after it start at 3. */
	p = strrchr(buf, ')');
	if (!p)
		return 0;
	p = strtok_r(p + 1, " ", &save);
	for (int field = 3; p && field < 22; field++)
		p = strtok_r(NULL, " ", &save);
	return p ? strtoull(p, NULL, 10) : 0;
}

static void shm_path(char *out, size_t n, unsigned uid, unsigned pid)
{
	snprintf(out, n, SHM_DIR "/" SHM_PREFIX "%u-%u", uid, pid);
}

static void add_to(_Atomic uint64_t *a, uint64_t n)
{
	atomic_store_explicit(a,
			      atomic_load_explicit(a, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *a)
{
	return atomic_load_explicit(a, memory_order_relaxed);
}

static void put(_Atomic uint64_t *a, uint64_t v)
{
	atomic_store_explicit(a, v, memory_order_relaxed);
}

/* The newest segment if [start, end) may be joined to it, else a fresh one. */
static struct sim_segment *segment_for(struct sim_shm *s, uint64_t start,
				       uint64_t end)
{
	uint64_t n = get(&s->count);
	struct sim_segment *g = &s->ring[(n - 1) % SIM_SHM_SEGMENTS];

	if (n > 0 && start >= get(&g->start_ns) &&
	    start <= get(&g->end_ns) + SIM_SHM_SPAN_NS / 10 &&
	    end <= get(&g->start_ns) + SIM_SHM_SPAN_NS) {
		if (end > get(&g->end_ns))
			put(&g->end_ns, end);
		return g;
	}
	g = &s->ring[n % SIM_SHM_SEGMENTS];
	put(&g->start_ns, start);
	put(&g->end_ns, end);
	for (int i = 0; i < 4; i++)
		put(&g->amount[i], 0);
	put(&s->count, n + 1);
	return g;
}

void sim_shm_add(struct sim_shm *s, uint64_t start_ns, uint64_t end_ns,
		 const struct sim_counters *c)
{
	const uint64_t amount[4] = { c->read_bytes, c->write_bytes, c->busy_ns,
				     c->tensor_ns };
	uint64_t seq = get(&s->seq);
	struct sim_segment *g;

	put(&s->seq, seq + 1);
	atomic_thread_fence(memory_order_release);
	g = segment_for(s, start_ns, end_ns);
	for (int i = 0; i < 4; i++) {
		add_to(&g->amount[i], amount[i]);
		add_to(&s->sum[i], amount[i]);
	}
	atomic_store_explicit(&s->seq, seq + 2, memory_order_release);
}

/* What the segments that end after t have still to do, by kind. */
static void undone_at(const struct sim_shm *s, uint64_t t, double undone[4])
{
	uint64_t n = get(&s->count);
	uint64_t have = n < SIM_SHM_SEGMENTS ? n : SIM_SHM_SEGMENTS;

	for (uint64_t i = 0; i < have; i++) {
		const struct sim_segment *g =
			&s->ring[(n - 1 - i) % SIM_SHM_SEGMENTS];
		uint64_t start = get(&g->start_ns), end = get(&g->end_ns);
		double left = 1;

		if (end <= t || end <= start)
			continue;
		if (t > start)
			left = (double)(end - t) / (double)(end - start);
		for (int k = 0; k < 4; k++)
			undone[k] += left * (double)get(&g->amount[k]);
	}
}

int sim_shm_read(const struct sim_shm *s, uint64_t t, struct sim_counters *out)
{
	for (int tries = 0; tries < 1000; tries++) {
		uint64_t seq =
			atomic_load_explicit(&s->seq, memory_order_acquire);
		double undone[4] = { 0 };
		uint64_t v[4];

		if (seq & 1)
			continue;
		undone_at(s, t, undone);
		for (int k = 0; k < 4; k++) {
			uint64_t sum = get(&s->sum[k]), u = (uint64_t)undone[k];

			v[k] = sum > u ? sum - u : 0;
		}
		atomic_thread_fence(memory_order_acquire);
		if (get(&s->seq) != seq)
			continue;
		out->read_bytes = v[0];
		out->write_bytes = v[1];
		out->busy_ns = v[2];
		out->tensor_ns = v[3];
		return 0;
	}
	return -EAGAIN;
}

/* The part of a segment's amounts that lies in [from, to). */
static void add_part(const struct sim_segment *g, uint64_t from, uint64_t to,
		     struct sim_counters *out)
{
	uint64_t start = get(&g->start_ns), end = get(&g->end_ns);
	uint64_t low = start > from ? start : from;
	uint64_t high = end < to ? end : to;
	double part;

	if (high <= low)
		return;
	part = (double)(high - low) / (double)(end - start);
	out->read_bytes += (uint64_t)(part * (double)get(&g->amount[0]));
	out->write_bytes += (uint64_t)(part * (double)get(&g->amount[1]));
	out->busy_ns += (uint64_t)(part * (double)get(&g->amount[2]));
	out->tensor_ns += (uint64_t)(part * (double)get(&g->amount[3]));
}

/* The oldest segment to look at for what is done from t on. */
static uint64_t find_oldest(const struct sim_shm *s, uint64_t count,
			    uint64_t have, uint64_t t)
{
	uint64_t i = count;

	while (i > count - have &&
	       get(&s->ring[(i - 1) % SIM_SHM_SEGMENTS].end_ns) + DISORDER_NS >
		       t)
		i--;
	return i;
}

/* Segments are nearly in order of time; each is in a few of the intervals. */
static void spread(const struct sim_shm *s, const uint64_t *edge, unsigned n,
		   struct sim_counters *out)
{
	uint64_t count = get(&s->count);
	uint64_t have = count < SIM_SHM_SEGMENTS ? count : SIM_SHM_SEGMENTS;
	unsigned near = 0;

	for (uint64_t i = find_oldest(s, count, have, edge[0]); i < count;
	     i++) {
		const struct sim_segment *g = &s->ring[i % SIM_SHM_SEGMENTS];
		uint64_t start = get(&g->start_ns), end = get(&g->end_ns);

		if (end <= edge[0] || start >= edge[n])
			continue;
		while (near > 0 && edge[near] > start)
			near--;
		while (near + 1 < n && edge[near + 1] <= start)
			near++;
		for (unsigned k = near; k < n && edge[k] < end; k++)
			add_part(g, edge[k], edge[k + 1], &out[k]);
	}
}

int sim_shm_between(const struct sim_shm *s, const uint64_t *edge, unsigned n,
		    struct sim_counters *out)
{
	struct sim_counters found[SIM_SHM_BINS_MAX];

	if (n > SIM_SHM_BINS_MAX)
		return -EINVAL;
	for (int tries = 0; tries < 1000; tries++) {
		uint64_t seq =
			atomic_load_explicit(&s->seq, memory_order_acquire);

		if (seq & 1)
			continue;
		memset(found, 0, sizeof(found));
		spread(s, edge, n, found);
		atomic_thread_fence(memory_order_acquire);
		if (get(&s->seq) != seq)
			continue;
		for (unsigned k = 0; k < n; k++) {
			out[k].read_bytes += found[k].read_bytes;
			out[k].write_bytes += found[k].write_bytes;
			out[k].busy_ns += found[k].busy_ns;
			out[k].tensor_ns += found[k].tensor_ns;
		}
		return 0;
	}
	return -EAGAIN;
}

/* Map the file if its process lives; remove it if not, and it is one of ours. */
static struct sim_shm *map_live(const char *name)
{
	struct sim_shm *s = MAP_FAILED;
	struct stat st;
	char path[320];
	int fd, dead;

	snprintf(path, sizeof(path), SHM_DIR "/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(*s))
		s = mmap(NULL, sizeof(*s), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (s == MAP_FAILED)
		return NULL;
	if (s->magic != SIM_SHM_MAGIC || s->version != SIM_SHM_VERSION ||
	    s->gpu >= SIM_GPU_COUNT || s->device >= SIM_SHM_DEVICES) {
		munmap(s, sizeof(*s));
		return NULL;
	}
	atomic_thread_fence(memory_order_acquire);
	dead = proc_start(s->pid) != s->proc_start;
	if (dead) {
		if (s->pid_space == pid_space())
			unlink(path);
		munmap(s, sizeof(*s));
		return NULL;
	}
	return s;
}

unsigned sim_shm_scan(void (*fn)(void *arg, const struct sim_shm *s), void *arg)
{
	DIR *d = opendir(SHM_DIR);
	unsigned live = 0;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct sim_shm *s;

		if (strncmp(e->d_name, SHM_PREFIX, strlen(SHM_PREFIX)) != 0)
			continue;
		s = map_live(e->d_name);
		if (!s)
			continue;
		live++;
		fn(arg, s);
		munmap(s, sizeof(*s));
	}
	if (d)
		closedir(d);
	return live;
}

/* ---- the writer's file ---- */

static void ignore(void *arg, const struct sim_shm *s)
{
	(void)arg;
	(void)s;
}

struct sim_shm *sim_shm_create(uint32_t device, uint32_t gpu)
{
	uint32_t pid = (uint32_t)getpid();
	struct sim_shm *s;
	char path[80];
	int fd;

	sim_shm_scan(ignore, NULL); /* clears away the dead */
	shm_path(path, sizeof(path), getuid(), pid);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return NULL;
	if (ftruncate(fd, sizeof(*s))) {
		close(fd);
		unlink(path);
		return NULL;
	}
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (s == MAP_FAILED) {
		unlink(path);
		return NULL;
	}
	s->version = SIM_SHM_VERSION;
	s->pid = pid;
	s->proc_start = proc_start(pid);
	s->pid_space = pid_space();
	s->device = device;
	s->gpu = gpu;
	s->no_counters = (uint32_t)sim_fault("no_counters", NULL);
	atomic_thread_fence(memory_order_release);
	s->magic = SIM_SHM_MAGIC;
	return s;
}

void sim_shm_close(struct sim_shm *s)
{
	char path[80];

	if (!s || s->pid != (uint32_t)getpid())
		return;
	shm_path(path, sizeof(path), getuid(), s->pid);
	unlink(path);
}
