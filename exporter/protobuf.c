/*
 * protobuf.c - the protobuf delimited format (wire/metrics.proto)
 *
 * The only one that carries native histograms; classic buckets are beside
 * them, for whoever does not read those.
 */
#include "exporter/render.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/metrics.pb-c.h"

#define VARINT_BYTES_MAX 10u
#define LABELS_MAX 16u

/* A native histogram's buckets as runs without holes. */
struct native {
	unsigned n_spans, n_deltas;
	Io__Prometheus__Client__BucketSpan spans[HIST_NATIVE_MAX];
	Io__Prometheus__Client__BucketSpan *span_at[HIST_NATIVE_MAX];
	int64_t deltas[HIST_NATIVE_MAX];
	Io__Prometheus__Client__Bucket buckets[HIST_BOUNDS_MAX];
	Io__Prometheus__Client__Bucket *bucket_at[HIST_BOUNDS_MAX];
};

/* One metric with all that it points to; a histogram's rest apart. */
struct slot {
	Io__Prometheus__Client__Metric metric;
	Io__Prometheus__Client__LabelPair labels[LABELS_MAX];
	Io__Prometheus__Client__LabelPair *label_at[LABELS_MAX];
	Io__Prometheus__Client__Gauge gauge;
	Io__Prometheus__Client__Counter counter;
	Io__Prometheus__Client__Histogram hist;
	Io__Prometheus__Client__Timestamp created;
	struct native *native; /* owned */
};

/* ---- one metric --------------------------------------------------------- */

static void add_labels(struct slot *m, const struct series_label *labels,
		       unsigned n)
{
	for (unsigned i = 0; i < n && m->metric.n_label < LABELS_MAX; i++) {
		Io__Prometheus__Client__LabelPair *l =
			&m->labels[m->metric.n_label];

		io__prometheus__client__label_pair__init(l);
		/* protobuf-c takes char * but only reads */
		l->name = (char *)(uintptr_t)labels[i].name;
		l->value = (char *)(uintptr_t)labels[i].value;
		m->label_at[m->metric.n_label++] = l;
	}
}

static Io__Prometheus__Client__Timestamp *
time_of(Io__Prometheus__Client__Timestamp *t, double seconds)
{
	double whole = floor(seconds);

	if (!(seconds > 0))
		return NULL;
	io__prometheus__client__timestamp__init(t);
	t->has_seconds = t->has_nanos = 1;
	t->seconds = (int64_t)whole;
	t->nanos = (int32_t)((seconds - whole) * 1e9);
	return t;
}

static void add_span(struct native *p, int gap)
{
	Io__Prometheus__Client__BucketSpan *s = &p->spans[p->n_spans];

	io__prometheus__client__bucket_span__init(s);
	s->has_offset = s->has_length = 1;
	s->offset = gap;
	s->length = 0;
	p->span_at[p->n_spans++] = s;
}

static void fill_native(struct native *p, const struct hist_buckets *h)
{
	int next = 0;
	int64_t before = 0;

	for (unsigned i = 0; i < h->n_native; i++) {
		const struct hist_native *b = &h->native[i];

		if (!p->n_spans || b->index != next)
			add_span(p, b->index - next);
		p->spans[p->n_spans - 1].length++;
		next = b->index + 1;
		p->deltas[p->n_deltas++] = (int64_t)b->count - before;
		before = (int64_t)b->count;
	}
	if (!p->n_spans) /* what makes an empty one native all the same */
		add_span(p, 0);
}

static void fill_classic(struct native *p, const struct hist_buckets *h)
{
	for (unsigned i = 0; i < h->n_bounds; i++) {
		Io__Prometheus__Client__Bucket *b = &p->buckets[i];

		io__prometheus__client__bucket__init(b);
		b->has_cumulative_count = b->has_upper_bound = 1;
		b->cumulative_count = h->cumulative[i];
		b->upper_bound = h->bounds[i];
		p->bucket_at[i] = b;
	}
}

static int fill_hist(struct slot *m, const struct series *s)
{
	const struct hist_buckets *h = s->hist;
	Io__Prometheus__Client__Histogram *out = &m->hist;

	m->native = calloc(1, sizeof(*m->native));
	if (!m->native)
		return -ENOMEM;
	fill_native(m->native, h);
	fill_classic(m->native, h);
	io__prometheus__client__histogram__init(out);
	out->has_sample_count = out->has_sample_sum = 1;
	out->sample_count = h->count;
	out->sample_sum = h->sum;
	out->n_bucket = h->n_bounds;
	out->bucket = m->native->bucket_at;
	out->has_schema = out->has_zero_threshold = out->has_zero_count = 1;
	out->schema = HIST_NATIVE_SCHEMA;
	out->zero_threshold = hist_zero_threshold();
	out->zero_count = h->zero_count;
	out->n_positive_span = m->native->n_spans;
	out->positive_span = m->native->span_at;
	out->n_positive_delta = m->native->n_deltas;
	out->positive_delta = m->native->deltas;
	out->created_timestamp = time_of(&m->created, s->created);
	m->metric.histogram = out;
	return 0;
}

