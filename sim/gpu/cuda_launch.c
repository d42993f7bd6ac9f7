#include "sim/gpu/cuda_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sim_module {
	uint32_t unused;
};

static pthread_mutex_t functions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_function *functions;

/* ---- functions ---------------------------------------------------------------- */

static struct sim_function *find_locked(const char *name)
{
	struct sim_function *f = functions;

	while (f && strcmp(f->name, name) != 0)
		f = f->next;
	return f;
}

/* Sizes are natural alignments here; larger values align to 8. */
static bool layout(struct sim_function *f, const uint8_t *bytes)
{
	uint32_t at = 0;
	unsigned n = 0;

	for (; bytes && bytes[n]; n++) {
		uint32_t align = bytes[n] >= 8 ? 8 : bytes[n];

		if (n == SIM_PARAMS_MAX)
			return false;
		if (align & (align - 1))
			align = 4;
		at = (at + align - 1) / align * align;
		f->param_offset[n] = (uint16_t)at;
		f->param_bytes[n] = bytes[n];
		at += bytes[n];
	}
	f->param_offset[n] = (uint16_t)at;
	f->param_count = n;
	return true;
}

int simgpu_register_with(const char *name, simgpu_kernel code,
			 const uint8_t *param_bytes, void *arg)
{
	struct sim_function *f, shape = { 0 };

	if (!name || !*name || !layout(&shape, param_bytes))
		return -EINVAL;
	f = calloc(1, sizeof(*f) + strlen(name) + 1);
	if (!f)
		return -ENOMEM;
	layout(f, param_bytes);
	f->code = code;
	f->arg = arg;
	memcpy(f->name, name, strlen(name));
	/* First in the list: found in place of an older one of its name, whose
	 * handles stay good. */
	pthread_mutex_lock(&functions_lock);
	f->next = functions;
	functions = f;
	pthread_mutex_unlock(&functions_lock);
	return 0;
}

int simgpu_register(const char *name, simgpu_kernel code,
		    const uint8_t *param_bytes)
{
	return simgpu_register_with(name, code, param_bytes, NULL);
}

const char *simgpu_symbol(void *func)
{
	return func ? ((struct sim_function *)func)->name : NULL;
}

static CUresult module_load(CUmodule *module, const void *image)
{
	CUresult e = sim_ready();

	if (!e && (!module || !image))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e)
		return e;
	*module = calloc(1, sizeof(**module));
	return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	const struct {
		CUmodule *module;
		const void *image;
	} a = { module, image };
	struct sim_call c;

	sim_call_enter(&c, 19, "cuModuleLoadData", &a);
	return sim_call_exit(&c, module_load(module, image));
}

