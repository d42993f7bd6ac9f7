#include "exporter/pages.h"
#include "exporter/render.h"
#include "wire/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#define PAGE_LIFE_NS 1000000000ull
#define READY_INTERVALS 3
#define GZIP_LEVEL 4
#define GZIP_WINDOW (15 + 16) /* zlib's largest, in gzip's frame */

/* One set of snapshots; of each when its counts began, and when each of its
 * metrics became stale. */
struct shot {
	unsigned n, left_out;
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	double interval_s;
	struct {
		struct snapshot snapshot;
		double begun, stale_since[METRICS];
	} servers[];
};

/* What the publisher remembers of a server between two sets. */
struct memory {
	int32_t pid;
	double uptime_s, begun, stale_since[METRICS];
};

struct pages {
	struct pages_config config;
	struct memory memory[EXPOSITION_SERVERS_MAX]; /* the publisher's */
	unsigned n_memory;
	uint64_t published_ns; /* the publisher's; 0: never */

	pthread_mutex_t lock;
	struct shot *pending; /* published, not yet taken; under lock */

	struct shot *shot;                /* the rest is the server's */
	struct page *made[PAGE_KINDS][2]; /* plain, gzip */
	uint64_t made_ns[PAGE_KINDS];
	double render_seconds;
};

static const struct {
	void (*render)(struct text *t, const struct exposition *x);
} renderers[WIRE_FORMATS] = {
	[WIRE_PROMETHEUS] = { render_prometheus },
	[WIRE_OPENMETRICS] = { render_openmetrics },
	[WIRE_PROTOBUF] = { render_protobuf },
};

int pages_new(struct pages **out, const struct pages_config *config)
{
	struct pages *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->config = *config;
	p->render_seconds = NAN;
	pthread_mutex_init(&p->lock, NULL);
	*out = p;
	return 0;
}

static void forget_pages(struct pages *p)
{
	for (unsigned i = 0; i < PAGE_KINDS; i++) {
		for (unsigned z = 0; z < 2; z++) {
			page_release(p->made[i][z]);
			p->made[i][z] = NULL;
		}
	}
}

void pages_free(struct pages *p)
{
	if (!p)
		return;
	forget_pages(p);
	free(p->shot);
	free(p->pending);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- publishing --------------------------------------------------------- */

static const struct memory *recall(const struct pages *p,
				   const struct snapshot *s)
{
	for (unsigned i = 0; i < p->n_memory; i++)
		if (p->memory[i].pid == s->target.pid)
			return &p->memory[i];
	return NULL;
}

/* What is told once stays: a start that moves is taken for a new one. */
static double begun(const struct memory *m, const struct snapshot *s)
{
	return m && m->begun > 0 && s->uptime_s >= m->uptime_s
		       ? m->begun
		       : exposition_begun(s);
}

static void note_stale(const struct memory *m, const struct snapshot *s,
		       double *since)
{
	for (unsigned i = 0; i < METRICS; i++) {
		since[i] = 0;
		if (s->metrics[i].state != VALUE_STALE)
			continue;
		since[i] = m && m->stale_since[i] > 0 ? m->stale_since[i]
						      : s->time;
	}
}

static void remember(struct pages *p, const struct shot *shot)
{
	p->n_memory = shot->n;
	for (unsigned i = 0; i < shot->n; i++) {
		p->memory[i].pid = shot->servers[i].snapshot.target.pid;
		p->memory[i].uptime_s = shot->servers[i].snapshot.uptime_s;
		p->memory[i].begun = shot->servers[i].begun;
		memcpy(p->memory[i].stale_since, shot->servers[i].stale_since,
		       sizeof(p->memory[i].stale_since));
	}
}

/* Of a machine without servers nothing else tells the interval. */
static double since_last_s(struct pages *p, uint64_t now)
{
	uint64_t last = p->published_ns ? p->published_ns : now;

	p->published_ns = now;
	return (double)(now - last) / 1e9;
}

void pages_publish(struct pages *p, const struct snapshot *const *list,
		   unsigned n, unsigned left_out)
{
	struct shot *shot, *old;

	if (n > EXPOSITION_SERVERS_MAX)
		n = EXPOSITION_SERVERS_MAX;
	shot = malloc(sizeof(*shot) + n * sizeof(shot->servers[0]));
	if (!shot)
		return;
	shot->n = n;
	shot->left_out = left_out;
	shot->taken_ns = clock_now_ns();
	shot->interval_s = fmax(1, since_last_s(p, shot->taken_ns));
	for (unsigned i = 0; i < n; i++) {
		const struct memory *m = recall(p, list[i]);

		shot->servers[i].snapshot = *list[i];
		shot->servers[i].begun = begun(m, list[i]);
		note_stale(m, list[i], shot->servers[i].stale_since);
		if (list[i]->interval_s > shot->interval_s)
			shot->interval_s = list[i]->interval_s;
	}
	remember(p, shot);
	pthread_mutex_lock(&p->lock);
	old = p->pending;
	p->pending = shot;
	pthread_mutex_unlock(&p->lock);
	free(old);
}

static void take_pending(struct pages *p)
{
	struct shot *shot;

	pthread_mutex_lock(&p->lock);
	shot = p->pending;
	p->pending = NULL;
	pthread_mutex_unlock(&p->lock);
	if (!shot)
		return;
	free(p->shot);
	p->shot = shot;
	forget_pages(p);
}

bool pages_any(struct pages *p)
{
	take_pending(p);
	return p->shot != NULL;
}

bool pages_ready(struct pages *p)
{
	return pages_any(p) &&
	       (double)(clock_now_ns() - p->shot->taken_ns) <
		       READY_INTERVALS * p->shot->interval_s * 1e9;
}

/* ---- pages -------------------------------------------------------------- */

void page_release(struct page *p)
{
	if (!p || --p->references)
		return;
	text_free(&p->text);
	free(p);
}

static struct page *page_new(void)
{
	struct page *p = calloc(1, sizeof(*p));

	if (p)
		p->references = 1;
	return p;
}

/* What compresses to nothing is as good as no memory. */
static struct page *page_gzip(const struct page *plain)
{
	struct page *p = page_new();
	z_stream z = { 0 };
	uLong bound;

	if (!p)
		return NULL;
	if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		page_release(p);
		return NULL;
	}
	bound = deflateBound(&z, (uLong)plain->text.bytes);
	p->text.data = malloc(bound);
	z.next_in = (Bytef *)plain->text.data;
	z.avail_in = (uInt)plain->text.bytes;
	z.next_out = (Bytef *)p->text.data;
	z.avail_out = (uInt)bound;
	if (!p->text.data || deflate(&z, Z_FINISH) != Z_STREAM_END) {
		page_release(p);
		p = NULL;
	} else {
		p->text.bytes = z.total_out;
	}
	deflateEnd(&z);
	return p;
}

