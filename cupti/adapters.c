#include "cupti/adapters.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "wire/record.h"

static const struct row_adapter adapters[] = {
#define ROW_ADAPTER(name_, sizes_, ...) \
	{ .name = name_, .sizes = sizes_, __VA_ARGS__ },
#include "cupti/row_adapters.def"
#undef ROW_ADAPTER
};
#define ADAPTERS (sizeof(adapters) / sizeof(adapters[0]))

#define ROWS_MAX (1u << 20) /* tokens of one launch */
#define TOP_K_MAX 64u

/* ---- names --------------------------------------------------------------- */

static size_t find_adapter(const char *name)
{
	for (size_t i = 0; i < ADAPTERS; i++)
		if (strstr(name, adapters[i].name))
			return i;
	return ADAPTERS;
}

/* One template argument of an Itanium-mangled list; NULL at its end. */
static const char *skip_argument(const char *p)
{
	size_t len = 0;

	if (*p == 'L') {
		p = strchr(p, 'E');
		return p ? p + 1 : NULL;
	}
	if (isdigit((unsigned char)*p)) {
		while (isdigit((unsigned char)*p) && len < 1000)
			len = len * 10 + (size_t)(*p++ - '0');
		return strnlen(p, len) == len ? p + len : NULL;
	}
	return islower((unsigned char)*p) ? p + 1 : NULL;
}

uint8_t adapter_id_bytes(const char *mangled, const char *identifier)
{
	const char *p = strstr(mangled, identifier);

	if (!p)
		return 4;
	p = strchr(p, 'I');
	if (!p)
		return 4;
	for (p++; p; p = skip_argument(p)) {
		if (*p == 'i' || *p == 'j')
			return 4;
		if (*p == 'l' || *p == 'm')
			return 8;
	}
	return 4;
}

/* ---- the table of functions ---------------------------------------------- */

static size_t hash_handle(const void *handle)
{
	uint64_t h = (uint64_t)(uintptr_t)handle * 0x9fb21c651e98df25ull;

	return (size_t)(h >> 40) & (FUNCTIONS_MAX - 1);
}

static void describe(struct functions *t, struct function *f, const char *name)
{
	size_t i = find_adapter(name);

	if (i == ADAPTERS) {
		atomic_store_explicit(&f->state, FUNCTION_PLAIN,
				      memory_order_release);
		return;
	}
	f->family = f->adapter = (uint8_t)i;
	f->align = adapters[i].align;
	f->args = LAUNCH_ARGS;
	f->id_bytes = adapter_id_bytes(name, adapters[i].name);
	atomic_store_explicit(&f->state, FUNCTION_PENDING,
			      memory_order_release);
	atomic_fetch_add_explicit(&t->pending, 1, memory_order_release);
}

struct function *functions_get(struct functions *t, void *handle, bool stub,
			       const char *name)
{
	size_t i = hash_handle(handle);

	for (size_t n = 0; n < 64; n++, i = (i + 1) & (FUNCTIONS_MAX - 1)) {
		struct function *f = &t->slot[i];
		void *seen =
			atomic_load_explicit(&f->handle, memory_order_acquire);

		if (seen == handle)
			return f;
		if (seen)
			continue;
		if (!handle || !name)
			return NULL;
		if (!atomic_compare_exchange_strong(&f->handle, &seen,
						    handle)) {
			if (seen == handle)
				return f;
			continue;
		}
		atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
		f->stub = stub;
		describe(t, f, name);
		return f;
	}
	atomic_fetch_add_explicit(&t->overflow, 1, memory_order_relaxed);
	return NULL;
}

bool function_is_named(const struct function *f, const char *name)
{
	return name && strstr(name, adapters[f->family].name);
}

/* ---- arguments ----------------------------------------------------------- */

/* Values behind pointers that may be wild: the kernel checks each of them and
 * stops at the first that faults. */
