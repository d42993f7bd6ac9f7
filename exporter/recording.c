#include "exporter/recording.h"

#include "exporter/recording_arena.h"
#include "exporter/recording_fields.h"
#include "exporter/recording_large.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void fields_pack(struct arena *a, const struct shape *shape,
			const char *from, char *message);

static void rows_pack(struct arena *a, const struct field *f, const char *from,
		      char *message)
{
	size_t *n_out = (size_t *)(void *)(message + f->message_n_at);
	unsigned n;
	void **rows;

	memcpy(&n, from + f->n_at, sizeof(n));
	if (n > f->max)
		n = f->max;
	rows = arena_take(a, n * sizeof(*rows));
	for (unsigned i = 0; rows && i < n; i++) {
		rows[i] = arena_message(a, f->row->message);
		if (!rows[i])
			return;
		fields_pack(a, f->row, from + f->at + i * f->row->bytes,
			    rows[i]);
		*n_out = i + 1;
	}
	memcpy(message + f->message_at, &rows, sizeof(void *));
}

static void field_pack(struct arena *a, const struct field *f, const char *from,
		       char *message)
{
	const char *at = from + f->at;
	char *to = message + f->message_at;
	Moetop__Value *maybe;
	uint16_t u16;
	double v;
	bool b;

	switch (f->type) {
	case TEXT:
		memcpy(to, &at, sizeof(at));
		break;
	case VALUE: {
		struct value x;
		Moetop__Value *m;

		memcpy(&x, at, sizeof(x));
		m = value_pack(a, x);
		memcpy(to, &m, sizeof(m));
		break;
	}
	case MAYBE:
		memcpy(&v, at, sizeof(v));
		maybe = value_pack(a, value_make(v, SOURCE_MEASURED));
		memcpy(to, &maybe, sizeof(maybe));
		break;
	case BOOL:
		memcpy(&b, at, sizeof(b));
		*(protobuf_c_boolean *)(void *)to = b;
		break;
	case U16:
		memcpy(&u16, at, sizeof(u16));
		*(uint32_t *)(void *)to = u16;
		break;
	case DOUBLE:
	case U32:
	case U64:
	case I32:
		memcpy(to, at, f->bytes);
		break;
	case LIST:
		rows_pack(a, f, from, message);
		break;
	}
}

static void fields_pack(struct arena *a, const struct shape *shape,
			const char *from, char *message)
{
	for (unsigned i = 0; i < shape->n; i++)
		field_pack(a, &shape->fields[i], from, message);
}

static void *shape_pack(struct arena *a, const struct shape *shape,
			const void *from)
{
	void *m = arena_message(a, shape->message);

	if (m)
		fields_pack(a, shape, from, m);
	return m;
}

