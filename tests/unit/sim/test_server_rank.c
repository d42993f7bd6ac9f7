/* How a model is cut into ranks, and what goes between their processes. */
#include "sim/server/rank.h"
#include "sim/server/rank_wire.h"
#include "sim/server/ranks.h"

#include <errno.h>
#include <math.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/sim/server_model.h"
#include "tests/unit/sim/server_test.h"

static double dense(const struct shape *s)
{
	return s->qkv_bytes + s->output_bytes + s->shared_bytes + s->mlp_bytes +
	       s->head_bytes + s->kv_bytes;
}

static void the_parts_add_up_to_the_whole(void **state)
{
	const struct shape whole = small_shape();

	(void)state;
	for (unsigned expert = 0; expert < 2; expert++) {
		double sum = 0, weights = 0;

		for (unsigned i = 0; i < 4; i++) {
			const struct rank_part part = { i, 4, expert != 0 };
			struct shape s = whole;

			rank_cut(&s, &part);
			sum += dense(&s);
			weights += (s.experts_to - s.experts_from) *
				   s.arch.expert_bytes;
		}
		assert_true(fabs(sum / dense(&whole) - 1) < 1e-9);
		assert_true(fabs(weights / (whole.arch.experts *
					    whole.arch.expert_bytes) -
				 1) < 1e-9);
	}
}

static void expert_parallel_ranks_share_no_expert(void **state)
{
	unsigned next = 0;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		const struct rank_part part = { i, 3, true };
		struct shape s = small_shape();

		rank_cut(&s, &part);
		assert_int_equal(s.experts_from, next);
		next = s.experts_to;
	}
	assert_int_equal(next, EXPERTS);
}

static void messages_arrive_whole_and_of_the_kind_expected(void **state)
{
	static char out[100000], in[100000];
	size_t bytes = 0;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	memset(out, 7, sizeof(out));
	assert_int_equal(rank_send(s[0], RANK_STEP, out, sizeof(out)), 0);
	assert_int_equal(rank_receive(s[1], RANK_STEP, in, sizeof(in), &bytes),
			 0);
	assert_int_equal(bytes, sizeof(out));
	assert_memory_equal(in, out, sizeof(out));

	assert_int_equal(rank_send(s[0], RANK_STEP, NULL, 0), 0);
	assert_int_equal(rank_receive(s[1], RANK_STEP, in, 0, &bytes), 0);
	assert_int_equal(bytes, 0);

	assert_int_equal(rank_send(s[0], RANK_DONE, out, 4), 0);
	assert_int_equal(rank_receive(s[1], RANK_STEP, in, 4, &bytes), -EPROTO);
	close(s[0]);
	close(s[1]);
}

static void a_message_that_is_too_large_is_refused(void **state)
{
	char in[4];
	size_t bytes;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	assert_int_equal(rank_send(s[0], RANK_STEP, "12345", 5), 0);
	assert_int_equal(rank_receive(s[1], RANK_STEP, in, 4, &bytes), -EPROTO);
	assert_int_equal(rank_send(s[0], RANK_STEP, NULL, RANK_MESSAGE_MAX + 1),
			 -EMSGSIZE);
	close(s[0]);
	close(s[1]);
}

static void the_death_of_the_other_side_is_the_end(void **state)
{
	char in[4];
	size_t bytes;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	close(s[0]);
	assert_int_equal(rank_receive(s[1], RANK_STEP, in, 4, &bytes), -EPIPE);
	assert_int_equal(rank_send(s[1], RANK_STEP, in, 4), -EPIPE);
	close(s[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_parts_add_up_to_the_whole),
		cmocka_unit_test(expert_parallel_ranks_share_no_expert),
		cmocka_unit_test(
			messages_arrive_whole_and_of_the_kind_expected),
		cmocka_unit_test(a_message_that_is_too_large_is_refused),
		cmocka_unit_test(the_death_of_the_other_side_is_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
