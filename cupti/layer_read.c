#include "cupti/adapters.h"

#include <errno.h>
#include <string.h>

#include "wire/record.h"

#define TILE_MAX 1024u
#define FUSED_MAX 8u /* shared experts that are fused into the routed ones */

/* One launch as its adapter reads it; numbers that it does not tell are 0. */
struct view {
	const struct row_adapter *a;
	const struct function *f;
	uint64_t ids, data[ROW_PARTS];
	uint64_t rows, k, experts, numel, tile, here, ranks;
	bool shifted; /* `experts` counts from another than the first */
};

/* ---- one launch ------------------------------------------------------------ */

static uint64_t word_at(const struct launch *l, const struct function *f,
			int arg)
{
	uint64_t v = l->arg[arg];

	/* Captured before the sizes were known: eight bytes of each. */
	return f->bytes[arg] == 4 ? (uint32_t)v : v;
}

static uint64_t member_at(const struct launch *l, int offset, bool pointer)
{
	uint64_t v = 0;
	size_t bytes = pointer ? 8 : 4;

	if ((size_t)offset + bytes <= l->args * sizeof(l->arg[0]))
		memcpy(&v, (const char *)l->arg + offset, bytes);
	return v;
}

static uint64_t read_arg(const struct view *v, const struct launch *l,
			 int16_t where, bool pointer)
{
	int i;

	switch (where) {
	case ARG_NONE:
		return 0;
	case ARG_GRID_X:
		return l->grid_x;
	case ARG_ONE:
		return 1;
	case ARG_SECOND_INT:
	case ARG_FOURTH_INT:
		i = where == ARG_SECOND_INT ? 1 : 3;
		return i < v->f->ints ? word_at(l, v->f, v->f->pointers + i)
				      : 0;
	case ARG_BLOCK_EXPERTS:
		return v->f->pointers >= 2 ? l->arg[v->f->pointers - 2] : 0;
	default:
		break;
	}
	if (v->a->sizes[0] == 's')
		return member_at(l, where - 1, pointer);
	return word_at(l, v->f, where - 1);
}

/* 0, -EAGAIN, or -EINVAL: its function or its arguments are not known. */
static int look(const struct functions *t, const struct launch *l,
		struct view *v)
{
	const struct function *f = &t->slot[l->function % FUNCTIONS_MAX];
	int state = atomic_load_explicit(&f->state, memory_order_acquire);
	uint64_t first;

	if (state == FUNCTION_PENDING)
		return -EAGAIN;
	if (state != FUNCTION_READY || !l->args || l->args < f->args)
		return -EINVAL;
	*v = (struct view){ .a = adapter_at(f->adapter), .f = f };
	v->ids = read_arg(v, l, v->a->ids, true);
	for (unsigned i = 0; i < ROW_PARTS; i++)
		v->data[i] = read_arg(v, l, v->a->data[i], true);
	v->rows = read_arg(v, l, v->a->rows, false);
	v->k = read_arg(v, l, v->a->k, false);
	v->experts = read_arg(v, l, v->a->experts, false);
	v->numel = read_arg(v, l, v->a->numel, false);
	v->tile = read_arg(v, l, v->a->tile, false);
	v->here = read_arg(v, l, v->a->here, false);
	v->ranks = read_arg(v, l, v->a->ranks, false);
	first = read_arg(v, l, v->a->first_expert, false);
	v->shifted = first != 0;
	v->experts -= v->experts >= v->a->extra ? v->a->extra : 0;
	return 0;
}

static bool can_be(const struct view *v)
{
	return v->rows <= ROW_TOKENS_MAX && v->k <= ROW_K_MAX &&
	       v->experts <= EXPERTS_MAX &&
	       v->numel <= (uint64_t)ROW_TOKENS_MAX * ROW_K_MAX &&
	       v->tile <= TILE_MAX && v->here <= EXPERTS_MAX &&
	       v->ranks <= EXPERTS_MAX;
}