/* protobuf-c wants char *, and only reads. */
static char *borrow(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void metrics_pack(struct arena *a, const struct snapshot *s,
			 Moetop__Snapshot *m)
{
	m->metrics = arena_take(a, METRICS * sizeof(*m->metrics));
	for (unsigned i = 0; m->metrics && i < METRICS; i++) {
		Moetop__Metric *x =
			arena_message(a, &moetop__metric__descriptor);

		if (!x)
			return;
		x->id = borrow(metric_info[i].key);
		x->v = s->metrics[i].v;
		x->state = (Moetop__State)s->metrics[i].state;
		x->source = (Moetop__Source)s->metrics[i].source;
		m->metrics[m->n_metrics++] = x;
	}
}

static void histograms_pack(struct arena *a, const struct snapshot *s,
			    Moetop__Snapshot *m)
{
	m->histograms = arena_take(a, HISTOGRAMS * sizeof(*m->histograms));
	for (unsigned i = 0; m->histograms && i < HISTOGRAMS; i++) {
		const struct snapshot_hist *h = &s->hists[i];
		Moetop__Histogram *x =
			arena_message(a, &moetop__histogram__descriptor);

		if (!x)
			return;
		x->id = borrow(histogram_info[i].key);
		x->count = value_pack(a, h->count);
		x->sum = value_pack(a, h->sum);
		x->p50 = value_pack(a, h->p50);
		x->p90 = value_pack(a, h->p90);
		x->p99 = value_pack(a, h->p99);
		buckets_pack(a, h, x);
		m->histograms[m->n_histograms++] = x;
	}
}

static void rest_pack(struct arena *a, const struct snapshot *s,
		      Moetop__Snapshot *m)
{
	const char *regime = regime_name(s->regime);
	const char *side = side_name(s->side);

	m->regime = borrow(regime ? regime : "");
	m->side = borrow(side ? side : "");
	m->target = shape_pack(a, &target_shape, &s->target);
	m->health = shape_pack(a, &health_shape, &s->health);
	m->group_share = arena_take(a, GROUP_SHARES * sizeof(void *));
	m->verdict = arena_take(a, VERDICTS * sizeof(char *));
	for (unsigned i = 0; m->group_share && i < GROUP_SHARES; i++) {
		m->group_share[i] =
			arena_message(a, &moetop__value__descriptor);
		if (!m->group_share[i])
			return;
		m->group_share[i]->v = s->group_share[i].v;
		m->group_share[i]->state =
			(Moetop__State)s->group_share[i].state;
		m->group_share[i]->source =
			(Moetop__Source)s->group_share[i].source;
		m->n_group_share++;
	}
	for (unsigned i = 0; m->verdict && i < VERDICTS; i++)
		m->verdict[m->n_verdict++] = borrow(s->verdict[i]);
	if (!m->health)
		return;
	m->health->tiers = arena_take(a, SNAPSHOT_TIERS * sizeof(void *));
	for (unsigned i = 0; m->health->tiers && i < SNAPSHOT_TIERS; i++) {
		m->health->tiers[i] =
			shape_pack(a, &tier_shape, &s->health.tiers[i]);
		if (!m->health->tiers[i])
			return;
		m->health->n_tiers++;
	}
}

/* Every DOUBLE of it is finite: what else could not be played. */
static bool shape_finite(const struct shape *shape, const char *from)
{
	for (unsigned i = 0; i < shape->n; i++) {
		const struct field *f = &shape->fields[i];
		unsigned n = 0;
		double v = 0;

		if (f->type == DOUBLE)
			memcpy(&v, from + f->at, sizeof(v));
		if (!isfinite(v))
			return false;
		if (f->type == LIST)
			memcpy(&n, from + f->n_at, sizeof(n));
		for (unsigned k = 0; k < n && k < f->max; k++)
			if (!shape_finite(f->row,
					  from + f->at + k * f->row->bytes))
				return false;
	}
	return true;
}

/* What is there only at times. */
static void parts_pack(struct arena *a, const struct snapshot *s,
		       Moetop__Snapshot *m)
{
	const struct whatif *w = &s->what_if_base;

	if ((w->valid || w->known) &&
	    shape_finite(&whatif_shape, (const char *)w))
		m->what_if_base = shape_pack(a, &whatif_shape, w);
	if (s->bytes.method[0] &&
	    shape_finite(&bytes_shape, (const char *)&s->bytes))
		m->bytes = shape_pack(a, &bytes_shape, &s->bytes);
	if (!s->requests.known && !s->requests.have_queues)
		return;
	m->requests = shape_pack(a, &requests_shape, &s->requests);
	if (m->requests)
		counts_pack(a, &s->requests, m->requests);
}

int recording_pack(const struct recording_kept *before,
		   const struct snapshot *s, uint8_t **out, size_t *bytes)
{
	struct arena a = { .data = malloc(ARENA_BYTES) };
	Moetop__Snapshot *m;
	uint8_t *packed = NULL;

	if (!a.data)
		return -ENOMEM;
	m = shape_pack(&a, &snapshot_shape, s);
	if (m) {
		metrics_pack(&a, s, m);
		histograms_pack(&a, s, m);
		rest_pack(&a, s, m);
		parts_pack(&a, s, m);
		large_pack(&a, before, s, m);
	}
	if (!a.full)
		packed = malloc(moetop__snapshot__get_packed_size(m));
	if (packed) {
		*bytes = moetop__snapshot__pack(m, packed);
		*out = packed;
	}
	free(a.data);
	return packed ? 0 : -ENOMEM;
}
