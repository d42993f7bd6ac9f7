#include "exporter/recording_large.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "wire/kernel_class.h"

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

/* protobuf-c wants pointers it could write to, and only reads. */
static void *borrow(const void *p)
{
	return (void *)(uintptr_t)p;
}

/* ---- what is kept --------------------------------------------------------- */

static unsigned layers_of(const struct snapshot *s)
{
	return s->n_layers < SNAPSHOT_LAYERS_MAX ? s->n_layers
						 : SNAPSHOT_LAYERS_MAX;
}

static unsigned classes_of(const struct snapshot_layer *l)
{
	return l->n_classes < SNAPSHOT_LAYER_CLASSES_MAX
		       ? l->n_classes
		       : SNAPSHOT_LAYER_CLASSES_MAX;
}

static size_t cells_of(const struct snapshot_experts *e)
{
	size_t n = (size_t)e->n_layers * e->n_experts;

	return n < SNAPSHOT_EXPERT_CELLS_MAX ? n : SNAPSHOT_EXPERT_CELLS_MAX;
}

void recording_keep(struct recording_kept *k, const struct snapshot *s)
{
	size_t cells = cells_of(&s->experts);

	k->experts.n_layers = s->experts.n_layers;
	k->experts.n_experts = s->experts.n_experts;
	memcpy(k->experts.rows, s->experts.rows,
	       cells * sizeof(s->experts.rows[0]));
	k->n_layers = layers_of(s);
	for (unsigned i = 0; i < k->n_layers; i++) {
		k->n_classes[i] = classes_of(&s->layers[i]);
		memcpy(k->classes[i], s->layers[i].classes,
		       k->n_classes[i] * sizeof(k->classes[i][0]));
	}
}

static bool same_experts(const struct recording_kept *k,
			 const struct snapshot_experts *e)
{
	return k->experts.n_layers == e->n_layers &&
	       k->experts.n_experts == e->n_experts &&
	       !memcmp(k->experts.rows, e->rows,
		       cells_of(e) * sizeof(e->rows[0]));
}

static bool same_class(const struct snapshot_layer_class *a,
		       const struct snapshot_layer_class *b)
{
	return a->id == b->id &&
	       !memcmp(&a->calls_per_step, &b->calls_per_step,
		       sizeof(a->calls_per_step)) &&
	       !memcmp(&a->seconds_per_step, &b->seconds_per_step,
		       sizeof(a->seconds_per_step)) &&
	       !memcmp(&a->sum_seconds_per_step, &b->sum_seconds_per_step,
		       sizeof(a->sum_seconds_per_step));
}

static bool same_classes(const struct recording_kept *k,
			 const struct snapshot *s)
{
	if (k->n_layers != layers_of(s))
		return false;
	for (unsigned i = 0; i < k->n_layers; i++) {
		const struct snapshot_layer *l = &s->layers[i];

		if (k->n_classes[i] != classes_of(l))
			return false;
		for (unsigned c = 0; c < k->n_classes[i]; c++)
			if (!same_class(&k->classes[i][c], &l->classes[c]))
				return false;
	}
	return true;
}

/* ---- packing -------------------------------------------------------------- */

static void layer_pack(struct arena *a, const struct snapshot_layer *l,
		       Moetop__Layer *m)
{
	unsigned n = classes_of(l);
	uint32_t *id = arena_take(a, n * sizeof(*id));
	float *calls = arena_take(a, n * sizeof(*calls));
	float *seconds = arena_take(a, n * sizeof(*seconds));
	float *sums = arena_take(a, n * sizeof(*sums));

	if (!id || !calls || !seconds || !sums)
		return;
	for (unsigned i = 0; i < n; i++) {
		id[i] = l->classes[i].id < CLASSES ? l->classes[i].id
						   : CLASS_OTHER;
		calls[i] = l->classes[i].calls_per_step;
		seconds[i] = l->classes[i].seconds_per_step;
		sums[i] = l->classes[i].sum_seconds_per_step;
	}
	m->n_class_id = m->n_class_calls_per_step = n;
	m->n_class_seconds_per_step = m->n_class_sum_seconds_per_step = n;
	m->class_id = id;
	m->class_calls_per_step = calls;
	m->class_seconds_per_step = seconds;
	m->class_sum_seconds_per_step = sums;
}

static void classes_pack(struct arena *a, const struct snapshot *s, bool layers,
			 Moetop__Snapshot *m)
{
	bool any = false;

	for (size_t i = 0; layers && i < m->n_layers; i++) {
		layer_pack(a, &s->layers[i], m->layers[i]);
		any |= m->layers[i]->n_class_id > 0;
	}
	for (size_t i = 0; i < m->n_draft; i++) {
		layer_pack(a, &s->draft[i], m->draft[i]);
		any |= m->draft[i]->n_class_id > 0;
	}
	if (!any)
		return;
	m->n_layer_class_names = CLASSES;
	m->layer_class_names = borrow(class_names);
}

static void experts_pack(struct arena *a, const struct snapshot_experts *e,
			 Moetop__Snapshot *m)
{
	if (!cells_of(e))
		return;
	m->experts = arena_message(a, &moetop__experts__descriptor);
	if (!m->experts)
		return;
	m->experts->layers = e->n_layers;
	m->experts->experts = e->n_experts;
	m->experts->n_rows = cells_of(e);
	m->experts->rows = borrow(e->rows);
}

void large_pack(struct arena *a, const struct recording_kept *before,
		const struct snapshot *s, Moetop__Snapshot *m)
{
	m->same_classes = before && same_classes(before, s);
	m->same_experts = before && same_experts(before, &s->experts);
	classes_pack(a, s, !m->same_classes, m);
	if (!m->same_experts)
		experts_pack(a, &s->experts, m);
}

