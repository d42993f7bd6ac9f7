#include "agent/callbacks.h"

#include <errno.h>
#include <string.h>

#include "agent/client.h"
#include "agent/state.h"

/* Static TLS: the first access of a thread must not allocate. */
#define THREAD_LOCAL \
	static _Thread_local __attribute__((tls_model("initial-exec")))
#define TIME_ONE_IN 64u
#define CALLBACK_LONGEST_NS 50000u
#define SPARE_BYTES 8192

THREAD_LOCAL bool inside;
THREAD_LOCAL uint32_t turn;
THREAD_LOCAL bool launching; /* between ENTER and EXIT of current_launch */
THREAD_LOCAL struct launch current_launch;
THREAD_LOCAL uint32_t last_correlation;
THREAD_LOCAL uint32_t clone_group; /* graph id of the last copied node */

/* ---- launches ------------------------------------------------------------ */

/* A launch through the runtime may call the driver's: the inner one, which has
 * the better handle, takes over, and both have one correlation id. */
static void launch_enter(const struct cupti_callback_data *d, void *f,
			 bool stub, void *const *params, uint32_t grid_x)
{
	struct function *fn =
		functions_get(agent.functions, f, stub, d->symbol_name);
	int state;

	launching = false;
	if (!fn)
		return;
	state = atomic_load_explicit(&fn->state, memory_order_acquire);
	if (state != FUNCTION_READY && state != FUNCTION_PENDING)
		return;
	if (!function_is_named(fn, d->symbol_name))
		return;
	launch_capture(&current_launch, agent.functions, fn, params, grid_x);
	current_launch.correlation = d->correlation;
	launching = true;
	atomic_store_explicit(&agent.context, d->context, memory_order_relaxed);
}

/* A launch that made a graph node was taken by node_created. */
static void launch_exit(void)
{
	enum launch_kind kind;

	if (!launching)
		return;
	launching = false;
	kind = launch_opens(agent.functions, &current_launch) ? LAUNCH_OPENS
							      : LAUNCH_OTHER;
	launch_log_push(agent.log, kind, agent_now_ns(), 0, &current_launch);
}

static void launch_kernel(const struct cupti_callback_data *d)
{
	const struct cu_launch_kernel_params *p = d->function_params;

	launch_enter(d, p->f, false, p->params, p->grid[0]);
}

static void launch_kernel_ex(const struct cupti_callback_data *d)
{
	const struct cu_launch_kernel_ex_params *p = d->function_params;

	launch_enter(d, p->f, false, p->params,
		     p->config ? p->config->grid[0] : 0);
}

static void rt_launch_kernel(const struct cupti_callback_data *d, bool stub)
{
	const struct rt_launch_kernel_params *p = d->function_params;

	launch_enter(d, p->f, stub, p->params, p->grid[0]);
}

static void rt_launch_kernel_ex(const struct cupti_callback_data *d)
{
	const struct rt_launch_kernel_ex_params *p = d->function_params;

	launch_enter(d, p->f, true, p->params,
		     p->config ? p->config->grid[0] : 0);
}

/*
 * A graph that was made before we came, or while we slept: at least its id can
 * be had.  One of the same handle and another id has taken the place of the
 * graph that we knew.
 */
static void meet_exec(uint32_t i, void *handle)
{
	struct graph_exec *e = graph_exec_at(agent.map, i);
	bool alive = atomic_load_explicit(&e->alive, memory_order_acquire);
	uint32_t id = 0;

	if (agent.cupti.graph_exec_id &&
	    agent.cupti.graph_exec_id(handle, &id) != CUPTI_OK)
		id = 0;
	atomic_store_explicit(&agent.exec_epoch[i], atomic_load(&agent.epoch),
			      memory_order_relaxed);
	if (alive && id && id == atomic_load(&e->id))
		return;
	atomic_store_explicit(&e->alive, false, memory_order_release);
	atomic_store(&agent.late, true);
	if (alive)
		graph_map_forget(agent.map, atomic_load(&e->group));
	/* Should ids begin anew with a CUPTI life, this was another graph's. */
	graph_map_forget(agent.map, id);
	atomic_store_explicit(&e->rows, 0, memory_order_relaxed);
	atomic_store_explicit(&e->anchors, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&e->changes, 1, memory_order_relaxed);
	atomic_store_explicit(&e->id, id, memory_order_relaxed);
	atomic_store_explicit(&e->group, id, memory_order_relaxed);
	atomic_store_explicit(&e->alive, id != 0, memory_order_release);
}

