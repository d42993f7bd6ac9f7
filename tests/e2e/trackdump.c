/*
 * trackdump.c - what the request tracker sees, as JSON lines
 *
 *	trackdump PORT... [pid=PID]... [gauge]
 *
 * "ready" once it counts; then a line with all gauges and counters 50 times a
 * second, with the CLOCK_MONOTONIC times before and after they were read, and a
 * line for each ended request; with "gauge" also, 1000 times a second, [before,
 * after, generations in flight].  When standard input ends: the histograms, the
 * last line and exit.  MOETOP_TRACKER names the one data source to use.  Exit status 4: no
 * permission, 3: not on this kernel, 1: any other reason, said on stderr.
 */
#include "bpf/tracker.h"
#include "core/tls_follow.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_MS 20
#define PIDS_MAX 16u

static const char *const histograms[] = { [TRACKER_TTFT] = "ttft",
					  [TRACKER_GAP] = "gap",
					  [TRACKER_DURATION] = "duration" };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void print_record(const struct request_record *r, void *arg)
{
	(void)arg;
	printf("{\"start_ns\":%" PRIu64 ",\"first_body_ns\":%" PRIu64
	       ",\"end_ns\":%" PRIu64 ",\"body_bytes\":%" PRIu64
	       ",\"events\":%u,\"status\":%u,\"endpoint\":%u,\"how\":%u,"
	       "\"port\":%u}\n",
	       (uint64_t)r->start_ns, (uint64_t)r->first_body_ns,
	       (uint64_t)r->end_ns, (uint64_t)r->body_bytes, r->events,
	       r->status, r->endpoint, r->how, r->port);
}

static void print_counter(const char *name, const __u64 *per_endpoint)
{
	printf(",\"%s\":[", name);
	for (unsigned e = 0; e < ENDPOINTS; e++)
		printf("%s%" PRIu64, e ? "," : "", (uint64_t)per_endpoint[e]);
	printf("]");
}

static void print_gauge(const char *name, const __s64 *per_endpoint)
{
	printf(",\"%s\":[", name);
	for (unsigned e = 0; e < ENDPOINTS; e++)
		printf("%s%" PRId64, e ? "," : "", (int64_t)per_endpoint[e]);
	printf("]");
}

static void print_state(struct tracker *t)
{
	struct request_gauges g;
	struct request_counters c;
	uint64_t before = now_ns(), after, oldest_ns = 0;

	tracker_read(t, &g, &c);
	after = now_ns();
	tracker_oldest(t, &oldest_ns);
	printf("{\"before_ns\":%" PRIu64 ",\"after_ns\":%" PRIu64, before,
	       after);
	printf(",\"oldest_ns\":%" PRIu64, oldest_ns);
	print_gauge("waiting", g.waiting);
	print_gauge("streaming", g.streaming);
	print_gauge("guessed", g.guessed);
	print_counter("started", c.started);
	print_counter("completed", c.completed);
	print_counter("client_aborted", c.client_aborted);
	print_counter("server_aborted", c.server_aborted);
	print_counter("events", c.events);
	print_counter("failed", c.failed);
	printf(",\"desyncs\":%" PRIu64 ",\"resyncs\":%" PRIu64
	       ",\"records_lost\":%" PRIu64 ",\"connections\":%" PRIu64,
	       (uint64_t)c.desyncs, (uint64_t)c.resyncs,
	       (uint64_t)c.records_lost, (uint64_t)c.connections);
	printf(",\"inferred\":[%" PRId64 ",%" PRId64 "],\"tls\":%" PRIu64
	       ",\"tls_read\":%" PRIu64 ",\"tls_inferred\":%" PRIu64
	       ",\"overflows\":%" PRIu64 ",\"missed\":%" PRIu64 "}\n",
	       (int64_t)g.inferred_waiting, (int64_t)g.inferred_streaming,
	       (uint64_t)c.tls_connections, (uint64_t)c.tls_read,
	       (uint64_t)c.tls_inferred, (uint64_t)c.overflows,
	       tracker_missed(t));
}

static void print_in_flight(struct tracker *t)
{
	struct request_gauges g;
	struct request_counters c;
	uint64_t before = now_ns();

	tracker_read(t, &g, &c);
	printf("[%" PRIu64 ",%" PRIu64 ",%" PRId64 "]\n", before, now_ns(),
	       (int64_t)(g.waiting[ENDPOINT_GENERATION] +
			 g.streaming[ENDPOINT_GENERATION]));
}

/* Of each bucket that is in use: its bounds, and how many. */
static void print_histogram(struct tracker *t, const char *name,
			    enum tracker_histogram which)
{
	static struct request_histogram h;

	if (tracker_histogram(t, which, &h))
		return;
	printf("{\"histogram\":\"%s\",\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64
	       ",\"buckets\":[[0,0,0]",
	       name, (uint64_t)h.count, (uint64_t)h.sum_ns);
	for (uint32_t i = 0; i < HIST_BUCKETS; i++)
		if (h.buckets[i])
			printf(",[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
			       i ? (uint64_t)hist_bucket_low_ns(i) : 0,
			       (uint64_t)hist_bucket_low_ns(i + 1),
			       (uint64_t)h.buckets[i]);
	puts("]}");
}

static int dump(struct tracker *t, int period_ms)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t next_ns = 0;
	int n;

	puts("\"ready\"");
	fflush(stdout);
	do {
		n = poll(&end, 1, period_ms);
		if (period_ms < PERIOD_MS)
			print_in_flight(t);
		if (!n && now_ns() < next_ns)
			continue;
		next_ns = now_ns() + (PERIOD_MS - 1) * 1000000ull;
		if (tracker_drain(t, print_record, NULL) < 0)
			return 1;
		if (n)
			for (unsigned i = 0; i < 3; i++)
				print_histogram(t, histograms[i], i);
		print_state(t);
		fflush(stdout);
	} while (!n || (n < 0 && errno == EINTR));
	return 0;
}

/* In these processes, plain text too. */
static void follow(struct tracker *t, const pid_t *pids, unsigned n,
		   const uint16_t *ports, unsigned n_ports)
{
	struct tls_follow f = { 0 };

	tls_follow(&f, t, pids, n, ports, n_ports, 1);
	if (n && *tls_follow_why(&f))
		fprintf(stderr, "trackdump: TLS: %s\n", tls_follow_why(&f));
}

int main(int argc, char **argv)
{
	uint16_t ports[TRACKER_PORTS_MAX];
	pid_t pids[PIDS_MAX];
	unsigned n_pids = 0;
	int period_ms = PERIOD_MS;
	struct tracker_config config = { .ports = ports,
					 .rung = getenv("MOETOP_TRACKER") };
	struct tracker *t;
	char why[256];
	int err;

	for (int i = 1; i < argc && config.n_ports < TRACKER_PORTS_MAX; i++)
		if (!strcmp(argv[i], "gauge"))
			period_ms = 1;
		else if (strncmp(argv[i], "pid=", 4))
			ports[config.n_ports++] =
				(uint16_t)strtoul(argv[i], NULL, 10);
		else if (n_pids < PIDS_MAX)
			pids[n_pids++] = (pid_t)strtoul(argv[i] + 4, NULL, 10);
	err = tracker_open(&t, &config, why, sizeof(why));
	if (err) {
		fprintf(stderr, "trackdump: %s\n", why);
		if (err == -EACCES || err == -EOPNOTSUPP)
			return 3;
		return err == -EPERM ? 4 : 1;
	}
	follow(t, pids, n_pids, ports, (unsigned)config.n_ports);
	err = dump(t, period_ms);
	tracker_close(t);
	return err;
}
