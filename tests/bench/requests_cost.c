/*
 * requests_cost.c - what it costs a server to be watched
 *
 *	requests_cost [-o OBSERVERS] [-w write|cold|calls|PID:PORT]
 *		      [-c CONNECTIONS] [-r EVENTS_PER_SECOND] [-s SECONDS]
 *
 * One server works all the time, while the observers (letters of observers.h;
 * "KFPCS" by default) are attached and detached in turns, in random order, with
 * a phase without any between two of them.  Each phase is compared with the two
 * around it, so that what else the machine does cancels out: median of the
 * differences, with its 95 % bootstrap interval.  At the end each is attached
 * once more, and the kernel counts the time in its programs.
 *
 * The server (-w):
 *	write		this process, which writes events to its connections, as
 *			fast as it can with a rate of 0
 *	cold		the same, but reads 1 MB of other memory before each
 *			event: the caches are as a server with work to do leaves
 *			them
 *	calls		this process, with system calls that are not on sockets
 *	PID:PORT	another one: requests_app.py or one like it, whose events
 *			carry the CLOCK_MONOTONIC time when they were due.  This
 *			process is its clients, and measures what they see
 *
 * Needs root.
 */
#include "tests/bench/clients.h"
#include "tests/bench/observers.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define OBSERVERS_MAX 8u
#define PHASE_NS 300000000ull
#define SETTLE_NS 30000000ull /* after a change, unmeasured */
#define ROUNDS_MAX 2000u
#define RESAMPLES 2000u
#define RUNS 9u /* phases in which the kernel counts */
#define DATA_BYTES 310u

/* What is measured of a phase; NAN: it does not apply. */
enum { CPU_NS, PER_SECOND, DELAY_P50_US, DELAY_P99_US, GAP_P99_US, MEASURES };

static const struct {
	const char *name, *unit;
} measures[MEASURES] = {
	[CPU_NS] = { "CPU time", "ns each" },
	[PER_SECOND] = { "throughput", "events/s" },
	[DELAY_P50_US] = { "delay p50", "us" },
	[DELAY_P99_US] = { "delay p99", "us" },
	[GAP_P99_US] = { "gap p99", "us" },
};

struct phase {
	double value[MEASURES];
};

struct bench {
	struct observer observers[OBSERVERS_MAX];
	unsigned n_observers, connections, rate;
	void (*work)(struct bench *b, uint64_t ns, struct phase *out);
	pid_t pid; /* of the server, if it is another process */
	uint16_t port;
	int server[CONNECTIONS_MAX];
	char event[DATA_BYTES + 16];
	size_t event_bytes;
	struct seen *seen;
	/* per observer and round: its phase, and the mean of those around */
	struct phase with[OBSERVERS_MAX][ROUNDS_MAX];
	struct phase without[OBSERVERS_MAX][ROUNDS_MAX];
	uint64_t reader_ns[OBSERVERS_MAX], watched_ns[OBSERVERS_MAX];
	unsigned rounds;
};

/* ---- servers ------------------------------------------------------------- */

static void phase_clear(struct phase *p)
{
	for (unsigned i = 0; i < MEASURES; i++)
		p->value[i] = NAN;
}

static void pace(const struct bench *b, uint64_t begin_ns, uint64_t written)
{
	uint64_t due_ns = begin_ns + written * 1000000000u / b->rate;
	struct timespec t = { .tv_sec = (time_t)(due_ns / 1000000000u),
			      .tv_nsec = (long)(due_ns % 1000000000u) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void write_event(const struct bench *b, unsigned i)
{
	if (write(b->server[i], b->event, b->event_bytes) !=
	    (ssize_t)b->event_bytes)
		fail("write");
}

static void work_write(struct bench *b, uint64_t ns, struct phase *out)
{
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), written = 0, cpu_ns = 0;

	while (now_ns(CLOCK_MONOTONIC) - begin_ns < ns) {
		uint64_t t = now_ns(CLOCK_THREAD_CPUTIME_ID);

		for (unsigned i = 0; i < b->connections; i++)
			write_event(b, i);
		cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - t;
		written += b->connections;
		if (b->rate)
			pace(b, begin_ns, written);
	}
	phase_clear(out);
	out->value[CPU_NS] = (double)cpu_ns / (double)written;
	out->value[PER_SECOND] = (double)written * 1e9 /
				 (double)(now_ns(CLOCK_MONOTONIC) - begin_ns);
}

static void work_cold(struct bench *b, uint64_t ns, struct phase *out)
{
	static volatile const char other[1 << 20] = { 0 };
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), written = 0, cpu_ns = 0;

	while (now_ns(CLOCK_MONOTONIC) - begin_ns < ns) {
		uint64_t t;

		for (size_t i = 0; i < sizeof(other); i += 64)
			(void)other[i];
		t = now_ns(CLOCK_THREAD_CPUTIME_ID);
		write_event(b, (unsigned)(written++ % b->connections));
		cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - t;
	}
	phase_clear(out);
	out->value[CPU_NS] = (double)cpu_ns / (double)written;
	out->value[PER_SECOND] = (double)written * 1e9 /
				 (double)(now_ns(CLOCK_MONOTONIC) - begin_ns);
}

