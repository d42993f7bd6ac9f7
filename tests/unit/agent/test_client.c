#include "agent/client.h"

#include <pthread.h>
#include <time.h>

#include "agent/callbacks.h"
#include "agent/state.h"

#include "tests/unit/agent/check.h"

/*
 * A CUPTI that notes what is asked of it, and a host that calls CUDA in a loop,
 * or does not.
 */
static struct {
	_Atomic int calls, domains, finalized, synchronized, unsubscribed;
	_Atomic int site; /* of the host's call under way; -1 none */
	_Atomic bool host_finalized, at_exit, stop;
	int finalize_result;
} fake;

static pthread_t host;
static _Thread_local bool is_host;

static int unsubscribe(void *s)
{
	(void)s;
	fake.calls++;
	fake.unsubscribed++;
	return 0;
}

static int finalize(void)
{
	fake.calls++;
	fake.finalized++;
	fake.host_finalized = is_host;
	fake.at_exit = fake.site == CUPTI_EXIT;
	return fake.finalize_result;
}

static int enable_domain(uint32_t on, void *s, int domain)
{
	(void)on;
	(void)s;
	(void)domain;
	fake.calls++;
	fake.domains++;
	return 0;
}

static int enable_callback(uint32_t on, void *s, int domain, uint32_t cbid)
{
	(void)on;
	(void)s;
	(void)domain;
	(void)cbid;
	fake.calls++;
	return 0;
}

static int flush_all(uint32_t flag)
{
	(void)flag;
	fake.calls++;
	return 0;
}

static int synchronize(void)
{
	fake.synchronized++;
	return 0;
}

static void one_call(uint32_t cbid, int result)
{
	struct cupti_callback_data d = { .return_value = &result };

	for (int site = CUPTI_ENTER; site <= CUPTI_EXIT; site++) {
		fake.site = site;
		d.site = (uint32_t)site;
		callback_entry(NULL, CUPTI_DOMAIN_DRIVER, cbid, &d);
		fake.site = -1;
	}
}

static void *host_main(void *arg)
{
	const struct timespec t = { .tv_nsec = 1000000 };

	(void)arg;
	is_host = true;
	while (!fake.stop) {
		one_call(1, 0);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return NULL;
}

static int setup(void **state)
{
	static int subscriber;

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.site = -1;
	client_forget();
	agent.cupti = (struct cupti_api){
		.unsubscribe = unsubscribe,
		.finalize = finalize,
		.enable_domain = enable_domain,
		.enable_callback = enable_callback,
		.flush_all = flush_all,
	};
	agent.cuda.ctx_synchronize = synchronize;
	agent.has_cuda = true;
	agent.cupti_version = 130001;
	agent.cupti_kernels = 10;
	agent.subscriber = &subscriber;
	agent.launch_ns = 0;
	agent.fatal = false;
	agent.live = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_false(agent.live);
	assert_int_equal(agent.in_flight, 0);
	assert_null(agent.subscriber);
	return 0;
}

static void start_host(void)
{
	assert_int_equal(pthread_create(&host, NULL, host_main, NULL), 0);
}

static void stop_host(void)
{
	fake.stop = true;
	pthread_join(host, NULL);
}

static void a_busy_host_takes_it_down_at_the_exit_of_a_call(void **state)
{
	(void)state;
	agent.launch_ns = agent_now_ns();
	start_host();
	assert_true(client_finalize());
	stop_host();
	assert_int_equal(fake.finalized, 1);
	assert_true(fake.host_finalized);
	assert_true(fake.at_exit);
	assert_int_equal(fake.unsubscribed, 1);
	assert_int_equal(agent.cupti_kernels, 0);
}

static void in_an_idle_host_the_agent_does_after_it_has_waited(void **state)
{
	uint64_t start_ns = agent_now_ns();

	(void)state;
	assert_true(client_finalize());
	assert_int_equal(fake.finalized, 1);
	assert_false(fake.host_finalized);
	assert_int_equal(fake.synchronized, 1);
	assert_true(agent_now_ns() - start_ns < 30000000000u);
	/* A call that comes too late finds nothing to do. */
	one_call(1, 0);
	assert_int_equal(fake.finalized, 1);
}

static void before_12_5_it_only_unsubscribes(void **state)
{
	(void)state;
	agent.cupti_version = 22;
	assert_false(client_finalize());
	assert_int_equal(fake.finalized, 0);
	assert_int_equal(fake.unsubscribed, 1);
	assert_int_equal(agent.cupti_kernels, 10);
}

static void after_a_fatal_error_nothing_is_called(void **state)
{
	(void)state;
	agent.fatal = true;
	assert_false(client_finalize());
	assert_int_equal(fake.calls, 0);
}

static void a_refusal_keeps_the_buffers(void **state)
{
	(void)state;
	fake.finalize_result = CUPTI_E_UNKNOWN;
	assert_false(client_finalize());
	assert_int_equal(fake.unsubscribed, 1);
	assert_int_equal(agent.cupti_kernels, 10);
}

static void *capture(void *arg)
{
	const struct timespec t = { .tv_nsec = 100000000 };

	(void)arg;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	fake.stop = fake.finalized == 0;
	one_call(CBID_STREAM_END_CAPTURE, 0);
	return NULL;
}

static void a_capture_is_waited_for(void **state)
{
	pthread_t thread;

	(void)state;
	agent.live = true;
	one_call(CBID_STREAM_BEGIN_CAPTURE, 0);
	assert_true(client_capturing(agent_now_ns()));
	assert_int_equal(pthread_create(&thread, NULL, capture, NULL), 0);
	assert_true(client_finalize());
	pthread_join(thread, NULL);
	assert_true(fake.stop); /* not before the capture was over */
	assert_int_equal(fake.finalized, 1);
}

static void a_capture_that_failed_to_begin_is_none(void **state)
{
	(void)state;
	one_call(CBID_STREAM_BEGIN_CAPTURE, 1);
	assert_false(client_capturing(agent_now_ns()));
	one_call(CBID_STREAM_END_CAPTURE, 0);
	one_call(CBID_STREAM_BEGIN_CAPTURE, 0);
	assert_true(client_capturing(agent_now_ns()));
	one_call(CBID_STREAM_END_CAPTURE, 0);
	assert_false(client_capturing(agent_now_ns()));
	client_unsubscribe();
}

static void at_the_end_of_the_process_none_begins(void **state)
{
	(void)state;
	client_leave();
	assert_false(client_finalize());
	assert_int_equal(fake.finalized, 0);
	client_forget();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		TEST(a_busy_host_takes_it_down_at_the_exit_of_a_call),
		TEST(in_an_idle_host_the_agent_does_after_it_has_waited),
		TEST(before_12_5_it_only_unsubscribes),
		TEST(after_a_fatal_error_nothing_is_called),
		TEST(a_refusal_keeps_the_buffers),
		TEST(a_capture_is_waited_for),
		TEST(a_capture_that_failed_to_begin_is_none),
		TEST(at_the_end_of_the_process_none_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
