/* CUDA graphs of the simulated GPU as CUPTI reports them: callbacks in order,
 * ids, and the records of replays. */
#include "tests/unit/sim/simgpu_fixture.h"

#define NODES 5u

static CUdeviceptr memory;
static void *subscriber;

struct event { /* one callback */
	int domain, site;
	uint32_t cbid, correlation, graph, original_graph, exec;
	uint64_t node, original_node;
	const char *symbol, *function;
	bool same_thread, slot_kept;
};

static struct {
	struct event e[256];
	size_t n;
	pthread_t thread;
} seen;

static void keep_api(struct event *e, const struct cupti_callback_data *d)
{
	e->site = (int)d->site;
	e->correlation = d->correlation;
	e->symbol = d->symbol_name;
	e->function = d->function_name;
	if (d->site == CUPTI_ENTER)
		*d->correlation_data = d->correlation * 3ull;
	else
		e->slot_kept = *d->correlation_data == d->correlation * 3ull;
}

static void keep_graph(struct event *e, const struct cupti_graph_data *g)
{
	cupti.GetGraphId(g->graph, &e->graph);
	if (g->original_graph)
		cupti.GetGraphId(g->original_graph, &e->original_graph);
	if (g->node)
		cupti.GetGraphNodeId(g->node, &e->node);
	if (g->original_node)
		cupti.GetGraphNodeId(g->original_node, &e->original_node);
	if (g->graph_exec)
		cupti.GetGraphExecId(g->graph_exec, &e->exec);
}

static void on_callback(void *user, int domain, uint32_t cbid, const void *data)
{
	struct event *e = &seen.e[seen.n];

	assert_ptr_equal(user, &seen);
	assert_true(seen.n < 256);
	*e = (struct event){ .domain = domain, .cbid = cbid };
	e->same_thread = pthread_equal(seen.thread, pthread_self());
	if (domain == CUPTI_DOMAIN_DRIVER)
		keep_api(e, data);
	else
		keep_graph(
			e,
			((const struct cupti_resource_data *)data)->descriptor);
	seen.n++;
}

static int open_all(void **state)
{
	static const uint32_t driver[] = {
		CBID_LAUNCH_KERNEL, CBID_LAUNCH_KERNEL_EX, CBID_GRAPH_LAUNCH,
		CBID_STREAM_BEGIN_CAPTURE, CBID_STREAM_END_CAPTURE
	};
	static const uint32_t resource[] = { CBID_RES_GRAPH_CREATED,
					     CBID_RES_GRAPHNODE_CREATED,
					     CBID_RES_GRAPHNODE_CLONED,
					     CBID_RES_GRAPHEXEC_CREATED,
					     CBID_RES_GRAPHEXEC_DESTROY };
	int bad = gpu_open("H100") || cupti_open() ||
		  cuMemAlloc_v2(&memory, 4096) ||
		  cupti.Subscribe(&subscriber, on_callback, &seen);

	(void)state;
	for (int i = 0; i < 5; i++) {
		bad |= cupti.EnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER,
					    driver[i]);
		bad |= cupti.EnableCallback(1, subscriber,
					    CUPTI_DOMAIN_RESOURCE, resource[i]);
	}
	bad |= cupti.ActivityRegisterCallbacks(on_requested, on_completed);
	seen.thread = pthread_self();
	return bad;
}

static int clear(void **state)
{
	(void)state;
	seen.n = 0;
	records_clear();
	return 0;
}

static void expect_api(size_t i, uint32_t cbid, int site)
{
	assert_true(i < seen.n);
	assert_int_equal(seen.e[i].domain, CUPTI_DOMAIN_DRIVER);
	assert_int_equal(seen.e[i].cbid, cbid);
	assert_int_equal(seen.e[i].site, site);
	assert_true(seen.e[i].same_thread);
}

static void expect_resource(size_t i, uint32_t cbid)
{
	assert_true(i < seen.n);
	assert_int_equal(seen.e[i].domain, CUPTI_DOMAIN_RESOURCE);
	assert_int_equal(seen.e[i].cbid, cbid);
	assert_true(seen.e[i].same_thread);
}