static void work_calls(struct bench *b, uint64_t ns, struct phase *out)
{
	static int null = -1, zero = -1;
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), calls = 0;
	uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	char byte = 0;

	(void)b;
	if (null < 0) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	}
	while (now_ns(CLOCK_MONOTONIC) - begin_ns < ns)
		for (unsigned i = 0; i < 1000; i++, calls += 3)
			if (syscall(SYS_getppid) < 0 ||
			    write(null, &byte, 1) != 1 ||
			    read(zero, &byte, 1) != 1)
				fail("calls");
	phase_clear(out);
	cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	out->value[CPU_NS] = (double)cpu_ns / (double)calls;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double quantile(const uint32_t *ring, uint64_t from, uint64_t to,
		       double q)
{
	static uint32_t v[RING];
	uint64_t n = to - from;

	if (!n || n > RING)
		return NAN;
	for (uint64_t i = 0; i < n; i++)
		v[i] = ring[(from + i) % RING];
	qsort(v, n, sizeof(*v), by_value);
	return v[(uint64_t)((double)n * q)];
}

static void work_other(struct bench *b, uint64_t ns, struct phase *out)
{
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), end_ns, cpu_ns;
	uint64_t from = atomic_load(&b->seen->events), to;
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };
	clockid_t clock;

	if (clock_getcpuclockid(b->pid, &clock))
		fail("the server's clock");
	cpu_ns = now_ns(clock);
	nanosleep(&t, NULL);
	cpu_ns = now_ns(clock) - cpu_ns;
	end_ns = now_ns(CLOCK_MONOTONIC);
	to = atomic_load(&b->seen->events);
	phase_clear(out);
	if (to == from)
		return;
	out->value[CPU_NS] = (double)cpu_ns / (double)(to - from);
	out->value[PER_SECOND] =
		(double)(to - from) * 1e9 / (double)(end_ns - begin_ns);
	out->value[DELAY_P50_US] = quantile(b->seen->delay_us, from, to, .5);
	out->value[DELAY_P99_US] = quantile(b->seen->delay_us, from, to, .99);
	out->value[GAP_P99_US] = quantile(b->seen->gap_us, from, to, .99);
}

static int listen_on(struct bench *b)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(a);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) ||
	    listen(fd, CONNECTIONS_MAX) ||
	    getsockname(fd, (struct sockaddr *)&a, &n))
		fail("listen");
	b->port = ntohs(a.sin_port);
	return fd;
}

static void accept_all(struct bench *b, int listener)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n"
				   "content-type: text/event-stream\r\n"
				   "transfer-encoding: chunked\r\n\r\n";
	char got[256];
	int one = 1;

	for (unsigned i = 0; i < b->connections; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || read(fd, got, sizeof(got)) <= 0 ||
		    write(fd, head, sizeof(head) - 1) < 0)
			fail("accept");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		b->server[i] = fd;
	}
}

/* ---- phases -------------------------------------------------------------- */

static void phase(struct bench *b, struct phase *out)
{
	b->work(b, SETTLE_NS, out);
	b->work(b, PHASE_NS, out);
}

static void phase_with(struct bench *b, unsigned i, struct phase *out)
{
	struct observer *o = &b->observers[i];
	uint64_t cpu_ns = observer_reader_ns(o);
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);

	if (observer_attach(o))
		fail("attach");
	phase(b, out);
	observer_detach(o);
	b->watched_ns[i] += now_ns(CLOCK_MONOTONIC) - begin_ns;
	b->reader_ns[i] += observer_reader_ns(o) - cpu_ns;
}

