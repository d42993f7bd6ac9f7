/* The releases that the simulated CUPTI can play, and clients side by side.
 * Each test runs in a process of its own, which ends with 0 or the number of
 * the check that failed. */
#include "tests/unit/sim/simgpu_child.h"

#define BUFFER_BYTES 4096

static struct {
	int (*Subscribe)(void **, cupti_callback, void *,
			 struct cupti_subscriber_params *);
	int (*ActivityRegisterCallbacks)(void *, cupti_buffer_requested_v2,
					 cupti_buffer_completed_v2);
	int (*ActivityEnable)(void *, uint32_t, void *);
	int (*ActivityDisable)(void *, uint32_t, void *);
	int (*ActivityGetNextRecord)(void *, uint8_t *, size_t, void **);
	int (*ActivityGetNumDroppedRecords)(void *, void *, uint32_t, size_t *);
	int (*GetTimestamp)(void *, uint64_t *);
} v2;

static int (*struct_size)(uint32_t, uint32_t, size_t *);

static int v2_open(void)
{
	static const char *const names[] = {
		"Subscribe",
		"ActivityRegisterCallbacks",
		"ActivityEnable",
		"ActivityDisable",
		"ActivityGetNextRecord",
		"ActivityGetNumDroppedRecords",
		"GetTimestamp",
	};
	void **slot = (void **)&v2;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[64];

		snprintf(name, sizeof(name), "cupti%s_v2", names[i]);
		slot[i] = dlsym(cupti.handle, name);
		if (!slot[i])
			return -1;
	}
	*(void **)&struct_size =
		dlsym(cupti.handle, "cuptiActivityGetStructSize");
	return struct_size ? 0 : -1;
}

static int start(const char *toolkit)
{
	setenv("MOETOP_SIM_CUPTI", toolkit, 1);
	return gpu_open("H200") || cupti_open() || v2_open() ||
	       cuMemAlloc_v2(&memory, 4096);
}

/* ---- releases -------------------------------------------------------------------- */

static const struct release {
	const char *toolkit;
	uint32_t version, kernel_bytes;
	bool state, per_thread, exec_id, sizes;
} releases[] = {
	{ "11.8", 18, 200, false, false, false, false },
	{ "12.1", 18, 208, false, false, false, false },
	{ "12.2", 20, 208, true, false, false, false },
	{ "12.4", 22, 208, true, true, true, false },
	{ "12.9", 28, 208, true, true, true, false },
	{ "13.0", 130001, 216, true, true, true, false },
	{ "13.1", 130101, 224, true, true, true, false },
	{ "13.2", 130202, 224, true, true, true, true },
	{ "13.3", 130301, 232, true, true, true, true },
	{ "13.4", 130401, 248, true, true, true, true },
	{ "14.1", 140100, 280, true, true, true, true },
};

static const struct release *played;

static void ignore(void *user, int domain, uint32_t cbid, const void *data)
{
	(void)user;
	(void)domain;
	(void)cbid;
	(void)data;
}

static int has_what_it_should(void)
{
	uint8_t per_thread = 1;
	size_t bytes = 1;
	void *s;

	CHECK(10, cupti.Subscribe(&s, ignore, NULL) == 0);
	CHECK(11, played->state ==
			  (cupti.EnableCallback(1, s, CUPTI_DOMAIN_STATE,
						CBID_STATE_FATAL_ERROR) == 0));
	CHECK(12, played->per_thread == (cupti.ActivitySetAttribute(
						 CUPTI_ATTR_PER_THREAD_BUFFER,
						 &bytes, &per_thread) == 0));
	CHECK(13, played->sizes ==
			  (struct_size(CUPTI_KIND_KERNEL, 0, &bytes) == 0));
	CHECK(14, !played->sizes || bytes == played->kernel_bytes);
	return 0;
}

static int records_are_of_the_release(void)
{
	uint32_t version = 0, id;
	CUgraphExec x;

	CHECK(1, start(played->toolkit) == 0);
	CHECK(2, cupti.GetVersion(&version) == 0 && version == played->version);
	CHECK(3,
	      cupti.ActivityRegisterCallbacks(on_requested, on_completed) == 0);
	CHECK(4, cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL) == 0);
	got.buffer_bytes = 5 * played->kernel_bytes; /* five fit */
	CHECK(5, launch_all() == 0);
	CHECK(6, cupti.ActivityFlushAll(1) == 0 && got.kernels == KERNELS);
	for (int i = 0; i < KERNELS; i++)
		CHECK(7, got.kernel[i].end - got.kernel[i].start == 5000 &&
				 !strcmp(got.kernel[i].name, "write") &&
				 got.kernel[i].grid[2] == 3);
	CHECK(8, got.buffers >= 3);
	x = graph_of(memory, 2, 1000);
	CHECK(9, played->exec_id == (cupti.GetGraphExecId(x, &id) == 0));
	return has_what_it_should();
}

