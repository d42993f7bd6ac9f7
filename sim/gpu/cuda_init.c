#include "sim/gpu/cuda_engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS_MAX 8

struct sim_gpu sim = {
	.plan = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.gap_seed = 1,
};

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* The stack of current contexts; never empty in a thread that has one. */
static _Thread_local struct sim_context *contexts[CONTEXTS_MAX];
static _Thread_local unsigned context_top;

/* ---- choice of GPU ---------------------------------------------------------- */

int simgpu_select(const char *name)
{
	const struct sim_gpu_type *t = name ? sim_gpu_find(name) : NULL;

	if (!t || atomic_load(&sim.ready))
		return -EINVAL;
	sim.type = t;
	return 0;
}

static const struct sim_gpu_type *chosen(void)
{
	return sim.type ? sim.type : sim_gpu_find("H200");
}

double simgpu_bandwidth(void)
{
	return chosen()->bandwidth;
}

double simgpu_flops(const char *type)
{
	const struct sim_gpu_type *t = chosen();

	if (strcmp(type, "bf16") == 0)
		return t->bf16;
	if (strcmp(type, "fp8") == 0)
		return t->fp8;
	return strcmp(type, "fp4") == 0 ? t->fp4 : 0;
}

int simgpu_fault(const char *name, uint64_t *n)
{
	return sim_fault(name, n);
}

/* ---- cuInit ------------------------------------------------------------------- */

/* The physical device that the process may see, as CUDA_VISIBLE_DEVICES says. */
static uint32_t visible_device(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");
	unsigned long n = s ? strtoul(s, NULL, 10) : 0;

	return n < SIM_SHM_DEVICES ? (uint32_t)n : 0;
}

static void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *handle, *symbol;
	int (*start)(void);

	if (!path || !*path)
		return;
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = handle ? dlsym(handle, "InitializeInjection") : NULL;
	if (!symbol)
		return;
	memcpy(&start, &symbol, sizeof(start));
	start();
}

static CUresult init(unsigned flags)
{
	static bool tried;
	CUresult e = CUDA_SUCCESS;
	bool first = false;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&init_lock);
	if (!atomic_load(&sim.ready)) {
		sim.type = chosen();
		sim.device = visible_device();
		e = tried ? CUDA_ERROR_OUT_OF_MEMORY : sim_memory_init();
		tried = true;
		if (!e) {
			sim.shm = sim_shm_create(sim.device,
						 sim_gpu_position(sim.type));
			atomic_store(&sim.ready, 1);
			first = true;
		}
	}
	pthread_mutex_unlock(&init_lock);
	if (first) {
		inject();
		sim_resource(5, NULL, NULL, NULL); /* CU_INIT_FINISHED */
	}
	return e;
}

CUresult cuInit(unsigned flags)
{
	struct sim_call c;

	sim_call_enter(&c, 1, "cuInit", &flags);
	return sim_call_exit(&c, init(flags));
}

__attribute__((destructor)) static void fini(void)
{
	sim_shm_close(sim.shm);
}

CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = sim_driver_version();
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version,
			     uint64_t flags, int *status)
{
	static const char *const suffix[] = { "_v2", "" };
	void *found = NULL, *self = NULL;
	char name[128];
	Dl_info info;

	(void)version;
	(void)flags;
	if (!symbol || !fn)
		return CUDA_ERROR_INVALID_VALUE;
	if (dladdr(&sim, &info))
		self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	for (int i = 0; self && !found && i < 2; i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, suffix[i]);
		found = dlsym(self, name);
	}
	if (self)
		dlclose(self);
	*fn = found;
	if (status)
		*status = found ? 0 : 1;
	return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- devices ------------------------------------------------------------------ */

static CUresult device_check(CUdevice dev, const void *out)
{
	if (!atomic_load(&sim.ready))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	return dev == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult e = device_check(0, count);

	if (!e)
		*count = 1;
	return e;
}

CUresult cuDeviceGet(CUdevice *dev, int ordinal)
{
	CUresult e = device_check(ordinal, dev);

	if (!e)
		*dev = ordinal;
	return e;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	CUresult e = device_check(dev, name);

	if (!e && len > 0)
		snprintf(name, (size_t)len, "%s", sim.type->product);
	return e;
}

CUresult cuDeviceGetUuid_v2(uint8_t uuid[16], CUdevice dev)
{
	CUresult e = device_check(dev, uuid);

	if (!e)
		sim_gpu_uuid(sim.device, uuid);
	return e;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult e = device_check(dev, bytes);

	if (!e)
		*bytes = sim.type->memory_bytes;
	return e;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
	CUresult e = device_check(dev, value);
	const struct {
		int id;
		unsigned value;
	} table[] = {
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
		{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
		{ CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
		  e ? 0 : sim.type->sm_clock_mhz * 1000 },
		{ CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		  e ? 0 : sim.type->sms },
		{ CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, sim.device + 1 },
		{ CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0 },
		{ CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
		  e ? 0 : sim.type->mem_clock_mhz * 1000 },
		{ CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
		  e ? 0 : sim.type->bus_bits },
		{ CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
		  e ? 0 : (unsigned)sim.type->l2_bytes },
		{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
		{ CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0 },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		  e ? 0 : sim.type->cc_major },
		{ CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		  e ? 0 : sim.type->cc_minor },
	};

	if (e)
		return e;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].id == attribute) {
			*value = (int)table[i].value;
			return CUDA_SUCCESS;
		}
	*value = 0;
	return attribute > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- contexts ------------------------------------------------------------------- */

