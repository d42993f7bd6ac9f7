/*
 * abi.h - the part of CUDA's and CUPTI's binary interface that moetop uses
 *
 * Written by hand so that moetop builds without a CUDA toolkit and works with
 * every CUPTI from 11.8 on: records are read by a prefix that has been the same
 * since Kernel5 (offsets 0..159), and always stepped with
 * cuptiActivityGetNextRecord.  cupti/abi_releases.def holds what the headers of
 * every release say; tests/unit/cupti/test_cupti_abi.c holds this file to it.
 */
#ifndef MOETOP_CUPTI_ABI_H
#define MOETOP_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ---- results and versions ---------------------------------------------- */

enum {
	CUPTI_OK = 0,
	CUPTI_E_INVALID_PARAMETER = 1,
	CUPTI_E_MAX_LIMIT_REACHED = 12,
	CUPTI_E_NOT_INITIALIZED = 15,
	CUPTI_E_NOT_SUPPORTED = 27,
	CUPTI_E_INSUFFICIENT_PRIVILEGES = 35,
	CUPTI_E_MULTIPLE_SUBSCRIBERS = 39,
	CUPTI_E_UNKNOWN = 999,
};
#define CUPTI_VERSION_MIN 18u /* CUDA 11.8 */

/* ---- activity ---------------------------------------------------------- */

enum {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_KERNEL = 3,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
};

struct cupti_kernel { /* CUpti_ActivityKernel5 .. Kernel13, offsets 0..159 */
	uint32_t kind;
	uint8_t cache_config, shared_config;
	uint16_t registers;
	uint32_t partitioned_cache[2];
	uint64_t start, end, completed;
	uint32_t device, context, stream;
	int32_t grid[3], block[3];
	int32_t static_smem, dynamic_smem;
	uint32_t local_per_thread, local_total;
	uint32_t correlation;
	int64_t grid_id;
	const char *name;
	void *reserved0;
	uint64_t queued, submitted;
	uint8_t launch_type, smem_config_requested, smem_carveout, smem_config;
	uint32_t smem_executed;
	uint64_t graph_node;
	uint32_t shmem_limit;
	uint32_t graph;
};

enum { CUPTI_COPY_DTOH = 2 };   /* copy_kind */
enum { CUPTI_NODE_KERNEL = 0 }; /* CUgraphNodeType, in cupti_graph_data */

struct cupti_memcpy { /* CUpti_ActivityMemcpy3 .. 6, offsets 0..75 */
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes;
	uint64_t start, end;
	uint32_t device, context, stream, correlation, runtime_correlation;
	uint32_t pad;
	void *reserved0;
	uint64_t graph_node;
	uint32_t graph;
};

_Static_assert(offsetof(struct cupti_kernel, start) == 16, "abi");
_Static_assert(offsetof(struct cupti_kernel, device) == 40, "abi");
_Static_assert(offsetof(struct cupti_kernel, grid) == 52, "abi");
_Static_assert(offsetof(struct cupti_kernel, correlation) == 92, "abi");
_Static_assert(offsetof(struct cupti_kernel, name) == 104, "abi");
_Static_assert(offsetof(struct cupti_kernel, queued) == 120, "abi");
_Static_assert(offsetof(struct cupti_kernel, graph_node) == 144, "abi");
_Static_assert(offsetof(struct cupti_kernel, graph) == 156, "abi");
_Static_assert(offsetof(struct cupti_memcpy, bytes) == 8, "abi");
_Static_assert(offsetof(struct cupti_memcpy, start) == 16, "abi");
_Static_assert(offsetof(struct cupti_memcpy, stream) == 40, "abi");
_Static_assert(offsetof(struct cupti_memcpy, correlation) == 44, "abi");
_Static_assert(offsetof(struct cupti_memcpy, graph_node) == 64, "abi");
_Static_assert(offsetof(struct cupti_memcpy, graph) == 72, "abi");

