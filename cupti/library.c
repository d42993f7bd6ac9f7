#include "cupti/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct symbol {
	const char *name, *second_name;
	size_t offset;
	bool optional;
};

#define SYM(type, member, ...)                                       \
	{                                                            \
		.offset = offsetof(struct type, member), __VA_ARGS__ \
	}
#define CUPTI_SYM(member, symbol) SYM(cupti_api, member, .name = "cupti" symbol)
#define CUPTI_OPT(member, symbol) \
	SYM(cupti_api, member, .name = "cupti" symbol, .optional = true)
#define CUPTI_V2(member, symbol)                                \
	SYM(cupti_api, v2.member, .name = "cupti" symbol "_v2", \
	    .optional = true)
#define CUDA_SYM(member, symbol, ...) \
	SYM(cuda_api, member, .name = "cu" symbol, __VA_ARGS__)
#define CUDA_OPT(member, symbol) \
	SYM(cuda_api, member, .name = "cu" symbol, .optional = true)

static const struct symbol cupti_symbols[] = {
	CUPTI_SYM(subscribe, "Subscribe"),
	CUPTI_SYM(unsubscribe, "Unsubscribe"),
	CUPTI_SYM(enable_callback, "EnableCallback"),
	CUPTI_SYM(register_callbacks, "ActivityRegisterCallbacks"),
	CUPTI_SYM(enable, "ActivityEnable"),
	CUPTI_SYM(disable, "ActivityDisable"),
	CUPTI_SYM(flush_all, "ActivityFlushAll"),
	CUPTI_SYM(next_record, "ActivityGetNextRecord"),
	CUPTI_SYM(dropped, "ActivityGetNumDroppedRecords"),
	CUPTI_SYM(set_attribute, "ActivitySetAttribute"),
	CUPTI_SYM(timestamp, "GetTimestamp"),
	CUPTI_SYM(version, "GetVersion"),
	CUPTI_OPT(enable_domain, "EnableDomain"),
	CUPTI_OPT(finalize, "Finalize"),
	CUPTI_OPT(graph_id, "GetGraphId"),
	CUPTI_OPT(graph_exec_id, "GetGraphExecId"),
	CUPTI_OPT(graph_node_id, "GetGraphNodeId"),
	CUPTI_OPT(struct_size, "ActivityGetStructSize"),
	CUPTI_OPT(is_running, "IsTracingSessionRunning"),
	CUPTI_V2(subscribe, "Subscribe"),
	CUPTI_V2(register_callbacks, "ActivityRegisterCallbacks"),
	CUPTI_V2(enable, "ActivityEnable"),
	CUPTI_V2(disable, "ActivityDisable"),
	CUPTI_V2(next_record, "ActivityGetNextRecord"),
	CUPTI_V2(dropped, "ActivityGetNumDroppedRecords"),
	CUPTI_V2(set_attribute, "ActivitySetAttribute"),
	CUPTI_V2(timestamp, "GetTimestamp"),
};

static const struct symbol cuda_symbols[] = {
	CUDA_SYM(driver_version, "DriverGetVersion"),
	CUDA_SYM(device_name, "DeviceGetName"),
	CUDA_SYM(ctx_set_current, "CtxSetCurrent"),
	CUDA_SYM(ctx_get_device, "CtxGetDevice"),
	CUDA_SYM(mem_host_alloc, "MemHostAlloc"),
	CUDA_SYM(mem_free_host, "MemFreeHost"),
	CUDA_SYM(stream_create, "StreamCreate"),
	CUDA_SYM(stream_destroy, "StreamDestroy_v2",
		 .second_name = "cuStreamDestroy"),
	CUDA_SYM(stream_synchronize, "StreamSynchronize"),
	CUDA_SYM(memcpy_dtoh_async, "MemcpyDtoHAsync_v2"),
	CUDA_SYM(pointer_attribute, "PointerGetAttribute"),
	CUDA_OPT(exchange_capture_mode, "ThreadExchangeStreamCaptureMode"),
	CUDA_OPT(mem_alloc, "MemAlloc_v2"),
	CUDA_OPT(mem_free, "MemFree_v2"),
	CUDA_OPT(memset_d8, "MemsetD8_v2"),
	CUDA_OPT(graph_add_copy, "GraphAddMemcpyNode"),
	CUDA_OPT(graph_dependents, "GraphNodeGetDependentNodes"),
	CUDA_OPT(graph_dependents_v2, "GraphNodeGetDependentNodes_v2"),
	CUDA_OPT(graph_add_edges, "GraphAddDependencies"),
	CUDA_OPT(graph_destroy_node, "GraphDestroyNode"),
	CUDA_OPT(ctx_synchronize, "CtxSynchronize"),
	CUDA_OPT(device_count, "DeviceGetCount"),
	CUDA_OPT(primary_ctx_state, "DevicePrimaryCtxGetState"),
	CUDA_OPT(func_param_info, "FuncGetParamInfo"),
	CUDA_OPT(kernel_param_info, "KernelGetParamInfo"),
	CUDA_OPT(func_name, "FuncGetName"),
};