bool launch_opens(const struct functions *t, const struct launch *l)
{
	return t->slot[l->function % FUNCTIONS_MAX].role == ROLE_CHOOSE;
}

static enum row_role role_of(const struct functions *t, const struct launch *l)
{
	return (enum row_role)t->slot[l->function % FUNCTIONS_MAX].role;
}

size_t layer_length(const struct functions *t, const struct launch *l, size_t n)
{
	bool opened = n && launch_opens(t, l), experts = false;

	for (size_t i = 0; i < n; i++) {
		bool direct = role_of(t, &l[i]) == ROLE_DIRECT;

		if (i &&
		    (launch_opens(t, &l[i]) || (experts && !direct) ||
		     (!opened && !direct && l[i].function == l[0].function)))
			return i;
		experts |= direct;
	}
	return n;
}

/* ---- all launches of a layer ------------------------------------------------ */

struct reading {
	struct view v[LAYER_LAUNCHES];
	uint8_t launch[LAYER_LAUNCHES]; /* index of each among the layer's */
	size_t n;
	uint64_t ids, rows, k,
		experts; /* of the ids, as far as they are told */
	uint8_t bytes;
	size_t settle;
	bool aligned, appended, clash;
};

/* The kernel that writes the ids, else the first that reads them. */
static const struct view *find_ids(const struct reading *r, size_t *at)
{
	static const enum row_role order[] = { ROLE_CHOOSE, ROLE_READ,
					       ROLE_COUNT, ROLE_ARRIVE };

	for (size_t o = 0; o < sizeof(order) / sizeof(order[0]); o++)
		for (size_t i = 0; i < r->n; i++)
			if (r->v[i].a->role == order[o] && r->v[i].ids &&
			    r->v[i].a->what != ROWS_BLOCKS) {
				*at = i;
				return &r->v[i];
			}
	return NULL;
}

static void learn(uint64_t *known, uint64_t told, bool *clash)
{
	if (!told)
		return;
	*clash |= *known && *known != told;
	*known = told;
}

/* What others say of the same ids. */
static void hear(struct reading *r, const struct view *v, size_t i,
		 bool is_writer)
{
	bool bounds = v->a->role != ROLE_REMAP && !v->shifted;

	/* A dispatch takes them as other numbers, of another size. */
	if (v->ids != r->ids && v->rows == r->rows && v->ids &&
	    (v->a->role == ROLE_ARRIVE || v->f->id_bytes == 8) &&
	    r->bytes != 8) {
		r->k = r->k ? r->k : v->k;
		r->experts = r->experts ? r->experts : v->experts;
	}
	if (v->ids != r->ids || v->a->role == ROLE_DIRECT)
		return;
	if (v->a->role == ROLE_FINISH) {
		r->settle = i;
		return;
	}
	r->aligned |= v->a->role == ROLE_READ;
	learn(&r->rows, v->rows, &r->clash);
	learn(&r->k, v->k, &r->clash);
	/* A count of this rank's experts bounds no ids. */
	if (bounds && (is_writer || !r->experts))
		learn(&r->experts, v->experts, &r->clash);
}

/* rows x k by another name: fill in what is missing. */
static void hear_numel(struct reading *r, const struct view *v)
{
	if ((v->ids != r->ids && v->a->role != ROLE_DIRECT) || !v->numel)
		return;
	if (!r->k && r->rows && v->numel % r->rows == 0)
		r->k = v->numel / r->rows;
	if (!r->rows && r->k && v->numel % r->k == 0)
		r->rows = v->numel / r->k;
	r->clash |= v->ids == r->ids && r->rows && r->k &&
		    r->rows * r->k != v->numel;
}

/* Does a launch say how many rows there are, as the others do? */
static bool confirms(const struct reading *r, const struct view *v)
{
	if (v->rows == r->rows && v->rows)
		return true;
	if (!v->numel)
		return false;
	if (v->numel == r->rows * r->k)
		return true;
	/* Shared experts were appended, and all after that is of more ids. */
	return r->appended && (v->numel == r->rows * (r->k + 1) ||
			       v->numel == r->rows * (r->k + 2));
}

