/* A ring looked at from the side, and what a hostile one does to the look. */
#include "core/doctor.h"
#include "core/rank_peek.h"
#include "wire/ring.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CAPACITY 256u

struct fixture {
	struct ring_writer w;
	char path[64];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || ring_create(&f->w, CAPACITY))
		return -1;
	snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->w.fd);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_destroy(&f->w);
	free(f);
	return 0;
}

static void put_layer(struct fixture *f, uint32_t window, unsigned klass,
		      uint64_t ns)
{
	struct record r = { .type = REC_LAYER };

	r.layer.window = window;
	r.layer.klass = (uint16_t)klass;
	r.layer.calls = 2;
	r.layer.sum_ns = ns;
	assert_int_equal(ring_write(&f->w, &r), 0);
}

static void an_empty_ring_has_nothing(void **state)
{
	const struct fixture *f = *state;
	struct rank_peek p;

	assert_int_equal(rank_peek(f->path, &p), -ENOENT);
}

static void time_is_known_by_its_class(void **state)
{
	struct fixture *f = *state;
	struct rank_peek p;

	put_layer(f, 1, 1, 600);
	put_layer(f, 1, CLASS_OTHER, 100);
	put_layer(f, 2, 1, 300);
	assert_int_equal(rank_peek(f->path, &p), 0);
	assert_int_equal(p.windows, 2);
	assert_false(p.have_status);
	assert_true(fabs(rank_peek_known(&p) - 0.9) < 1e-12);
	assert_true(p.class_calls[1] > 3.9 && p.class_calls[1] < 4.1);
}

static void nothing_is_taken_from_its_reader(void **state)
{
	struct fixture *f = *state;
	struct rank_peek p;

	put_layer(f, 1, 1, 600);
	assert_int_equal(rank_peek(f->path, &p), 0);
	assert_int_equal(atomic_load(&f->w.h->tail), 0);
	assert_int_equal(atomic_load(&f->w.h->control.session), 0);
}

static void records_without_sense_are_passed_over(void **state)
{
	struct record r = { .type = REC_STATUS };
	struct fixture *f = *state;
	struct rank_peek p;

	put_layer(f, 1, CLASSES, 600);
	put_layer(f, 1, 0xffff, 600);
	r.status.state = AGENT_STATES;
	assert_int_equal(ring_write(&f->w, &r), 0);
	r.type = 0xffffffff;
	assert_int_equal(ring_write(&f->w, &r), 0);
	assert_int_equal(rank_peek(f->path, &p), 0);
	assert_false(p.have_status);
	assert_true(isnan(rank_peek_known(&p)));
}

static void a_name_without_end_is_ended(void **state)
{
	struct record r = { .type = REC_STATUS };
	struct fixture *f = *state;
	struct rank_peek p;

	r.status.state = AGENT_IDLE;
	memset(r.status.device_name, 'x', sizeof(r.status.device_name));
	assert_int_equal(ring_write(&f->w, &r), 0);
	assert_int_equal(rank_peek(f->path, &p), 0);
	assert_int_equal(strlen(p.status.device_name),
			 sizeof(p.status.device_name) - 1);
}

static void a_head_of_any_value_stays_within(void **state)
{
	static const uint64_t heads[] = { 1, CAPACITY, 1ull << 40, UINT64_MAX };
	struct fixture *f = *state;
	struct rank_peek p;

	for (uint32_t i = 0; i < CAPACITY; i++)
		put_layer(f, i, 1, 1);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		atomic_store(&f->w.h->head, heads[i]);
		assert_int_equal(rank_peek(f->path, &p), 0);
		assert_true(p.class_ns[1] <= CAPACITY);
	}
}

static void a_false_geometry_is_refused(void **state)
{
	static const uint32_t sizes[] = { 0, 3, 64, CAPACITY * 2, 1u << 31 };
	struct fixture *f = *state;
	struct rank_peek p;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		f->w.h->capacity = sizes[i];
		assert_int_equal(rank_peek(f->path, &p), -EPROTO);
	}
	f->w.h->capacity = CAPACITY;
	f->w.h->version++;
	assert_int_equal(rank_peek(f->path, &p), -EPROTONOSUPPORT);
	assert_int_equal(rank_peek("/dev/null", &p), -EPROTO);
	assert_int_equal(rank_peek("/nonexistent", &p), -ENOENT);
}

static void tiers_are_words_with_commas(void **state)
{
	(void)state;
	assert_int_equal(doctor_tiers("T1"), 1u << TIER_T1);
	assert_int_equal(doctor_tiers("t0,C"), 1u << TIER_T0 | 1u << TIER_C);
	assert_int_equal(doctor_tiers("T2+T3"), 1u << TIER_T2 | 1u << TIER_T3);
	assert_int_equal(doctor_tiers(""), 0);
	assert_int_equal(doctor_tiers("T1,"), 0);
	assert_int_equal(doctor_tiers("T1,T4"), 0);
	assert_int_equal(doctor_tiers("T11"), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_empty_ring_has_nothing),
		TEST(time_is_known_by_its_class),
		TEST(nothing_is_taken_from_its_reader),
		TEST(records_without_sense_are_passed_over),
		TEST(a_name_without_end_is_ended),
		TEST(a_head_of_any_value_stays_within),
		TEST(a_false_geometry_is_refused),
		cmocka_unit_test(tiers_are_words_with_commas),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