static void shuffle(unsigned *order, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned j = i + (unsigned)rand() % (n - i), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

static void measure(struct bench *b, unsigned seconds)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + seconds * 1000000000ull;
	unsigned order[OBSERVERS_MAX];
	struct phase before, after;

	for (unsigned i = 0; i < b->n_observers; i++)
		order[i] = i;
	phase(b, &before);
	while (now_ns(CLOCK_MONOTONIC) < end_ns && b->rounds < ROUNDS_MAX) {
		shuffle(order, b->n_observers);
		for (unsigned k = 0; k < b->n_observers; k++) {
			unsigned i = order[k];

			phase_with(b, i, &b->with[i][b->rounds]);
			phase(b, &after);
			for (unsigned m = 0; m < MEASURES; m++)
				b->without[i][b->rounds].value[m] =
					(before.value[m] + after.value[m]) / 2;
			before = after;
		}
		b->rounds++;
	}
}

/* ---- the report ---------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(*v), ascending);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void report_measure(const struct bench *b, unsigned o, unsigned m)
{
	static double diff[ROUNDS_MAX], off[ROUNDS_MAX], medians[RESAMPLES];
	static double sample[ROUNDS_MAX];
	double base, extra, low, high;
	unsigned n = 0;

	for (unsigned i = 0; i < b->rounds; i++) {
		double with = b->with[o][i].value[m];
		double without = b->without[o][i].value[m];

		if (isnan(with) || isnan(without))
			continue;
		off[n] = without;
		diff[n++] = with - without;
	}
	if (!n)
		return;
	for (unsigned k = 0; k < RESAMPLES; k++) {
		for (unsigned i = 0; i < n; i++)
			sample[i] = diff[(unsigned)rand() % n];
		medians[k] = median(sample, n);
	}
	qsort(medians, RESAMPLES, sizeof(*medians), ascending);
	base = median(off, n);
	extra = median(diff, n);
	low = medians[RESAMPLES * 25 / 1000];
	high = medians[RESAMPLES * 975 / 1000];
	printf("   %-10s %8.0f %s, %+.0f [%+.0f, %+.0f] = %+.2f %% "
	       "[%+.2f, %+.2f], %u pairs\n",
	       measures[m].name, base, measures[m].unit, extra, low, high,
	       100 * extra / base, 100 * low / base, 100 * high / base, n);
}

static uint64_t events_seen(const struct bench *b, const struct observer *o)
{
	const struct request_counters *c = &o->bpf.shared->counters;

	(void)b;
	return c->events[ENDPOINT_GENERATION];
}

/* The kernel's own count, in times in which nothing is compared. */
static void report_run(struct bench *b, struct observer *o)
{
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	double ns[RUNS];
	struct phase p;

	if (stats < 0 || observer_attach(o))
		return;
	b->work(b, SETTLE_NS, &p);
	for (unsigned i = 0; i < RUNS; i++) {
		uint64_t run_ns = observer_run_ns(o);

		b->work(b, PHASE_NS, &p);
		run_ns = observer_run_ns(o) - run_ns;
		ns[i] = (double)run_ns * 1e9 / (double)PHASE_NS /
			p.value[PER_SECOND];
	}
	observer_detach(o);
	close(stats);
	if (isnan(p.value[PER_SECOND]))
		return;
	median(ns, RUNS);
	printf("   %-10s %8.0f ns/event in its programs by the kernel's "
	       "count, median of %u; least %.0f\n",
	       "of that", ns[RUNS / 2], RUNS, ns[0]);
}

static void report_losses(const struct bench *b, const struct observer *o)
{
	const struct request_counters *c;

	if (!o->rung)
		return;
	c = &o->bpf.shared->counters;
	if (o->ring)
		printf("   %-10s %.2f %% of a core, %llu writes read, %llu "
		       "lost\n",
		       "reader",
		       100. * (double)b->reader_ns[o - b->observers] /
			       (double)b->watched_ns[o - b->observers],
		       (unsigned long long)o->shipped,
		       (unsigned long long)c->records_lost);
	else if (b->work == work_calls)
		return;
	else if (c->desyncs > c->resyncs)
		puts("   the framing was lost: this is not the cost of "
		     "following");
	else if (!events_seen(b, o))
		puts("   no event was counted: this is not the cost of "
		     "following");
	if (rung_missed(&o->bpf))
		puts("   calls were missed");
}

