/*
 * requests_collector.c - what the tracker costs its reader, and how soon it
 * counts
 *
 *	requests_collector PORT [SECONDS [HZ]]
 *
 * Opens the tracker for a port, ten times, and then does with the last what the
 * collector does, HZ (10) times a second: read gauges, counters and histograms,
 * take the records, and once a second look at the queues.  Needs root.
 */
#include "bpf/tracker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPENINGS 10u
#define SECONDS_MAX 600u

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Milliseconds until a source is loaded, attached and has passed its test. */
static struct tracker *open_often(const struct tracker_config *config)
{
	uint64_t cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct tracker *t = NULL;
	double ms[OPENINGS];
	char why[256];

	for (unsigned i = 0; i < OPENINGS; i++) {
		uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);

		tracker_close(t);
		if (tracker_open(&t, config, why, sizeof(why))) {
			fprintf(stderr, "requests_collector: %s\n", why);
			exit(1);
		}
		ms[i] = (double)(now_ns(CLOCK_MONOTONIC) - begin_ns) / 1e6;
	}
	qsort(ms, OPENINGS, sizeof(*ms), ascending);
	cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	printf("%s%s%s\ntrusted after %.0f ms (median of %u, %.0f to %.0f), "
	       "%.0f ms of processor time\n",
	       tracker_rung(t), *tracker_refused(t) ? "; " : "",
	       tracker_refused(t), ms[OPENINGS / 2], OPENINGS, ms[0],
	       ms[OPENINGS - 1], (double)cpu_ns / 1e6 / OPENINGS);
	return t;
}

static void count(const struct request_record *r, void *arg)
{
	(void)r;
	++*(uint64_t *)arg;
}

static void look(struct tracker *t, bool queues, uint64_t *records)
{
	static struct request_histogram h;
	struct request_gauges g;
	struct request_counters c;
	uint64_t unread, backlog, oldest;

	tracker_drain(t, count, records);
	tracker_read(t, &g, &c);
	tracker_oldest(t, &oldest);
	for (int i = TRACKER_TTFT; i <= TRACKER_DURATION; i++)
		tracker_histogram(t, (enum tracker_histogram)i, &h);
	if (queues)
		tracker_queues(t, &unread, &backlog);
}

/* HZ looks, one at a time; processor time of all. */
static uint64_t second(struct tracker *t, unsigned hz, uint64_t *due_ns,
		       uint64_t *records)
{
	uint64_t cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (unsigned i = 1; i <= hz; i++) {
		struct timespec at;

		*due_ns += 1000000000ull / hz;
		at.tv_sec = (time_t)(*due_ns / 1000000000u);
		at.tv_nsec = (long)(*due_ns % 1000000000u);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		look(t, i == hz, records);
	}
	return now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
}

static void watch(struct tracker *t, unsigned seconds, unsigned hz)
{
	uint64_t due_ns = now_ns(CLOCK_MONOTONIC), records = 0;
	double share[SECONDS_MAX] = { 0 }, sum = 0;
	struct request_counters c;
	struct request_gauges g;

	for (unsigned i = 0; i < seconds; i++) {
		share[i] = (double)second(t, hz, &due_ns, &records) / 1e7;
		sum += share[i];
	}
	qsort(share, seconds, sizeof(*share), ascending);
	tracker_read(t, &g, &c);
	printf("reading at %u Hz: %.3f %% of a core in the median second, "
	       "%.3f %% in the mean; %" PRIu64 " events, %" PRIu64
	       " records, %" PRIu64 " lost, %" PRIu64 " calls missed\n",
	       hz, share[seconds / 2], sum / seconds,
	       (uint64_t)c.events[ENDPOINT_GENERATION], records,
	       (uint64_t)c.records_lost, tracker_missed(t));
}

int main(int argc, char **argv)
{
	uint16_t port = argc > 1 ? (uint16_t)atoi(argv[1]) : 0;
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 20;
	unsigned hz = argc > 3 ? (unsigned)atoi(argv[3]) : 10;
	struct tracker_config config = { .ports = &port, .n_ports = 1 };
	struct tracker *t;

	if (!port || !hz || !seconds || seconds > SECONDS_MAX) {
		fputs("usage: requests_collector PORT [SECONDS [HZ]]\n",
		      stderr);
		return 2;
	}
	t = open_often(&config);
	watch(t, seconds, hz);
	tracker_close(t);
	return 0;
}
