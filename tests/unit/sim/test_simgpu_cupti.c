/* The simulated CUPTI: subscription, buffers, flushes, clocks, threads. */
#include "tests/unit/sim/simgpu_fixture.h"

static CUdeviceptr memory;

static void ignore(void *user, int domain, uint32_t cbid, const void *data)
{
	(void)domain;
	(void)cbid;
	(void)data;
	if (user)
		(*(int *)user)++;
}

static int open_all(void **state)
{
	(void)state;
	return gpu_open("H200") || cupti_open() || cuMemAlloc_v2(&memory, 4096);
}

static int start_records(void **state)
{
	(void)state;
	got.decline = false;
	got.buffer_bytes = 64 * 1024;
	records_clear();
	return cupti.ActivityRegisterCallbacks(on_requested, on_completed) ||
	       cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
}

static int stop_records(void **state)
{
	size_t dropped;

	(void)state;
	cuStreamSynchronize(gpu.stream);
	cupti.ActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	cupti.ActivityFlushAll(1);
	cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped);
	return cupti.Finalize();
}

static void launch_n(int n, uint32_t ns)
{
	for (int i = 0; i < n; i++)
		ok(launch_write(gpu.stream, memory, 0, ns, NULL));
}

static size_t dropped(void)
{
	size_t n = 99;

	assert_int_equal(cupti.ActivityGetNumDroppedRecords(NULL, 0, &n), 0);
	return n;
}

static void version_is_13_0(void **state)
{
	uint32_t v = 0;

	(void)state;
	assert_int_equal(cupti.GetVersion(&v), 0);
	assert_int_equal(v, 130001);
}

static void only_one_may_subscribe(void **state)
{
	void *a = NULL, *b = NULL;

	(void)state;
	assert_int_equal(cupti.Subscribe(&a, ignore, NULL), 0);
	assert_int_equal(cupti.Subscribe(&b, ignore, NULL),
			 CUPTI_E_MULTIPLE_SUBSCRIBERS);
	assert_int_equal(cupti.Unsubscribe(a), 0);
	assert_int_equal(cupti.Unsubscribe(a), CUPTI_E_INVALID_PARAMETER);
	assert_int_equal(cupti.Subscribe(&b, ignore, NULL), 0);
	assert_int_equal(cupti.Unsubscribe(b), 0);
}

static void callbacks_come_for_what_is_enabled(void **state)
{
	void *s;
	int calls = 0;

	(void)state;
	assert_int_equal(cupti.Subscribe(&s, ignore, &calls), 0);
	launch_n(1, 1000);
	assert_int_equal(calls, 0);
	assert_int_equal(cupti.EnableCallback(1, s, CUPTI_DOMAIN_DRIVER,
					      CBID_LAUNCH_KERNEL_EX),
			 0);
	launch_n(1, 1000);
	assert_int_equal(calls, 0);
	ok(launch_add(gpu.stream, memory, 1));
	assert_int_equal(calls, 2);
	assert_int_equal(cupti.EnableDomain(1, s, CUPTI_DOMAIN_DRIVER), 0);
	launch_n(1, 1000);
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(calls, 6);
	assert_int_equal(cupti.Unsubscribe(s), 0);
	launch_n(1, 1000);
	assert_int_equal(calls, 6);
}

static void kernels_outside_of_the_window_leave_no_record(void **state)
{
	(void)state;
	assert_int_equal(cupti.ActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL),
			 0);
	launch_n(3, 1000);
	assert_int_equal(cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL), 0);
	launch_n(2, 1000);
	assert_int_equal(cupti.ActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL),
			 0);
	launch_n(3, 1000);
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 2);
}

static void flush_leaves_what_has_not_ended(void **state)
{
	(void)state;
	launch_n(2, 1000);
	ok(cuStreamSynchronize(gpu.stream));
	launch_n(1, 100000000);
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 2);
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 3);
	assert_int_equal(got.kernel[2].end - got.kernel[2].start, 100000000);
}

static void forced_flush_returns_everything(void **state)
{
	size_t requests;

	(void)state;
	launch_n(1, 100000000);
	requests = got.requests;
	assert_int_equal(cupti.ActivityFlushAll(1), 0);
	assert_int_equal(got.kernels, 1);
	assert_int_equal(got.kernel[0].start, 0);
	assert_int_equal(got.kernel[0].end, 0);
	assert_int_equal(got.buffers, requests);
}

static void full_buffers_come_from_a_worker(void **state)
{
	uint64_t deadline = now_ns() + 60000000000u;

	(void)state;
	got.buffer_bytes = 216 * 8;
	launch_n(20, 1000);
	ok(cuStreamSynchronize(gpu.stream));
	while (kernels_got() < 16 && now_ns() < deadline)
		usleep(1000);
	assert_int_equal(kernels_got(), 16);
	assert_false(pthread_equal(got.completed_by, pthread_self()));
	assert_true(pthread_equal(got.requested_by, pthread_self()));
	assert_int_equal(got.requests, 3);
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 20);
}

static void records_without_a_buffer_are_dropped_and_counted(void **state)
{
	(void)state;
	got.buffer_bytes = 216 * 4;
	launch_n(4, 1000);
	got.decline = true;
	launch_n(7, 1000);
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 4);
	assert_int_equal(dropped(), 7);
	assert_int_equal(dropped(), 0);
	got.decline = false;
	launch_n(1, 1000);
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 5);
}