static uint32_t read_unsure(uint64_t *out, void *const *params)
{
	void *values[LAUNCH_ARGS];
	struct iovec to = { values, sizeof(values) };
	struct iovec from[LAUNCH_ARGS] = { { (void *)params, sizeof(values) } };
	pid_t self = getpid();
	uint32_t n = LAUNCH_ARGS;
	ssize_t got = process_vm_readv(self, &to, 1, from, 1, 0);

	if (got < (ssize_t)sizeof(values[0]))
		return 0;
	if ((size_t)got < sizeof(values))
		n = (uint32_t)((size_t)got / sizeof(values[0]));
	for (uint32_t i = 0; i < n; i++)
		from[i] = (struct iovec){ values[i], sizeof(out[0]) };
	to = (struct iovec){ out, n * sizeof(out[0]) };
	got = process_vm_readv(self, &to, 1, from, n, 0);
	return got > 0 ? (uint32_t)((size_t)got / sizeof(out[0])) : 0;
}

static uint32_t read_sure(uint64_t *out, const struct function *f,
			  void *const *params)
{
	for (uint32_t i = 0; i < f->args; i++) {
		out[i] = 0;
		memcpy(&out[i], params[i], f->bytes[i]);
	}
	return f->args;
}

void launch_capture(struct launch *l, const struct functions *t,
		    const struct function *f, void *const *params,
		    uint32_t grid_x)
{
	int state = atomic_load_explicit(&f->state, memory_order_acquire);

	l->function = (uint32_t)(f - t->slot);
	l->grid_x = grid_x;
	l->args = 0;
	if (!params)
		return;
	if (state == FUNCTION_READY)
		l->args = read_sure(l->arg, f, params);
	else if (state == FUNCTION_PENDING)
		l->args = read_unsure(l->arg, params);
}

/* ---- validation ---------------------------------------------------------- */

static uint8_t param_bytes(const struct cuda_api *cuda, void *f, size_t i)
{
	size_t offset, bytes = 0;

	if (cuda->func_param_info &&
	    cuda->func_param_info(f, i, &offset, &bytes) == 0)
		return bytes <= 8 ? (uint8_t)bytes : 255;
	if (cuda->kernel_param_info &&
	    cuda->kernel_param_info(f, i, &offset, &bytes) == 0)
		return bytes <= 8 ? (uint8_t)bytes : 255;
	return 0;
}

/* All zero, which fits no adapter, when the driver cannot be asked. */
static void read_sizes(const struct cuda_api *cuda, const struct function *f,
		       uint8_t *bytes)
{
	void *handle = f->handle;

	memset(bytes, 0, LAUNCH_ARGS);
	if (f->stub &&
	    (!cuda->func_by_symbol || cuda->func_by_symbol(&handle, f->handle)))
		return;
	for (size_t i = 0; i < LAUNCH_ARGS; i++)
		bytes[i] = param_bytes(cuda, handle, i);
}

static bool size_fits(char want, uint8_t bytes)
{
	if (want == '?')
		return bytes == 4 || bytes == 8;
	return bytes == want - '0';
}

static bool sizes_fit(const char *sizes, const uint8_t *bytes)
{
	for (size_t i = 0; sizes[i]; i++)
		if (i >= LAUNCH_ARGS || !size_fits(sizes[i], bytes[i]))
			return false;
	return true;
}

static enum function_state choose_adapter(struct function *f,
					  const uint8_t *bytes)
{
	const char *name = adapters[f->family].name;

	for (size_t i = f->family; i < ADAPTERS; i++) {
		if (strcmp(adapters[i].name, name) != 0)
			break;
		if (!sizes_fit(adapters[i].sizes, bytes))
			continue;
		f->adapter = (uint8_t)i;
		f->args = (uint8_t)strlen(adapters[i].sizes);
		if (!adapters[i].typed)
			f->id_bytes = 4;
		memcpy(f->bytes, bytes, sizeof(f->bytes));
		return FUNCTION_READY;
	}
	return FUNCTION_REFUSED;
}

