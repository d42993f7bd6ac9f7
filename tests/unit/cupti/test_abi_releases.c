#include "cupti/abi.h"
#include "cupti/library.h"
#include "cupti/release.h"

#include "tests/unit/cupti/check.h"

/* cupti/abi.h and cupti/release.c against the table of all releases. */

enum fact {
#define SAME(name, ...) FACT_##name,
#define EACH(name, ...) FACT_##name,
#include "cupti/abi_releases.def"
#undef SAME
#undef EACH
	FACTS
};

static const struct {
	const char *name;
	int values; /* 1: the same for all */
	int value[ABI_RELEASES];
} facts[] = {
#define COUNT(...) (sizeof((int[]){ __VA_ARGS__ }) / sizeof(int))
#define SAME(name, v) [FACT_##name] = { #name, 1, { v } },
#define EACH(name, ...) \
	[FACT_##name] = { #name, COUNT(__VA_ARGS__), { __VA_ARGS__ } },
#include "cupti/abi_releases.def"
};

static int value(enum fact f, int release)
{
	return facts[f].value[facts[f].values == 1 ? 0 : release];
}

/* The first release that has it; -1: none. */
static int since(enum fact f)
{
	for (int r = 0; r < ABI_RELEASES; r++)
		if (value(f, r) >= 0)
			return value(FACT_toolkit, r);
	return -1;
}

static void every_line_has_a_value_for_every_release(void **state)
{
	(void)state;
	for (int f = 0; f < FACTS; f++)
		if (facts[f].values != 1)
			assert_int_equal(facts[f].values, ABI_RELEASES);
	assert_int_equal(value(FACT_toolkit, 0), 11080);
	for (int r = 1; r < ABI_RELEASES; r++) {
		assert_true(value(FACT_toolkit, r) >
			    value(FACT_toolkit, r - 1));
		assert_true(value(FACT_version, r) >=
			    value(FACT_version, r - 1));
	}
}

#define OF(record, member, theirs)                             \
	{                                                      \
		FACT_##theirs, offsetof(struct record, member) \
	}

/* What is read or written through a structure of abi.h. */
static const struct {
	enum fact fact;
	int ours;
} always[] = {
	OF(cupti_kernel, kind, kernel_kind),
	OF(cupti_kernel, registers, kernel_registersPerThread),
	OF(cupti_kernel, start, kernel_start),
	OF(cupti_kernel, end, kernel_end),
	OF(cupti_kernel, completed, kernel_completed),
	OF(cupti_kernel, device, kernel_deviceId),
	OF(cupti_kernel, context, kernel_contextId),
	OF(cupti_kernel, stream, kernel_streamId),
	OF(cupti_kernel, grid[0], kernel_gridX),
	OF(cupti_kernel, grid[1], kernel_gridY),
	OF(cupti_kernel, grid[2], kernel_gridZ),
	OF(cupti_kernel, block[0], kernel_blockX),
	OF(cupti_kernel, block[1], kernel_blockY),
	OF(cupti_kernel, block[2], kernel_blockZ),
	OF(cupti_kernel, static_smem, kernel_staticSharedMemory),
	OF(cupti_kernel, dynamic_smem, kernel_dynamicSharedMemory),
	OF(cupti_kernel, local_per_thread, kernel_localMemoryPerThread),
	OF(cupti_kernel, local_total, kernel_localMemoryTotal),
	OF(cupti_kernel, correlation, kernel_correlationId),
	OF(cupti_kernel, grid_id, kernel_gridId),
	OF(cupti_kernel, name, kernel_name),
	OF(cupti_kernel, queued, kernel_queued),
	OF(cupti_kernel, submitted, kernel_submitted),
	OF(cupti_kernel, launch_type, kernel_launchType),
	OF(cupti_kernel, smem_executed, kernel_sharedMemoryExecuted),
	OF(cupti_kernel, graph_node, kernel_graphNodeId),
	OF(cupti_kernel, graph, kernel_graphId),
	OF(cupti_memcpy, kind, memcpy_kind),
	OF(cupti_memcpy, copy_kind, memcpy_copyKind),
	OF(cupti_memcpy, src_kind, memcpy_srcKind),
	OF(cupti_memcpy, dst_kind, memcpy_dstKind),
	OF(cupti_memcpy, flags, memcpy_flags),
	OF(cupti_memcpy, bytes, memcpy_bytes),
	OF(cupti_memcpy, start, memcpy_start),
	OF(cupti_memcpy, end, memcpy_end),
	OF(cupti_memcpy, device, memcpy_deviceId),
	OF(cupti_memcpy, context, memcpy_contextId),
	OF(cupti_memcpy, stream, memcpy_streamId),
	OF(cupti_memcpy, correlation, memcpy_correlationId),
	OF(cupti_memcpy, runtime_correlation, memcpy_runtimeCorrelationId),
	OF(cupti_memcpy, graph_node, memcpy_graphNodeId),
	OF(cupti_memcpy, graph, memcpy_graphId),
	OF(cupti_callback_data, site, callback_data_callbackSite),
	OF(cupti_callback_data, function_name, callback_data_functionName),
	OF(cupti_callback_data, function_params, callback_data_functionParams),
	OF(cupti_callback_data, return_value,
	   callback_data_functionReturnValue),
	OF(cupti_callback_data, symbol_name, callback_data_symbolName),
	OF(cupti_callback_data, context, callback_data_context),
	OF(cupti_callback_data, context_uid, callback_data_contextUid),
	OF(cupti_callback_data, correlation_data,
	   callback_data_correlationData),
	OF(cupti_callback_data, correlation, callback_data_correlationId),
	{ FACT_callback_data_sizeof, sizeof(struct cupti_callback_data) },
	OF(cupti_resource_data, context, resource_data_context),
	OF(cupti_resource_data, handle, resource_data_resourceHandle),
	OF(cupti_resource_data, descriptor, resource_data_resourceDescriptor),
	OF(cupti_graph_data, graph, graph_data_graph),
	OF(cupti_graph_data, original_graph, graph_data_originalGraph),
	OF(cupti_graph_data, node, graph_data_node),
	OF(cupti_graph_data, original_node, graph_data_originalNode),
	OF(cupti_graph_data, node_type, graph_data_nodeType),
	OF(cupti_graph_data, dependency, graph_data_dependency),
	OF(cupti_graph_data, graph_exec, graph_data_graphExec),
	{ FACT_graph_data_sizeof, sizeof(struct cupti_graph_data) },
	OF(cu_launch_kernel_params, f, launch_kernel_f),
	OF(cu_launch_kernel_params, grid, launch_kernel_gridDimX),
	OF(cu_launch_kernel_params, block, launch_kernel_blockDimX),
	OF(cu_launch_kernel_params, shared_bytes, launch_kernel_sharedMemBytes),
	OF(cu_launch_kernel_params, stream, launch_kernel_hStream),
	OF(cu_launch_kernel_params, params, launch_kernel_kernelParams),
	OF(cu_launch_kernel_params, extra, launch_kernel_extra),
	OF(cu_launch_kernel_ex_params, config, launch_kernel_ex_config),
	OF(cu_launch_kernel_ex_params, f, launch_kernel_ex_f),
	OF(cu_launch_kernel_ex_params, params, launch_kernel_ex_kernelParams),
	OF(cu_launch_kernel_ex_params, extra, launch_kernel_ex_extra),
	OF(cu_launch_config, grid, launch_config_gridDimX),
	OF(cu_launch_config, block, launch_config_blockDimX),
	OF(cu_launch_config, shared_bytes, launch_config_sharedMemBytes),
	OF(cu_launch_config, stream, launch_config_hStream),
	OF(cu_launch_config, attrs, launch_config_attrs),
	OF(cu_launch_config, num_attrs, launch_config_numAttrs),
	OF(cu_launch_config, grid, rt_launch_config_gridDim),
	OF(rt_launch_kernel_params, f, rt_launch_kernel_func),
	OF(rt_launch_kernel_params, grid, rt_launch_kernel_gridDim),
	OF(rt_launch_kernel_params, block, rt_launch_kernel_blockDim),
	OF(rt_launch_kernel_params, params, rt_launch_kernel_args),
	OF(rt_launch_kernel_ex_params, config, rt_launch_kernel_ex_config),
	OF(rt_launch_kernel_ex_params, f, rt_launch_kernel_ex_func),
	OF(rt_launch_kernel_ex_params, params, rt_launch_kernel_ex_args),
	OF(cu_graph_launch_params, exec, graph_launch_hGraph),
	OF(cu_graph_launch_params, stream, graph_launch_hStream),
	OF(cu_graph_launch_params, exec, rt_graph_launch_graphExec),
	OF(cu_graph_launch_params, stream, rt_graph_launch_stream),
	{ FACT_NUMBER_kind_memcpy, CUPTI_KIND_MEMCPY },
	{ FACT_NUMBER_kind_memset, CUPTI_KIND_MEMSET },
	{ FACT_NUMBER_kind_kernel, CUPTI_KIND_KERNEL },
	{ FACT_NUMBER_kind_concurrent_kernel, CUPTI_KIND_CONCURRENT_KERNEL },
	{ FACT_NUMBER_copy_dtoh, CUPTI_COPY_DTOH },
	{ FACT_NUMBER_attr_device_buffer_size, CUPTI_ATTR_DEVICE_BUFFER_SIZE },
	{ FACT_NUMBER_attr_device_buffer_pool_limit,
	  CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT },
	{ FACT_NUMBER_attr_zeroed_out_buffer, CUPTI_ATTR_ZEROED_OUT_BUFFER },
	{ FACT_NUMBER_domain_driver, CUPTI_DOMAIN_DRIVER },
	{ FACT_NUMBER_domain_runtime, CUPTI_DOMAIN_RUNTIME },
	{ FACT_NUMBER_domain_resource, CUPTI_DOMAIN_RESOURCE },
	{ FACT_NUMBER_site_enter, CUPTI_ENTER },
	{ FACT_NUMBER_site_exit, CUPTI_EXIT },
	{ FACT_NUMBER_launch_kernel, CBID_LAUNCH_KERNEL },
	{ FACT_NUMBER_launch_kernel_ptsz, CBID_LAUNCH_KERNEL_PTSZ },
	{ FACT_NUMBER_launch_kernel_ex, CBID_LAUNCH_KERNEL_EX },
	{ FACT_NUMBER_launch_kernel_ex_ptsz, CBID_LAUNCH_KERNEL_EX_PTSZ },
	{ FACT_NUMBER_graph_launch, CBID_GRAPH_LAUNCH },
	{ FACT_NUMBER_graph_launch_ptsz, CBID_GRAPH_LAUNCH_PTSZ },
	{ FACT_NUMBER_memcpy_dtoh_async, CBID_MEMCPY_DTOH_ASYNC },
	{ FACT_NUMBER_exec_set_params, CBID_GRAPH_EXEC_SET_PARAMS },
	{ FACT_NUMBER_exec_update, CBID_GRAPH_EXEC_UPDATE },
	{ FACT_NUMBER_begin_capture, CBID_STREAM_BEGIN_CAPTURE },
	{ FACT_NUMBER_begin_capture_ptsz, CBID_STREAM_BEGIN_CAPTURE_PTSZ },
	{ FACT_NUMBER_end_capture, CBID_STREAM_END_CAPTURE },
	{ FACT_NUMBER_end_capture_ptsz, CBID_STREAM_END_CAPTURE_PTSZ },
	{ FACT_NUMBER_rt_launch_kernel, CBID_RT_LAUNCH_KERNEL },
	{ FACT_NUMBER_rt_launch_kernel_ptsz, CBID_RT_LAUNCH_KERNEL_PTSZ },
	{ FACT_NUMBER_rt_launch_kernel_ex, CBID_RT_LAUNCH_KERNEL_EX },
	{ FACT_NUMBER_rt_launch_kernel_ex_ptsz, CBID_RT_LAUNCH_KERNEL_EX_PTSZ },
	{ FACT_NUMBER_rt_graph_launch, CBID_RT_GRAPH_LAUNCH },
	{ FACT_NUMBER_rt_graph_launch_ptsz, CBID_RT_GRAPH_LAUNCH_PTSZ },
	{ FACT_NUMBER_res_context_created, CBID_RES_CONTEXT_CREATED },
	{ FACT_NUMBER_res_graph_created, CBID_RES_GRAPH_CREATED },
	{ FACT_NUMBER_res_graph_destroy, CBID_RES_GRAPH_DESTROY },
	{ FACT_NUMBER_res_node_created, CBID_RES_GRAPHNODE_CREATED },
	{ FACT_NUMBER_res_node_cloned, CBID_RES_GRAPHNODE_CLONED },
	{ FACT_NUMBER_res_exec_created, CBID_RES_GRAPHEXEC_CREATED },
	{ FACT_NUMBER_res_exec_destroy, CBID_RES_GRAPHEXEC_DESTROY },
	{ FACT_NUMBER_node_type_kernel, CUPTI_NODE_KERNEL },
	{ FACT_NUMBER_e_invalid_parameter, CUPTI_E_INVALID_PARAMETER },
	{ FACT_NUMBER_e_max_limit, CUPTI_E_MAX_LIMIT_REACHED },
	{ FACT_NUMBER_e_not_initialized, CUPTI_E_NOT_INITIALIZED },
	{ FACT_NUMBER_e_not_supported, CUPTI_E_NOT_SUPPORTED },
	{ FACT_NUMBER_e_privileges, CUPTI_E_INSUFFICIENT_PRIVILEGES },
	{ FACT_NUMBER_e_multiple_subscribers, CUPTI_E_MULTIPLE_SUBSCRIBERS },
	{ FACT_NUMBER_e_unknown, CUPTI_E_UNKNOWN },
};

static void what_is_read_is_the_same_in_every_release(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		for (int r = 0; r < ABI_RELEASES; r++)
			if (value(always[i].fact, r) != always[i].ours)
				fail_msg("%s is %d in %d, %d in abi.h",
					 facts[always[i].fact].name,
					 value(always[i].fact, r),
					 value(FACT_toolkit, r),
					 always[i].ours);
}

/* Things that some releases lack: from when on, and then as in abi.h. */
static const struct {
	enum fact fact;
	int since, ours;
} later[] = {
	{ FACT_NUMBER_domain_state, 12020, CUPTI_DOMAIN_STATE },
	{ FACT_NUMBER_state_fatal_error, 12020, CBID_STATE_FATAL_ERROR },
	{ FACT_NUMBER_attr_per_thread_buffer, 12030,
	  CUPTI_ATTR_PER_THREAD_BUFFER },
	{ FACT_NUMBER_exec_set_params_v2, 12000,
	  CBID_GRAPH_EXEC_SET_PARAMS_V2 },
	{ FACT_NUMBER_exec_update_v2, 12000, CBID_GRAPH_EXEC_UPDATE_V2 },
	{ FACT_NUMBER_rt_launch_kernel_13, 13000, CBID_RT_LAUNCH_KERNEL_13 },
	{ FACT_NUMBER_rt_launch_kernel_13_ptsz, 13000,
	  CBID_RT_LAUNCH_KERNEL_13_PTSZ },
	{ FACT_exec_update_hGraphExec, 12000,
	  offsetof(struct cu_graph_launch_params, exec) },
	{ FACT_exec_set_params_hGraphExec, 12000,
	  offsetof(struct cu_graph_launch_params, exec) },
#define PARAM(member, theirs, first)                                     \
	{                                                                \
		FACT_subscriber_params_##theirs, first,                  \
			offsetof(struct cupti_subscriber_params, member) \
	}
	PARAM(struct_size, structSize, 13000),
	PARAM(name, subscriberName, 13000),
	PARAM(old_name, oldSubscriberName, 13000),
	PARAM(old_name_bytes, oldSubscriberSize, 13000),
	PARAM(allow_multiple, allowMultipleSubscribers, 13020),
	{ FACT_request_info_structSize, 13020,
	  offsetof(struct cupti_buffer_info, struct_size) },
	{ FACT_complete_info_structSize, 13020,
	  offsetof(struct cupti_buffer_info, struct_size) },
};

static void what_came_later_is_known_by_its_release(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		if (since(later[i].fact) != later[i].since)
			fail_msg("%s is there since %d",
				 facts[later[i].fact].name,
				 since(later[i].fact));
		for (int r = 0; r < ABI_RELEASES; r++)
			if (value(FACT_toolkit, r) >= later[i].since)
				assert_int_equal(value(later[i].fact, r),
						 later[i].ours);
	}
	assert_int_equal(since(FACT_kernel_isDeviceLaunched), 13000);
	assert_int_equal(since(FACT_kernel_priority), 13010);
	assert_int_equal(since(FACT_kernel_executionModel), 13030);
	assert_int_equal(since(FACT_kernel_sourceGraphNodeId), 13040);
}

