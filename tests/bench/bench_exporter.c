/*
 * bench_exporter.c - what a scrape costs, by format
 *
 *	make bench
 *
 * 61 layers of 256 experts, 8 ranks, 20 kernel classes, histograms as full as
 * an hour makes them.  Bytes, and times over a connection of its own: a scrape
 * that finds its page made, and one of a new snapshot, which has to be made.
 * Exit status 1 beyond the budget.  With a FILE, the text page is left there
 * for tests/bench/bench_prometheus_client.py, which serves the same series.
 */
#include "exporter/exporter.h"
#include "tests/unit/exporter/snapshots.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LAYERS 61u
#define RANKS 8u
#define CLASSES_SEEN 20u
#define SCRAPES 300u
#define BUDGET_MS 5.0
#define SERIES_BUDGET 1500u
#define PAGE_MAX (1u << 20)

static struct snapshot s;
static char page[PAGE_MAX];

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A bell over the buckets of the tracker. */
static void fill_hist(struct snapshot_hist_total *t)
{
	snapshot_total_seconds(t);
	memset(t->buckets, 0, sizeof(t->buckets));
	for (unsigned i = 40; i < 120; i++)
		t->buckets[i] = 1 + (i - 40) * (120 - i);
}

static void fill(void)
{
	snapshot_large(&s, LAYERS);
	s.n_classes = CLASSES_SEEN;
	s.target.n_ranks = RANKS;
	s.target.experts = 256;
	for (unsigned i = 0; i < LAYERS; i++) {
		struct snapshot_layer *l = &s.layers[i];

		l->seconds_per_step.v = 2.113e-4 + 1e-7 * i;
		l->rows.v = 128.0625 + i;
		l->active_experts.v = 97.3 + i / 3.;
		l->fragmentation.v = 0.71 + i / 701.;
	}
	for (unsigned i = 0; i < METRICS; i++)
		s.metrics[i].v = 1.0 / (3 + i);
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		fill_hist(&s.totals[i]);
}

static void publish(struct http *h)
{
	const struct snapshot *list[] = { &s };

	s.time += 1;
	http_publish(h, list, 1, 0);
}

/* ---- one client --------------------------------------------------------- */

static int dial(const struct http *h)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(http_port(h)),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)))
		exit(1);
	return fd;
}

/* Bytes of the body, which is then at *body. */
static size_t fetch(int fd, const char *headers, const char **body)
{
	char request[512];
	size_t n = 0, want = 0, length = 0;
	char *head;
	int m = snprintf(request, sizeof(request),
			 "GET /metrics HTTP/1.1\r\nHost: x\r\n%s\r\n", headers);

	if (write(fd, request, (size_t)m) != m)
		exit(1);
	while (!want || n < want) {
		ssize_t got = read(fd, page + n, sizeof(page) - 1 - n);

		if (got <= 0)
			exit(1);
		n += (size_t)got;
		page[n] = '\0';
		head = strstr(page, "\r\n\r\n");
		if (!head || want)
			continue;
		length = strtoul(strstr(page, "Content-Length: ") + 16, NULL,
				 10);
		want = (size_t)(head + 4 - page) + length;
		*body = head + 4;
	}
	return length;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct timing {
	double p50, p99;
};

static struct timing measure(struct http *h, const char *headers, bool fresh)
{
	static double ms[SCRAPES];
	const char *body;
	int fd = dial(h);

	for (unsigned i = 0; i < SCRAPES; i++) {
		double start;

		if (fresh)
			publish(h);
		start = now_ms();
		fetch(fd, headers, &body);
		ms[i] = now_ms() - start;
	}
	close(fd);
	qsort(ms, SCRAPES, sizeof(ms[0]), by_value);
	return (struct timing){ ms[SCRAPES / 2], ms[SCRAPES * 99 / 100] };
}

/* ---- the table ---------------------------------------------------------- */

static size_t size_of(struct http *h, const char *headers)
{
	const char *body;
	int fd = dial(h);
	size_t n = fetch(fd, headers, &body);

	close(fd);
	return n;
}

static int tell(struct http *h, const char *name, const char *accept)
{
	char plain[256], gzip[300];
	struct timing made, fresh, packed;

	snprintf(plain, sizeof(plain), "Accept: %s\r\n", accept);
	snprintf(gzip, sizeof(gzip), "%sAccept-Encoding: gzip\r\n", plain);
	made = measure(h, plain, false);
	fresh = measure(h, plain, true);
	packed = measure(h, gzip, true);
	printf("%-12s %7zu bytes, gzip %6zu; ms: made %.2f p99 %.2f, new "
	       "snapshot %.2f p99 %.2f, gzip too %.2f p99 %.2f\n",
	       name, size_of(h, plain), size_of(h, gzip), made.p50, made.p99,
	       fresh.p50, fresh.p99, packed.p50, packed.p99);
	return fresh.p99 > BUDGET_MS || packed.p99 > BUDGET_MS;
}

static unsigned count_series(const char *text)
{
	unsigned n = 0;

	for (; *text; text += strcspn(text, "\n") + 1)
		n += *text != '#';
	return n;
}

static void leave_page(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f)) {
		perror(path);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const struct http_config config = { .listen = "0" };
	struct http *h;
	const char *body;
	char why[256];
	unsigned series;
	int over, fd;

	if (http_open(&h, &config, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		return 1;
	}
	fill();
	publish(h);
	over = tell(h, "text", "text/plain");
	over |= tell(h, "openmetrics", "application/openmetrics-text");
	over |= tell(h, "protobuf", "application/vnd.google.protobuf");
	fd = dial(h);
	fetch(fd, "", &body);
	close(fd);
	series = count_series(body);
	printf("%u series at %u layers x 256 experts x %u ranks\n", series,
	       LAYERS, RANKS);
	if (argc > 1)
		leave_page(argv[1], body);
	http_close(h);
	return over || series > SERIES_BUDGET;
}