static void records_are_as_the_header_says(void **state)
{
	const struct cupti_kernel *k = got.kernel;

	(void)state;
	ok(launch_busy(gpu.stream, 1e6, 0));
	ok(cuStreamSynchronize(gpu.stream));
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, 1);
	assert_string_equal(k->name, "busy");
	assert_int_equal(k->grid[0], 8);
	assert_int_equal(k->block[0], 256);
	assert_int_equal(k->dynamic_smem, 512);
	assert_int_equal(k->graph, 0);
	assert_int_equal(k->graph_node, 0);
	assert_int_not_equal(k->correlation, 0);
	assert_int_not_equal(k->stream, 0);
	assert_int_equal(k->end - k->start, 1245); /* 1000 + 245.1 */
}

static void attributes_keep_their_value(void **state)
{
	size_t bytes = 8, value = 0, set = 77;
	uint8_t small;

	(void)state;
	assert_int_equal(cupti.ActivityGetAttribute(
				 CUPTI_ATTR_DEVICE_BUFFER_SIZE, &bytes, &value),
			 0);
	assert_int_equal(value, 3200000);
	assert_int_equal(
		cupti.ActivitySetAttribute(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT,
					   &bytes, &set),
		0);
	assert_int_equal(
		cupti.ActivityGetAttribute(CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT,
					   &bytes, &value),
		0);
	assert_int_equal(value, 77);
	bytes = 1;
	assert_int_equal(cupti.ActivityGetAttribute(
				 CUPTI_ATTR_DEVICE_BUFFER_SIZE, &bytes, &small),
			 10);
}

/* ---- finalize from a callback ---------------------------------------------------- */

static bool finalized;

static void finalize_at_exit(void *user, int domain, uint32_t cbid,
			     const void *data)
{
	const struct cupti_callback_data *d = data;

	(void)user;
	(void)domain;
	(void)cbid;
	if (d->site == CUPTI_EXIT && !finalized) {
		finalized = true;
		assert_int_equal(cupti.ActivityFlushAll(1), 0);
		assert_int_equal(cupti.Finalize(), 0);
	}
}

static void finalize_works_at_the_exit_of_a_call(void **state)
{
	void *s;

	(void)state;
	assert_int_equal(start_records(NULL), 0);
	assert_int_equal(cupti.Subscribe(&s, finalize_at_exit, NULL), 0);
	assert_int_equal(cupti.EnableCallback(1, s, CUPTI_DOMAIN_DRIVER,
					      CBID_LAUNCH_KERNEL),
			 0);
	launch_n(3, 1000);
	assert_true(finalized);
	assert_int_equal(got.kernels, 1);
	assert_int_equal(cupti.Subscribe(&s, ignore, NULL), 0); /* again */
	assert_int_equal(cupti.Unsubscribe(s), 0);
}

/* ---- many threads ------------------------------------------------------------------ */

#define THREADS 4
#define ROUNDS 60

static void *worker(void *arg)
{
	CUdeviceptr mine = memory + *(unsigned *)arg * 256;
	uint32_t *host;
	uintptr_t bad = 0;
	CUstream s;

	if (cuCtxSetCurrent(gpu.ctx) ||
	    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
	    cuMemHostAlloc((void **)&host, 4, 0))
		return (void *)1;
	bad += cuMemsetD8Async(mine, 0, 256, s) != 0;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		bad += launch_add(s, mine, 1) != 0;
		bad += cuMemcpyDtoHAsync_v2(host, mine, 4, s) != 0;
		bad += cuStreamSynchronize(s) != 0;
		bad += *host != i + 1;
	}
	bad += cuMemFreeHost(host) != 0;
	bad += cuStreamDestroy_v2(s) != 0;
	return (void *)bad;
}

static void threads_do_not_disturb_each_other(void **state)
{
	pthread_t t[THREADS];
	unsigned id[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		id[i] = i;
		assert_int_equal(pthread_create(&t[i], NULL, worker, &id[i]),
				 0);
	}
	for (int i = 0; i < 20; i++)
		assert_int_equal(cupti.ActivityFlushAll(0), 0);
	for (int i = 0; i < THREADS; i++) {
		void *bad;

		assert_int_equal(pthread_join(t[i], &bad), 0);
		assert_int_equal((uintptr_t)bad, 0);
	}
	assert_int_equal(cupti.ActivityFlushAll(0), 0);
	assert_int_equal(got.kernels, THREADS * ROUNDS);
	for (size_t i = 0; i < got.kernels; i++)
		assert_true(got.kernel[i].start < got.kernel[i].end);
}

#define with_records(f) \
	cmocka_unit_test_setup_teardown(f, start_records, stop_records)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(version_is_13_0),
		cmocka_unit_test(only_one_may_subscribe),
		cmocka_unit_test(callbacks_come_for_what_is_enabled),
		with_records(kernels_outside_of_the_window_leave_no_record),
		with_records(flush_leaves_what_has_not_ended),
		with_records(forced_flush_returns_everything),
		with_records(full_buffers_come_from_a_worker),
		with_records(records_without_a_buffer_are_dropped_and_counted),
		with_records(records_are_as_the_header_says),
		with_records(threads_do_not_disturb_each_other),
		cmocka_unit_test(attributes_keep_their_value),
		cmocka_unit_test(finalize_works_at_the_exit_of_a_call),
	};

	return cmocka_run_group_tests(tests, open_all, NULL);
}