static int resolve(void *lib, const struct symbol *s, size_t n, void *table)
{
	for (size_t i = 0; i < n; i++) {
		void *p = dlsym(lib, s[i].name);

		if (!p && s[i].second_name)
			p = dlsym(lib, s[i].second_name);
		if (!p && !s[i].optional)
			return -ENOSYS;
		memcpy((char *)table + s[i].offset, &p, sizeof(p));
	}
	return 0;
}

/* ---- loaded objects ------------------------------------------------------ */

struct search {
	const char *prefix; /* of the base name */
	char path[PATH_MAX];
	bool found;
};

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *s = data;
	const char *base = strrchr(info->dlpi_name, '/');

	(void)size;
	if (!base || strncmp(base + 1, s->prefix, strlen(s->prefix)) != 0)
		return 0;
	if (strlen(info->dlpi_name) >= sizeof(s->path))
		return 0;
	strcpy(s->path, info->dlpi_name);
	s->found = true;
	return 1;
}

static bool loaded(struct search *s, const char *prefix)
{
	*s = (struct search){ .prefix = prefix };
	dl_iterate_phdr(visit, s);
	return s->found;
}

static void *open_loaded(struct search *s, const char *prefix)
{
	if (!loaded(s, prefix))
		return NULL;
	return dlopen(s->path, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
}

/* ---- where libcupti lies when nobody has loaded it ----------------------- */

static const char *const companions[] = { "libcudart.so", "libtorch_cuda.so",
					  "libcublas.so", "libcuda.so" };

/* Relative to the folder of a companion: the same folder (a toolkit's lib64, a
 * CUDA 13 wheel, a distribution), the wheels of CUDA 12, the toolkit's extras,
 * and the wheels as seen from torch/lib. */
static const char *const folders[] = {
	"",
	"../../cuda_cupti/lib/",
	"../extras/CUPTI/lib64/",
	"../../nvidia/cuda_cupti/lib/",
	"../../nvidia/cu13/lib/",
};
static const char *const names[] = { "libcupti.so.13", "libcupti.so.12",
				     "libcupti.so.11.8" };

static void *open_near(struct search *s, const char *companion)
{
	char path[PATH_MAX];
	int dir;

	if (!loaded(s, companion))
		return NULL;
	dir = (int)(strrchr(s->path, '/') + 1 - s->path);
	for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			void *lib;
			int n = snprintf(path, sizeof(path), "%.*s%s%s", dir,
					 s->path, folders[f], names[i]);

			if (n < 0 || (size_t)n >= sizeof(path))
				continue;
			lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (lib) {
				strcpy(s->path, path);
				return lib;
			}
		}
	}
	return NULL;
}

static void *open_anywhere(struct search *s)
{
	void *lib = NULL;

	for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++)
		if (!lib)
			lib = open_near(s, companions[i]);
	return lib;
}

int cupti_find(struct cupti_api *api, char *path, size_t path_bytes)
{
	struct cupti_api found = { 0 };
	struct search s;
	void *lib = open_loaded(&s, "libcupti.so");
	int err;

	if (!lib)
		lib = open_anywhere(&s);
	if (!lib)
		return -ENOENT;
	err = resolve(lib, cupti_symbols,
		      sizeof(cupti_symbols) / sizeof(cupti_symbols[0]), &found);
	if (err)
		return err;
	if (path && path_bytes)
		snprintf(path, path_bytes, "%s", s.path);
	*api = found;
	return 0;
}

int cuda_find(struct cuda_api *api)
{
	struct cuda_api found = { 0 };
	struct search s;
	void *lib = open_loaded(&s, "libcuda.so");
	void *runtime;
	int err;

	if (!lib)
		return -ENOENT;
	err = resolve(lib, cuda_symbols,
		      sizeof(cuda_symbols) / sizeof(cuda_symbols[0]), &found);
	if (err)
		return err;
	runtime = open_loaded(&s, "libcudart.so");
	if (runtime)
		*(void **)&found.func_by_symbol =
			dlsym(runtime, "cudaGetFuncBySymbol");
	*api = found;
	return 0;
}
