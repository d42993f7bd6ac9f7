#include "sim/gpu/nvml_state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define BASE_CLOCK_MHZ 1200u
#define RESERVED_BYTES (512 * MIB) /* what a driver keeps for itself */
#define UTILIZATION_NS 166000000u  /* NVML's sample period: 1/6 s to 1 s */

static _Atomic int inits;
static const char devices[SIM_SHM_DEVICES]; /* a handle is an address in it */

/* ---- looking ------------------------------------------------------------------ */

static void add(struct sim_counters *sum, const struct sim_counters *c)
{
	sum->read_bytes += c->read_bytes;
	sum->write_bytes += c->write_bytes;
	sum->busy_ns += c->busy_ns;
	sum->tensor_ns += c->tensor_ns;
}

static void visit(void *arg, const struct sim_shm *s)
{
	struct nvml_view *v = arg;
	uint64_t used = atomic_load_explicit(&s->memory_used_bytes,
					     memory_order_relaxed);
	struct sim_counters c;

	if (s->device >= v->devices)
		v->devices = s->device + 1;
	if (!v->type || s->device == v->index)
		v->type = sim_gpu_at(s->gpu);
	if (s->device != v->index)
		return;
	v->no_counters = v->no_counters || s->no_counters;
	v->used_bytes += used;
	if (v->process_count < NVML_PROCESSES_MAX)
		v->processes[v->process_count++] = (struct nvml_process){
			.pid = s->pid,
			.used_bytes = used,
			.gpu_instance = UINT32_MAX,
			.compute_instance = UINT32_MAX,
		};
	if (sim_shm_read(s, v->at_ns, &c) == 0)
		add(&v->at, &c);
	if (v->before_ns && sim_shm_read(s, v->before_ns, &c) == 0)
		add(&v->before, &c);
}

/* A machine loses no GPU when the processes on it end. */
static void keep_devices(struct nvml_view *v)
{
	static _Atomic unsigned most;
	static _Atomic(const struct sim_gpu_type *) type;
	unsigned was = atomic_load(&most);

	if (v->type)
		atomic_store(&type, v->type);
	v->type = atomic_load(&type);
	while (was < v->devices &&
	       !atomic_compare_exchange_weak(&most, &was, v->devices))
		;
	if (v->devices < was)
		v->devices = was;
}

int nvml_look(const void *device, uint64_t window_ns, struct nvml_view *out)
{
	size_t index = (uintptr_t)device - (uintptr_t)devices;

	if (!atomic_load(&inits))
		return NVML_ERROR_UNINITIALIZED;
	if (index >= SIM_SHM_DEVICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	*out = (struct nvml_view){ .index = (unsigned)index };
	out->at_ns = sim_now();
	out->before_ns = window_ns ? out->at_ns - window_ns : 0;
	sim_shm_scan(visit, out);
	keep_devices(out);
	return index < out->devices ? NVML_SUCCESS
				    : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- library --------------------------------------------------------------------- */

int nvmlInit_v2(void)
{
	atomic_fetch_add(&inits, 1);
	return NVML_SUCCESS;
}

int nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	return nvmlInit_v2();
}

int nvmlShutdown(void)
{
	int n = atomic_load(&inits);

	while (n > 0 && !atomic_compare_exchange_weak(&inits, &n, n - 1))
		;
	return n > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(int result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_MEMORY:
		return "Insufficient Memory";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument version mismatch";
	default:
		return "Unknown Error";
	}
}

static int text(char *out, unsigned bytes, const char *s)
{
	if (!out)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(s) >= bytes)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, s);
	return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *out, unsigned bytes)
{
	return text(out, bytes, "580.0.sim");
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = sim_driver_version();
	return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	struct nvml_view v;
	int e = nvml_look(devices, 0, &v);

	if (e == NVML_ERROR_UNINITIALIZED)
		return e;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = v.devices;
	return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
	struct nvml_view v;
	int e;

	if (!device || index >= SIM_SHM_DEVICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	e = nvml_look(&devices[index], 0, &v);
	if (e == NVML_SUCCESS)
		*device = (void *)(uintptr_t)&devices[index];
	return e;
}

/* ---- devices ------------------------------------------------------------------------ */

int nvmlDeviceGetName(void *device, char *out, unsigned bytes)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	return e ? e : text(out, bytes, v.type->product);
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned bytes)
{
	struct nvml_view v;
	char uuid[41];
	int e = nvml_look(device, 0, &v);

	if (e)
		return e;
	sim_gpu_uuid_text(v.index, uuid);
	return text(out, bytes, uuid);
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	if (!e && !index)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (!e)
		*index = v.index;
	return e;
}

static unsigned percent(double part, double whole)
{
	double p = whole > 0 ? 100 * part / whole : 0;

	return p < 0 ? 0 : p > 100 ? 100 : (unsigned)(p + 0.5);
}

int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *out)
{
	struct nvml_view v;
	int e = nvml_look(device, UTILIZATION_NS, &v);
	double moved;

	if (!e && !out)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (e)
		return e;
	moved = (double)(v.at.read_bytes + v.at.write_bytes) -
		(double)(v.before.read_bytes + v.before.write_bytes);
	out->gpu = percent((double)v.at.busy_ns - (double)v.before.busy_ns,
			   UTILIZATION_NS);
	out->memory = percent(moved, v.type->bandwidth * UTILIZATION_NS / 1e9);
	return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *out)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);
	uint64_t used;

	if (!e && !out)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (e)
		return e;
	used = v.used_bytes + RESERVED_BYTES;
	if (used > v.type->memory_bytes)
		used = v.type->memory_bytes;
	*out = (struct nvml_memory){ .total = v.type->memory_bytes,
				     .free = v.type->memory_bytes - used,
				     .used = used };
	return NVML_SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	if (!e && (!mhz || type < 0 || type > NVML_CLOCK_VIDEO))
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (!e)
		*mhz = type == NVML_CLOCK_MEM ? v.type->mem_clock_mhz
					      : v.type->sm_clock_mhz;
	return e;
}

/* A sampler that locks the clocks leaves a byte in its marker (cupti_pm.c). */
static int clocks_locked(const void *device)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/dev/shm/moetop-sim-pm%u-%zu", getuid(),
		 (size_t)((uintptr_t)device - (uintptr_t)devices));
	return !stat(path, &st) && st.st_size > 0;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
	int e = nvmlDeviceGetMaxClockInfo(device, type, mhz);

	if (!e && type != NVML_CLOCK_MEM && clocks_locked(device))
		*mhz = BASE_CLOCK_MHZ;
	return e;
}

int nvmlDeviceGetMemoryBusWidth(void *device, unsigned *bits)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	if (!e && !bits)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (!e)
		*bits = v.type->bus_bits;
	return e;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count,
					    struct nvml_process *infos)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);
	unsigned room;

	if (!e && !count)
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (e)
		return e;
	room = *count;
	*count = v.process_count;
	if (room < v.process_count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (v.process_count && !infos)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (v.process_count)
		memcpy(infos, v.processes,
		       v.process_count * sizeof(v.processes[0]));
	return NVML_SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
	struct nvml_view v;
	int e = nvml_look(device, 0, &v);

	if (!e && (!major || !minor))
		e = NVML_ERROR_INVALID_ARGUMENT;
	if (!e) {
		*major = (int)v.type->cc_major;
		*minor = (int)v.type->cc_minor;
	}
	return e;
}
