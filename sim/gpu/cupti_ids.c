#include "sim/gpu/cupti_played.h"
#include "sim/gpu/cupti_state.h"

CUptiResult cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return CUPTI_E_INVALID_PARAMETER;
	*version = cupti_played_version();
	return CUPTI_OK;
}

static const struct {
	CUptiResult code;
	const char *name, *text;
} results[] = {
	{ CUPTI_OK, "CUPTI_SUCCESS", "no error" },
	{ CUPTI_E_INVALID_PARAMETER, "CUPTI_ERROR_INVALID_PARAMETER",
	  "a parameter is invalid" },
	{ CUPTI_E_INVALID_OPERATION, "CUPTI_ERROR_INVALID_OPERATION",
	  "the operation is not possible now" },
	{ CUPTI_E_SIZE, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT",
	  "the size of a parameter is too small" },
	{ CUPTI_E_MAX_LIMIT_REACHED, "CUPTI_ERROR_MAX_LIMIT_REACHED",
	  "there is no more" },
	{ CUPTI_E_NOT_INITIALIZED, "CUPTI_ERROR_NOT_INITIALIZED",
	  "CUPTI is not initialized" },
	{ CUPTI_E_INVALID_KIND, "CUPTI_ERROR_INVALID_KIND",
	  "the activity kind is invalid" },
	{ CUPTI_E_NOT_SUPPORTED, "CUPTI_ERROR_NOT_SUPPORTED",
	  "not supported here" },
	{ CUPTI_E_INSUFFICIENT_PRIVILEGES,
	  "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "the user may not do this" },
	{ CUPTI_E_MULTIPLE_SUBSCRIBERS,
	  "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
	  "another client has subscribed" },
	{ CUPTI_E_UNKNOWN, "CUPTI_ERROR_UNKNOWN", "an unknown error" },
};

static CUptiResult result_find(CUptiResult r, const char **name,
			       const char **text)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].code == r) {
			*name = results[i].name;
			*text = results[i].text;
			return CUPTI_OK;
		}
	return CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **s)
{
	const char *text;

	return s ? result_find(result, s, &text) : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **s)
{
	const char *name;

	return s ? result_find(result, &name, s) : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiGetTimestamp(uint64_t *ns)
{
	uint64_t jitter_ns = 0;

	if (!ns)
		return CUPTI_E_INVALID_PARAMETER;
	simgpu_fault("clock_jitter", &jitter_ns);
	*ns = (uint64_t)((int64_t)cupti_monotonic_ns() + cupti_offset_ns() +
			 cupti_jitter_ns(jitter_ns));
	return CUPTI_OK;
}

CUptiResult cuptiGetGraphId(void *graph, uint32_t *id)
{
	if (!graph || !id)
		return CUPTI_E_INVALID_PARAMETER;
	*id = simgpu_graph_id(graph);
	return CUPTI_OK;
}

CUptiResult cuptiGetGraphExecId(void *exec, uint32_t *id)
{
	if (!cupti_plays(12030))
		return CUPTI_E_NOT_SUPPORTED;
	if (!exec || !id)
		return CUPTI_E_INVALID_PARAMETER;
	*id = simgpu_exec_id(exec);
	return CUPTI_OK;
}

CUptiResult cuptiGetGraphNodeId(void *node, uint64_t *id)
{
	if (!node || !id)
		return CUPTI_E_INVALID_PARAMETER;
	*id = simgpu_node_id(node);
	return CUPTI_OK;
}

CUptiResult cuptiGetDeviceId(void *context, uint32_t *id)
{
	if (!context || !id)
		return CUPTI_E_INVALID_PARAMETER;
	*id = 0;
	return CUPTI_OK;
}

CUptiResult cuptiGetContextId(void *context, uint32_t *id)
{
	if (!context || !id)
		return CUPTI_E_INVALID_PARAMETER;
	*id = simgpu_context_id(context);
	return CUPTI_OK;
}

CUptiResult cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread,
			       uint32_t *id)
{
	(void)per_thread;
	if (!context || !id)
		return CUPTI_E_INVALID_PARAMETER;
	*id = simgpu_stream_id(stream);
	return CUPTI_OK;
}

CUptiResult cuptiGetStreamId(void *context, void *stream, uint32_t *id)
{
	return cuptiGetStreamIdEx(context, stream, 0, id);
}

CUptiResult cuptiSetThreadIdType(int type)
{
	if (type < 0 || type > 1)
		return CUPTI_E_INVALID_PARAMETER;
	pthread_mutex_lock(&cupti.lock);
	cupti.thread_id_type = type;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

CUptiResult cuptiGetThreadIdType(int *type)
{
	if (!type)
		return CUPTI_E_INVALID_PARAMETER;
	pthread_mutex_lock(&cupti.lock);
	*type = cupti.thread_id_type;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}