static void every_release_has_its_records_and_gaps(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++) {
		played = &releases[i];
		expect_child(records_are_of_the_release);
	}
}

/* ---- clients side by side ---------------------------------------------------------- */

static struct client {
	void *subscriber;
	size_t kernels, copies, calls;
	char other[CUPTI_NAME_BYTES];
} a, b;

static void on_call(void *user, int domain, uint32_t cbid, const void *data)
{
	(void)domain;
	(void)cbid;
	(void)data;
	((struct client *)user)->calls++;
}

static void v2_requested(uint8_t **buffer, size_t *bytes, size_t *max,
			 struct cupti_buffer_info *info)
{
	*bytes = info->struct_size ? BUFFER_BYTES : 0;
	*max = 0;
	*buffer = aligned_alloc(8, BUFFER_BYTES);
}

static void count(struct client *c, uint8_t *buffer, size_t valid)
{
	void *r = NULL;

	while (v2.ActivityGetNextRecord(c->subscriber, buffer, valid, &r) == 0)
		if (*(uint32_t *)r == CUPTI_KIND_CONCURRENT_KERNEL)
			c->kernels++;
		else
			c->copies++;
	free(buffer);
}

static void completed_a(uint8_t *buffer, size_t bytes, size_t valid,
			struct cupti_buffer_info *info)
{
	(void)bytes;
	(void)info;
	count(&a, buffer, valid);
}

static void completed_b(uint8_t *buffer, size_t bytes, size_t valid,
			struct cupti_buffer_info *info)
{
	(void)bytes;
	(void)info;
	count(&b, buffer, valid);
}

static int subscribe(struct client *c, const char *name, uint8_t many)
{
	struct cupti_subscriber_params p = { .struct_size = sizeof(p),
					     .name = name,
					     .old_name = c->other,
					     .old_name_bytes = sizeof(c->other),
					     .allow_multiple = many };

	return v2.Subscribe(&c->subscriber, on_call, c, &p);
}

static int each_has_its_own_kinds_and_buffers(void)
{
	uint32_t word;
	uint64_t ns = 0;

	CHECK(1, start("13.4") == 0);
	CHECK(2, subscribe(&a, "a", 1) == 0 && subscribe(&b, "b", 1) == 0);
	CHECK(3, v2.ActivityRegisterCallbacks(a.subscriber, v2_requested,
					      completed_a) == 0);
	CHECK(4, v2.ActivityRegisterCallbacks(b.subscriber, v2_requested,
					      completed_b) == 0);
	CHECK(5, v2.ActivityEnable(a.subscriber, CUPTI_KIND_CONCURRENT_KERNEL,
				   NULL) == 0);
	CHECK(6, v2.ActivityEnable(b.subscriber, CUPTI_KIND_MEMCPY, NULL) == 0);
	CHECK(7, cupti.EnableCallback(1, b.subscriber, CUPTI_DOMAIN_DRIVER,
				      CBID_LAUNCH_KERNEL) == 0);
	CHECK(8, launch_all() == 0);
	CHECK(9, cuMemcpyDtoH_v2(&word, memory, 4) == 0);
	CHECK(10, cupti.ActivityFlushAll(1) == 0);
	CHECK(11, a.kernels == KERNELS && a.copies == 0 && a.calls == 0);
	CHECK(12, b.kernels == 0 && b.copies == 1 && b.calls == 2 * KERNELS);
	CHECK(13, v2.GetTimestamp(a.subscriber, &ns) == 0 && ns);
	return 0;
}

static int the_rest_goes_on_when_one_leaves(void)
{
	size_t dropped = 0;

	CHECK(1, start("13.3") == 0);
	CHECK(2, subscribe(&a, "a", 1) == 0 && subscribe(&b, "b", 1) == 0);
	CHECK(3, v2.ActivityRegisterCallbacks(a.subscriber, v2_requested,
					      completed_a) == 0);
	CHECK(4, v2.ActivityRegisterCallbacks(b.subscriber, v2_requested,
					      completed_b) == 0);
	v2.ActivityEnable(a.subscriber, CUPTI_KIND_CONCURRENT_KERNEL, NULL);
	v2.ActivityEnable(b.subscriber, CUPTI_KIND_CONCURRENT_KERNEL, NULL);
	CHECK(5, launch_all() == 0 && cupti.ActivityFlushAll(1) == 0);
	CHECK(6, a.kernels == KERNELS && b.kernels == KERNELS);
	CHECK(7, cupti.Unsubscribe(a.subscriber) == 0);
	CHECK(8, v2.ActivityEnable(a.subscriber, CUPTI_KIND_MEMCPY, NULL) ==
			 CUPTI_E_INVALID_PARAMETER);
	CHECK(9, launch_all() == 0 && cupti.ActivityFlushAll(1) == 0);
	CHECK(10, a.kernels == KERNELS && b.kernels == 2 * KERNELS);
	CHECK(11, v2.ActivityGetNumDroppedRecords(b.subscriber, NULL, 0,
						  &dropped) == 0 &&
			  dropped == 0);
	return 0;
}

