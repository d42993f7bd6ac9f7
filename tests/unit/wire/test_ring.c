#include "wire/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define CAP 64u
#define NOW 5000000000ull

struct pair {
	struct ring_writer w;
	struct ring_reader r;
};

static int pair_setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	return !p || ring_create(&p->w, CAP) || ring_open(&p->r, p->w.fd, NOW);
}

static int pair_teardown(void **state)
{
	struct pair *p = *state;

	ring_close(&p->r, false);
	ring_destroy(&p->w);
	free(p);
	return 0;
}

static void write_number(struct ring_writer *w, uint64_t n)
{
	struct record r = { .type = REC_TEXT, .time_ns = n };

	assert_int_equal(ring_write(w, &r), 0);
}

static void records_come_back_in_order(void **state)
{
	struct pair *p = *state;
	struct record out[CAP];

	for (uint64_t i = 0; i < 10; i++)
		write_number(&p->w, i);
	assert_int_equal(ring_read(&p->r, out, 4), 4);
	assert_int_equal(out[3].time_ns, 3);
	assert_int_equal(ring_read(&p->r, out, CAP), 6);
	assert_int_equal(out[5].time_ns, 9);
	assert_int_equal(ring_read(&p->r, out, CAP), 0);
}

static void ring_wraps_many_times(void **state)
{
	struct pair *p = *state;
	struct record out[CAP];

	for (uint64_t i = 0; i < 1000; i++) {
		write_number(&p->w, 2 * i);
		write_number(&p->w, 2 * i + 1);
		assert_int_equal(ring_read(&p->r, out, CAP), 2);
		assert_int_equal(out[1].time_ns, 2 * i + 1);
	}
}

static void full_ring_loses_the_new_record_and_counts_it(void **state)
{
	struct pair *p = *state;
	struct record one = { .type = REC_TEXT, .time_ns = 999 };
	struct record out[CAP];

	for (uint64_t i = 0; i < CAP; i++)
		write_number(&p->w, i);
	assert_int_equal(ring_write(&p->w, &one), -ENOSPC);
	assert_int_equal(ring_write(&p->w, &one), -ENOSPC);
	assert_int_equal(ring_lost(&p->r), 2);
	assert_int_equal(ring_lost(&p->r), 0);
	assert_int_equal(ring_read(&p->r, out, CAP), (int)CAP);
	assert_int_equal(out[0].time_ns, 0);
	assert_int_equal(ring_write(&p->w, &one), 0);
}

static void writer_survives_any_tail(void **state)
{
	struct pair *p = *state;
	struct record one = { .type = REC_TEXT };
	const uint64_t bad[] = { 1, CAP, UINT64_MAX, UINT64_MAX / 2 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		atomic_store(&p->w.h->tail, bad[i]);
		ring_write(&p->w, &one);
		assert_true(p->w.head <= CAP);
	}
}

static void head_jump_is_an_error_not_a_loop(void **state)
{
	struct pair *p = *state;
	struct record out[CAP];

	atomic_store(&p->w.h->head, 1ull << 60);
	assert_int_equal(ring_read(&p->r, out, CAP), -EPROTO);
	atomic_store(&p->w.h->head, CAP + 1);
	assert_int_equal(ring_read(&p->r, out, CAP), -EPROTO);
}

static void head_that_runs_backwards_is_an_error(void **state)
{
	struct pair *p = *state;
	struct record out[CAP];

	for (uint64_t i = 0; i < 10; i++)
		write_number(&p->w, i);
	assert_int_equal(ring_read(&p->r, out, CAP), 10);
	atomic_store(&p->w.h->head, 3);
	assert_int_equal(ring_read(&p->r, out, CAP), -EPROTO);
}

static void second_collector_is_refused_while_the_first_lives(void **state)
{
	struct pair *p = *state;
	struct ring_reader other = { .mask = 77 };

	atomic_store(&p->r.h->control.heartbeat_ns, NOW);
	assert_int_equal(ring_open(&other, p->w.fd, NOW + 1999999999), -EBUSY);
	assert_int_equal(other.mask, 77);
	assert_int_equal(ring_open(&other, p->w.fd, NOW + 2000000000), 0);
	ring_close(&other, false);
}

