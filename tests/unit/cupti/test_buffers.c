#include "cupti/buffers.h"

#include <errno.h>
#include <pthread.h>

#include "tests/unit/cupti/check.h"

static void buffers_come_back_in_order(void **state)
{
	struct buffers b;
	uint8_t *p[3];
	size_t bytes, valid;

	(void)state;
	assert_int_equal(buffers_init(&b, 4, 8192), 0);
	for (int i = 0; i < 3; i++) {
		p[i] = buffers_request(&b, &bytes);
		assert_int_equal(bytes, 8192);
	}
	buffers_complete(&b, p[1], 10);
	buffers_complete(&b, p[0], 20);
	assert_ptr_equal(buffers_take(&b, &valid), p[1]);
	assert_int_equal(valid, 10);
	buffers_complete(&b, p[2], 30);
	assert_ptr_equal(buffers_take(&b, &valid), p[0]);
	assert_ptr_equal(buffers_take(&b, &valid), p[2]);
	assert_null(buffers_take(&b, &valid));
	buffers_fini(&b);
}

static void empty_pool_hands_out_the_discard_buffer(void **state)
{
	struct buffers b;
	uint8_t *p[2], *q;
	size_t bytes, valid;

	(void)state;
	assert_int_equal(buffers_init(&b, 2, 4096), 0);
	p[0] = buffers_request(&b, &bytes);
	p[1] = buffers_request(&b, &bytes);
	q = buffers_request(&b, &bytes);
	assert_ptr_equal(q, b.discard);
	assert_ptr_equal(buffers_request(&b, &bytes), q);
	buffers_complete(&b, q, 432);
	assert_int_equal(b.discarded_bytes, 432);
	assert_null(buffers_take(&b, &valid));
	buffers_complete(&b, p[0], 1);
	buffers_give(&b, buffers_take(&b, &valid));
	assert_ptr_equal(buffers_request(&b, &bytes), p[0]);
	buffers_fini(&b);
}

static void a_length_beyond_the_buffer_counts_as_empty(void **state)
{
	struct buffers b;
	size_t bytes, valid;

	(void)state;
	assert_int_equal(buffers_init(&b, 2, 4096), 0);
	buffers_complete(&b, buffers_request(&b, &bytes), 4097);
	assert_non_null(buffers_take(&b, &valid));
	assert_int_equal(valid, 0);
	assert_int_equal(b.refused, 1);
	buffers_complete(&b, b.discard, 1 << 20);
	assert_int_equal(b.discarded_bytes, 0);
	assert_int_equal(b.refused, 2);
	buffers_fini(&b);
}

static void what_cupti_does_not_have_cannot_come_back(void **state)
{
	struct buffers b;
	uint8_t *p;
	size_t bytes, valid;

	(void)state;
	assert_int_equal(buffers_init(&b, 2, 4096), 0);
	p = buffers_request(&b, &bytes);
	buffers_complete(&b, (uint8_t *)&b, 10); /* none of ours */
	buffers_complete(&b, p + 8, 10);
	buffers_complete(&b, p == b.memory ? p + 4096 : b.memory, 10);
	assert_null(buffers_take(&b, &valid));
	assert_int_equal(b.refused, 3);
	buffers_complete(&b, p, 10);
	buffers_complete(&b, p, 20);
	assert_ptr_equal(buffers_take(&b, &valid), p);
	assert_int_equal(valid, 10);
	assert_null(buffers_take(&b, &valid));
	assert_int_equal(b.refused, 4);
	buffers_give(&b, p);
	assert_ptr_not_equal(buffers_request(&b, &bytes),
			     buffers_request(&b, &bytes));
	buffers_fini(&b);
	buffers_complete(&b, p, 10); /* the pool is gone */
	assert_int_equal(b.refused, 1);
}

static void bad_sizes_are_refused(void **state)
{
	struct buffers b;

	(void)state;
	assert_int_equal(buffers_init(&b, 0, 4096), -EINVAL);
	assert_int_equal(buffers_init(&b, BUFFERS_MAX + 1, 4096), -EINVAL);
	assert_int_equal(buffers_init(&b, 2, 100), -EINVAL);
	assert_int_equal(buffers_init(&b, 2, 4097), -EINVAL);
}

#define TURNS 20000

static void *hammer(void *arg)
{
	struct buffers *b = arg;
	size_t bytes;

	for (int i = 0; i < TURNS; i++) {
		uint8_t *p = buffers_request(b, &bytes);

		if (p != b->discard)
			p[0] = 1;
		buffers_complete(b, p, 8);
	}
	return NULL;
}

static void no_buffer_is_lost_between_threads(void **state)
{
	struct buffers b;
	pthread_t thread[2];
	uint64_t taken = 0;
	uint8_t *p;
	size_t valid;

	(void)state;
	assert_int_equal(buffers_init(&b, 4, 4096), 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, hammer, &b);
	while (taken + b.discarded_bytes / 8 < 2 * TURNS) {
		p = buffers_take(&b, &valid);
		if (!p)
			continue;
		assert_int_equal(valid, 8);
		taken++;
		buffers_give(&b, p);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(taken + b.discarded_bytes / 8, 2 * TURNS);
	for (int i = 0; i < 4; i++)
		assert_ptr_not_equal(buffers_request(&b, &valid), b.discard);
	assert_ptr_equal(buffers_request(&b, &valid), b.discard);
	buffers_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_come_back_in_order),
		cmocka_unit_test(empty_pool_hands_out_the_discard_buffer),
		cmocka_unit_test(a_length_beyond_the_buffer_counts_as_empty),
		cmocka_unit_test(what_cupti_does_not_have_cannot_come_back),
		cmocka_unit_test(bad_sizes_are_refused),
		cmocka_unit_test(no_buffer_is_lost_between_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