static int the_older_calls_keep_the_newer_out(void)
{
	void *s = NULL;

	CHECK(1, start("13.4") == 0);
	CHECK(2, cupti.Subscribe(&s, ignore, NULL) == 0);
	CHECK(3, subscribe(&a, "a", 1) == CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK(4, a.other[0] && a.subscriber == NULL);
	CHECK(5, cupti.Unsubscribe(s) == 0 && subscribe(&a, "a", 1) == 0);
	return 0;
}

static int the_newer_calls_keep_the_older_out(void)
{
	void *s = NULL;

	CHECK(1, start("13.4") == 0 && subscribe(&a, "a", 1) == 0);
	CHECK(2, cupti.Subscribe(&s, ignore, NULL) ==
			 CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK(3, cupti.ActivityRegisterCallbacks(on_requested, on_completed) ==
			 CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK(4, cupti.ActivityEnable(CUPTI_KIND_MEMCPY) ==
			 CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK(5, cupti.Unsubscribe(a.subscriber) == 0);
	CHECK(6, cupti.Subscribe(&s, ignore, NULL) == 0);
	return 0;
}

static int one_that_wants_to_be_alone_is(void)
{
	CHECK(1, start("13.4") == 0 && subscribe(&a, "nsys", 0) == 0);
	CHECK(2, subscribe(&b, "b", 1) == CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK(3, !strcmp(b.other, "CUPTI for nsys"));
	CHECK(4, cupti.Unsubscribe(a.subscriber) == 0);
	CHECK(5, subscribe(&b, "b", 1) == 0);
	CHECK(6, subscribe(&a, "nsys", 0) == CUPTI_E_MULTIPLE_SUBSCRIBERS);
	return 0;
}

static int an_older_driver_has_one_client(void)
{
	setenv("MOETOP_SIM_DRIVER", "13.2", 1);
	CHECK(1, start("13.4") == 0);
	CHECK(2, subscribe(&a, "a", 1) == CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK(3, cupti.Subscribe(&b.subscriber, ignore, NULL) == 0);
	return 0;
}

static int older_releases_have_no_v2_records(void)
{
	CHECK(1, start("13.0") == 0 && subscribe(&a, "a", 1) == 0);
	CHECK(2, v2.ActivityEnable(a.subscriber, CUPTI_KIND_MEMCPY, NULL) ==
			 CUPTI_E_INVALID_PARAMETER);
	CHECK(3, cupti.ActivityEnable(CUPTI_KIND_MEMCPY) == 0);
	return 0;
}

static int members_that_moved(void)
{
	setenv("MOETOP_SIM_FAULT", "strange_records", 1);
	CHECK(1, start("13.4") == 0);
	CHECK(2,
	      cupti.ActivityRegisterCallbacks(on_requested, on_completed) == 0);
	CHECK(3, cupti.ActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL) == 0);
	CHECK(4, launch_all() == 0 && cupti.ActivityFlushAll(1) == 0);
	CHECK(5, got.kernels == KERNELS);
	CHECK(6, got.kernel[0].grid[2] != 3);
	return 0;
}

#define IN_A_CHILD(name)                      \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		expect_child(name);           \
	}
IN_A_CHILD(each_has_its_own_kinds_and_buffers)
IN_A_CHILD(the_rest_goes_on_when_one_leaves)
IN_A_CHILD(the_older_calls_keep_the_newer_out)
IN_A_CHILD(the_newer_calls_keep_the_older_out)
IN_A_CHILD(one_that_wants_to_be_alone_is)
IN_A_CHILD(an_older_driver_has_one_client)
IN_A_CHILD(older_releases_have_no_v2_records)
IN_A_CHILD(members_that_moved)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_release_has_its_records_and_gaps),
		cmocka_unit_test(test_each_has_its_own_kinds_and_buffers),
		cmocka_unit_test(test_the_rest_goes_on_when_one_leaves),
		cmocka_unit_test(test_the_older_calls_keep_the_newer_out),
		cmocka_unit_test(test_the_newer_calls_keep_the_older_out),
		cmocka_unit_test(test_one_that_wants_to_be_alone_is),
		cmocka_unit_test(test_an_older_driver_has_one_client),
		cmocka_unit_test(test_older_releases_have_no_v2_records),
		cmocka_unit_test(test_members_that_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