/* It looked at the clock, and then could not run for a while. */
static void a_collector_that_comes_late_is_refused_too(void **state)
{
	struct pair *p = *state;
	struct ring_reader other;

	atomic_store(&p->r.h->control.heartbeat_ns, NOW + 5000000000);
	assert_int_equal(ring_open(&other, p->w.fd, NOW), -EBUSY);
}

static void heartbeat_from_the_future_locks_nobody_out(void **state)
{
	struct pair *p = *state;
	struct ring_reader other;

	atomic_store(&p->r.h->control.heartbeat_ns, UINT64_MAX);
	assert_int_equal(ring_open(&other, p->w.fd, NOW), 0);
	ring_close(&other, false);
}

static void reader_goes_on_where_the_last_one_stopped(void **state)
{
	struct pair *p = *state;
	struct ring_reader next;
	struct record out[CAP];

	for (uint64_t i = 0; i < 10; i++)
		write_number(&p->w, i);
	assert_int_equal(ring_read(&p->r, out, 4), 4);
	ring_close(&p->r, false);
	assert_int_equal(ring_open(&next, p->w.fd, NOW), 0);
	assert_int_equal(ring_read(&next, out, CAP), 6);
	assert_int_equal(out[0].time_ns, 4);
	ring_close(&next, false);
}

