#include "cupti/abi.h"
#include "cupti/library.h"

#include "tests/unit/cupti/check.h"

/* The numbers of cupti/abi.h against the headers of whatever CUPTI is here. */

#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <cupti.h>
#define HAVE_HEADERS 1
#else
#define HAVE_HEADERS 0
#endif

#if HAVE_HEADERS

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel_record;
typedef CUpti_ActivityMemcpy6 memcpy_record;
#elif CUPTI_API_VERSION >= 20
typedef CUpti_ActivityKernel9 kernel_record;
typedef CUpti_ActivityMemcpy5 memcpy_record;
#else
typedef CUpti_ActivityKernel8 kernel_record;
typedef CUpti_ActivityMemcpy5 memcpy_record;
#endif

#define SAME(ours, our_member, theirs, their_member)        \
	assert_int_equal(offsetof(struct ours, our_member), \
			 offsetof(theirs, their_member))

static void kernel_records_have_the_known_prefix(void **state)
{
	(void)state;
	SAME(cupti_kernel, kind, kernel_record, kind);
	SAME(cupti_kernel, registers, kernel_record, registersPerThread);
	SAME(cupti_kernel, start, kernel_record, start);
	SAME(cupti_kernel, end, kernel_record, end);
	SAME(cupti_kernel, completed, kernel_record, completed);
	SAME(cupti_kernel, device, kernel_record, deviceId);
	SAME(cupti_kernel, context, kernel_record, contextId);
	SAME(cupti_kernel, stream, kernel_record, streamId);
	SAME(cupti_kernel, grid, kernel_record, gridX);
	SAME(cupti_kernel, block, kernel_record, blockX);
	SAME(cupti_kernel, static_smem, kernel_record, staticSharedMemory);
	SAME(cupti_kernel, correlation, kernel_record, correlationId);
	SAME(cupti_kernel, grid_id, kernel_record, gridId);
	SAME(cupti_kernel, name, kernel_record, name);
	SAME(cupti_kernel, queued, kernel_record, queued);
	SAME(cupti_kernel, submitted, kernel_record, submitted);
	SAME(cupti_kernel, launch_type, kernel_record, launchType);
	SAME(cupti_kernel, graph_node, kernel_record, graphNodeId);
	SAME(cupti_kernel, graph, kernel_record, graphId);
	assert_true(sizeof(struct cupti_kernel) <= sizeof(kernel_record));
}