static int fill_metric(struct slot *m, const struct exposition *x,
		       const struct family *f, const struct series *s)
{
	const struct label_base *base = &x->bases[s->base];

	io__prometheus__client__metric__init(&m->metric);
	m->metric.label = m->label_at;
	add_labels(m, base->labels, base->n);
	add_labels(m, x->labels + s->first_label, s->n);
	switch (f->info->type) {
	case FAMILY_HISTOGRAM:
		return fill_hist(m, s);
	case FAMILY_COUNTER:
		io__prometheus__client__counter__init(&m->counter);
		m->counter.has_value = 1;
		m->counter.value = s->value;
		m->counter.created_timestamp = time_of(&m->created, s->created);
		m->metric.counter = &m->counter;
		break;
	case FAMILY_GAUGE:
	case FAMILY_INFO:
		io__prometheus__client__gauge__init(&m->gauge);
		m->gauge.has_value = 1;
		m->gauge.value = s->value;
		m->metric.gauge = &m->gauge;
		break;
	}
	return 0;
}

/* ---- one family --------------------------------------------------------- */

static size_t put_varint(uint8_t *out, size_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return n;
}

static int append(struct text *t, const Io__Prometheus__Client__MetricFamily *f)
{
	size_t bytes =
		io__prometheus__client__metric_family__get_packed_size(f);
	uint8_t head[VARINT_BYTES_MAX], *body = malloc(bytes + 1);

	if (!body)
		return -ENOMEM;
	io__prometheus__client__metric_family__pack(f, body);
	text_write(t, head, put_varint(head, bytes));
	text_write(t, body, bytes);
	free(body);
	return t->error;
}

static void name_family(Io__Prometheus__Client__MetricFamily *out,
			const struct family_info *f, char *name, size_t bytes)
{
	static const Io__Prometheus__Client__MetricType types[] = {
		[FAMILY_GAUGE] = IO__PROMETHEUS__CLIENT__METRIC_TYPE__GAUGE,
		[FAMILY_COUNTER] = IO__PROMETHEUS__CLIENT__METRIC_TYPE__COUNTER,
		[FAMILY_INFO] = IO__PROMETHEUS__CLIENT__METRIC_TYPE__GAUGE,
		[FAMILY_HISTOGRAM] =
			IO__PROMETHEUS__CLIENT__METRIC_TYPE__HISTOGRAM,
	};

	io__prometheus__client__metric_family__init(out);
	snprintf(name, bytes, "moetop_%s", f->name);
	out->name = name;
	out->help = (char *)(uintptr_t)f->help;
	out->has_type = 1;
	out->type = types[f->type];
	out->unit = (char *)(uintptr_t)openmetrics_unit(f->name);
}

static int render_family(struct text *t, const struct exposition *x,
			 const struct family *f)
{
	struct slot *slots = calloc(f->n, sizeof(*slots));
	Io__Prometheus__Client__Metric **at =
		calloc(f->n, sizeof(Io__Prometheus__Client__Metric *));
	Io__Prometheus__Client__MetricFamily family;
	char name[96];
	int err = slots && at ? 0 : -ENOMEM;

	for (unsigned i = 0; i < f->n && !err; i++) {
		err = fill_metric(&slots[i], x, f, &x->series[f->first + i]);
		at[i] = &slots[i].metric;
	}
	if (!err) {
		name_family(&family, f->info, name, sizeof(name));
		family.n_metric = f->n;
		family.metric = at;
		err = append(t, &family);
	}
	for (unsigned i = 0; slots && i < f->n; i++)
		free(slots[i].native);
	free(slots);
	free(at);
	return err;
}

void render_protobuf(struct text *t, const struct exposition *x)
{
	for (unsigned i = 0; i < x->n_families && !t->error; i++) {
		int err = render_family(t, x, &x->families[i]);

		if (err && !t->error)
			t->error = err;
	}
}

static void protobuf_write(struct text *t, const struct snapshot *s)
{
	render_snapshot(t, s, render_protobuf);
}

const struct format format_protobuf = {
	.name = "protobuf",
	.content_type = "application/vnd.google.protobuf; "
			"proto=io.prometheus.client.MetricFamily; "
			"encoding=delimited",
	.write = protobuf_write,
};