int functions_validate(struct functions *t, const struct cuda_api *cuda)
{
	int changed = 0;

	if (atomic_exchange_explicit(&t->pending, 0, memory_order_acquire) == 0)
		return 0;
	for (size_t s = 0; s < FUNCTIONS_MAX; s++) {
		struct function *f = &t->slot[s];
		uint8_t bytes[LAUNCH_ARGS];
		enum function_state state;

		if (atomic_load_explicit(&f->state, memory_order_acquire) !=
		    FUNCTION_PENDING)
			continue;
		read_sizes(cuda, f, bytes);
		state = choose_adapter(f, bytes);
		atomic_store_explicit(&f->state, state, memory_order_release);
		changed++;
	}
	return changed;
}

/* ---- meaning ------------------------------------------------------------- */

static uint64_t value(const struct launch *l, const struct function *f, int arg)
{
	uint64_t v = l->arg[arg];

	/* Captured before the sizes were known: eight bytes of each. */
	return f->bytes[arg] == 4 ? (uint32_t)v : v;
}

static int launch_state(const struct functions *t, const struct launch *l)
{
	const struct function *f = &t->slot[l->function];
	int state = atomic_load_explicit(&f->state, memory_order_acquire);

	if (state == FUNCTION_PENDING)
		return -EAGAIN;
	if (state != FUNCTION_READY || l->args < f->args)
		return -EINVAL;
	return 0;
}

static uint64_t read_rows(const struct row_adapter *a, const struct launch *l,
			  const struct function *f)
{
	if (a->rows == ARG_GRID_X)
		return l->grid_x;
	if (a->rows == ARG_ONE)
		return 1;
	return value(l, f, a->rows);
}

static uint64_t read_experts(const struct row_adapter *a,
			     const struct launch *l, const struct function *f)
{
	uint64_t from = a->first_expert ? value(l, f, a->first_expert) : 0;
	uint64_t to = a->experts ? value(l, f, a->experts) : 0;

	/* A rank's own range does not bound the ids: they are global. */
	return from ? 0 : to - (to >= a->extra ? a->extra : 0);
}

/* What the alignment kernel adds, if it looked at the same ids. */
static void add_align(const struct functions *t, const struct launch *align,
		      uint64_t ids, uint64_t rows, uint64_t *k,
		      uint64_t *experts)
{
	const struct function *f = &t->slot[align->function];
	const struct row_adapter *a = &adapters[f->adapter];
	uint64_t numel;

	if (launch_state(t, align) || value(align, f, a->ids) != ids)
		return;
	numel = value(align, f, a->numel);
	if (!*k && rows && numel % rows == 0)
		*k = numel / rows;
	if (!*experts)
		*experts = read_experts(a, align, f);
}

int launch_read(const struct functions *t, const struct launch *l,
		const struct launch *align, struct moe_launch *out)
{
	const struct function *f = &t->slot[l->function];
	const struct row_adapter *a = &adapters[f->adapter];
	uint64_t ids, rows, k, experts;
	int err = launch_state(t, l);

	if (err)
		return err;
	if (a->align)
		return -EINVAL;
	ids = value(l, f, a->ids);
	rows = read_rows(a, l, f);
	k = a->k ? value(l, f, a->k) : 0;
	experts = read_experts(a, l, f);
	if (align)
		add_align(t, align, ids, rows, &k, &experts);
	if (!ids || !rows || rows > ROWS_MAX || k > TOP_K_MAX ||
	    experts > EXPERTS_MAX)
		return -EINVAL;
	*out = (struct moe_launch){
		.ids = ids,
		.rows = (uint32_t)rows,
		.k = (uint32_t)k,
		.experts = (uint32_t)experts,
		.id_bytes = f->id_bytes,
	};
	return 0;
}