static void capture_calls_back_inside_each_launch(void **state)
{
	CUgraphExec x = graph_of(memory, 3, 1000);
	size_t i = 0;
	uint32_t graph, exec;

	(void)state;
	expect_api(i++, CBID_STREAM_BEGIN_CAPTURE, CUPTI_ENTER);
	expect_resource(i, CBID_RES_GRAPH_CREATED);
	graph = seen.e[i++].graph;
	assert_int_not_equal(graph, 0);
	expect_api(i++, CBID_STREAM_BEGIN_CAPTURE, CUPTI_EXIT);
	for (uint32_t k = 0; k < 3; k++) {
		expect_api(i, CBID_LAUNCH_KERNEL, CUPTI_ENTER);
		assert_string_equal(seen.e[i++].symbol, "write");
		expect_resource(i, CBID_RES_GRAPHNODE_CREATED);
		assert_int_equal(seen.e[i].graph, graph);
		assert_int_equal(seen.e[i++].node, (uint64_t)graph << 32 | k);
		expect_api(i, CBID_LAUNCH_KERNEL, CUPTI_EXIT);
		assert_int_equal(seen.e[i].correlation,
				 seen.e[i - 2].correlation);
		assert_true(seen.e[i++].slot_kept);
	}
	expect_api(i++, CBID_STREAM_END_CAPTURE, CUPTI_ENTER);
	expect_api(i++, CBID_STREAM_END_CAPTURE, CUPTI_EXIT);
	exec = seen.e[i].exec;
	assert_int_not_equal(exec, graph);
	for (uint32_t k = 0; k < 3; k++, i++) {
		expect_resource(i, CBID_RES_GRAPHNODE_CLONED);
		assert_int_equal(seen.e[i].original_graph, graph);
		assert_int_equal(seen.e[i].original_node,
				 (uint64_t)graph << 32 | k);
		assert_int_equal(seen.e[i].node, (uint64_t)exec << 32 | k);
		assert_int_equal(seen.e[i].exec, exec);
	}
	expect_resource(i, CBID_RES_GRAPHEXEC_CREATED);
	assert_int_equal(seen.e[i++].exec, exec);
	assert_int_equal(i, seen.n);
	ok(cuGraphExecDestroy(x));
	expect_resource(i, CBID_RES_GRAPHEXEC_DESTROY);
	assert_int_equal(seen.e[i].exec, exec);
}

static void replay_gives_a_record_per_node(void **state)
{
	CUgraphExec x = graph_of(memory, NODES, 20000);
	uint32_t exec = seen.e[seen.n - 1].exec, correlation;
	uint64_t before, after;

	(void)state;
	assert_int_equal(cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL), 0);
	cupti.GetTimestamp(&before);
	ok(cuGraphLaunch(x, gpu.stream));
	expect_api(seen.n - 1, CBID_GRAPH_LAUNCH, CUPTI_EXIT);
	correlation = seen.e[seen.n - 1].correlation;
	ok(cuStreamSynchronize(gpu.stream));
	cupti.GetTimestamp(&after);
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, NODES);
	for (uint32_t k = 0; k < NODES; k++) {
		const struct cupti_kernel *r = &got.kernel[k];

		assert_int_equal(r->graph, exec);
		assert_int_equal(r->graph_node, (uint64_t)exec << 32 | k);
		assert_int_equal(r->correlation, correlation);
		assert_string_equal(r->name, "write");
		assert_int_equal(r->end - r->start, 20000);
		assert_in_range(r->start, before, after);
		assert_in_range(r->grid[1], 2, 2);
		assert_int_equal(r->block[0], 32);
		if (k)
			assert_in_range(r->start - got.kernel[k - 1].end, 600,
					999);
	}
	assert_int_equal(cupti.ActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL),
			 0);
	ok(cuGraphExecDestroy(x));
}

static void replay_stores_like_the_launches(void **state)
{
	CUgraphExec x = graph_of(memory, NODES, 2000);
	uint32_t v = 99;

	(void)state;
	ok(cuGraphLaunch(x, gpu.stream));
	ok(cuStreamSynchronize(gpu.stream));
	ok(cuMemcpyDtoH_v2(&v, memory, 4));
	assert_int_equal(v, NODES - 1);
	ok(cuGraphExecDestroy(x));
}

