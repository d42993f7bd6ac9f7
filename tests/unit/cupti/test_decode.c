#include "cupti/decode.h"

#include <errno.h>

#include "tests/unit/cupti/check.h"

#define STRIDE 216 /* kernel records are longer than what is read of them */

/* Records behind each other, as cuptiActivityGetNextRecord walks them. */
static struct {
	uint8_t bytes[16 * STRIDE];
	size_t used;
} buffer;

static int next_record(uint8_t *b, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + STRIDE : b;

	if (at >= b + valid)
		return CUPTI_E_MAX_LIMIT_REACHED;
	*record = at;
	return CUPTI_OK;
}

static const struct cupti_api cupti = { .next_record = next_record };

static struct cupti_kernel good(void)
{
	return (struct cupti_kernel){
		.kind = CUPTI_KIND_CONCURRENT_KERNEL,
		.start = 1000,
		.end = 1500,
		.grid = { 1, 1, 1 },
		.block = { 128, 1, 1 },
		.name = "fused_moe_kernel",
		.correlation = 9,
		.graph_node = 7ull << 32,
		.graph = 7,
	};
}

static void add(const void *record, size_t bytes)
{
	memcpy(buffer.bytes + buffer.used, record, bytes);
	buffer.used += STRIDE;
}

static int setup(void **state)
{
	struct decode *d = calloc(1, sizeof(*d));

	*state = d;
	buffer.used = 0;
	if (!d)
		return 1;
	d->cupti = &cupti;
	d->names = kernel_names_new();
	d->reduce = reduce_new(100, d->names);
	reduce_begin(d->reduce);
	return 0;
}

static int teardown(void **state)
{
	struct decode *d = *state;

	reduce_free(d->reduce);
	kernel_names_free(d->names);
	free(d);
	return 0;
}

static void good_records_are_taken(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();

	add(&k, sizeof(k));
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->kernels, 2);
	assert_int_equal(d->stride, STRIDE);
	assert_int_equal(reduce_events(d->reduce), 2);
}

static void zero_and_inverted_times_are_dropped_and_counted(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();

	add(&k, sizeof(k));
	k.start = k.end = 0;
	add(&k, sizeof(k));
	k.start = 2000;
	k.end = 1999;
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->kernels, 3);
	assert_int_equal(d->bad_stamps, 2);
	assert_int_equal(reduce_events(d->reduce), 1);
}

static void a_name_is_read_anew_in_every_buffer(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();
	char text[] = "fused_moe_kernel";

	k.name = text;
	add(&k, sizeof(k));
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(kernel_names_count(d->names), 1);
	memcpy(text, "another", 8); /* the module was loaded again */
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(kernel_names_count(d->names), 2);
}

static void expect_bad_layout(struct decode *d, const struct cupti_kernel *k)
{
	buffer.used = 0;
	d->bad_layout = false;
	d->checked = 0;
	add(k, sizeof(*k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), -EPROTO);
	assert_true(d->bad_layout);
	assert_int_equal(reduce_events(d->reduce), 0);
}

static void first_record_of_another_layout_is_found_out(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();

	k.name = NULL;
	expect_bad_layout(d, &k);
	k.name = (const char *)16; /* must not be touched */
	expect_bad_layout(d, &k);
	k = good();
	k.grid[1] = 0;
	expect_bad_layout(d, &k);
	k = good();
	k.block[0] = 100000;
	expect_bad_layout(d, &k);
	k = good();
	k.block[1] = k.block[2] = 64;
	expect_bad_layout(d, &k);
}

static void a_known_release_may_begin_with_bad_times(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();

	k.start = 1501;
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->bad_stamps, 1);
	assert_false(d->bad_layout);
}

#define NEWER 140000

static int size_of_records;

static int struct_size(int kind, uint32_t version, size_t *bytes)
{
	assert_int_equal(kind, CUPTI_KIND_CONCURRENT_KERNEL);
	assert_int_equal(version, 0);
	*bytes = (size_t)size_of_records;
	return size_of_records ? CUPTI_OK : CUPTI_E_NOT_SUPPORTED;
}

static void a_newer_release_is_looked_at_more_closely(void **state)
{
	const struct cupti_api newer = { .next_record = next_record,
					 .struct_size = struct_size };
	struct decode *d = *state;
	struct cupti_kernel k = good();

	d->cupti = &newer;
	decode_meet(d, NEWER);
	assert_true(d->unknown);
	k.start = 1501;
	expect_bad_layout(d, &k);
	k = good();
	k.correlation = 0;
	expect_bad_layout(d, &k);
	k = good();
	k.device = 1u << 20;
	expect_bad_layout(d, &k);
	k = good();
	size_of_records = 152; /* shorter than what is read */
	decode_meet(d, NEWER);
	expect_bad_layout(d, &k);
	size_of_records = STRIDE;
	decode_meet(d, NEWER);
	buffer.used = 0;
	for (int i = 0; i < 10; i++)
		add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->checked, 10);
	k.device = 1u << 20; /* also late ones are looked at */
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), -EPROTO);
	assert_int_equal(reduce_events(d->reduce), 20);
}