static void file_can_neither_shrink_nor_grow(void **state)
{
	struct pair *p = *state;

	assert_int_equal(ftruncate(p->w.fd, 100), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(p->w.fd, 1 << 24), -1);
	assert_int_equal(fcntl(p->w.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

static void capacity_must_be_a_power_of_two_in_range(void **state)
{
	const uint32_t bad[] = { 0, 3, 65, RING_CAPACITY_MAX * 2, UINT32_MAX };
	struct ring_writer w = { .fd = 77 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(ring_create(&w, bad[i]), -EINVAL);
	assert_int_equal(w.fd, 77);
}

static const struct {
	size_t offset;
	uint64_t value;
	size_t bytes;
	int want;
} corrupt[] = {
	{ offsetof(struct ring_header, magic), 0, 8, -EPROTO },
	{ offsetof(struct ring_header, magic), RING_MAGIC + 1, 8, -EPROTO },
	{ offsetof(struct ring_header, version), 0, 4, -EPROTONOSUPPORT },
	{ offsetof(struct ring_header, version), RING_VERSION + 1, 4,
	  -EPROTONOSUPPORT },
	{ offsetof(struct ring_header, record_version), 9, 4,
	  -EPROTONOSUPPORT },
	{ offsetof(struct ring_header, record_bytes), 0, 4, -EPROTO },
	{ offsetof(struct ring_header, record_bytes), 256, 4, -EPROTO },
	{ offsetof(struct ring_header, capacity), 0, 4, -EPROTO },
	{ offsetof(struct ring_header, capacity), CAP / 2, 4, -EPROTO },
	{ offsetof(struct ring_header, capacity), CAP * 2, 4, -EPROTO },
	{ offsetof(struct ring_header, capacity), 63, 4, -EPROTO },
	{ offsetof(struct ring_header, capacity), UINT32_MAX, 4, -EPROTO },
	{ offsetof(struct ring_header, head), CAP + 1, 8, -EPROTO },
	{ offsetof(struct ring_header, head), UINT64_MAX, 8, -EPROTO },
	{ offsetof(struct ring_header, tail), 1, 8, -EPROTO },
	{ offsetof(struct ring_header, tail), UINT64_MAX, 8, 0 },
	{ offsetof(struct ring_header, agent_pid), UINT32_MAX, 4, 0 },
	{ offsetof(struct ring_header, start_ns), UINT64_MAX, 8, 0 },
	{ offsetof(struct ring_header, lost), UINT64_MAX, 8, 0 },
};

static void every_corrupt_header_field_is_refused_or_harmless(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(corrupt) / sizeof(corrupt[0]); i++) {
		struct ring_writer w;
		struct ring_reader r = { .mask = 77 };
		struct record out[4];

		assert_int_equal(ring_create(&w, CAP), 0);
		memcpy((char *)w.h + corrupt[i].offset, &corrupt[i].value,
		       corrupt[i].bytes);
		assert_int_equal(ring_open(&r, w.fd, NOW), corrupt[i].want);
		if (corrupt[i].want == 0) {
			assert_in_range(ring_read(&r, out, 4), 0, 4);
			ring_close(&r, false);
		} else {
			assert_int_equal(r.mask, 77);
		}
		ring_destroy(&w);
	}
}

/* A file that looks like a ring, of any size, sealed or not. */
static int forged(size_t bytes, unsigned seals)
{
	struct ring_header h = {
		.magic = RING_MAGIC,
		.version = RING_VERSION,
		.record_version = RECORD_VERSION,
		.record_bytes = RECORD_BYTES,
		.capacity = CAP,
	};
	int fd = memfd_create("forged", MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_true(write(fd, &h, sizeof(h)) == (ssize_t)sizeof(h));
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void truncated_and_unsealed_files_are_refused(void **state)
{
	const size_t whole = RING_HEADER_BYTES + CAP * RECORD_BYTES;
	const size_t sizes[] = { 0, 1, 100, RING_HEADER_BYTES, whole - 1 };
	struct ring_reader r;
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fd = forged(sizes[i], F_SEAL_SHRINK | F_SEAL_GROW);
		assert_int_equal(ring_open(&r, fd, NOW), -EPROTO);
		close(fd);
	}
	fd = forged(whole, 0);
	assert_int_equal(ring_open(&r, fd, NOW), -EPROTO);
	close(fd);
	fd = forged(whole, F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(ring_open(&r, fd, NOW), 0);
	ring_close(&r, false);
	close(fd);
}

static void things_that_are_no_file_are_refused(void **state)
{
	struct ring_reader r;
	int fd = open("/dev/null", O_RDWR);
	int pipes[2];

	(void)state;
	assert_int_equal(ring_open(&r, fd, NOW), -EPROTO);
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	assert_true(ring_open(&r, pipes[0], NOW) < 0);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(ring_open(&r, -1, NOW), -EBADF);
}

/* ---- sleep, and who reads ----------------------------------------------------- */

static void a_released_ring_has_one_page(void **state)
{
	struct pair *p = *state;
	struct stat st;

	write_number(&p->w, 1);
	ring_release(&p->w);
	assert_int_equal(fstat(p->w.fd, &st), 0);
	assert_true(st.st_blocks * 512 <= (blkcnt_t)sysconf(_SC_PAGESIZE));
	assert_int_equal(st.st_size,
			 RING_HEADER_BYTES + (off_t)CAP * RECORD_BYTES);
}

static void another_file_under_its_number_is_not_touched(void **state)
{
	struct pair *p = *state;
	int number = p->w.fd, kept = dup(number);
	int file = memfd_create("host", MFD_CLOEXEC);
	char text[8192], back[sizeof(text)] = { 0 };

	memset(text, 'h', sizeof(text));
	assert_true(kept >= 0 && file >= 0);
	assert_int_equal(write(file, text, sizeof(text)), sizeof(text));
	assert_int_equal(dup2(file, number), number);
	ring_release(&p->w);
	assert_int_equal(pread(file, back, sizeof(back), 0), sizeof(back));
	assert_memory_equal(back, text, sizeof(text));
	assert_int_equal(ring_restore(&p->w), -EBADF);
	ring_destroy(&p->w);
	assert_int_equal(close(number), 0);
	close(file);
	close(kept);
}

static void what_was_released_is_passed_over(void **state)
{
	struct pair *p = *state;
	struct record out[CAP];

	for (uint64_t i = 0; i < 10; i++)
		write_number(&p->w, i);
	assert_int_equal(ring_read(&p->r, out, 4), 4);
	ring_release(&p->w);
	assert_int_equal(ring_restore(&p->w), 0);
	write_number(&p->w, 77);
	/* The same reader, which knows nothing of it. */
	assert_int_equal(ring_read(&p->r, out, CAP), 1);
	assert_int_equal(out[0].time_ns, 77);
	assert_int_equal(ring_lost(&p->r), 0);
}

static void the_next_reader_begins_after_a_sleep(void **state)
{
	struct pair *p = *state;
	struct record out[CAP];

	for (uint64_t i = 0; i < CAP; i++)
		write_number(&p->w, i);
	ring_close(&p->r, true);
	assert_int_equal(p->w.h->control.detach, 1);
	ring_release(&p->w);
	assert_int_equal(ring_open(&p->r, p->w.fd, NOW), 0);
	assert_int_equal(p->w.h->control.detach, 0);
	assert_int_equal(ring_restore(&p->w), 0);
	for (uint64_t i = 0; i < CAP; i++)
		write_number(&p->w, 1000 + i);
	assert_int_equal(ring_read(&p->r, out, CAP), CAP);
	assert_int_equal(out[0].time_ns, 1000);
}

static void *stub(void *arg)
{
	struct ring_control *c = arg;
	uint32_t before = 1; /* of the reader that pair_setup made */

	while (atomic_load(&c->wake) == before)
		syscall(SYS_futex, &c->wake, FUTEX_WAIT, before, NULL, NULL, 0);
	return NULL;
}

static void opening_wakes_the_stub(void **state)
{
	struct pair *p = *state;
	pthread_t thread;

	ring_close(&p->r, true);
	assert_int_equal(pthread_create(&thread, NULL, stub, &p->w.h->control),
			 0);
	assert_int_equal(ring_open(&p->r, p->w.fd, NOW), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(p->w.h->control.wake, 2);
}

static void a_beat_wakes_an_agent_that_fell_asleep_meanwhile(void **state)
{
	struct pair *p = *state;
	struct ring_control *c = &p->w.h->control;
	uint32_t before = atomic_load(&c->wake);

	atomic_store(&p->w.h->state.state, AGENT_IDLE);
	assert_int_equal(ring_beat(&p->r, NOW), 0);
	assert_int_equal(atomic_load(&c->wake), before);
	atomic_store(&p->w.h->state.state, AGENT_STUB);
	assert_int_equal(ring_beat(&p->r, NOW), 0);
	assert_int_not_equal(atomic_load(&c->wake), before);
}

static void a_reader_that_was_displaced_is_told_and_harms_nobody(void **state)
{
	struct pair *p = *state;
	struct ring_reader late = p->r, thief;

	assert_int_equal(ring_beat(&p->r, NOW), 0);
	assert_int_equal(ring_open(&thief, p->w.fd, NOW + 2000000000u), 0);
	assert_int_equal(ring_beat(&late, NOW + 2000000001u), -EBUSY);
	ring_close(&p->r, true);
	assert_int_equal(p->w.h->control.detach, 0);
	assert_int_equal(ring_beat(&thief, NOW + 2000000002u), 0);
	p->r = thief;
}

static void the_state_is_read_without_a_record(void **state)
{
	struct pair *p = *state;

	atomic_store(&p->w.h->state.state, AGENT_STUB);
	assert_int_equal(ring_agent_state(&p->r), AGENT_STUB);
	atomic_store(&p->w.h->state.state, 12345);
	assert_int_equal(ring_agent_state(&p->r), AGENT_ABSENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define PAIR(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
		PAIR(records_come_back_in_order),
		PAIR(ring_wraps_many_times),
		PAIR(full_ring_loses_the_new_record_and_counts_it),
		PAIR(writer_survives_any_tail),
		PAIR(head_jump_is_an_error_not_a_loop),
		PAIR(head_that_runs_backwards_is_an_error),
		PAIR(second_collector_is_refused_while_the_first_lives),
		PAIR(a_collector_that_comes_late_is_refused_too),
		PAIR(heartbeat_from_the_future_locks_nobody_out),
		PAIR(reader_goes_on_where_the_last_one_stopped),
		PAIR(file_can_neither_shrink_nor_grow),
		PAIR(a_released_ring_has_one_page),
		PAIR(another_file_under_its_number_is_not_touched),
		PAIR(what_was_released_is_passed_over),
		PAIR(the_next_reader_begins_after_a_sleep),
		PAIR(opening_wakes_the_stub),
		PAIR(a_beat_wakes_an_agent_that_fell_asleep_meanwhile),
		PAIR(a_reader_that_was_displaced_is_told_and_harms_nobody),
		PAIR(the_state_is_read_without_a_record),
		cmocka_unit_test(capacity_must_be_a_power_of_two_in_range),
		cmocka_unit_test(
			every_corrupt_header_field_is_refused_or_harmless),
		cmocka_unit_test(truncated_and_unsealed_files_are_refused),
		cmocka_unit_test(things_that_are_no_file_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