static void graph_launch(const struct cupti_callback_data *d)
{
	const struct cu_graph_launch_params *p = d->function_params;
	struct graph_exec *e;
	uint32_t i;

	i = graph_exec_get(agent.map, p->exec);
	if (i == UINT32_MAX)
		return;
	e = graph_exec_at(agent.map, i);
	if (!atomic_load_explicit(&e->alive, memory_order_acquire) ||
	    atomic_load_explicit(&agent.exec_epoch[i], memory_order_relaxed) !=
		    atomic_load_explicit(&agent.epoch, memory_order_relaxed))
		meet_exec(i, p->exec);
	atomic_store_explicit(&agent.context, d->context, memory_order_relaxed);
	launch_log_push(agent.log, LAUNCH_GRAPH, agent_now_ns(), i, NULL);
}

/* New arguments for nodes of an executable graph: what its capture said of
 * them holds no longer, so it gives no rows from now on. */
static void graph_changed(const struct cupti_callback_data *d)
{
	const struct cu_graph_launch_params *p = d->function_params;
	uint32_t i = graph_exec_find(agent.map, p->exec);
	struct graph_exec *e;

	if (i == UINT32_MAX)
		return;
	e = graph_exec_at(agent.map, i);
	atomic_store_explicit(&e->rows, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&e->changes, 1, memory_order_relaxed);
	graph_map_forget(agent.map, atomic_load(&e->group));
}

static void driver_enter(uint32_t cbid, const struct cupti_callback_data *d,
			 bool again)
{
	switch (cbid) {
	case CBID_LAUNCH_KERNEL:
	case CBID_LAUNCH_KERNEL_PTSZ:
		launch_kernel(d);
		break;
	case CBID_LAUNCH_KERNEL_EX:
	case CBID_LAUNCH_KERNEL_EX_PTSZ:
		launch_kernel_ex(d);
		break;
	case CBID_GRAPH_LAUNCH:
	case CBID_GRAPH_LAUNCH_PTSZ:
		if (!again)
			graph_launch(d);
		break;
	case CBID_GRAPH_EXEC_SET_PARAMS:
	case CBID_GRAPH_EXEC_SET_PARAMS_V2:
	case CBID_GRAPH_EXEC_UPDATE:
	case CBID_GRAPH_EXEC_UPDATE_V2:
		graph_changed(d);
		break;
	default:
		break;
	}
}

static void runtime_enter(uint32_t cbid, const struct cupti_callback_data *d,
			  bool again)
{
	switch (cbid) {
	case CBID_RT_LAUNCH_KERNEL:
	case CBID_RT_LAUNCH_KERNEL_PTSZ:
		rt_launch_kernel(d, true);
		break;
	case CBID_RT_LAUNCH_KERNEL_13:
	case CBID_RT_LAUNCH_KERNEL_13_PTSZ:
		rt_launch_kernel(d, false);
		break;
	case CBID_RT_LAUNCH_KERNEL_EX:
	case CBID_RT_LAUNCH_KERNEL_EX_PTSZ:
		rt_launch_kernel_ex(d);
		break;
	case CBID_RT_GRAPH_LAUNCH:
	case CBID_RT_GRAPH_LAUNCH_PTSZ:
		if (!again)
			graph_launch(d);
		break;
	default:
		break;
	}
}

static bool is_capture(int domain, uint32_t cbid)
{
	return domain == CUPTI_DOMAIN_DRIVER &&
	       (cbid == CBID_STREAM_BEGIN_CAPTURE ||
		cbid == CBID_STREAM_BEGIN_CAPTURE_PTSZ ||
		cbid == CBID_STREAM_END_CAPTURE ||
		cbid == CBID_STREAM_END_CAPTURE_PTSZ);
}

static bool is_copy(int domain, uint32_t cbid)
{
	return domain == CUPTI_DOMAIN_DRIVER && cbid == CBID_MEMCPY_DTOH_ASYNC;
}

static void call(int domain, uint32_t cbid, const struct cupti_callback_data *d)
{
	bool again = d->correlation == last_correlation;

	if (is_copy(domain, cbid))
		return;
	if (is_capture(domain, cbid)) {
		client_note_capture(cbid, d);
		if (cbid == CBID_STREAM_END_CAPTURE ||
		    cbid == CBID_STREAM_END_CAPTURE_PTSZ)
			exact_place(d);
		return;
	}
	if (d->site != CUPTI_ENTER) {
		launch_exit();
		return;
	}
	if (!d->function_params)
		return;
	last_correlation = d->correlation;
	if (!again)
		atomic_fetch_add_explicit(&agent.launches, 1,
					  memory_order_relaxed);
	if (domain == CUPTI_DOMAIN_DRIVER)
		driver_enter(cbid, d, again);
	else
		runtime_enter(cbid, d, again);
}

/* ---- graphs --------------------------------------------------------------- */

static bool node_id(void *node, uint64_t *id)
{
	return agent.cupti.graph_node_id &&
	       agent.cupti.graph_node_id(node, id) == CUPTI_OK;
}