static void copies_are_nodes_too(void **state)
{
	CUgraph g;
	CUgraphExec x;
	uint32_t *host;

	(void)state;
	ok(cuMemHostAlloc((void **)&host, 64, 0));
	ok(cuStreamBeginCapture_v2(gpu.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(launch_add(gpu.stream, memory, 1));
	ok(cuMemcpyDtoHAsync_v2(host, memory, 4, gpu.stream));
	ok(launch_add(gpu.stream, memory, 1));
	ok(cuStreamEndCapture(gpu.stream, &g));
	ok(cuGraphInstantiateWithFlags(&x, g, 0));
	ok(cuMemsetD8Async(memory, 0, 4, gpu.stream));
	assert_int_equal(cupti.ActivityEnable(CUPTI_KIND_MEMCPY), 0);
	for (uint32_t i = 0; i < 3; i++) {
		ok(cuGraphLaunch(x, gpu.stream));
		ok(cuStreamSynchronize(gpu.stream));
		assert_int_equal(*host, 2 * i + 1);
	}
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(cupti.ActivityDisable(CUPTI_KIND_MEMCPY), 0);
	assert_int_equal(got.copies, 3);
	assert_int_equal(got.kernels, 0);
	assert_int_equal(got.copy[0].copy_kind, 2);
	assert_int_equal(got.copy[0].bytes, 4);
	assert_int_equal((uint32_t)got.copy[0].graph_node, 1);
	assert_true(got.copy[0].end >= got.copy[0].start + 3000);
	ok(cuGraphExecDestroy(x));
	ok(cuGraphDestroy(g));
	ok(cuMemFreeHost(host));
}

static void forked_streams_overlap_in_a_graph(void **state)
{
	CUstream side;
	CUevent fork, join;
	CUgraph g;
	CUgraphExec x;

	(void)state;
	ok(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
	ok(cuEventCreate(&fork, 0));
	ok(cuEventCreate(&join, 0));
	ok(cuStreamBeginCapture_v2(gpu.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(launch_write(gpu.stream, memory, 0, 2000, NULL));
	ok(cuEventRecord(fork, gpu.stream));
	ok(cuStreamWaitEvent(side, fork, 0));
	ok(launch_write(side, memory + 256, 1, 50000, NULL));
	ok(cuEventRecord(join, side));
	ok(launch_write(gpu.stream, memory + 512, 2, 10000, NULL));
	ok(cuStreamWaitEvent(gpu.stream, join, 0));
	ok(launch_write(gpu.stream, memory, 3, 2000, NULL));
	ok(cuStreamEndCapture(gpu.stream, &g));
	ok(cuGraphInstantiateWithFlags(&x, g, 0));
	assert_int_equal(cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL), 0);
	ok(cuGraphLaunch(x, gpu.stream));
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(cupti.ActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL),
			 0);
	assert_int_equal(got.kernels, 4);
	assert_true(got.kernel[1].start >= got.kernel[0].end);
	assert_true(got.kernel[2].start < got.kernel[1].end);
	assert_true(got.kernel[2].end < got.kernel[1].end);
	assert_true(got.kernel[3].start >= got.kernel[1].end);
	assert_int_not_equal(got.kernel[1].stream, got.kernel[2].stream);
	ok(cuGraphExecDestroy(x));
	ok(cuGraphDestroy(g));
	ok(cuEventDestroy_v2(fork));
	ok(cuEventDestroy_v2(join));
	ok(cuStreamDestroy_v2(side));
}

static void *allocate(void *arg)
{
	static int result;
	int mode = *(int *)arg;
	void *p;

	cuCtxSetCurrent(gpu.ctx);
	cuThreadExchangeStreamCaptureMode(&mode);
	result = cuMemHostAlloc(&p, 64, 0);
	return &result;
}

static int allocate_elsewhere(int mode)
{
	pthread_t t;
	void *result;

	assert_int_equal(pthread_create(&t, NULL, allocate, &mode), 0);
	assert_int_equal(pthread_join(t, &result), 0);
	return *(int *)result;
}

static void unsafe_calls_spoil_a_global_capture(void **state)
{
	CUgraph g;
	int status = 9;

	(void)state;
	ok(cuStreamBeginCapture_v2(gpu.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	ok(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED));
	ok(cuStreamIsCapturing(gpu.stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_equal(allocate_elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	ok(cuStreamIsCapturing(gpu.stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	assert_int_equal(cuStreamEndCapture(gpu.stream, &g),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(g);
	ok(cuStreamSynchronize(gpu.stream));
}

static void synchronising_a_capturing_stream_is_refused(void **state)
{
	CUgraph g;

	(void)state;
	ok(cuStreamBeginCapture_v2(gpu.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	assert_int_equal(cuStreamSynchronize(gpu.stream),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamEndCapture(gpu.stream, &g),
			 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(cuStreamEndCapture(gpu.stream, &g),
			 CUDA_ERROR_ILLEGAL_STATE);
}

#define with_clear(f) cmocka_unit_test_setup(f, clear)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_clear(capture_calls_back_inside_each_launch),
		with_clear(replay_gives_a_record_per_node),
		with_clear(replay_stores_like_the_launches),
		with_clear(copies_are_nodes_too),
		with_clear(forked_streams_overlap_in_a_graph),
		with_clear(unsafe_calls_spoil_a_global_capture),
		with_clear(synchronising_a_capturing_stream_is_refused),
	};

	return cmocka_run_group_tests(tests, open_all, NULL);
}