static void copy_records_have_the_known_prefix(void **state)
{
	(void)state;
	SAME(cupti_memcpy, copy_kind, memcpy_record, copyKind);
	SAME(cupti_memcpy, bytes, memcpy_record, bytes);
	SAME(cupti_memcpy, start, memcpy_record, start);
	SAME(cupti_memcpy, end, memcpy_record, end);
	SAME(cupti_memcpy, device, memcpy_record, deviceId);
	SAME(cupti_memcpy, stream, memcpy_record, streamId);
	SAME(cupti_memcpy, correlation, memcpy_record, correlationId);
	SAME(cupti_memcpy, graph_node, memcpy_record, graphNodeId);
	SAME(cupti_memcpy, graph, memcpy_record, graphId);
	assert_int_equal(CUPTI_COPY_DTOH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
}

static void callback_data_have_the_known_layout(void **state)
{
	(void)state;
	SAME(cupti_callback_data, site, CUpti_CallbackData, callbackSite);
	SAME(cupti_callback_data, function_name, CUpti_CallbackData,
	     functionName);
	SAME(cupti_callback_data, function_params, CUpti_CallbackData,
	     functionParams);
	SAME(cupti_callback_data, symbol_name, CUpti_CallbackData, symbolName);
	SAME(cupti_callback_data, context, CUpti_CallbackData, context);
	SAME(cupti_callback_data, correlation, CUpti_CallbackData,
	     correlationId);
	SAME(cupti_resource_data, descriptor, CUpti_ResourceData,
	     resourceDescriptor);
	SAME(cupti_graph_data, graph, CUpti_GraphData, graph);
	SAME(cupti_graph_data, original_graph, CUpti_GraphData, originalGraph);
	SAME(cupti_graph_data, node, CUpti_GraphData, node);
	SAME(cupti_graph_data, original_node, CUpti_GraphData, originalNode);
	SAME(cupti_graph_data, node_type, CUpti_GraphData, nodeType);
	SAME(cupti_graph_data, graph_exec, CUpti_GraphData, graphExec);
	assert_int_equal(CUPTI_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
}

static void launch_parameters_have_the_known_layout(void **state)
{
	(void)state;
	SAME(cu_launch_kernel_params, f, cuLaunchKernel_params, f);
	SAME(cu_launch_kernel_params, grid, cuLaunchKernel_params, gridDimX);
	SAME(cu_launch_kernel_params, stream, cuLaunchKernel_params, hStream);
	SAME(cu_launch_kernel_params, params, cuLaunchKernel_params,
	     kernelParams);
	SAME(cu_launch_kernel_params, extra, cuLaunchKernel_params, extra);
	SAME(cu_launch_kernel_ex_params, config, cuLaunchKernelEx_params,
	     config);
	SAME(cu_launch_kernel_ex_params, f, cuLaunchKernelEx_params, f);
	SAME(cu_launch_kernel_ex_params, params, cuLaunchKernelEx_params,
	     kernelParams);
	SAME(cu_launch_config, grid, CUlaunchConfig, gridDimX);
	SAME(cu_launch_config, stream, CUlaunchConfig, hStream);
	SAME(rt_launch_kernel_params, f, cudaLaunchKernel_v7000_params, func);
	SAME(rt_launch_kernel_params, grid, cudaLaunchKernel_v7000_params,
	     gridDim);
	SAME(rt_launch_kernel_params, params, cudaLaunchKernel_v7000_params,
	     args);
	SAME(rt_launch_kernel_ex_params, f, cudaLaunchKernelExC_v11060_params,
	     func);
	SAME(rt_launch_kernel_ex_params, params,
	     cudaLaunchKernelExC_v11060_params, args);
	SAME(cu_launch_config, grid, cudaLaunchConfig_t, gridDim);
	SAME(cu_graph_launch_params, exec, cudaGraphLaunch_v10000_params,
	     graphExec);
	SAME(cu_graph_launch_params, exec, cuGraphLaunch_params, hGraph);
	SAME(cu_graph_launch_params, stream, cuGraphLaunch_params, hStream);
	SAME(cu_graph_launch_params, exec, cuGraphExecUpdate_v2_params,
	     hGraphExec);
	SAME(cu_graph_launch_params, exec,
	     cuGraphExecKernelNodeSetParams_v2_params, hGraphExec);
}

static const struct {
	int ours, theirs;
} numbers[] = {
	{ CUPTI_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY },
	{ CUPTI_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMSET },
	{ CUPTI_KIND_KERNEL, CUPTI_ACTIVITY_KIND_KERNEL },
	{ CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL },
	{ CUPTI_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API },
	{ CUPTI_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE },
	{ CUPTI_DOMAIN_STATE, CUPTI_CB_DOMAIN_STATE },
	{ CUPTI_ENTER, CUPTI_API_ENTER },
	{ CUPTI_EXIT, CUPTI_API_EXIT },
	{ CBID_LAUNCH_KERNEL, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel },
	{ CBID_LAUNCH_KERNEL_PTSZ,
	  CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz },
	{ CBID_LAUNCH_KERNEL_EX, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx },
	{ CBID_LAUNCH_KERNEL_EX_PTSZ,
	  CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz },
	{ CBID_GRAPH_LAUNCH, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch },
	{ CBID_GRAPH_LAUNCH_PTSZ, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz },
	{ CBID_MEMCPY_DTOH_ASYNC,
	  CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2 },
	{ CBID_GRAPH_EXEC_SET_PARAMS,
	  CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams },
	{ CBID_GRAPH_EXEC_UPDATE, CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate },
#if CUPTI_API_VERSION >= 18
	{ CBID_GRAPH_EXEC_SET_PARAMS_V2,
	  CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2 },
	{ CBID_GRAPH_EXEC_UPDATE_V2,
	  CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2 },
#endif
	{ CBID_RT_LAUNCH_KERNEL,
	  CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000 },
	{ CBID_RT_LAUNCH_KERNEL_PTSZ,
	  CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000 },
	{ CBID_RT_LAUNCH_KERNEL_EX,
	  CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060 },
	{ CBID_RT_LAUNCH_KERNEL_EX_PTSZ,
	  CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060 },
	{ CBID_RT_GRAPH_LAUNCH,
	  CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000 },
	{ CBID_RT_GRAPH_LAUNCH_PTSZ,
	  CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000 },
#if CUPTI_API_VERSION >= 130000
	{ CBID_RT_LAUNCH_KERNEL_13,
	  CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000 },
#endif
	{ CBID_RES_GRAPH_DESTROY, CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING },
	{ CBID_RES_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED },
	{ CBID_RES_GRAPHEXEC_CREATED, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED },
	{ CBID_RES_GRAPHEXEC_DESTROY,
	  CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING },
	{ CBID_RES_GRAPHNODE_CLONED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED },
	{ CBID_STATE_FATAL_ERROR, CUPTI_CBID_STATE_FATAL_ERROR },
	{ CUPTI_OK, CUPTI_SUCCESS },
	{ CUPTI_E_INVALID_PARAMETER, CUPTI_ERROR_INVALID_PARAMETER },
	{ CUPTI_E_MULTIPLE_SUBSCRIBERS,
	  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED },
	{ CUPTI_E_INSUFFICIENT_PRIVILEGES,
	  CUPTI_ERROR_INSUFFICIENT_PRIVILEGES },
	{ CUPTI_E_UNKNOWN, CUPTI_ERROR_UNKNOWN },
	{ CUDA_POINTER_MAPPED, CU_POINTER_ATTRIBUTE_MAPPED },
	{ CUDA_E_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE },
	{ CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING },
	{ CUDA_HOST_ALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE },
	{ CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED },
#if CUPTI_API_VERSION >= 19
	{ CUPTI_ATTR_PER_THREAD_BUFFER,
	  CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER },
#endif
	{ CUPTI_ATTR_ZEROED_OUT_BUFFER,
	  CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER },
};

static void numbers_are_those_of_the_headers(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		assert_int_equal(numbers[i].ours, numbers[i].theirs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_records_have_the_known_prefix),
		cmocka_unit_test(copy_records_have_the_known_prefix),
		cmocka_unit_test(callback_data_have_the_known_layout),
		cmocka_unit_test(launch_parameters_have_the_known_layout),
		cmocka_unit_test(numbers_are_those_of_the_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void)
{
	puts("1..0 # SKIP no cupti.h and cuda.h on the include path: the "
	     "binary interface was not compared");
	return 0;
}

#endif