static void write_metrics(struct pages *p, struct text *t, unsigned format,
			  const struct exporter_stats *stats)
{
	struct exposed_server servers[EXPOSITION_SERVERS_MAX];
	const struct exposition_options options = {
		.experts = p->config.experts,
		.series_max = p->config.series_max,
		.now = clock_unix_s(),
		.stats = stats,
		.servers_left_out = p->shot->left_out,
	};
	struct exposition x;
	struct c_locale l;

	for (unsigned i = 0; i < p->shot->n; i++)
		servers[i] = (struct exposed_server){
			.snapshot = &p->shot->servers[i].snapshot,
			.stale_since = p->shot->servers[i].stale_since,
			.begun = p->shot->servers[i].begun,
		};
	c_locale_enter(&l);
	exposition_build(&x, servers, p->shot->n, &options);
	if (x.error)
		t->error = x.error;
	else
		renderers[format].render(t, &x);
	exposition_free(&x);
	c_locale_leave(&l);
}

static void write_json(const struct pages *p, struct text *t)
{
	const struct shot *shot = p->shot;

	if (!p->config.all && shot->n == 1) {
		format_json.write(t, &shot->servers[0].snapshot);
		return;
	}
	text_printf(t, "{\"servers\":[");
	for (unsigned i = 0; i < shot->n; i++) {
		format_json.write(t, &shot->servers[i].snapshot);
		if (!t->error && t->bytes) /* its end of line */
			t->data[t->bytes - 1] = ' ';
	}
	text_printf(t, "]}\n");
}

static struct page *page_make(struct pages *p, enum page_kind kind,
			      struct exporter_stats *stats)
{
	struct page *page = page_new();
	uint64_t start = clock_now_ns();

	if (!page)
		return NULL;
	if (kind == PAGE_JSON)
		write_json(p, &page->text);
	else
		write_metrics(p, &page->text, kind - PAGE_METRICS, stats);
	if (page->text.error) {
		page_release(page);
		return NULL;
	}
	if (kind != PAGE_JSON)
		p->render_seconds = (double)(clock_now_ns() - start) / 1e9;
	return page;
}

struct page *pages_get(struct pages *p, enum page_kind kind, bool gzip,
		       struct exporter_stats *stats)
{
	struct page **plain = &p->made[kind][0], **packed = &p->made[kind][1];
	uint64_t now = clock_now_ns();

	take_pending(p);
	if (!p->shot)
		return NULL;
	if (!*plain || now - p->made_ns[kind] > PAGE_LIFE_NS) {
		page_release(*plain);
		page_release(*packed);
		*packed = NULL;
		stats->render_seconds = p->render_seconds;
		*plain = page_make(p, kind, stats);
		p->made_ns[kind] = now;
	}
	if (gzip && *plain && !*packed)
		*packed = page_gzip(*plain);
	plain = gzip ? packed : plain;
	if (*plain)
		(*plain)->references++;
	return *plain;
}