/* One argument may be another's in the next release: the number of rows is
 * believed from two kernels, or from the size of a grid. */
static bool is_confirmed(const struct reading *r)
{
	const struct view *first = NULL;

	for (size_t i = 0; i < r->n; i++) {
		const struct view *v = &r->v[i];

		if (!confirms(r, v))
			continue;
		if (v->a->rows == ARG_GRID_X ||
		    (first && v->a->name != first->a->name))
			return true;
		first = v;
	}
	return false;
}

/* The model's own numbers, where they are known, must fit those told. */
static int set_experts(const struct reading *r, const struct model_hint *hint,
		       bool writer, struct moe_launch *m)
{
	uint64_t wide = r->experts;

	if (!hint->experts) {
		m->experts = m->wide = (uint32_t)wide;
		return wide ? 0 : -EINVAL;
	}
	m->experts = m->wide = hint->experts;
	if (!writer || !wide)
		return 0;
	/* More: shared experts that are fused, or experts without weights. */
	if (wide < hint->experts || wide > 2ull * hint->experts)
		return -EINVAL;
	m->wide = (uint32_t)wide;
	return 0;
}

static int check_k(uint64_t k, const struct model_hint *hint,
		   struct moe_launch *m)
{
	if (hint->top_k && (k < hint->top_k || k > hint->top_k + FUSED_MAX))
		return -EINVAL;
	if (!hint->top_k || k == hint->top_k)
		return 0;
	/* Their experts come after the routed ones, though none was told of. */
	m->fused = (uint8_t)(k - hint->top_k);
	if (m->wide == m->experts)
		m->wide += FUSED_MAX;
	return 0;
}

/* All that the launches say of the ids at r->ids. */
static void hear_all(struct reading *r, const struct view *from, size_t at,
		     const struct model_hint *hint)
{
	hear(r, from, at, true);
	for (size_t i = 0; i < r->n; i++) {
		if (&r->v[i] != from)
			hear(r, &r->v[i], i, false);
		r->appended |= strstr(r->v[i].a->name, "_append_") != NULL;
	}
	if (!r->k && hint->top_k)
		r->k = hint->top_k;
	for (size_t turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < r->n; i++)
			hear_numel(r, &r->v[i]);
}

static int read_ids(struct reading *r, const struct model_hint *hint,
		    struct layer_rows_at *out)
{
	struct moe_launch m = { .what = ROWS_IDS };
	const struct view *from;
	size_t at = 0;

	from = find_ids(r, &at);
	if (!from)
		return -ENOENT;
	r->ids = from->ids;
	r->settle = at;
	r->bytes = from->f->id_bytes;
	/* Of counts the number's size is not that of the ids. */
	if (from->a->what != ROWS_IDS)
		r->bytes = from->a->role == ROLE_ARRIVE ? 8 : 4;
	hear_all(r, from, at, hint);
	if (r->clash ||
	    set_experts(r, hint, from->a->role == ROLE_CHOOSE, &m) ||
	    check_k(r->k, hint, &m))
		return -EINVAL;
	m.data[0] = r->ids;
	m.rows = (uint32_t)r->rows;
	m.k = (uint32_t)r->k;
	m.bytes = r->bytes;
	if (!row_shape_fits(&m))
		return -EINVAL;
	if (!is_confirmed(r))
		return -ENOENT;
	out->rows = m;
	out->settle = (uint8_t)r->settle;
	return 0;
}

/* ---- counts ------------------------------------------------------------------ */

