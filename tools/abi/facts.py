"""What moetop knows of CUPTI's binary interface, and what each release says.

RECORDS: our name, NVIDIA's type, the members whose offsets are wanted.  A type
that ends in * is the newest of a numbered family in cupti_activity.h: the one
that a release delivers.  NUMBERS: our name, NVIDIA's enumerator.
"""

RECORDS = [
    ("kernel", "CUpti_ActivityKernel*", """kind registersPerThread start end
        completed deviceId contextId streamId gridX gridY gridZ blockX blockY
        blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread
        localMemoryTotal correlationId gridId name queued submitted launchType
        sharedMemoryExecuted graphNodeId graphId channelID channelType clusterX
        clusterY clusterZ localMemoryTotal_v2 isDeviceLaunched priority
        executionModel sourceGraphId sourceGraphNodeId"""),
    ("memcpy", "CUpti_ActivityMemcpy*", """kind copyKind srcKind dstKind flags
        bytes start end deviceId contextId streamId correlationId
        runtimeCorrelationId graphNodeId graphId channelID isDeviceLaunched
        copyCount sourceGraphId sourceGraphNodeId"""),
    ("memcpy2", "CUpti_ActivityMemcpyPtoP*", """kind copyKind bytes start end
        deviceId correlationId graphNodeId graphId"""),
    ("memset", "CUpti_ActivityMemset*", """kind value bytes start end deviceId
        contextId streamId correlationId flags memoryKind graphNodeId graphId
        channelID isDeviceLaunched sourceGraphId sourceGraphNodeId"""),
    ("callback_data", "CUpti_CallbackData", """callbackSite functionName
        functionParams functionReturnValue symbolName context contextUid
        correlationData correlationId"""),
    ("resource_data", "CUpti_ResourceData",
     "context resourceHandle resourceDescriptor"),
    ("graph_data", "CUpti_GraphData", """graph originalGraph node originalNode
        nodeType dependency graphExec"""),
    ("subscriber_params", "CUpti_SubscriberParams", """structSize
        subscriberName oldSubscriberName oldSubscriberSize
        allowMultipleSubscribers"""),
    ("request_info", "CUpti_BufferCallbackRequestInfo", "structSize"),
    ("complete_info", "CUpti_BufferCallbackCompleteInfo",
     "structSize threadId ppRecordLayouts numRecordLayouts"),
    ("activity_config", "CUpti_ActivityConfig",
     "structSize fieldSelection pKindOptions"),
    ("launch_kernel", "cuLaunchKernel_params",
     "f gridDimX blockDimX sharedMemBytes hStream kernelParams extra"),
    ("launch_kernel_ex", "cuLaunchKernelEx_params",
     "config f kernelParams extra"),
    ("launch_config", "CUlaunchConfig",
     "gridDimX blockDimX sharedMemBytes hStream attrs numAttrs"),
    ("graph_launch", "cuGraphLaunch_params", "hGraph hStream"),
    ("exec_update", "cuGraphExecUpdate_v2_params", "hGraphExec"),
    ("exec_set_params", "cuGraphExecKernelNodeSetParams_v2_params",
     "hGraphExec"),
    ("rt_launch_kernel", "cudaLaunchKernel_v7000_params",
     "func gridDim blockDim args"),
    ("rt_launch_kernel_ex", "cudaLaunchKernelExC_v11060_params",
     "config func args"),
    ("rt_launch_config", "cudaLaunchConfig_t", "gridDim"),
    ("rt_graph_launch", "cudaGraphLaunch_v10000_params", "graphExec stream"),
]

NUMBERS = """
kind_memcpy CUPTI_ACTIVITY_KIND_MEMCPY
kind_memset CUPTI_ACTIVITY_KIND_MEMSET
kind_kernel CUPTI_ACTIVITY_KIND_KERNEL
kind_concurrent_kernel CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
copy_dtoh CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
flush_forced CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
attr_device_buffer_size CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE
attr_device_buffer_pool_limit CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT
attr_zeroed_out_buffer CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER
attr_per_thread_buffer CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
attr_subscriber_state CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE
domain_driver CUPTI_CB_DOMAIN_DRIVER_API
domain_runtime CUPTI_CB_DOMAIN_RUNTIME_API
domain_resource CUPTI_CB_DOMAIN_RESOURCE
domain_state CUPTI_CB_DOMAIN_STATE
site_enter CUPTI_API_ENTER
site_exit CUPTI_API_EXIT
launch_kernel CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel
launch_kernel_ptsz CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz
launch_kernel_ex CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx
launch_kernel_ex_ptsz CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz
graph_launch CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch
graph_launch_ptsz CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz
memcpy_dtoh_async CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2
exec_set_params CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams
exec_set_params_v2 CUPTI_DRIVER_TRACE_CBID_cuGraphExecKernelNodeSetParams_v2
exec_update CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate
exec_update_v2 CUPTI_DRIVER_TRACE_CBID_cuGraphExecUpdate_v2
begin_capture CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2
begin_capture_ptsz CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz
end_capture CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture
end_capture_ptsz CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz
rt_launch_kernel CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000
rt_launch_kernel_ptsz CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000
rt_launch_kernel_ex CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060
rt_launch_kernel_ex_ptsz CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060
rt_launch_kernel_13 CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000
rt_launch_kernel_13_ptsz CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000
rt_graph_launch CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000
rt_graph_launch_ptsz CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000
res_context_created CUPTI_CBID_RESOURCE_CONTEXT_CREATED
res_graph_created CUPTI_CBID_RESOURCE_GRAPH_CREATED
res_graph_destroy CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING
res_node_created CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED
res_node_cloned CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED
res_exec_created CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED
res_exec_destroy CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING
state_fatal_error CUPTI_CBID_STATE_FATAL_ERROR
node_type_kernel CU_GRAPH_NODE_TYPE_KERNEL
e_invalid_parameter CUPTI_ERROR_INVALID_PARAMETER
e_invalid_operation CUPTI_ERROR_INVALID_OPERATION
e_max_limit CUPTI_ERROR_MAX_LIMIT_REACHED
e_not_initialized CUPTI_ERROR_NOT_INITIALIZED
e_invalid_kind CUPTI_ERROR_INVALID_KIND
e_not_supported CUPTI_ERROR_NOT_SUPPORTED
e_privileges CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
e_multiple_subscribers CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
e_unknown CUPTI_ERROR_UNKNOWN
"""

# Toolkit, package of CUPTI, of the runtime and, for cuda_runtime_api.h, of the
# compiler's headers; the packages of CUDA 11 and 12 have these in a large one.
RELEASES = (
    [("11.8", "nvidia-cuda-cupti-cu11", "nvidia-cuda-runtime-cu11", "")] +
    [(f"12.{m}", "nvidia-cuda-cupti-cu12", "nvidia-cuda-runtime-cu12", "")
     for m in (0, 1, 2, 3, 4, 5, 6, 8, 9)] +
    [(f"13.{m}", "nvidia-cuda-cupti", "nvidia-cuda-runtime", "nvidia-cuda-crt")
     for m in range(6)])
CRT_FOR_OLDER = "nvidia-cuda-crt==13.0.*"
