/* Routing: sets of distinct experts whose frequencies are the popularity's. */
#include "sim/server/routing.h"

#include <math.h>
#include <unistd.h>

#include "sim/server/rng.h"
#include "tests/unit/sim/server_test.h"
#include "wire/record.h"

static char why[256];

static struct routing *make(const char *text, unsigned layers, unsigned experts,
			    unsigned top_k, double persistence)
{
	struct routing_options o = { .persistence = persistence, .seed = 7 };
	struct routing *r = NULL;

	assert_int_equal(routing_parse(text, &o), 0);
	assert_int_equal(
		routing_new(&r, &o, layers, experts, top_k, why, sizeof(why)),
		0);
	return r;
}

static const uint16_t *pick(const struct routing *r, uint64_t layer,
			    uint64_t token, uint64_t seq)
{
	return routing_pick(r, (unsigned)layer, mix64(token), mix64(seq));
}

/* Experts touched by b tokens of different sequences, mean over trials. */
static double mean_active(const struct routing *r, unsigned layers,
			  unsigned top_k, unsigned b, unsigned trials)
{
	uint64_t active = 0, token = 1;

	for (unsigned t = 0; t < trials; t++) {
		uint32_t count[EXPERTS_MAX] = { 0 };

		for (unsigned i = 0; i < b; i++, token++) {
			const uint16_t *set = pick(r, t % layers, token, token);

			for (unsigned j = 0; j < top_k; j++)
				active += count[set[j]]++ == 0;
		}
	}
	return (double)active / trials;
}

static void sets_have_distinct_experts(void **state)
{
	static const char *const kinds[] = { "uniform", "zipf:1.2",
					     "popularity" };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct routing *r = make(kinds[i], 3, 256, 8, 0.5);

		for (uint64_t t = 0; t < 20000; t++) {
			const uint16_t *set = pick(r, t % 3, t, t % 50);
			uint64_t seen[4] = { 0 };

			for (unsigned j = 0; j < 8; j++) {
				uint64_t bit = 1ull << (set[j] % 64);

				assert_true(set[j] < 256);
				assert_false(seen[set[j] / 64] & bit);
				seen[set[j] / 64] |= bit;
			}
		}
		routing_free(r);
	}
}

static void frequencies_are_the_shares(void **state)
{
	enum { N = 400000 };
	struct routing *r = make("popularity", 2, 128, 8, 0.3);
	static uint32_t count[128];
	double sum = 0;

	(void)state;
	for (uint64_t t = 0; t < N; t++) {
		const uint16_t *set = pick(r, 1, t, t);

		for (unsigned j = 0; j < 8; j++)
			count[set[j]]++;
	}
	for (unsigned e = 0; e < 128; e++) {
		double share = routing_share(r, 1, e);

		sum += share;
		/* 4 sigma: of 512 shuffles that are each right to 1/16, and of
		 * N tokens. */
		assert_true(fabs((double)count[e] / N - share) < 0.007);
	}
	assert_near(sum, 8, 1e-9);
	routing_free(r);
}

static void shares_are_those_of_the_table(void **state)
{
	struct routing *r = make("popularity", 94, 128, 8, 0);

	(void)state;
	/* Layer 0, experts 0, 1 and 78 of the published heat map. */
	assert_near(routing_share(r, 0, 0), 0.0439, 0.01);
	assert_near(routing_share(r, 0, 1), 0.1076, 0.01);
	assert_near(routing_share(r, 0, 78), 0.1684, 0.01);
	routing_free(r);
}

