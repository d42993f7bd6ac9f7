#include "exporter/recording.h"

#include "exporter/recording_fields.h"
#include "exporter/recording_large.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define UNPACK_BYTES_MAX (16u << 20)

static int value_unpack(struct value *x, const Moetop__Value *m)
{
	if (!m)
		return 0;
	if ((unsigned)m->state > VALUE_OK || (unsigned)m->source >= SOURCES)
		return -EBADMSG;
	if (!isfinite(m->v))
		return 0;
	x->v = m->v;
	x->state = (enum value_state)m->state;
	x->source = (enum value_source)m->source;
	return 0;
}

/* NAN where there is none. */
static int maybe_unpack(double *out, const Moetop__Value *m)
{
	struct value x = { 0 };
	int err = value_unpack(&x, m);

	*out = value_known(x) ? x.v : NAN;
	return err;
}

static void text_unpack(char *out, size_t room, const char *s)
{
	size_t n = s ? strnlen(s, room - 1) : 0;

	memcpy(out, s ? s : "", n);
	memset(out + n, 0, room - n);
}

static int fields_unpack(const struct shape *shape, char *to,
			 const char *message);

static int rows_unpack(const struct field *f, char *to, const char *message)
{
	size_t n;
	void *const *rows;
	unsigned count;
	int err = 0;

	memcpy(&n, message + f->message_n_at, sizeof(n));
	memcpy(&rows, message + f->message_at, sizeof(rows));
	if (n > f->max)
		return -EBADMSG;
	for (size_t i = 0; !err && i < n; i++)
		err = fields_unpack(f->row, to + f->at + i * f->row->bytes,
				    rows[i]);
	count = (unsigned)n;
	memcpy(to + f->n_at, &count, sizeof(count));
	return err;
}

static int field_unpack(const struct field *f, char *to, const char *message)
{
	char *at = to + f->at;
	const char *from = message + f->message_at;
	const void *pointer;
	uint32_t n;
	uint16_t u16;
	double v;
	bool b;

	switch (f->type) {
	case TEXT:
		memcpy(&pointer, from, sizeof(pointer));
		text_unpack(at, f->bytes, pointer);
		return 0;
	case VALUE:
		memcpy(&pointer, from, sizeof(pointer));
		return value_unpack((struct value *)(void *)at, pointer);
	case MAYBE:
		memcpy(&pointer, from, sizeof(pointer));
		return maybe_unpack((double *)(void *)at, pointer);
	case BOOL:
		b = *(const protobuf_c_boolean *)(const void *)from;
		memcpy(at, &b, sizeof(b));
		return 0;
	case DOUBLE:
		memcpy(&v, from, sizeof(v));
		memcpy(at, &v, sizeof(v));
		return isfinite(v) ? 0 : -EBADMSG;
	case U16:
		memcpy(&n, from, sizeof(n));
		u16 = (uint16_t)n;
		memcpy(at, &u16, sizeof(u16));
		return n <= UINT16_MAX ? 0 : -EBADMSG;
	case U32:
		memcpy(&n, from, sizeof(n));
		memcpy(at, &n, sizeof(n));
		return n <= f->max ? 0 : -EBADMSG;
	case U64:
	case I32:
		memcpy(at, from, f->bytes);
		return 0;
	case LIST:
		return rows_unpack(f, to, message);
	}
	return -EBADMSG;
}

static int fields_unpack(const struct shape *shape, char *to,
			 const char *message)
{
	int err = 0;

	for (unsigned i = 0; !err && i < shape->n; i++)
		err = field_unpack(&shape->fields[i], to, message);
	return err;
}

static int metrics_unpack(struct snapshot *s, const Moetop__Snapshot *m)
{
	int err = 0;

	for (size_t i = 0; !err && i < m->n_metrics; i++) {
		const Moetop__Metric *x = m->metrics[i];
		Moetop__Value value = MOETOP__VALUE__INIT;

		value.v = x->v;
		value.state = x->state;
		value.source = x->source;
		for (unsigned id = 0; id < METRICS; id++)
			if (strcmp(metric_info[id].key, x->id) == 0)
				err = value_unpack(&s->metrics[id], &value);
	}
	return err;
}

