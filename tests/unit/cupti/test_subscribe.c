#include "cupti/subscribe.h"

#include "tests/unit/cupti/check.h"

/* A CUPTI that writes down which of its calls were made, and for whom. */

static struct {
	int v1_answer, v2_answer;
	const char *old_name;
	char calls[256];
	cupti_buffer_requested_v2 requested_v2;
	cupti_buffer_completed_v2 completed_v2;
} fake;

static int note(const char *call)
{
	strcat(fake.calls, call);
	strcat(fake.calls, " ");
	return CUPTI_OK;
}

static int subscribe(void **s, cupti_callback cb, void *user)
{
	(void)cb;
	(void)user;
	note("subscribe");
	if (!fake.v1_answer)
		*s = &fake.v1_answer;
	return fake.v1_answer;
}

static int subscribe_v2(void **s, cupti_callback cb, void *user,
			struct cupti_subscriber_params *p)
{
	(void)cb;
	(void)user;
	assert_int_equal(p->struct_size, 40);
	assert_int_equal(p->allow_multiple, 1);
	assert_string_equal(p->name, "moetop");
	note("subscribe2");
	if (fake.old_name)
		strcpy(p->old_name, fake.old_name);
	if (!fake.v2_answer)
		*s = &fake.v2_answer;
	return fake.v2_answer;
}

static int enable(int kind)
{
	assert_int_equal(kind, 10);
	return note("enable");
}

static int disable(int kind)
{
	assert_int_equal(kind, 10);
	return note("disable");
}

static int flush_all(uint32_t forced)
{
	return note(forced ? "forced" : "flush");
}

static int ours(void *subscriber)
{
	assert_ptr_equal(subscriber, &fake.v2_answer);
	return CUPTI_OK;
}

static int enable_v2(void *s, int kind, void *config)
{
	assert_int_equal(kind, 10);
	assert_null(config);
	return ours(s) | note("enable2");
}

static int disable_v2(void *s, int kind, void *config)
{
	assert_int_equal(kind, 10);
	assert_null(config);
	return ours(s) | note("disable2");
}

static int next_record(uint8_t *b, size_t valid, void **record)
{
	(void)b;
	(void)valid;
	(void)record;
	return note("next");
}

static int next_record_v2(void *s, uint8_t *b, size_t valid, void **record)
{
	assert_int_equal(valid, 7);
	*record = b;
	return ours(s) | note("next2");
}

static int dropped_v2(void *s, void *context, uint32_t stream, size_t *n)
{
	(void)context;
	(void)stream;
	*n = 3;
	return ours(s) | note("dropped2");
}

static int set_attribute_v2(void *s, int attr, size_t *bytes, void *value)
{
	(void)attr;
	(void)bytes;
	(void)value;
	return ours(s) | note("attr2");
}

static int timestamp_v2(void *s, uint64_t *ns)
{
	*ns = 5;
	return ours(s) | note("time2");
}

static int register_v2(void *s, cupti_buffer_requested_v2 requested,
		       cupti_buffer_completed_v2 completed)
{
	fake.requested_v2 = requested;
	fake.completed_v2 = completed;
	return ours(s) | note("register2");
}

static struct cupti_api api;
static void *subscriber;
static bool shared;
static char other[CUPTI_NAME_BYTES];

static int setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	subscriber = NULL;
	api = (struct cupti_api){
		.subscribe = subscribe,
		.enable = enable,
		.disable = disable,
		.next_record = next_record,
		.flush_all = flush_all,
		.v2 = { .subscribe = subscribe_v2,
			.register_callbacks = register_v2,
			.enable = enable_v2,
			.disable = disable_v2,
			.next_record = next_record_v2,
			.dropped = dropped_v2,
			.set_attribute = set_attribute_v2,
			.timestamp = timestamp_v2 },
	};
	return 0;
}

static int run(bool share)
{
	return cupti_subscribe(&api, share, NULL, NULL, &subscriber, &shared,
			       other);
}