struct sim_context *sim_current(void)
{
	return context_top ? contexts[context_top - 1] : NULL;
}

CUresult sim_ready(void)
{
	if (!atomic_load_explicit(&sim.ready, memory_order_acquire))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!sim_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	return atomic_load_explicit(&sim.error, memory_order_relaxed);
}

void *simgpu_context(void)
{
	return sim_current();
}

uint32_t simgpu_context_id(void *context)
{
	return context ? ((struct sim_context *)context)->id : 0;
}

static struct sim_context *context_new(void)
{
	struct sim_context *ctx = calloc(1, sizeof(*ctx));
	struct sim_stream *s = calloc(1, sizeof(*s));

	if (!ctx || !s) {
		free(ctx);
		free(s);
		return NULL;
	}
	ctx->id = atomic_fetch_add(&sim.last_context, 1) + 1;
	ctx->refs = 1;
	ctx->null_stream = s;
	s->context = ctx;
	s->id = sim_next_stream_id();
	pthread_mutex_init(&s->order, NULL);
	pthread_mutex_lock(&sim.lock);
	s->next = sim.streams;
	sim.streams = s;
	pthread_mutex_unlock(&sim.lock);
	return ctx;
}

static CUresult primary_retain(CUcontext *out, CUdevice dev)
{
	CUresult e = device_check(dev, out);
	bool fresh = false;

	if (e)
		return e;
	pthread_mutex_lock(&init_lock);
	if (!sim.primary) {
		sim.primary = context_new();
		fresh = sim.primary != NULL;
	} else {
		sim.primary->refs++;
	}
	*out = sim.primary;
	pthread_mutex_unlock(&init_lock);
	if (fresh)
		sim_resource(1, *out, NULL, NULL);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
	const struct {
		CUcontext *ctx;
		CUdevice dev;
	} a = { ctx, dev };
	struct sim_call c;

	sim_call_enter(&c, 386, "cuDevicePrimaryCtxRetain", &a);
	return sim_call_exit(&c, primary_retain(ctx, dev));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active)
{
	CUresult e = device_check(dev, flags);

	if (e || !active)
		return e ? e : CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&init_lock);
	*flags = 0;
	*active = sim.primary && sim.primary->refs;
	pthread_mutex_unlock(&init_lock);
	return CUDA_SUCCESS;
}

/* The primary context outlives its last release: handles stay valid. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	CUresult e = device_check(dev, &sim);

	if (e)
		return e;
	pthread_mutex_lock(&init_lock);
	if (sim.primary && sim.primary->refs)
		sim.primary->refs--;
	else
		e = CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_unlock(&init_lock);
	return e;
}

static CUresult context_push(struct sim_context *ctx)
{
	if (!atomic_load(&sim.ready))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_top == CONTEXTS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	contexts[context_top++] = ctx;
	return CUDA_SUCCESS;
}

static CUresult context_create(CUcontext *ctx, CUdevice dev)
{
	CUresult e = device_check(dev, ctx);

	if (e)
		return e;
	*ctx = context_new();
	if (!*ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_resource(1, *ctx, NULL, NULL);
	return context_push(*ctx);
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice dev)
{
	const struct {
		CUcontext *ctx;
		unsigned flags;
		CUdevice dev;
	} a = { ctx, flags, dev };
	struct sim_call c;

	sim_call_enter(&c, 235, "cuCtxCreate_v2", &a);
	return sim_call_exit(&c, context_create(ctx, dev));
}

/* Streams may still point at it, so it only stops being current. */
CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	sim_device_drain();
	sim_resource(2, ctx, NULL, NULL);
	if (sim_current() == ctx)
		context_top--;
	return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
	if (!atomic_load(&sim.ready))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (context_top)
		context_top--;
	return ctx ? context_push(ctx) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx)
{
	if (!atomic_load(&sim.ready))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = sim_current();
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	return context_push(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx)
{
	if (!atomic_load(&sim.ready))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!context_top)
		return CUDA_ERROR_INVALID_CONTEXT;
	context_top--;
	if (ctx)
		*ctx = contexts[context_top];
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *dev)
{
	CUresult e = sim_ready();

	if (!e && !dev)
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		*dev = 0;
	return e;
}

static CUresult context_sync(void)
{
	CUresult e = sim_ready();

	if (e)
		return e;
	if (atomic_load(&sim.captures)) {
		e = sim_capture_guard();
		return e ? e : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	sim_device_drain();
	return atomic_load(&sim.error);
}

CUresult cuCtxSynchronize(void)
{
	struct sim_call c;

	sim_call_enter(&c, 17, "cuCtxSynchronize", NULL);
	return sim_call_exit(&c, context_sync());
}
