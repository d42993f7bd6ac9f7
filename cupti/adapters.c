#include "cupti/adapters.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "wire/record.h"

static const struct row_adapter adapters[] = {
#define ROW_ADAPTER(name_, engine_, role_, what_, sizes_, ...) \
	{ .name = name_,                                       \
	  .engine = engine_,                                   \
	  .role = ROLE_##role_,                                \
	  .what = ROWS_##what_,                                \
	  .sizes = sizes_,                                     \
	  __VA_ARGS__ },
#include "cupti/row_adapters.def"
#undef ROW_ADAPTER
};
#define ADAPTERS (sizeof(adapters) / sizeof(adapters[0]))

const struct row_adapter *adapter_at(size_t i)
{
	return i < ADAPTERS ? &adapters[i] : NULL;
}

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
	f->role = adapters[i].role;
	f->args = LAUNCH_WORDS;
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

const char *function_name(const struct function *f)
{
	return adapters[f->family].name;
}

/* ---- arguments ----------------------------------------------------------- */

/* The struct that may be the first argument: as much of it as can be read. */
static uint32_t read_struct(uint64_t *out, void *value)
{
	struct iovec to = { out, LAUNCH_WORDS * sizeof(out[0]) };
	struct iovec from = { value, LAUNCH_WORDS * sizeof(out[0]) };
	ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	return got > 0 ? (uint32_t)((size_t)got / sizeof(out[0])) : 0;
}

/* Values behind pointers that may be wild: the kernel checks each of them and
 * stops at the first that faults. */
static uint32_t read_unsure(uint64_t *out, void *const *params, bool by_value)
{
	void *values[LAUNCH_WORDS];
	struct iovec to = { values, sizeof(values) };
	struct iovec from[LAUNCH_WORDS] = { { (void *)params,
					      sizeof(values) } };
	pid_t self = getpid();
	uint32_t n = LAUNCH_WORDS;
	ssize_t got = process_vm_readv(self, &to, 1, from, 1, 0);

	if (got < (ssize_t)sizeof(values[0]))
		return 0;
	if (by_value)
		return read_struct(out, values[0]);
	if ((size_t)got < sizeof(values))
		n = (uint32_t)((size_t)got / sizeof(values[0]));
	for (uint32_t i = 0; i < n; i++)
		from[i] = (struct iovec){ values[i], sizeof(out[0]) };
	to = (struct iovec){ out, n * sizeof(out[0]) };
	got = process_vm_readv(self, &to, 1, from, n, 0);
	return got > 0 ? (uint32_t)((size_t)got / sizeof(out[0])) : 0;
}

static bool is_by_value(const struct row_adapter *a)
{
	return a->sizes[0] == 's';
}

static uint32_t read_sure(uint64_t *out, const struct function *f,
			  void *const *params)
{
	if (is_by_value(&adapters[f->adapter])) {
		out[f->args - 1] = 0;
		memcpy(out, params[0], f->value);
		return f->args;
	}
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
		l->args = read_unsure(l->arg, params,
				      is_by_value(&adapters[f->family]));
}

/* ---- validation ---------------------------------------------------------- */

static size_t param_bytes(const struct cuda_api *cuda, void *f, size_t i)
{
	size_t offset, bytes = 0;

	if (cuda->func_param_info &&
	    cuda->func_param_info(f, i, &offset, &bytes) == 0)
		return bytes;
	if (cuda->kernel_param_info &&
	    cuda->kernel_param_info(f, i, &offset, &bytes) == 0)
		return bytes;
	return 0;
}

/* All zero, which fits no adapter, when the driver cannot be asked. */
static void read_sizes(const struct cuda_api *cuda, const struct function *f,
		       size_t *bytes)
{
	void *handle = f->handle;

	memset(bytes, 0, LAUNCH_WORDS * sizeof(bytes[0]));
	if (f->stub &&
	    (!cuda->func_by_symbol || cuda->func_by_symbol(&handle, f->handle)))
		return;
	for (size_t i = 0; i < LAUNCH_WORDS; i++)
		bytes[i] = param_bytes(cuda, handle, i);
}

static bool size_fits(char want, size_t bytes)
{
	if (want == '?')
		return bytes == 4 || bytes == 8;
	return bytes == (size_t)(want - '0');
}

static bool sizes_fit(const struct row_adapter *a, const size_t *bytes)
{
	if (is_by_value(a))
		return bytes[0] >= a->struct_bytes && bytes[0] <= 4096 &&
		       bytes[1] == 0;
	for (size_t i = 0; a->sizes[i]; i++)
		if (i >= LAUNCH_WORDS || !size_fits(a->sizes[i], bytes[i]))
			return false;
	return true;
}

static uint8_t leading_pointers(const size_t *bytes)
{
	uint8_t n = 0;

	while (n < LAUNCH_WORDS && bytes[n] == 8)
		n++;
	return n;
}

/* The integers behind them, as far as they are looked at. */
static uint8_t integers_behind(const size_t *bytes, uint8_t pointers)
{
	uint8_t n = 0;

	while (n < 4 && pointers + n < (int)LAUNCH_WORDS &&
	       bytes[pointers + n] == 4)
		n++;
	return n;
}

/* Words that a launch is read for. */
static uint8_t words_of(const struct row_adapter *a, const struct function *f)
{
	if (is_by_value(a))
		return (uint8_t)((f->value + 7) / 8);
	if (a->ids == ARG_BLOCK_EXPERTS)
		return (uint8_t)(f->pointers + f->ints);
	return (uint8_t)strlen(a->sizes);
}

static enum function_state choose_adapter(struct function *f,
					  const size_t *bytes)
{
	const char *name = adapters[f->family].name;

	for (size_t i = f->family; i < ADAPTERS; i++) {
		const struct row_adapter *a = &adapters[i];

		if (strcmp(a->name, name) != 0)
			break;
		if (!sizes_fit(a, bytes))
			continue;
		f->adapter = (uint8_t)i;
		f->pointers = leading_pointers(bytes);
		f->ints = integers_behind(bytes, f->pointers);
		f->value = (uint8_t)(bytes[0] < 8 * LAUNCH_WORDS
					     ? bytes[0]
					     : 8 * LAUNCH_WORDS);
		f->args = words_of(a, f);
		if (a->bytes)
			f->id_bytes = a->bytes;
		for (size_t p = 0; p < LAUNCH_WORDS; p++)
			f->bytes[p] = (uint8_t)(bytes[p] <= 8 ? bytes[p] : 0);
		return FUNCTION_READY;
	}
	return FUNCTION_REFUSED;
}

int functions_validate(struct functions *t, const struct cuda_api *cuda)
{
	if (atomic_exchange_explicit(&t->pending, 0, memory_order_acquire) == 0)
		return 0;
	return functions_validate_now(t, cuda);
}

int functions_validate_now(struct functions *t, const struct cuda_api *cuda)
{
	int changed = 0;

	for (size_t s = 0; s < FUNCTIONS_MAX; s++) {
		struct function *f = &t->slot[s];
		size_t bytes[LAUNCH_WORDS];
		enum function_state state;

		if (atomic_load_explicit(&f->state, memory_order_acquire) !=
		    FUNCTION_PENDING)
			continue;
		read_sizes(cuda, f, bytes);
		state = choose_adapter(f, bytes);
		if (state == FUNCTION_REFUSED)
			atomic_fetch_add_explicit(&t->refused, 1,
						  memory_order_relaxed);
		atomic_store_explicit(&f->state, state, memory_order_release);
		changed++;
	}
	return changed;
}
