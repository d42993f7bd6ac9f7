/*
 * ring_cycles.c - wake an agent by its ring and send it to sleep, many times
 *
 *	ring_cycles PID CYCLES HOLD_MS
 *
 * Prints one JSON object: how many cycles were made, how long the agent took to
 * rise and to fall asleep, and why it ended early, "" when it did not.  Touches
 * nothing of the process but its ring.  Exit status 1 when it ended early.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "wire/record.h"
#include "wire/ring.h"

#define CYCLES_MAX 10000
#define LIMIT_NS 5000000000ull
#define BATCH 256

static uint64_t rise_ns[CYCLES_MAX], sleep_ns[CYCLES_MAX];
static unsigned cycles;
static uint64_t records;
static const struct ring_header *header; /* for what a closed ring tells */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_ns(long ns)
{
	struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

/* The descriptor of the process's ring, opened anew; -ENOENT: there is none. */
static int find_ring(const char *pid)
{
	char folder[64], path[384], link[128];
	struct dirent *e;
	int fd = -ENOENT;
	DIR *d;

	snprintf(folder, sizeof(folder), "/proc/%s/fd", pid);
	d = opendir(folder);
	if (!d)
		return -errno;
	while (fd < 0 && (e = readdir(d))) {
		ssize_t n;

		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = '\0';
		if (strstr(link, "memfd:" RING_NAME))
			fd = open(path, O_RDWR | O_CLOEXEC);
	}
	closedir(d);
	return fd;
}

static unsigned state(void)
{
	return atomic_load(&header->state.state);
}

static bool risen(unsigned s)
{
	return s == AGENT_IDLE || s == AGENT_WINDOW || s == AGENT_YIELDED ||
	       s == AGENT_DISABLED;
}

static const char *wait_for(bool up, uint64_t *took_ns)
{
	uint64_t start_ns = now_ns();

	while (up ? !risen(state()) : state() != AGENT_STUB) {
		if (now_ns() - start_ns > LIMIT_NS)
			return up ? "it does not rise" : "it does not sleep";
		wait_ns(50000);
	}
	*took_ns = now_ns() - start_ns;
	return NULL;
}

static const char *read_for(struct ring_reader *r, uint64_t hold_ns)
{
	static struct record out[BATCH];
	uint64_t end_ns = now_ns() + hold_ns;

	do {
		int n = ring_read(r, out, BATCH);

		if (n < 0)
			return "the ring makes no sense";
		records += (uint64_t)n;
		if (ring_beat(r, now_ns()))
			return "another reader has taken the ring";
		wait_ns(1000000);
	} while (now_ns() < end_ns);
	return NULL;
}

static const char *cycle(const char *pid, uint64_t hold_ns)
{
	struct ring_reader r;
	const char *why;
	int fd = find_ring(pid), err;

	if (fd < 0)
		return "no ring";
	err = ring_open(&r, fd, now_ns());
	close(fd);
	if (err)
		return err == -EBUSY ? "another reader" : "it does not open";
	why = wait_for(true, &rise_ns[cycles]);
	if (!why)
		why = read_for(&r, hold_ns);
	ring_close(&r, true);
	return why ? why : wait_for(false, &sleep_ns[cycles]);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_times(const char *name, uint64_t *ns)
{
	uint64_t p50 = 0, p99 = 0, most = 0;

	if (cycles) {
		qsort(ns, cycles, sizeof(*ns), by_value);
		p50 = ns[cycles / 2];
		p99 = ns[cycles * 99 / 100];
		most = ns[cycles - 1];
	}
	printf(",\"%s_p50_us\":%" PRIu64 ",\"%s_p99_us\":%" PRIu64
	       ",\"%s_max_us\":%" PRIu64,
	       name, p50 / 1000, name, p99 / 1000, name, most / 1000);
}

int main(int argc, char **argv)
{
	unsigned long n = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
	uint64_t hold_ns =
		argc == 4 ? strtoull(argv[3], NULL, 10) * 1000000 : 0;
	const char *why = NULL;
	int fd;

	if (!n || n > CYCLES_MAX) {
		fprintf(stderr, "usage: ring_cycles PID CYCLES HOLD_MS\n");
		return 2;
	}
	fd = find_ring(argv[1]);
	if (fd >= 0) {
		header = mmap(NULL, RING_HEADER_BYTES, PROT_READ, MAP_SHARED,
			      fd, 0);
		close(fd);
	}
	if (fd < 0 || header == MAP_FAILED)
		why = "no ring";
	for (; !why && cycles < n; cycles += !why)
		why = cycle(argv[1], hold_ns);
	printf("{\"cycles\":%u,\"records\":%" PRIu64, cycles, records);
	if (fd >= 0)
		printf(",\"state\":%u,\"lives\":%u", state(),
		       atomic_load(&header->state.lives));
	print_times("rise", rise_ns);
	print_times("sleep", sleep_ns);
	printf(",\"why\":\"%s\"}\n", why ? why : "");
	return why ? 1 : 0;
}