CUresult cuModuleUnload(CUmodule module)
{
	struct sim_call c;

	sim_call_enter(&c, 22, "cuModuleUnload", &module);
	free(module);
	return sim_call_exit(&c,
			     module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult get_function(CUfunction *out, CUmodule module, const char *name)
{
	CUresult e = sim_ready();
	struct sim_function *f;

	if (!e && (!out || !module || !name))
		e = CUDA_ERROR_INVALID_VALUE;
	if (e)
		return e;
	pthread_mutex_lock(&functions_lock);
	f = find_locked(name);
	pthread_mutex_unlock(&functions_lock);
	if (!f)
		return CUDA_ERROR_NOT_FOUND;
	*out = f;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
	const struct {
		CUfunction *f;
		CUmodule module;
		const char *name;
	} a = { f, module, name };
	struct sim_call c;

	sim_call_enter(&c, 23, "cuModuleGetFunction", &a);
	return sim_call_exit(&c, get_function(f, module, name));
}

CUresult cuFuncGetName(const char **name, CUfunction f)
{
	struct sim_call c;
	CUresult e = CUDA_ERROR_INVALID_VALUE;

	sim_call_enter(&c, 718, "cuFuncGetName", NULL);
	if (name && f) {
		*name = f->name;
		e = CUDA_SUCCESS;
	}
	return sim_call_exit(&c, e);
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset,
			    size_t *bytes)
{
	struct sim_call c;
	CUresult e = CUDA_ERROR_INVALID_VALUE;

	sim_call_enter(&c, 733, "cuFuncGetParamInfo", NULL);
	if (f && offset && index < f->param_count) {
		*offset = f->param_offset[index];
		if (bytes)
			*bytes = f->param_bytes[index];
		e = CUDA_SUCCESS;
	}
	return sim_call_exit(&c, e);
}

/* ---- launches ------------------------------------------------------------------ */

/* The packed arguments of `extra`, NULL when there are none. */
static uint8_t *packed(void **extra, size_t *bytes)
{
	uint8_t *buffer = NULL;

	*bytes = 0;
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			*bytes = *(size_t *)extra[1];
		else
			return NULL;
	}
	return buffer;
}

/* Where each argument is: given one by one or packed. */
static bool arguments(const struct sim_function *f, void **params, void **extra,
		      void *out[SIM_PARAMS_MAX])
{
	size_t bytes;
	uint8_t *buffer;

	if (!f->param_count)
		return true;
	if (params) {
		for (unsigned i = 0; i < f->param_count; i++)
			if (!(out[i] = params[i]))
				return false;
		return true;
	}
	buffer = packed(extra, &bytes);
	if (!buffer || bytes < f->param_offset[f->param_count])
		return false;
	for (unsigned i = 0; i < f->param_count; i++)
		out[i] = buffer + f->param_offset[i];
	return true;
}

static CUresult launch(const struct sim_node *shape, CUstream stream,
		       void **params, void **extra)
{
	void *args[SIM_PARAMS_MAX];
	struct sim_node node = *shape, *n = &node;
	CUresult e = sim_ready();
	struct sim_stream *s;

	if (e)
		return e;
	if (!n->function)
		return CUDA_ERROR_INVALID_HANDLE;
	for (int i = 0; i < 3; i++)
		if (!n->grid[i] || !n->block[i])
			return CUDA_ERROR_INVALID_VALUE;
	s = sim_stream_of(stream);
	if (!s || (params && extra) ||
	    !arguments(n->function, params, extra, args))
		return CUDA_ERROR_INVALID_VALUE;
	n->params = args;
	e = sim_capture_implicit(s);
	if (e)
		return e;
	if (sim_capturing(s))
		return sim_capture(s, n);
	sim_stream_throttle(s);
	pthread_mutex_lock(&s->order);
	return sim_plan(s, &n, 1, 0, false);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
			unsigned bx, unsigned by, unsigned bz,
			unsigned shared_bytes, CUstream stream, void **params,
			void **extra)
{
	const struct cu_launch_kernel_params a = {
		.f = f,
		.grid = { gx, gy, gz },
		.block = { bx, by, bz },
		.shared_bytes = shared_bytes,
		.stream = stream,
		.params = params,
		.extra = extra,
	};
	const struct sim_node n = {
		.type = NODE_KERNEL,
		.after = { -1, -1 },
		.function = f,
		.grid = { gx, gy, gz },
		.block = { bx, by, bz },
		.shared_bytes = shared_bytes,
	};
	struct sim_call c;

	sim_call_enter(&c, CBID_LAUNCH_KERNEL, "cuLaunchKernel", &a);
	return sim_call_exit(&c, launch(&n, stream, params, extra));
}

static CUresult launch_ex(const struct cu_launch_config *k, CUfunction f,
			  void **params, void **extra)
{
	struct sim_node n = { .type = NODE_KERNEL,
			      .after = { -1, -1 },
			      .function = f };

	if (!k)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(n.grid, k->grid, sizeof(n.grid));
	memcpy(n.block, k->block, sizeof(n.block));
	n.shared_bytes = k->shared_bytes;
	return launch(&n, k->stream, params, extra);
}

CUresult cuLaunchKernelEx(const struct cu_launch_config *config, CUfunction f,
			  void **params, void **extra)
{
	const struct cu_launch_kernel_ex_params a = { config, f, params,
						      extra };
	struct sim_call c;

	sim_call_enter(&c, CBID_LAUNCH_KERNEL_EX, "cuLaunchKernelEx", &a);
	return sim_call_exit(&c, launch_ex(config, f, params, extra));
}