static struct moe_launch counts_of(const struct view *v,
				   const struct model_hint *hint)
{
	struct moe_launch m = {
		.data = { v->data[0], v->data[1], v->data[2] },
		.rows = (uint32_t)v->rows,
		.k = (uint32_t)(v->k ? v->k : hint->top_k),
		.experts = (uint32_t)v->experts,
		.what = v->a->what,
		.bytes = v->a->bytes,
		.stride = 1,
		.tile = (uint16_t)v->tile,
		.part = v->a->role == ROLE_ARRIVE,
	};

	if (v->here)
		m.experts = (uint32_t)v->here;
	if (v->ranks)
		m.experts = (uint32_t)(v->experts / v->ranks);
	if (!m.experts && !m.part)
		m.experts = hint->experts;
	/* Only some of the model's: no whole tokens. */
	if (hint->experts && m.experts < hint->experts)
		m.part = true;
	if (v->here && v->here < v->experts)
		m.part = true;
	m.wide = m.experts;
	return m;
}

/* The most that any launch of the layer tells; 0 unknown. */
static uint32_t rows_told(const struct reading *r, uint32_t k)
{
	uint64_t rows = 0, told;

	for (size_t i = 0; i < r->n; i++) {
		told = r->v[i].rows;
		if (!told && k && r->v[i].numel % k == 0)
			told = r->v[i].numel / k;
		if (told > rows)
			rows = told;
	}
	return rows <= ROW_TOKENS_MAX ? (uint32_t)rows : 0;
}

/* Counts of all experts, where the ids themselves cannot be had. */
static int read_counts(const struct reading *r, const struct model_hint *hint,
		       struct layer_rows_at *out)
{
	for (size_t i = r->n; i-- > 0;) {
		const struct view *v = &r->v[i];
		struct moe_launch m;

		if (v->a->role != ROLE_COUNT)
			continue;
		m = counts_of(v, hint);
		if (!m.rows)
			m.rows = rows_told(r, m.k);
		if ((hint->experts && v->experts &&
		     v->experts != hint->experts) ||
		    !row_shape_fits(&m) || m.part)
			continue;
		out->rows = m;
		out->settle = (uint8_t)i;
		return 0;
	}
	return -EINVAL;
}

/* The experts that do the work, if those are not the routed ones: replicas, or
 * those of this rank for the tokens of all. */
static void read_placed(const struct reading *r, const struct model_hint *hint,
			struct layer_rows_at *out)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct view *v = &r->v[i];
		struct moe_launch m = { 0 };

		if (v->a->role == ROLE_ARRIVE) {
			m = counts_of(v, hint);
			m.part = true;
		} else if (v->a->role == ROLE_REMAP && v->ids == r->ids) {
			m = out->rows;
			m.data[0] = v->data[0];
			m.experts = m.wide = (uint32_t)v->experts;
			m.bytes = v->a->bytes;
		} else {
			continue;
		}
		if (row_shape_fits(&m) && m.experts)
			out->placed = m;
	}
}

/* Without alignment the ids themselves, of replicas where there are such, name
 * the expert of a block. */
static bool is_direct(const struct reading *r, const struct layer_rows_at *at)
{
	if (r->aligned || at->rows.what != ROWS_IDS)
		return false;
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].a->role == ROLE_DIRECT &&
		    (r->v[i].ids == r->ids ||
		     (at->placed.what == ROWS_IDS &&
		      r->v[i].ids == at->placed.data[0])))
			return true;
	return false;
}

int layer_read(const struct functions *t, const struct launch *l, size_t n,
	       const struct model_hint *hint, struct layer_rows_at *out)
{
	struct layer_rows_at at = { 0 };
	struct reading r = { 0 };
	int err;

	for (size_t i = 0; i < n && i < LAYER_LAUNCHES; i++) {
		struct view *v = &r.v[r.n];

		err = look(t, &l[i], v);
		if (err == -EAGAIN)
			return err;
		if (!err && !can_be(v))
			return -EINVAL;
		r.launch[r.n] = (uint8_t)i;
		r.n += err == 0;
	}
	err = read_ids(&r, hint, &at);
	if (err == -ENOENT)
		err = read_counts(&r, hint, &at);
	if (err)
		return err;
	at.settle = r.launch[at.settle];
	at.stage = l[at.settle].stage;
	read_placed(&r, hint, &at);
	at.direct = is_direct(&r, &at);
	*out = at;
	return 0;
}