static void node_created(const struct cupti_graph_data *g)
{
	uint64_t id;

	client_note_node(agent_now_ns());
	if (g->node_type != CUPTI_NODE_KERNEL)
		return;
	atomic_fetch_add_explicit(&agent.captured, 1, memory_order_relaxed);
	if (!node_id(g->node, &id))
		return;
	graph_map_created(agent.map, id, g->node,
			  launching ? &current_launch : NULL);
	launching = false;
}

static void node_cloned(const struct cupti_graph_data *g)
{
	uint64_t id, original;

	if (g->node_type != CUPTI_NODE_KERNEL || !node_id(g->node, &id) ||
	    !node_id(g->original_node, &original))
		return;
	clone_group = (uint32_t)(id >> 32);
	graph_map_cloned(agent.map, id, original);
}

/* Where GRAPHNODE_CLONED does not come, the template still says what is in it. */
static void copies_untold(void *template, uint32_t exec_id)
{
	uint32_t id;

	if (agent.cupti.graph_id &&
	    agent.cupti.graph_id(template, &id) == CUPTI_OK)
		graph_map_copied(agent.map, id, exec_id);
}

static void exec_created(const struct cupti_graph_data *g)
{
	struct graph_exec *e;
	uint32_t i = graph_exec_get(agent.map, g->graph_exec);
	uint32_t id = 0, group;

	if (i == UINT32_MAX)
		return;
	if (agent.cupti.graph_exec_id)
		agent.cupti.graph_exec_id(g->graph_exec, &id);
	if (id && !clone_group)
		copies_untold(g->graph, id);
	group = id && graph_map_kernels(agent.map, id) ? id : clone_group;
	clone_group = 0;
	e = graph_exec_at(agent.map, i);
	atomic_store_explicit(&e->alive, false, memory_order_relaxed);
	atomic_fetch_add_explicit(&e->changes, 1, memory_order_relaxed);
	atomic_store_explicit(&e->id, id ? id : group, memory_order_relaxed);
	atomic_store_explicit(&e->group, group, memory_order_relaxed);
	atomic_store_explicit(&e->rows, 0, memory_order_relaxed);
	atomic_store_explicit(&e->anchors, 0, memory_order_relaxed);
	atomic_store_explicit(&agent.exec_epoch[i], atomic_load(&agent.epoch),
			      memory_order_relaxed);
	atomic_store_explicit(&e->alive, true, memory_order_release);
}

static void exec_destroyed(const struct cupti_graph_data *g)
{
	uint32_t i = graph_exec_find(agent.map, g->graph_exec);
	struct graph_exec *e;

	if (i == UINT32_MAX)
		return;
	e = graph_exec_at(agent.map, i);
	graph_map_forget(agent.map, atomic_load(&e->group));
	graph_exec_end(agent.map, i);
}

static void graph_destroyed(const struct cupti_graph_data *g)
{
	uint32_t id;

	if (agent.cupti.graph_id &&
	    agent.cupti.graph_id(g->graph, &id) == CUPTI_OK)
		graph_map_forget(agent.map, id);
}

static void resource(uint32_t cbid, const struct cupti_resource_data *d)
{
	const struct cupti_graph_data *g = d->descriptor;

	if (!g)
		return;
	switch (cbid) {
	case CBID_RES_GRAPHNODE_CREATED:
		node_created(g);
		break;
	case CBID_RES_GRAPHNODE_CLONED:
		node_cloned(g);
		break;
	case CBID_RES_GRAPHEXEC_CREATED:
		exec_created(g);
		break;
	case CBID_RES_GRAPHEXEC_DESTROY:
		exec_destroyed(g);
		break;
	case CBID_RES_GRAPH_DESTROY:
		graph_destroyed(g);
		break;
	default:
		break;
	}
}

/* ---- the armoured entries -------------------------------------------------- */

static void body(int domain, uint32_t cbid, const void *data)
{
	if (domain == CUPTI_DOMAIN_DRIVER || domain == CUPTI_DOMAIN_RUNTIME)
		call(domain, cbid, data);
	else if (domain == CUPTI_DOMAIN_RESOURCE)
		resource(cbid, data);
	else if (domain == CUPTI_DOMAIN_STATE &&
		 cbid == CBID_STATE_FATAL_ERROR) {
		atomic_store(&agent.fatal, true);
		atomic_store(&agent.live, false);
	}
}

static void timed_body(int domain, uint32_t cbid, const void *data)
{
	uint64_t start, ns;

	if (turn++ % TIME_ONE_IN) {
		body(domain, cbid, data);
		return;
	}
	start = agent_now_ns();
	body(domain, cbid, data);
	ns = agent_now_ns() - start;
	/* More means that the thread lost its processor in between: scaled up,
	 * one such accident would look like a cost beyond every budget. */
	if (ns > CALLBACK_LONGEST_NS)
		ns = CALLBACK_LONGEST_NS;
	atomic_fetch_add_explicit(&agent.callback_ns, ns * TIME_ONE_IN,
				  memory_order_relaxed);
}

