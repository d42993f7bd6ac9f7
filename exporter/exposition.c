#include "exporter/exposition_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES 16384u
#define ROWS_COMPARED 128u
#define CLASSIC_SERIES_BESIDE 3u /* +Inf, _sum, _count */

struct chunk {
	struct chunk *next;
	size_t used;
	char data[CHUNK_BYTES];
};

/* What an exposition owns and no renderer needs to know. */
struct exposition_parts {
	unsigned room_families, room_series, room_labels, n_labels;
	struct chunk *chunks; /* words and histograms, newest first */
	bool open;            /* a series is being filled */
};

/* ---- memory ------------------------------------------------------------- */

/* Room for one more in an array, whose elements have this size. */
static bool grow(struct exposition *x, void *array, unsigned n, unsigned *room,
		 size_t size)
{
	void **p = array, *bigger;
	unsigned want = *room ? *room * 2 : 256;

	if (n < *room)
		return true;
	bigger = realloc(*p, want * size);
	if (!bigger) {
		x->error = -ENOMEM;
		return false;
	}
	*p = bigger;
	*room = want;
	return true;
}

/* Lives as long as the exposition; NULL without memory, or beyond a chunk. */
static void *keep(struct exposition *x, size_t bytes)
{
	struct chunk *c = x->parts->chunks;
	void *p;

	bytes = (bytes + 15) & ~(size_t)15;
	if (!c || CHUNK_BYTES - c->used < bytes) {
		c = bytes <= CHUNK_BYTES ? malloc(sizeof(*c)) : NULL;
		if (!c) {
			x->error = -ENOMEM;
			return NULL;
		}
		c->used = 0;
		c->next = x->parts->chunks;
		x->parts->chunks = c;
	}
	p = c->data + c->used;
	c->used += bytes;
	return p;
}

/* s itself where it is UTF-8, else a copy that is. */
static const char *word(struct exposition *x, const char *s)
{
	struct text t = { 0 };
	char *copy = NULL;

	if (text_is_utf8(s))
		return s;
	text_utf8(&t, s);
	if (!t.error)
		copy = keep(x, t.bytes + 1);
	if (copy)
		memcpy(copy, t.data, t.bytes + 1);
	text_free(&t);
	return copy ? copy : "";
}

/* ---- series ------------------------------------------------------------- */

static struct series *newest(struct builder *b)
{
	return &b->x->series[b->x->n_series];
}

static void begin(struct builder *b, unsigned base)
{
	struct exposition *x = b->x;
	struct exposition_parts *p = x->parts;

	p->open = grow(x, &x->series, x->n_series, &p->room_series,
		       sizeof(*x->series));
	if (p->open)
		*newest(b) = (struct series){ .base = base,
					      .first_label = p->n_labels };
}

void series_begin(struct builder *b)
{
	begin(b, b->server ? b->server->base : 0);
}

void series_begin_gpu(struct builder *b)
{
	begin(b, b->server ? b->server->base_no_gpu : 0);
}

void series_label(struct builder *b, const char *name, const char *value)
{
	struct exposition *x = b->x;
	struct exposition_parts *p = x->parts;

	/* an empty label is one that is not there */
	if (!p->open || !value || !*value ||
	    !grow(x, &x->labels, p->n_labels, &p->room_labels,
		  sizeof(*x->labels)))
		return;
	x->labels[p->n_labels++] =
		(struct series_label){ name, word(x, value) };
	newest(b)->n++;
}

void series_label_copy(struct builder *b, const char *name, const char *value)
{
	size_t n = strlen(value) + 1;
	char *s = b->x->parts->open ? keep(b->x, n) : NULL;

	if (!s)
		return;
	memcpy(s, value, n);
	series_label(b, name, s);
}

void series_label_number(struct builder *b, const char *name, uint64_t n)
{
	char *s = b->x->parts->open ? keep(b->x, 24) : NULL;

	if (!s)
		return;
	snprintf(s, 24, "%" PRIu64, n);
	series_label(b, name, s);
}

void series_label_known(struct builder *b, const char *name, uint64_t n)
{
	if (n)
		series_label_number(b, name, n);
}

void series_label_source(struct builder *b, struct value x)
{
	series_label(b, "source", value_source_name(x.source));
}

/* Does the server have room for so many more?  Of what the exporter says of
 * itself there are few. */
static bool admit(struct builder *b, unsigned n)
{
	unsigned max = b->options->series_max ? b->options->series_max
					      : SERIES_MAX_DEFAULT;

	if (!b->server)
		return true;
	if (b->server->series + n > max) {
		b->server->left_out += n;
		return false;
	}
	b->server->series += n;
	return true;
}

static bool same_labels(const struct exposition *x, const struct series *p,
			const struct series *q)
{
	if (p->base != q->base || p->n != q->n)
		return false;
	for (unsigned i = 0; i < p->n; i++) {
		const struct series_label *l = &x->labels[p->first_label + i];
		const struct series_label *m = &x->labels[q->first_label + i];

		if (strcmp(l->name, m->name) != 0 ||
		    strcmp(l->value, m->value) != 0)
			return false;
	}
	return true;
}

/* Names from outside may be alike; a scrape with a series twice would be
 * refused whole.  Long families number their rows themselves. */
static bool is_doubled(const struct builder *b)
{
	const struct exposition *x = b->x;
	const struct series *s = &x->series[x->n_series];

	if (x->n_series - b->first > ROWS_COMPARED)
		return false;
	for (unsigned i = b->first; i < x->n_series; i++)
		if (same_labels(x, &x->series[i], s))
			return true;
	return false;
}

