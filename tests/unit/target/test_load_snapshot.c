/* SGLang's shared load, written as its schedulers write it. */
#include "target/load_snapshot.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define SLOT 256u

struct image {
	uint8_t bytes[12 + 4 * SLOT];
	size_t n;
};

static void put(uint8_t *p, uint32_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void image_init(struct image *m, unsigned ranks)
{
	memset(m, 0, sizeof(*m));
	memcpy(m->bytes, "SLNS", 4);
	put(m->bytes + 4, 2, 2);
	put(m->bytes + 6, ranks, 2);
	put(m->bytes + 8, SLOT, 4);
	m->n = 12 + ranks * SLOT;
}

static void image_slot(struct image *m, unsigned rank, const void *map,
		       size_t n)
{
	uint8_t *p = m->bytes + 12 + rank * SLOT;

	memcpy(p + 4, map, n);
	put(p, (uint32_t)n, 4);
}

#define KEY_TIME "\xa9timestamp"
#define KEY_RUN "\xb0num_running_reqs"
#define KEY_WAIT "\xb0num_waiting_reqs"
#define KEY_USED "\xafnum_used_tokens"
#define KEY_ROOM "\xb4max_total_num_tokens"
#define KEY_RATE "\xaegen_throughput"
#define TIME_1000 "\xcb\x40\x8f\x40\x00\x00\x00\x00\x00"
#define TIME_2000 "\xcb\x40\x9f\x40\x00\x00\x00\x00\x00"

/* What a busy rank writes: with parts that are lists, and one that is null. */
static const char busy[] =
	"\x88" KEY_TIME TIME_2000 "\xa7"
	"dp_rank"
	"\x01" KEY_RUN "\x07" KEY_WAIT "\xcd\x01\x2c" KEY_USED
	"\xce\x00\x01\x00\x00" KEY_RATE "\xcb\x40\x59\x00\x00\x00\x00\x00\x00"
	"\xa6memory\x94\x01\xc0\xa1x\x81\xa1k\xc3"
	"\xa4lora\xc0";
/* A rank without work leaves out all that is 0. */
static const char idle[] =
	"\x82" KEY_TIME TIME_1000 KEY_ROOM "\xd2\x00\x02\x00\x00";

static void ranks_are_added(void **state)
{
	struct load_snapshot s;
	struct image m;

	(void)state;
	image_init(&m, 2);
	image_slot(&m, 0, idle, sizeof(idle) - 1);
	image_slot(&m, 1, busy, sizeof(busy) - 1);
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), 0);
	assert_int_equal(s.ranks, 2);
	assert_int_equal(s.writing, 0);
	assert_true(s.running == 7);
	assert_true(s.waiting == 300);
	assert_true(s.used_tokens == 65536);
	assert_true(s.capacity_tokens == 131072);
	assert_true(s.tokens_per_s == 100);
	assert_true(s.time == 1000); /* of the oldest */
}

static void a_rank_that_has_not_published_is_unknown(void **state)
{
	static const char fresh[] = "\x80";
	struct load_snapshot s = { .running = 42 };
	struct image m;

	(void)state;
	image_init(&m, 2);
	image_slot(&m, 0, fresh, sizeof(fresh) - 1);
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), -ENODATA);
	assert_true(s.running == 42);
	image_slot(&m, 1, busy, sizeof(busy) - 1);
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), 0);
	assert_int_equal(s.ranks, 1);
	assert_true(s.running == 7);
}

static void a_rank_that_writes_is_counted(void **state)
{
	struct load_snapshot s;
	struct image m;

	(void)state;
	image_init(&m, 3);
	image_slot(&m, 0, busy, sizeof(busy) - 1);
	image_slot(&m, 1, busy, sizeof(busy) - 9); /* cut */
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), 0);
	assert_int_equal(s.ranks, 1);
	assert_int_equal(s.writing, 2);
}

static void every_cut_and_every_changed_byte_is_safe(void **state)
{
	struct load_snapshot s;
	struct image m;

	(void)state;
	image_init(&m, 1);
	image_slot(&m, 0, busy, sizeof(busy) - 1);
	for (size_t n = 0; n < m.n; n++) {
		uint8_t *exact = malloc(n + 1); /* so that ASAN sees the end */

		assert_non_null(exact);
		memcpy(exact, m.bytes, n);
		assert_int_not_equal(load_snapshot_parse(exact, n, &s), 0);
		free(exact);
	}
	for (size_t i = 0; i < 16 + sizeof(busy); i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			m.bytes[i] ^= (uint8_t)(1u << bit);
			(void)load_snapshot_parse(m.bytes, m.n, &s);
			m.bytes[i] ^= (uint8_t)(1u << bit);
		}
}

static void other_formats_are_refused(void **state)
{
	struct load_snapshot s;
	struct image m;

	(void)state;
	image_init(&m, 1);
	m.bytes[4] = 3; /* a version that may mean anything */
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), -EPROTO);
	image_init(&m, 1);
	put(m.bytes + 8, 0xffffffff, 4);
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), -EPROTO);
	image_init(&m, 1);
	put(m.bytes + 6, 0xffff, 2);
	assert_int_equal(load_snapshot_parse(m.bytes, m.n, &s), -EPROTO);
	assert_int_equal(load_snapshot_parse("SLNS", 4, &s), -EPROTO);
}

/* This process plays the scheduler that has the file mapped. */
static void found_through_a_mapping_and_read(void **state)
{
	char path[128], name[128];
	struct load_snapshot s;
	pid_t own = getpid(), pid = 0;
	struct image m;
	void *map;
	FILE *f;

	(void)state;
	assert_int_equal(load_snapshot_find(&own, 1, &pid, name, sizeof(name)),
			 -ENOENT);
	snprintf(path, sizeof(path),
		 "/dev/shm/sglang_loads_test%d_0a1b2c3d.shm", (int)own);
	f = fopen(path, "w+e");
	assert_non_null(f);
	image_init(&m, 1);
	image_slot(&m, 0, busy, sizeof(busy) - 1);
	assert_int_equal(fwrite(m.bytes, 1, m.n, f), m.n);
	fflush(f);
	map = mmap(NULL, m.n, PROT_READ, MAP_SHARED, fileno(f), 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(load_snapshot_find(&own, 1, &pid, name, sizeof(name)),
			 0);
	assert_int_equal(pid, own);
	assert_int_equal(load_snapshot_read(pid, name, &s), 0);
	assert_true(s.running == 7);
	assert_int_equal(load_snapshot_read(pid, "../../etc/passwd", &s),
			 -EINVAL);
	munmap(map, m.n);
	fclose(f);
	unlink(path);
	assert_int_equal(load_snapshot_read(pid, name, &s), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_are_added),
		cmocka_unit_test(a_rank_that_has_not_published_is_unknown),
		cmocka_unit_test(a_rank_that_writes_is_counted),
		cmocka_unit_test(every_cut_and_every_changed_byte_is_safe),
		cmocka_unit_test(other_formats_are_refused),
		cmocka_unit_test(found_through_a_mapping_and_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