static void report(struct bench *b)
{
	for (unsigned i = 0; i < b->n_observers; i++) {
		struct observer *o = &b->observers[i];

		printf("%s\n", o->name);
		for (unsigned m = 0; m < MEASURES; m++)
			report_measure(b, i, m);
		report_run(b, o);
		report_losses(b, o);
	}
}

/* ---- the whole ----------------------------------------------------------- */

static void load(struct bench *b, const char *letters)
{
	for (; *letters && b->n_observers < OBSERVERS_MAX; letters++) {
		struct observer *o = &b->observers[b->n_observers];
		int err = observer_load(o, *letters, b->port);

		if (!err)
			err = observer_attach(o);
		if (!err)
			b->n_observers++;
		else
			printf("%c: not on this kernel, or not with these "
			       "rights: %s\n",
			       *letters, strerror(-err));
	}
}

/* The observers see all connections from their first byte. */
static pid_t start(struct bench *b, const char *letters)
{
	int listener = b->pid ? -1 : listen_on(b);
	struct phase p;
	pid_t clients;

	load(b, letters);
	fflush(stdout);
	clients = fork();
	if (!clients)
		be_clients(b->seen, b->port, b->connections);
	if (listener >= 0) {
		accept_all(b, listener);
		close(listener);
	}
	while (b->pid && !atomic_load(&b->seen->events))
		poll(NULL, 0, 10);
	b->work(b, SETTLE_NS * 10, &p);
	for (unsigned i = 0; i < b->n_observers; i++)
		observer_detach(&b->observers[i]);
	return clients;
}

static void finish(struct bench *b, pid_t clients)
{
	for (unsigned i = 0; i < b->n_observers; i++)
		observer_close(&b->observers[i]);
	kill(clients, SIGKILL);
	waitpid(clients, NULL, 0);
}

static void make_event(struct bench *b)
{
	b->event_bytes = (size_t)snprintf(b->event, sizeof(b->event),
					  "%x\r\ndata: ", DATA_BYTES);
	memset(b->event + b->event_bytes, 'x', DATA_BYTES - 8);
	b->event_bytes += DATA_BYTES - 8;
	memcpy(b->event + b->event_bytes, "\n\n\r\n", 4);
	b->event_bytes += 4;
}

static int server_of(struct bench *b, const char *name)
{
	int pid, port;

	b->work = work_write;
	if (!strcmp(name, "write"))
		return 0;
	b->work = work_cold;
	if (!strcmp(name, "cold"))
		return 0;
	b->work = work_calls;
	if (!strcmp(name, "calls"))
		return 0;
	b->work = work_other;
	if (sscanf(name, "%d:%d", &pid, &port) != 2 || pid < 1 || port < 1 ||
	    port > 65535)
		return -EINVAL;
	b->pid = pid;
	b->port = (uint16_t)port;
	return 0;
}

int main(int argc, char **argv)
{
	static struct bench b = { .connections = 64, .work = work_write };
	const char *letters = "KFPCS";
	unsigned seconds = 20;
	pid_t clients;
	int c, bad = 0;

	while ((c = getopt(argc, argv, "c:r:s:o:w:")) != -1) {
		if (c == 'c')
			b.connections = (unsigned)atoi(optarg);
		else if (c == 'r')
			b.rate = (unsigned)atoi(optarg);
		else if (c == 's')
			seconds = (unsigned)atoi(optarg);
		else if (c == 'o')
			letters = optarg;
		else if (c != 'w' || server_of(&b, optarg))
			bad = 1;
	}
	if (bad || !b.connections || b.connections > CONNECTIONS_MAX) {
		fputs("usage: requests_cost [-o OBSERVERS] [-w "
		      "write|cold|calls|PID:PORT] [-c CONNECTIONS] [-r "
		      "EVENTS_PER_SECOND] [-s SECONDS]\n",
		      stderr);
		return 2;
	}
	libbpf_set_print(NULL);
	srand((unsigned)now_ns(CLOCK_MONOTONIC));
	b.seen = mmap(NULL, sizeof(*b.seen), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b.seen == MAP_FAILED)
		fail("memory");
	make_event(&b);
	clients = start(&b, letters);
	measure(&b, seconds);
	report(&b);
	finish(&b, clients);
	return 0;
}