/* CUpti_ActivityAttribute */
enum {
	CUPTI_ATTR_DEVICE_BUFFER_SIZE = 0,
	CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT = 2,
	CUPTI_ATTR_ZEROED_OUT_BUFFER = 5,
	CUPTI_ATTR_PER_THREAD_BUFFER = 9,
};

/* ---- callbacks --------------------------------------------------------- */

/* CUpti_CallbackDomain */
enum {
	CUPTI_DOMAIN_DRIVER = 1,
	CUPTI_DOMAIN_RUNTIME = 2,
	CUPTI_DOMAIN_RESOURCE = 3,
	CUPTI_DOMAIN_SYNCHRONIZE = 4,
	CUPTI_DOMAIN_NVTX = 5,
	CUPTI_DOMAIN_STATE = 6,
};

enum { CUPTI_ENTER = 0, CUPTI_EXIT = 1 };

/* driver cbids */
enum {
	CBID_LAUNCH_KERNEL = 307,
	CBID_LAUNCH_KERNEL_PTSZ = 442,
	CBID_LAUNCH_KERNEL_EX = 652,
	CBID_LAUNCH_KERNEL_EX_PTSZ = 653,
	CBID_GRAPH_LAUNCH = 514,
	CBID_GRAPH_LAUNCH_PTSZ = 515,
	CBID_MEMCPY_DTOH_ASYNC = 279, /* cuMemcpyDtoHAsync_v2 */
	CBID_GRAPH_EXEC_SET_PARAMS = 538,
	CBID_GRAPH_EXEC_SET_PARAMS_V2 = 692,
	CBID_GRAPH_EXEC_UPDATE = 561,
	CBID_GRAPH_EXEC_UPDATE_V2 = 696,
	CBID_STREAM_BEGIN_CAPTURE = 539,
	CBID_STREAM_BEGIN_CAPTURE_PTSZ = 540,
	CBID_STREAM_END_CAPTURE = 497,
	CBID_STREAM_END_CAPTURE_PTSZ = 498,
};

/* runtime cbids: what torch and CUDA C++ launch through */
enum {
	CBID_RT_LAUNCH_KERNEL = 211,
	CBID_RT_LAUNCH_KERNEL_PTSZ = 214,
	CBID_RT_LAUNCH_KERNEL_EX = 430,
	CBID_RT_LAUNCH_KERNEL_EX_PTSZ = 431,
	CBID_RT_LAUNCH_KERNEL_13 = 505, /* takes a CUkernel, no host stub */
	CBID_RT_LAUNCH_KERNEL_13_PTSZ = 506,
	CBID_RT_GRAPH_LAUNCH = 311,
	CBID_RT_GRAPH_LAUNCH_PTSZ = 312,
};

/* CUpti_CallbackIdResource */
enum {
	CBID_RES_CONTEXT_CREATED = 1,
	CBID_RES_GRAPH_CREATED = 9,
	CBID_RES_GRAPH_DESTROY = 10, /* starting */
	CBID_RES_GRAPHNODE_CREATED = 13,
	CBID_RES_GRAPHEXEC_CREATED = 18,
	CBID_RES_GRAPHEXEC_DESTROY = 19,
	CBID_RES_GRAPHNODE_CLONED = 20,
};

enum { CBID_STATE_FATAL_ERROR = 1 };

struct cupti_callback_data { /* CUpti_CallbackData, 72 bytes */
	uint32_t site;
	uint32_t pad;
	const char *function_name;
	const void *function_params;
	void *return_value;
	const char *symbol_name;
	void *context;
	uint32_t context_uid;
	uint32_t pad2;
	uint64_t *correlation_data;
	uint32_t correlation;
};

struct cupti_resource_data { /* CUpti_ResourceData */
	void *context;
	void *handle;
	void *descriptor; /* struct cupti_graph_data for graph cbids */
};

struct cupti_graph_data { /* CUpti_GraphData, 56 bytes */
	void *graph, *original_graph;
	void *node, *original_node;
	uint32_t node_type;
	uint32_t pad;
	void *dependency;
	void *graph_exec;
};

