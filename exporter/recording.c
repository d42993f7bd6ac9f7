#include "exporter/recording.h"

#include "exporter/recording_fields.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PACK_BYTES (1u << 20)

/* Messages live until they are written; running out is noticed at the end. */
struct arena {
	char *data;
	size_t used;
	bool full;
};

static void *arena_take(struct arena *a, size_t bytes)
{
	size_t n = (bytes + 15) & ~(size_t)15;

	if (n > PACK_BYTES - a->used) {
		a->full = true;
		return NULL;
	}
	a->used += n;
	return memset(a->data + a->used - n, 0, n);
}

static void *message_new(struct arena *a, const ProtobufCMessageDescriptor *d)
{
	void *m = arena_take(a, d->sizeof_message);

	if (m)
		protobuf_c_message_init(d, m);
	return m;
}

/* NULL, which is not written, for what is unknown. */
static Moetop__Value *value_pack(struct arena *a, struct value x)
{
	Moetop__Value *m;

	if (x.state == VALUE_NO_DATA && x.source == SOURCE_MEASURED)
		return NULL;
	m = message_new(a, &moetop__value__descriptor);
	if (m) {
		m->v = x.v;
		m->state = (Moetop__State)x.state;
		m->source = (Moetop__Source)x.source;
	}
	return m;
}

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
		rows[i] = message_new(a, f->row->message);
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
	uint16_t u16;
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
	void *m = message_new(a, shape->message);

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
		Moetop__Metric *x = message_new(a, &moetop__metric__descriptor);

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
			message_new(a, &moetop__histogram__descriptor);

		if (!x)
			return;
		x->id = borrow(histogram_info[i].key);
		x->count = value_pack(a, h->count);
		x->sum = value_pack(a, h->sum);
		x->p50 = value_pack(a, h->p50);
		x->p90 = value_pack(a, h->p90);
		x->p99 = value_pack(a, h->p99);
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
		m->group_share[i] = message_new(a, &moetop__value__descriptor);
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

int recording_pack(const struct snapshot *s, uint8_t **out, size_t *bytes)
{
	struct arena a = { .data = malloc(PACK_BYTES) };
	Moetop__Snapshot *m;
	uint8_t *packed = NULL;

	if (!a.data)
		return -ENOMEM;
	m = shape_pack(&a, &snapshot_shape, s);
	if (m) {
		metrics_pack(&a, s, m);
		histograms_pack(&a, s, m);
		rest_pack(&a, s, m);
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