static void uniform_coverage_is_the_formula(void **state)
{
	static const struct {
		unsigned experts, top_k, batch;
	} cases[] = { { 128, 8, 1 },  { 128, 8, 16 }, { 128, 8, 64 },
		      { 256, 8, 32 }, { 512, 10, 3 }, { 512, 10, 64 },
		      { 8, 2, 4 },    { 128, 4, 40 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double e = cases[i].experts, k = cases[i].top_k;
		unsigned b = cases[i].batch;
		struct routing *r =
			make("uniform", 4, cases[i].experts, cases[i].top_k, 0);

		assert_near(mean_active(r, 4, cases[i].top_k, b, 4000),
			    e * (1 - pow(1 - k / e, b)), 0.01);
		routing_free(r);
	}
}

/* The independent-token figures for the digitised popularity, mean of its 94
 * layers: 26.57, 64.12 and 100.77 experts at 4, 16 and 64 tokens. */
static void real_popularity_touches_fewer_experts(void **state)
{
	struct routing *r = make("popularity", 94, 128, 8, 0);

	(void)state;
	assert_near(mean_active(r, 94, 8, 4, 940), 26.57, 0.01);
	assert_near(mean_active(r, 94, 8, 16, 940), 64.12, 0.01);
	assert_near(mean_active(r, 94, 8, 64, 940), 100.77, 0.01);
	routing_free(r);
}

/* Of three requests in the scenario three-users-512: the share of a request's
 * experts that another of the three also picked. */
static void three_users_of_512_experts_overlap_little(void **state)
{
	struct routing *r = make("uniform", 48, 512, 10, 0);
	unsigned shared = 0, rows = 0;

	(void)state;
	for (uint64_t t = 0; t < 4800; t++) {
		uint32_t count[512] = { 0 };

		for (uint64_t user = 0; user < 3; user++)
			for (unsigned j = 0; j < 10; j++)
				count[pick(r, t % 48, t * 3 + user, user)[j]]++;
		for (unsigned e = 0; e < 512; e++) {
			rows += count[e];
			if (count[e] > 1)
				shared += count[e];
		}
	}
	assert_int_equal(rows, 4800 * 30);
	assert_in_range(shared, rows * 2 / 100, rows * 5 / 100);
	routing_free(r);
}

static void persistence_keeps_a_sequence_to_its_taste(void **state)
{
	struct routing *free_will = make("uniform", 1, 512, 10, 0);
	struct routing *habit = make("uniform", 1, 512, 10, 1);
	unsigned touched[2] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const struct routing *r = i ? habit : free_will;
		uint32_t count[512] = { 0 };

		for (uint64_t t = 0; t < 500; t++)
			for (unsigned j = 0; j < 10; j++)
				count[pick(r, 0, t, 1)[j]]++;
		for (unsigned e = 0; e < 512; e++)
			touched[i] += count[e] > 0;
	}
	assert_true(touched[0] > 500);
	assert_true(touched[1] <= ROUTING_TASTE * 10);
	routing_free(free_will);
	routing_free(habit);
}

static void a_favourite_is_capped_at_every_token(void **state)
{
	struct routing *r = make("zipf:4", 1, 64, 4, 0);
	unsigned always = 0;
	double sum = 0;

	(void)state;
	for (unsigned e = 0; e < 64; e++) {
		double s = routing_share(r, 0, e);

		assert_true(s > 0 && s <= 1);
		always += s >= 1;
		sum += s;
	}
	assert_near(sum, 4, 1e-9);
	assert_true(always >= 1);
	routing_free(r);
}

static void bad_specifications_are_refused(void **state)
{
	static const char *const bad[] = {
		"",         "zipf",        "zipf:",     "zipf:x", "zipf:-1",
		"zipf:nan", "popularity:", "uniform:1", "random"
	};
	struct routing_options o = { 0 };
	struct routing *r = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(routing_parse(bad[i], &o), -EINVAL);
	assert_int_equal(routing_new(&r, &o, 1, 8, 9, why, sizeof(why)),
			 -EINVAL);
	assert_int_equal(routing_new(&r, &o, 0, 8, 2, why, sizeof(why)),
			 -EINVAL);
	o.persistence = NAN;
	assert_int_equal(routing_new(&r, &o, 1, 8, 2, why, sizeof(why)),
			 -EINVAL);
	assert_null(r);
}

static int write_table(const char *text, struct routing **r)
{
	char path[] = "/tmp/moetop-popularity-XXXXXX";
	struct routing_options o = { .kind = ROUTING_POPULARITY, .file = path };
	int fd = mkstemp(path), err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	err = routing_new(r, &o, 4, 4, 2, why, sizeof(why));
	unlink(path);
	return err;
}

static void tables_are_read_from_files(void **state)
{
	struct routing *r = NULL;

	(void)state;
	assert_int_equal(
		write_table("# two layers\n1,1,1,5\n0.5 .5 .5 .5\n", &r), 0);
	assert_true(routing_share(r, 0, 3) > routing_share(r, 0, 0));
	assert_near(routing_share(r, 1, 2), 0.5, 1e-5);
	routing_free(r);
	r = NULL;
	assert_int_equal(write_table("", &r), -EINVAL);
	assert_int_equal(write_table("1,2\n1,2,3\n", &r), -EINVAL);
	assert_int_equal(write_table("1,-2\n", &r), -EINVAL);
	assert_int_equal(write_table("1,x\n", &r), -EINVAL);
	assert_null(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_have_distinct_experts),
		cmocka_unit_test(frequencies_are_the_shares),
		cmocka_unit_test(shares_are_those_of_the_table),
		cmocka_unit_test(uniform_coverage_is_the_formula),
		cmocka_unit_test(real_popularity_touches_fewer_experts),
		cmocka_unit_test(three_users_of_512_experts_overlap_little),
		cmocka_unit_test(persistence_keeps_a_sequence_to_its_taste),
		cmocka_unit_test(a_favourite_is_capped_at_every_token),
		cmocka_unit_test(bad_specifications_are_refused),
		cmocka_unit_test(tables_are_read_from_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