static void shares_where_it_can(void **state)
{
	uint8_t buffer[8];
	void *record = NULL;
	size_t n = 0;
	uint64_t ns = 0;

	(void)state;
	fake.old_name = "CUPTI for first";
	assert_int_equal(run(true), CUPTI_OK);
	assert_ptr_equal(subscriber, &fake.v2_answer);
	assert_true(shared);
	assert_string_equal(other, "");
	assert_int_equal(api.enable(10) | api.disable(10), 0);
	assert_int_equal(api.next_record(buffer, 7, &record), 0);
	assert_ptr_equal(record, buffer);
	assert_int_equal(api.dropped(NULL, 0, &n), 0);
	assert_int_equal(api.set_attribute(1, &n, NULL), 0);
	assert_int_equal(api.timestamp(&ns) | api.flush_all(1), 0);
	assert_int_equal(ns, 5);
	assert_int_equal(n, 3);
	assert_string_equal(fake.calls, "subscribe2 enable2 disable2 next2 "
					"dropped2 attr2 time2 flush ");
}

static void is_alone_where_it_must(void **state)
{
	(void)state;
	assert_int_equal(run(false), CUPTI_OK);
	assert_ptr_equal(subscriber, &fake.v1_answer);
	assert_false(shared);
	api.enable(10);
	api.flush_all(1);
	assert_string_equal(fake.calls, "subscribe enable forced ");
	setup(NULL);
	api.v2.timestamp = NULL; /* as in 13.2 */
	assert_int_equal(run(true), CUPTI_OK);
	assert_false(shared);
	assert_string_equal(fake.calls, "subscribe ");
}

static void falls_back_when_sharing_is_refused(void **state)
{
	(void)state;
	fake.v2_answer = CUPTI_E_NOT_SUPPORTED;
	assert_int_equal(run(true), CUPTI_OK);
	assert_false(shared);
	assert_ptr_equal(subscriber, &fake.v1_answer);
	assert_string_equal(fake.calls, "subscribe2 subscribe ");
}

static void names_who_is_in_the_way(void **state)
{
	(void)state;
	fake.v1_answer = fake.v2_answer = CUPTI_E_MULTIPLE_SUBSCRIBERS;
	fake.old_name = "CUPTI for nsys";
	assert_int_equal(run(true), CUPTI_E_MULTIPLE_SUBSCRIBERS);
	assert_null(subscriber);
	assert_string_equal(other, "CUPTI for nsys");
}

static void the_calls_follow_the_last_subscription(void **state)
{
	(void)state;
	assert_int_equal(run(true), CUPTI_OK);
	fake.v2_answer = CUPTI_E_MULTIPLE_SUBSCRIBERS;
	assert_int_equal(run(true), CUPTI_OK);
	assert_false(shared);
	fake.calls[0] = '\0';
	api.enable(10);
	api.next_record(NULL, 0, NULL);
	api.flush_all(1);
	assert_string_equal(fake.calls, "enable next forced ");
	fake.v2_answer = CUPTI_OK;
	assert_int_equal(run(true), CUPTI_OK);
	assert_int_equal(run(false), CUPTI_OK);
	fake.calls[0] = '\0';
	api.disable(10);
	assert_string_equal(fake.calls, "disable ");
}

static size_t seen_valid;

static void requested(uint8_t **buffer, size_t *bytes, size_t *max)
{
	*buffer = (uint8_t *)&fake;
	*bytes = 4096;
	*max = 0;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer,
		      size_t bytes, size_t valid)
{
	assert_null(context);
	assert_int_equal(stream, 0);
	assert_ptr_equal(buffer, &fake);
	assert_int_equal(bytes, 4096);
	seen_valid = valid;
}

static void buffers_go_through_the_older_functions(void **state)
{
	struct cupti_buffer_info info = { sizeof(info) };
	uint8_t *buffer = NULL;
	size_t bytes = 0, max = 9;

	(void)state;
	assert_int_equal(run(true), CUPTI_OK);
	assert_int_equal(api.register_callbacks(requested, completed), 0);
	fake.requested_v2(&buffer, &bytes, &max, &info);
	assert_int_equal(bytes, 4096);
	assert_int_equal(max, 0);
	fake.completed_v2(buffer, bytes, 72, &info);
	assert_int_equal(seen_valid, 72);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup(f, setup)
		T(shares_where_it_can),
		T(is_alone_where_it_must),
		T(falls_back_when_sharing_is_refused),
		T(names_who_is_in_the_way),
		T(the_calls_follow_the_last_subscription),
		T(buffers_go_through_the_older_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