void buckets_pack(struct arena *a, const struct snapshot_hist *h,
		  Moetop__Histogram *m)
{
	unsigned n = h->n_buckets < SNAPSHOT_BUCKETS_MAX ? h->n_buckets
							 : SNAPSHOT_BUCKETS_MAX;
	double *upper = arena_take(a, n * sizeof(*upper));
	uint64_t *count = arena_take(a, n * sizeof(*count));

	if (!upper || !count)
		return;
	for (unsigned i = 0; i < n; i++) {
		upper[i] = h->buckets[i].upper;
		count[i] = h->buckets[i].count;
	}
	m->n_bucket_upper = m->n_bucket_count = n;
	m->bucket_upper = upper;
	m->bucket_count = count;
}

void counts_pack(struct arena *a, const struct snapshot_requests *r,
		 Moetop__Requests *m)
{
	uint64_t *counts = arena_take(a, sizeof(r->counts));

	if (!counts)
		return;
	memcpy(counts, r->counts, sizeof(r->counts));
	m->n_counts = SNAPSHOT_ENDPOINTS * REQUEST_COUNTS;
	m->counts = counts;
}

/* ---- unpacking ------------------------------------------------------------ */

/* A class of another version that is no longer here is other. */
static unsigned class_of(const Moetop__Snapshot *m, uint32_t id)
{
	for (unsigned i = 0; id < m->n_layer_class_names && i < CLASSES; i++)
		if (!strcmp(class_names[i], m->layer_class_names[id]))
			return i;
	return CLASS_OTHER;
}

static int layer_unpack(const Moetop__Snapshot *m, const Moetop__Layer *from,
			struct snapshot_layer *l)
{
	size_t n = from->n_class_id;

	if (n > SNAPSHOT_LAYER_CLASSES_MAX ||
	    from->n_class_calls_per_step != n ||
	    from->n_class_seconds_per_step != n ||
	    from->n_class_sum_seconds_per_step != n)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		struct snapshot_layer_class *c = &l->classes[i];

		c->id = class_of(m, from->class_id[i]);
		c->calls_per_step = from->class_calls_per_step[i];
		c->seconds_per_step = from->class_seconds_per_step[i];
		c->sum_seconds_per_step = from->class_sum_seconds_per_step[i];
		if (!isfinite(c->calls_per_step) ||
		    !isfinite(c->seconds_per_step) ||
		    !isfinite(c->sum_seconds_per_step))
			return -EBADMSG;
	}
	l->n_classes = (unsigned)n;
	return 0;
}

static void classes_restore(const struct recording_kept *k, struct snapshot *s)
{
	for (unsigned i = 0; i < s->n_layers && i < k->n_layers; i++) {
		s->layers[i].n_classes = k->n_classes[i];
		memcpy(s->layers[i].classes, k->classes[i],
		       k->n_classes[i] * sizeof(k->classes[i][0]));
	}
}

static int experts_unpack(const Moetop__Experts *m, struct snapshot_experts *e)
{
	uint64_t cells = (uint64_t)m->layers * m->experts;

	if (cells > SNAPSHOT_EXPERT_CELLS_MAX || m->n_rows != cells)
		return -EBADMSG;
	if (!cells)
		return 0;
	e->n_layers = m->layers;
	e->n_experts = m->experts;
	memcpy(e->rows, m->rows, cells * sizeof(e->rows[0]));
	return 0;
}

int large_unpack(const struct recording_kept *before, const Moetop__Snapshot *m,
		 struct snapshot *s)
{
	int err = 0;

	for (size_t i = 0; !err && i < m->n_layers; i++)
		err = layer_unpack(m, m->layers[i], &s->layers[i]);
	for (size_t i = 0; !err && i < m->n_draft; i++)
		err = layer_unpack(m, m->draft[i], &s->draft[i]);
	if (!err && m->experts)
		err = experts_unpack(m->experts, &s->experts);
	if (err || !before)
		return err;
	if (m->same_classes)
		classes_restore(before, s);
	if (m->same_experts && !m->experts) {
		s->experts.n_layers = before->experts.n_layers;
		s->experts.n_experts = before->experts.n_experts;
		memcpy(s->experts.rows, before->experts.rows,
		       cells_of(&before->experts) * sizeof(s->experts.rows[0]));
	}
	return 0;
}

int buckets_unpack(const Moetop__Histogram *m, struct snapshot_hist *h)
{
	if (m->n_bucket_upper > SNAPSHOT_BUCKETS_MAX ||
	    m->n_bucket_upper != m->n_bucket_count)
		return -EBADMSG;
	h->n_buckets = (unsigned)m->n_bucket_upper;
	for (unsigned i = 0; i < h->n_buckets; i++) {
		h->buckets[i].upper = m->bucket_upper[i];
		h->buckets[i].count = m->bucket_count[i];
		if (!isfinite(m->bucket_upper[i]) ||
		    (i && !(m->bucket_upper[i] > m->bucket_upper[i - 1])))
			return -EBADMSG;
	}
	return 0;
}

/* Counts that a later version adds to an endpoint come after these. */
int counts_unpack(const Moetop__Requests *m, struct snapshot_requests *r)
{
	if (m->n_counts > SNAPSHOT_ENDPOINTS * REQUEST_COUNTS)
		return -EBADMSG;
	if (m->n_counts)
		memcpy(r->counts, m->counts,
		       m->n_counts * sizeof(m->counts[0]));
	return 0;
}