static void end(struct builder *b, unsigned n)
{
	struct exposition *x = b->x;

	if (!is_doubled(b) && admit(b, n))
		x->n_series++;
	else
		x->parts->n_labels = newest(b)->first_label;
	x->parts->open = false;
}

static double created(const struct builder *b)
{
	return b->server ? b->server->begun : 0;
}

void series_end(struct builder *b, double v)
{
	if (!b->x->parts->open)
		return;
	newest(b)->value = v;
	newest(b)->created = created(b);
	end(b, 1);
}

void series_end_hist(struct builder *b, const struct snapshot_hist_total *t,
		     enum histogram_id id)
{
	struct hist_buckets *h;
	unsigned n_bounds;

	if (!b->x->parts->open)
		return;
	hist_bounds(id, &n_bounds);
	h = keep(b->x, sizeof(*h));
	if (!h) {
		b->x->parts->open = false;
		return;
	}
	hist_buckets_fill(t, id, h);
	newest(b)->hist = h;
	newest(b)->created = created(b);
	end(b, n_bounds + CLASSIC_SERIES_BESIDE);
}

bool series_shown(const struct builder *b, struct value x)
{
	return printable(x) &&
	       !(x.state == VALUE_STALE && b->server->hide_stale);
}

/* ---- servers ------------------------------------------------------------ */

static void base_label(struct exposition *x, struct label_base *base,
		       const char *name, const char *value)
{
	if (*value)
		base->labels[base->n++] =
			(struct series_label){ name, word(x, value) };
}

/* Two bases for each server, after the empty one. */
static void add_bases(struct exposition *x, struct builder_server *v)
{
	const struct snapshot_target *g = &v->s->target;

	v->base = x->n_bases++;
	v->base_no_gpu = x->n_bases++;
	for (unsigned i = v->base; i <= v->base_no_gpu; i++) {
		struct label_base *base = &x->bases[i];

		base_label(x, base, "server", g->server);
		base_label(x, base, "engine", g->engine);
		base_label(x, base, "model", g->model);
		if (i == v->base)
			base_label(x, base, "gpu", g->gpu);
		base_label(x, base, "pod", g->pod);
		base_label(x, base, "namespace", g->pod_namespace);
	}
}

static void look_at_age(struct builder_server *v, double now)
{
	struct value window = v->s->health.window_age_seconds;

	v->gone = v->s->health.target_gone;
	v->hide_stale = now > 0 && value_known(window) &&
			window.v + (now - v->s->time) > STALE_SHOWN_S;
}

/* ---- the whole ---------------------------------------------------------- */

static const struct family_spec *spec(unsigned i)
{
	if (i < n_families_server)
		return &families_server[i];
	i -= n_families_server;
	if (i < n_families_tables)
		return &families_tables[i];
	i -= n_families_tables;
	return i < n_families_last ? &families_last[i] : NULL;
}

static void fill_family(struct builder *b, const struct family_spec *f,
			struct builder_server *servers, unsigned n)
{
	struct exposition *x = b->x;
	unsigned first = x->n_series;

	b->server = NULL;
	b->first = first;
	if (f->whole)
		f->fill(b, f);
	for (unsigned i = 0; !f->whole && i < n; i++) {
		b->server = &servers[i];
		b->first = x->n_series;
		if (f->always || !servers[i].gone)
			f->fill(b, f);
	}
	if (x->n_series == first ||
	    !grow(x, &x->families, x->n_families, &x->parts->room_families,
		  sizeof(*x->families)))
		return;
	x->families[x->n_families++] =
		(struct family){ &f->info, first, x->n_series - first };
}

void exposition_build(struct exposition *x,
		      const struct exposed_server *servers, unsigned n,
		      const struct exposition_options *options)
{
	struct builder_server views[EXPOSITION_SERVERS_MAX] = { 0 };
	struct builder b = { .x = x, .options = options, .n_servers = n };

	*x = (struct exposition){ 0 };
	if (n > EXPOSITION_SERVERS_MAX)
		n = EXPOSITION_SERVERS_MAX;
	x->parts = calloc(1, sizeof(*x->parts));
	x->bases = calloc(2 * n + 1, sizeof(*x->bases));
	if (!x->parts || !x->bases) {
		x->error = -ENOMEM;
		return;
	}
	x->n_bases = 1;
	for (unsigned i = 0; i < n; i++) {
		views[i].s = servers[i].snapshot;
		views[i].stale_since = servers[i].stale_since;
		views[i].begun = servers[i].begun > 0
					 ? servers[i].begun
					 : exposition_begun(views[i].s);
		look_at_age(&views[i], options->now);
		add_bases(x, &views[i]);
	}
	for (unsigned i = 0; spec(i); i++)
		fill_family(&b, spec(i), views, n);
}

void exposition_free(struct exposition *x)
{
	while (x->parts && x->parts->chunks) {
		struct chunk *c = x->parts->chunks;

		x->parts->chunks = c->next;
		free(c);
	}
	free(x->parts);
	free(x->bases);
	free(x->labels);
	free(x->series);
	free(x->families);
	*x = (struct exposition){ 0 };
}

double exposition_begun(const struct snapshot *s)
{
	return s->uptime_s > 0 ? round((s->time - s->uptime_s) * 1e3) / 1e3 : 0;
}

/* A metric's family is in the table by its line of metrics.def. */
const struct family_info *exposition_family(unsigned i)
{
	const struct family_spec *f = spec(i);

	return f ? &f->info : NULL;
}