/*
 * The order matters: whoever turns `live` off and then finds nobody in flight
 * knows that nobody will touch what a callback touches.
 */
void callback_entry(void *userdata, int domain, uint32_t cbid, const void *data)
{
	int saved = errno;

	(void)userdata;
	if (is_copy(domain, cbid)) {
		const struct cupti_callback_data *d = data;

		sampler_note_correlation(d->correlation);
	}
	if (inside)
		return;
	inside = true;
	atomic_fetch_add(&agent.in_flight, 1);
	if (!atomic_load(&agent.live))
		client_at_callback(domain, cbid, data);
	else
		timed_body(domain, cbid, data);
	atomic_fetch_sub(&agent.in_flight, 1);
	inside = false;
	errno = saved;
}

/* Where CUPTI was left without being taken down, it may still ask. */
static uint8_t *spare_buffer(size_t *bytes)
{
	static _Alignas(8) uint8_t spare[SPARE_BYTES];

	*bytes = sizeof(spare);
	return spare;
}

void callback_buffer_requested(uint8_t **buffer, size_t *bytes,
			       size_t *max_records)
{
	*max_records = 0;
	atomic_fetch_add(&agent.in_flight, 1);
	*buffer = agent.buffers.memory ? buffers_request(&agent.buffers, bytes)
				       : spare_buffer(bytes);
	atomic_fetch_sub(&agent.in_flight, 1);
}

void callback_buffer_completed(void *context, uint32_t stream, uint8_t *buffer,
			       size_t bytes, size_t valid_bytes)
{
	(void)context;
	(void)stream;
	(void)bytes;
	atomic_fetch_add(&agent.in_flight, 1);
	if (buffer && agent.buffers.memory)
		buffers_complete(&agent.buffers, buffer, valid_bytes);
	atomic_fetch_sub(&agent.in_flight, 1);
}

static const struct {
	int domain;
	uint32_t cbid;
	bool optional; /* not in every version */
} wanted[] = {
	{ CUPTI_DOMAIN_DRIVER, CBID_LAUNCH_KERNEL, false },
	{ CUPTI_DOMAIN_DRIVER, CBID_LAUNCH_KERNEL_PTSZ, false },
	{ CUPTI_DOMAIN_DRIVER, CBID_LAUNCH_KERNEL_EX, false },
	{ CUPTI_DOMAIN_DRIVER, CBID_LAUNCH_KERNEL_EX_PTSZ, false },
	{ CUPTI_DOMAIN_DRIVER, CBID_GRAPH_LAUNCH, false },
	{ CUPTI_DOMAIN_DRIVER, CBID_GRAPH_LAUNCH_PTSZ, false },
	{ CUPTI_DOMAIN_DRIVER, CBID_STREAM_BEGIN_CAPTURE, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_STREAM_BEGIN_CAPTURE_PTSZ, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_STREAM_END_CAPTURE, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_STREAM_END_CAPTURE_PTSZ, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_GRAPH_EXEC_SET_PARAMS, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_GRAPH_EXEC_SET_PARAMS_V2, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_GRAPH_EXEC_UPDATE, true },
	{ CUPTI_DOMAIN_DRIVER, CBID_GRAPH_EXEC_UPDATE_V2, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_LAUNCH_KERNEL, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_LAUNCH_KERNEL_PTSZ, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_LAUNCH_KERNEL_EX, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_LAUNCH_KERNEL_EX_PTSZ, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_LAUNCH_KERNEL_13, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_LAUNCH_KERNEL_13_PTSZ, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_GRAPH_LAUNCH, true },
	{ CUPTI_DOMAIN_RUNTIME, CBID_RT_GRAPH_LAUNCH_PTSZ, true },
	{ CUPTI_DOMAIN_RESOURCE, CBID_RES_GRAPHNODE_CREATED, false },
	{ CUPTI_DOMAIN_RESOURCE, CBID_RES_GRAPHNODE_CLONED, false },
	{ CUPTI_DOMAIN_RESOURCE, CBID_RES_GRAPHEXEC_CREATED, false },
	{ CUPTI_DOMAIN_RESOURCE, CBID_RES_GRAPHEXEC_DESTROY, false },
	{ CUPTI_DOMAIN_RESOURCE, CBID_RES_GRAPH_DESTROY, true },
	{ CUPTI_DOMAIN_STATE, CBID_STATE_FATAL_ERROR, true },
};

int callbacks_enable(bool on)
{
	int first = CUPTI_OK;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		int err = agent.cupti.enable_callback(
			on, agent.subscriber, wanted[i].domain, wanted[i].cbid);

		if (err && !first && !wanted[i].optional)
			first = err;
	}
	return first;
}