_Static_assert(offsetof(struct cupti_callback_data, correlation) == 64, "abi");
_Static_assert(offsetof(struct cupti_graph_data, node_type) == 32, "abi");
_Static_assert(offsetof(struct cupti_graph_data, graph_exec) == 48, "abi");

/* Parameter structs of the driver calls (generated_cuda_meta.h). */
struct cu_launch_kernel_params {
	void *f;
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void *stream;
	void **params;
	void **extra;
};

struct cu_launch_config { /* CUlaunchConfig */
	unsigned grid[3], block[3];
	unsigned shared_bytes;
	void *stream;
	void *attrs;
	unsigned num_attrs;
};

struct cu_launch_kernel_ex_params {
	const struct cu_launch_config *config;
	void *f;
	void **params;
	void **extra;
};

/* cudaLaunchKernel and cudaLaunchKernelExC (generated_cuda_runtime_api_meta.h);
 * their configuration begins with the grid, as CUlaunchConfig does. */
struct rt_launch_kernel_params {
	void *f; /* host stub, or CUkernel from 13.0 on */
	unsigned grid[3], block[3];
	void **params;
};

struct rt_launch_kernel_ex_params {
	const struct cu_launch_config *config;
	void *f;
	void **params;
};

struct cu_graph_launch_params { /* the same for cudaGraphLaunch */
	void *exec;             /* first, too, in the calls that change one */
	void *stream;
};

struct cu_end_capture_params {
	void *stream;
	void **graph;
};

enum { CUDA_MEMORY_DEVICE = 2 }; /* CUmemorytype */

struct cuda_memcpy_end { /* of CUDA_MEMCPY3D: where from, and where to */
	size_t x_bytes, y, z, lod;
	uint32_t type;
	uint32_t pad;
	void *host;
	uint64_t device;
	void *array, *reserved;
	size_t pitch, height;
};

struct cuda_memcpy3d { /* CUDA_MEMCPY3D, 200 bytes */
	struct cuda_memcpy_end from, to;
	size_t width_bytes, height, depth;
};

_Static_assert(sizeof(struct cuda_memcpy3d) == 200, "abi");

struct cuda_edge { /* CUgraphEdgeData */
	uint8_t from_port, to_port, type, reserved[5];
};

_Static_assert(sizeof(struct cuda_edge) == 8, "abi");

/* CUpti_SubscriberParams, 40 bytes; the first 32 in 13.0 and 13.1. */
struct cupti_subscriber_params {
	size_t struct_size;
	const char *name;
	char *old_name; /* receives that of the client in the way */
	size_t old_name_bytes;
	uint8_t allow_multiple;
	uint8_t pad[7];
};

#define CUPTI_NAME_BYTES 64u /* of a subscriber, with CUPTI's prefix */

_Static_assert(offsetof(struct cupti_subscriber_params, allow_multiple) == 32,
	       "abi");
_Static_assert(sizeof(struct cupti_subscriber_params) == 40, "abi");

/* CUpti_BufferCallbackRequestInfo and ...CompleteInfo: what moetop ignores. */
struct cupti_buffer_info {
	size_t struct_size;
};

typedef void (*cupti_callback)(void *userdata, int domain, uint32_t cbid,
			       const void *data);
typedef void (*cupti_buffer_requested)(uint8_t **buffer, size_t *bytes,
				       size_t *max_records);
typedef void (*cupti_buffer_completed)(void *context, uint32_t stream,
				       uint8_t *buffer, size_t bytes,
				       size_t valid_bytes);
typedef void (*cupti_buffer_requested_v2)(uint8_t **buffer, size_t *bytes,
					  size_t *max_records,
					  struct cupti_buffer_info *info);
typedef void (*cupti_buffer_completed_v2)(uint8_t *buffer, size_t bytes,
					  size_t valid_bytes,
					  struct cupti_buffer_info *info);

#endif