static void records_are_never_shorter_than_what_is_read(void **state)
{
	(void)state;
	for (int r = 0; r < ABI_RELEASES; r++) {
		assert_true(value(FACT_kernel_sizeof, r) >=
			    (int)sizeof(struct cupti_kernel));
		assert_true(value(FACT_memcpy_sizeof, r) >=
			    (int)sizeof(struct cupti_memcpy));
		assert_int_equal(
			cupti_kernel_bytes((uint32_t)value(FACT_version, r)) >=
				sizeof(struct cupti_kernel),
			true);
	}
	assert_int_equal(
		sizeof(struct cupti_subscriber_params),
		value(FACT_subscriber_params_sizeof, ABI_RELEASES - 1));
}

static void versions_are_known_too_old_or_newer(void **state)
{
	static const struct {
		uint32_t version;
		enum cupti_known known;
	} cases[] = {
		{ 0, CUPTI_TOO_OLD },        { 17, CUPTI_TOO_OLD },
		{ 18, CUPTI_KNOWN },         { 19, CUPTI_KNOWN },
		{ 25, CUPTI_KNOWN },         { 28, CUPTI_KNOWN },
		{ 29, CUPTI_NEWER },         { 129999, CUPTI_NEWER },
		{ 130000, CUPTI_KNOWN },     { 130001, CUPTI_KNOWN },
		{ 130299, CUPTI_KNOWN },     { 130599, CUPTI_KNOWN },
		{ 130600, CUPTI_NEWER },     { 140000, CUPTI_NEWER },
		{ UINT32_MAX, CUPTI_NEWER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (cupti_release(cases[i].version) != cases[i].known)
			fail_msg("version %u", cases[i].version);
	for (int r = 0; r < ABI_RELEASES; r++)
		assert_int_equal(
			cupti_release((uint32_t)value(FACT_version, r)),
			CUPTI_KNOWN);
}

static void record_sizes_follow_the_version(void **state)
{
	(void)state;
	assert_int_equal(cupti_kernel_bytes(17), 200);
	assert_int_equal(cupti_kernel_bytes(22), 208);
	assert_int_equal(cupti_kernel_bytes(130001), 216);
	assert_int_equal(cupti_kernel_bytes(130199), 224);
	assert_int_equal(cupti_kernel_bytes(130202), 224);
	assert_int_equal(cupti_kernel_bytes(130301), 232);
	assert_int_equal(cupti_kernel_bytes(130500), 248);
	assert_int_equal(cupti_kernel_bytes(150000), 248);
}

static void sharing_needs_both_library_and_driver(void **state)
{
	(void)state;
	assert_false(cupti_is_shareable(28, 13030));
	assert_false(cupti_is_shareable(130202, 13030));
	assert_false(cupti_is_shareable(130300, 13020));
	assert_true(cupti_is_shareable(130300, 13030));
	assert_true(cupti_is_shareable(140000, 14000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_has_a_value_for_every_release),
		cmocka_unit_test(what_is_read_is_the_same_in_every_release),
		cmocka_unit_test(what_came_later_is_known_by_its_release),
		cmocka_unit_test(records_are_never_shorter_than_what_is_read),
		cmocka_unit_test(versions_are_known_too_old_or_newer),
		cmocka_unit_test(record_sizes_follow_the_version),
		cmocka_unit_test(sharing_needs_both_library_and_driver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