static void a_distance_that_is_no_record_is_found_out(void **state)
{
	const struct cupti_api newer = { .next_record = next_record,
					 .struct_size = struct_size };
	struct decode *d = *state;
	struct cupti_kernel k = good();

	d->cupti = &newer;
	size_of_records = STRIDE + 8;
	decode_meet(d, NEWER);
	add(&k, sizeof(k));
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), -EPROTO);
}

static void a_new_life_is_met_anew(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();

	decode_meet(d, 130000);
	assert_false(d->unknown);
	k.name = NULL;
	expect_bad_layout(d, &k);
	decode_meet(d, 130000);
	assert_false(d->bad_layout);
	buffer.used = 0;
	k = good();
	add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->checked, 1);
}

/* A buffer that ends within a record, and a library that gives up in it. */
static int next_of_two(uint8_t *b, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + STRIDE : b;

	if (at >= b + 2 * STRIDE)
		return CUPTI_E_INVALID_PARAMETER;
	(void)valid;
	*record = at;
	return CUPTI_OK;
}

static void nonsense_ends_a_buffer_and_is_counted(void **state)
{
	const struct cupti_api odd = { .next_record = next_of_two };
	struct decode *d = *state;
	struct cupti_kernel k = good();

	d->cupti = &odd;
	for (int i = 0; i < 4; i++)
		add(&k, sizeof(k));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->kernels, 2);
	assert_int_equal(d->cut_bytes, 3 * STRIDE);
	/* A record that begins in the buffer and ends behind it. */
	assert_int_equal(decode_buffer(d, buffer.bytes, STRIDE + 100), 0);
	assert_int_equal(d->kernels, 3);
	assert_int_equal(d->cut_bytes, 3 * STRIDE + 100);
}

/* A library that stands still, and one whose step leads out of the buffer. */
static int next_again(uint8_t *b, size_t valid, void **record)
{
	(void)valid;
	*record = b;
	return CUPTI_OK;
}

static int next_outside(uint8_t *b, size_t valid, void **record)
{
	*record = *record ? b + valid + STRIDE : b;
	return CUPTI_OK;
}

static void steps_that_lead_nowhere_end_a_buffer(void **state)
{
	const struct cupti_api still = { .next_record = next_again };
	const struct cupti_api outside = { .next_record = next_outside };
	struct decode *d = *state;
	struct cupti_kernel k = good();

	for (int i = 0; i < 3; i++)
		add(&k, sizeof(k));
	d->cupti = &still;
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->kernels, 1);
	assert_int_equal(d->cut_bytes, 3 * STRIDE);
	d->cupti = &outside;
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->kernels, 2);
	assert_int_equal(d->cut_bytes, 6 * STRIDE);
}

static void copies_to_the_host_keep_their_times(void **state)
{
	struct decode *d = *state;
	struct cupti_memcpy m = { .kind = CUPTI_KIND_MEMCPY,
				  .copy_kind = CUPTI_COPY_DTOH,
				  .start = 10,
				  .end = 20,
				  .correlation = 3 };

	add(&m, sizeof(m));
	m.copy_kind = 1;
	add(&m, sizeof(m));
	m.copy_kind = CUPTI_COPY_DTOH;
	m.start = 0;
	add(&m, sizeof(m));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->copies, 1);
	assert_int_equal(d->copy[0].correlation, 3);
	assert_int_equal(d->copy[0].end, 20);
	decode_begin(d);
	assert_int_equal(d->copies, 0);
}

static void unknown_kinds_are_passed_over(void **state)
{
	struct decode *d = *state;
	const uint32_t kinds[] = { 0, 5, 51, 0xffffffff };

	for (size_t i = 0; i < 4; i++)
		add(&kinds[i], sizeof(kinds[i]));
	assert_int_equal(decode_buffer(d, buffer.bytes, buffer.used), 0);
	assert_int_equal(d->kernels, 0);
}

static void records_beyond_the_table_are_counted(void **state)
{
	struct decode *d = *state;
	struct cupti_kernel k = good();

	for (int i = 0; i < 120; i += 10) {
		buffer.used = 0;
		for (int n = 0; n < 10; n++)
			add(&k, sizeof(k));
		decode_buffer(d, buffer.bytes, buffer.used);
	}
	assert_int_equal(d->kernels, 120);
	assert_int_equal(d->no_room, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(good_records_are_taken),
		T(a_name_is_read_anew_in_every_buffer),
		T(zero_and_inverted_times_are_dropped_and_counted),
		T(first_record_of_another_layout_is_found_out),
		T(a_known_release_may_begin_with_bad_times),
		T(a_newer_release_is_looked_at_more_closely),
		T(a_distance_that_is_no_record_is_found_out),
		T(a_new_life_is_met_anew),
		T(nonsense_ends_a_buffer_and_is_counted),
		T(steps_that_lead_nowhere_end_a_buffer),
		T(copies_to_the_host_keep_their_times),
		T(unknown_kinds_are_passed_over),
		T(records_beyond_the_table_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