static int histograms_unpack(struct snapshot *s, const Moetop__Snapshot *m)
{
	int err = 0;

	for (size_t i = 0; !err && i < m->n_histograms; i++) {
		const Moetop__Histogram *x = m->histograms[i];

		for (unsigned id = 0; !err && id < HISTOGRAMS; id++) {
			struct snapshot_hist *h = &s->hists[id];

			if (strcmp(histogram_info[id].key, x->id) != 0)
				continue;
			err = value_unpack(&h->count, x->count);
			err = err ? err : value_unpack(&h->sum, x->sum);
			err = err ? err : value_unpack(&h->p50, x->p50);
			err = err ? err : value_unpack(&h->p90, x->p90);
			err = err ? err : value_unpack(&h->p99, x->p99);
			err = err ? err : buckets_unpack(x, h);
		}
	}
	return err;
}

/* Names that a later version invented read as unknown. */
static void regime_unpack(struct snapshot *s, const Moetop__Snapshot *m)
{
	for (unsigned r = REGIME_UNKNOWN + 1; r < REGIMES; r++)
		if (strcmp(regime_name((enum regime)r), m->regime) == 0)
			s->regime = (enum regime)r;
	for (unsigned i = SIDE_NEAR; i <= SIDE_FAR; i++)
		if (strcmp(side_name((enum side)i), m->side) == 0)
			s->side = (enum side)i;
}

static int rest_unpack(struct snapshot *s, const Moetop__Snapshot *m)
{
	int err = 0;

	if (m->n_group_share > GROUP_SHARES || m->n_verdict > VERDICTS ||
	    (m->health && m->health->n_tiers > SNAPSHOT_TIERS))
		return -EBADMSG;
	regime_unpack(s, m);
	if (m->target)
		err = fields_unpack(&target_shape, (char *)&s->target,
				    (const char *)m->target);
	if (!err && m->health)
		err = fields_unpack(&health_shape, (char *)&s->health,
				    (const char *)m->health);
	for (size_t i = 0; !err && m->health && i < m->health->n_tiers; i++)
		err = fields_unpack(&tier_shape, (char *)&s->health.tiers[i],
				    (const char *)m->health->tiers[i]);
	for (size_t i = 0; !err && i < m->n_group_share; i++)
		err = value_unpack(&s->group_share[i], m->group_share[i]);
	for (size_t i = 0; i < m->n_verdict; i++)
		text_unpack(s->verdict[i], sizeof(s->verdict[i]),
			    m->verdict[i]);
	return err;
}

/* A part that need not be there. */
static int part_unpack(const struct shape *shape, void *to, const void *m)
{
	return m ? fields_unpack(shape, to, m) : 0;
}

static int parts_unpack(struct snapshot *s, const Moetop__Snapshot *m)
{
	int err = part_unpack(&whatif_shape, &s->what_if_base, m->what_if_base);

	err = err ? err : part_unpack(&bytes_shape, &s->bytes, m->bytes);
	err = err ? err
		  : part_unpack(&requests_shape, &s->requests, m->requests);
	if (!err && m->requests)
		err = counts_unpack(m->requests, &s->requests);
	return err;
}

/* A small file can ask for a lot of memory: two bytes make a message. */
struct budget {
	size_t left;
};

static void *budget_alloc(void *cls, size_t bytes)
{
	struct budget *b = cls;

	if (bytes > b->left)
		return NULL;
	b->left -= bytes;
	return malloc(bytes);
}

static void budget_free(void *cls, void *p)
{
	(void)cls;
	free(p);
}

int recording_unpack(const struct recording_kept *before, const uint8_t *data,
		     size_t bytes, struct snapshot *s)
{
	struct budget b = { UNPACK_BYTES_MAX };
	ProtobufCAllocator allocator = { budget_alloc, budget_free, &b };
	struct snapshot *new = calloc(1, sizeof(*new));
	Moetop__Snapshot *m = NULL;
	int err = new ? 0 : -ENOMEM;

	if (!err) {
		m = moetop__snapshot__unpack(&allocator, bytes, data);
		err = m ? 0 : -EBADMSG;
	}
	if (!err)
		err = fields_unpack(&snapshot_shape, (char *)new,
				    (const char *)m);
	err = err ? err : metrics_unpack(new, m);
	err = err ? err : histograms_unpack(new, m);
	err = err ? err : rest_unpack(new, m);
	err = err ? err : parts_unpack(new, m);
	err = err ? err : large_unpack(before, m, new);
	if (!err)
		*s = *new;
	if (m)
		moetop__snapshot__free_unpacked(m, &allocator);
	free(new);
	return err;
}
