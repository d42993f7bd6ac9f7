/*
 * stress_wakes.c - what this machine takes for a handful of wake-ups, now
 *
 * An injection is some wake-ups of the borrowed thread and of the injector, one
 * after the other.  Two processes that wake each other as often, and do nothing
 * else, tell how long that must take on a machine that has other work: what a
 * test may blame on an injection is what it takes beyond that.
 *
 * Every 5 ms 8 turns, until standard input ends; then their times as JSON.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TURNS 8
#define PERIOD_MS 5
#define SAMPLES_MAX 200000u

static uint64_t took_ns[SAMPLES_MAX];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void answer(int in, int out)
{
	char byte;

	while (read(in, &byte, 1) == 1 && write(out, &byte, 1) == 1)
		;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void print_samples(unsigned n)
{
	qsort(took_ns, n, sizeof(*took_ns), by_value);
	printf("{\"samples\":%u", n);
	for (unsigned p = 50; n && p <= 99; p += p < 90 ? 40 : 9)
		printf(",\"p%u_us\":%.1f", p,
		       (double)took_ns[n * p / 100] / 1e3);
	printf("}\n");
}

int main(void)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };
	int there[2], back[2];
	unsigned n = 0;
	char byte = 0;

	if (pipe(there) || pipe(back))
		return 2;
	if (fork() == 0) {
		close(there[1]);
		close(back[0]);
		answer(there[0], back[1]);
		_exit(0);
	}
	puts("ready");
	fflush(stdout);
	while (n < SAMPLES_MAX && poll(&end, 1, PERIOD_MS) == 0) {
		uint64_t start_ns = now_ns();

		for (unsigned i = 0; i < TURNS; i++)
			if (write(there[1], &byte, 1) != 1 ||
			    read(back[0], &byte, 1) != 1)
				return 2;
		took_ns[n++] = now_ns() - start_ns;
	}
	print_samples(n);
	return 0;
}
