#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* ---- ranges --------------------------------------------------------------- */

/* The first range that ends after p; count when there is none. */
static size_t range_at(const struct sim_ranges *r, uint64_t p)
{
	size_t lo = 0, hi = r->count;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (r->v[mid].base + r->v[mid].bytes > p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

static const struct sim_range *range_find(const struct sim_ranges *r,
					  uint64_t p)
{
	size_t i = range_at(r, p);

	return i < r->count && r->v[i].base <= p ? &r->v[i] : NULL;
}

static bool range_holds(const struct sim_ranges *r, uint64_t p, size_t bytes)
{
	const struct sim_range *x = range_find(r, p);

	return x && bytes <= x->bytes - (p - x->base);
}

static bool range_insert(struct sim_ranges *r, uint64_t base, uint64_t bytes)
{
	size_t i = range_at(r, base);

	if (r->count == r->room) {
		size_t room = r->room ? 2 * r->room : 64;
		void *v = realloc(r->v, room * sizeof(*r->v));

		if (!v)
			return false;
		r->v = v;
		r->room = room;
	}
	memmove(&r->v[i + 1], &r->v[i], (r->count - i) * sizeof(*r->v));
	r->v[i] = (struct sim_range){ base, bytes };
	r->count++;
	return true;
}

static void range_remove(struct sim_ranges *r, const struct sim_range *x)
{
	size_t i = (size_t)(x - r->v);

	r->count--;
	memmove(&r->v[i], &r->v[i + 1], (r->count - i) * sizeof(*r->v));
}

static uint64_t page_up(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

/* First fit among the gaps; 0 when there is no room. */
static uint64_t gap_find(uint64_t bytes)
{
	uint64_t at = sim.base + PAGE; /* address "base" is never handed out */

	for (size_t i = 0; i < sim.allocs.count; i++) {
		const struct sim_range *x = &sim.allocs.v[i];

		if (x->base - at >= bytes)
			return at;
		at = page_up(x->base + x->bytes);
	}
	return sim.base + sim.span - at >= bytes ? at : 0;
}

/* ---- init and queries ------------------------------------------------------ */

static uint64_t reserve(int prot, uint64_t bytes)
{
	void *p = mmap(NULL, bytes, prot,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return 0;
	madvise(p, bytes, MADV_NOHUGEPAGE);
	madvise(p, bytes, MADV_DONTDUMP);
	return (uint64_t)(uintptr_t)p;
}

static void give_back(uint64_t p, uint64_t bytes)
{
	if (p)
		munmap((void *)(uintptr_t)p, bytes);
}

static bool reserve_all(uint64_t bytes)
{
	sim.base = reserve(PROT_NONE, bytes);
	sim.front = reserve(PROT_READ | PROT_WRITE, bytes);
	sim.planned = reserve(PROT_READ | PROT_WRITE, bytes);
	sim.span = bytes;
	if (sim.base && sim.front && sim.planned)
		return true;
	give_back(sim.base, bytes);
	give_back(sim.front, bytes);
	give_back(sim.planned, bytes);
	return false;
}

/* A limit on address space, or valgrind, leaves room for less. */
CUresult sim_memory_init(void)
{
	return reserve_all(SIM_SPAN_BYTES) || reserve_all(SIM_SPAN_LEAST)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_OUT_OF_MEMORY;
}

bool sim_device_range(uint64_t ptr, size_t bytes)
{
	bool ok;

	pthread_mutex_lock(&sim.lock);
	ok = range_holds(&sim.allocs, ptr, bytes);
	pthread_mutex_unlock(&sim.lock);
	return ok;
}

bool sim_device_find(uint64_t ptr, struct sim_range *out)
{
	const struct sim_range *x;

	pthread_mutex_lock(&sim.lock);
	x = range_find(&sim.allocs, ptr);
	if (x)
		*out = *x;
	pthread_mutex_unlock(&sim.lock);
	return x != NULL;
}

bool sim_pinned(const void *ptr, size_t bytes)
{
	bool ok;

	pthread_mutex_lock(&sim.lock);
	ok = range_holds(&sim.pinned, (uint64_t)(uintptr_t)ptr, bytes);
	pthread_mutex_unlock(&sim.lock);
	return ok;
}

static void publish_used(void)
{
	if (sim.shm)
		atomic_store_explicit(&sim.shm->memory_used_bytes,
				      sim.used_bytes, memory_order_relaxed);
}

/* ---- device memory --------------------------------------------------------- */

static CUresult mem_alloc(CUdeviceptr *ptr, size_t bytes)
{
	CUresult e = sim_ready();
	uint64_t at, room;

	if (!e)
		e = sim_capture_guard();
	if (e)
		return e;
	if (!ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > sim.type->memory_bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	room = page_up(bytes);
	pthread_mutex_lock(&sim.lock);
	at = sim.used_bytes + room <= sim.type->memory_bytes ? gap_find(room)
							     : 0;
	if (at && range_insert(&sim.allocs, at, bytes)) {
		sim.used_bytes += room;
		publish_used();
	} else {
		at = 0;
	}
	pthread_mutex_unlock(&sim.lock);
	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ptr = at;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	const struct {
		CUdeviceptr *ptr;
		size_t bytes;
	} a = { ptr, bytes };
	struct sim_call c;

	sim_call_enter(&c, 243, "cuMemAlloc_v2", &a);
	return sim_call_exit(&c, mem_alloc(ptr, bytes));
}

static CUresult mem_free(CUdeviceptr ptr)
{
	CUresult e = sim_ready();
	const struct sim_range *x;
	uint64_t room = 0;

	if (!e)
		e = sim_capture_guard();
	if (e || !ptr)
		return e;
	sim_device_drain();
	pthread_mutex_lock(&sim.lock);
	x = range_find(&sim.allocs, ptr);
	if (x && x->base == ptr) {
		room = page_up(x->bytes);
		madvise(sim_front(ptr), room, MADV_DONTNEED);
		madvise(sim_planned(ptr), room, MADV_DONTNEED);
		sim.used_bytes -= room;
		range_remove(&sim.allocs, x);
		publish_used();
	}
	pthread_mutex_unlock(&sim.lock);
	return room ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	struct sim_call c;

	sim_call_enter(&c, 245, "cuMemFree_v2", &ptr);
	return sim_call_exit(&c, mem_free(ptr));
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr)
{
	CUresult e = sim_ready();
	const struct sim_range *x;

	if (e)
		return e;
	pthread_mutex_lock(&sim.lock);
	x = range_find(&sim.allocs, ptr);
	if (x) {
		if (base)
			*base = x->base;
		if (bytes)
			*bytes = x->bytes;
	}
	pthread_mutex_unlock(&sim.lock);
	return x ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes,
				 CUdeviceptr ptr)
{
	const struct {
		CUdeviceptr *base;
		size_t *bytes;
		CUdeviceptr ptr;
	} a = { base, bytes, ptr };
	struct sim_call c;

	sim_call_enter(&c, 246, "cuMemGetAddressRange_v2", &a);
	return sim_call_exit(&c, address_range(base, bytes, ptr));
}

static CUresult mem_info(size_t *available, size_t *total)
{
	CUresult e = sim_ready();

	if (e)
		return e;
	if (!available || !total)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim.lock);
	*total = sim.type->memory_bytes;
	*available = sim.type->memory_bytes - sim.used_bytes;
	pthread_mutex_unlock(&sim.lock);
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	const struct {
		size_t *available, *total;
	} a = { available, total };
	struct sim_call c;

	sim_call_enter(&c, 242, "cuMemGetInfo_v2", &a);
	return sim_call_exit(&c, mem_info(available, total));
}

static CUresult pointer_value(void *data, int attribute, uint64_t ptr,
			      const struct sim_range *x, bool device)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(void **)data = sim_current();
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = device ? 2 : 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(uint64_t *)data = ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (device)
			return CUDA_ERROR_INVALID_VALUE;
		*(uint64_t *)data = ptr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(uint64_t *)data = x->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = x->bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)data = true;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult pointer_attribute(void *data, int attribute, CUdeviceptr ptr)
{
	CUresult e = sim_ready();
	struct sim_range found = { 0, 0 };
	const struct sim_range *x;
	bool device;

	if (e)
		return e;
	pthread_mutex_lock(&sim.lock);
	x = range_find(&sim.allocs, ptr);
	device = x != NULL;
	if (!x)
		x = range_find(&sim.pinned, ptr);
	if (x)
		found = *x;
	pthread_mutex_unlock(&sim.lock);
	if (!data || !x)
		return CUDA_ERROR_INVALID_VALUE;
	return pointer_value(data, attribute, ptr, &found, device);
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
	const struct {
		void *data;
		int attribute;
		CUdeviceptr ptr;
	} a = { data, attribute, ptr };
	struct sim_call c;

	sim_call_enter(&c, 310, "cuPointerGetAttribute", &a);
	return sim_call_exit(&c, pointer_attribute(data, attribute, ptr));
}

/* ---- pinned host memory ----------------------------------------------------- */

static CUresult host_alloc(void **ptr, size_t bytes)
{
	CUresult e = sim_ready();
	bool ok;
	void *p;

	if (!e)
		e = sim_capture_guard();
	if (e)
		return e;
	if (!ptr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	p = aligned_alloc(PAGE, page_up(bytes));
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim.lock);
	ok = range_insert(&sim.pinned, (uint64_t)(uintptr_t)p, bytes);
	pthread_mutex_unlock(&sim.lock);
	if (!ok) {
		free(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memset(p, 0, bytes);
	*ptr = p;
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
	const struct {
		void **ptr;
		size_t bytes;
		unsigned flags;
	} a = { ptr, bytes, flags };
	struct sim_call c;

	sim_call_enter(&c, 39, "cuMemHostAlloc", &a);
	return sim_call_exit(&c, host_alloc(ptr, bytes));
}

static CUresult host_free(void *ptr)
{
	CUresult e = sim_ready();
	const struct sim_range *x;
	bool ok = false;

	if (!e)
		e = sim_capture_guard();
	if (e)
		return e;
	sim_device_drain();
	pthread_mutex_lock(&sim.lock);
	x = range_find(&sim.pinned, (uint64_t)(uintptr_t)ptr);
	if (x && x->base == (uint64_t)(uintptr_t)ptr) {
		range_remove(&sim.pinned, x);
		ok = true;
	}
	pthread_mutex_unlock(&sim.lock);
	if (!ok)
		return CUDA_ERROR_INVALID_VALUE;
	free(ptr);
	return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *ptr)
{
	struct sim_call c;

	sim_call_enter(&c, 38, "cuMemFreeHost", &ptr);
	return sim_call_exit(&c, host_free(ptr));
}
