/* Names and passwords: never on the caller's thread, remembered, bounded. */
#include "exporter/http_auth.h"

#include <crypt.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define ALICE_SECRET "Basic YWxpY2U6c2VjcmV0" /* alice:secret */
#define ALICE_WRONG "Basic YWxpY2U6d3Jvbmc="  /* alice:wrong */
#define BOB_SECRET "Basic Ym9iOnNlY3JldA=="   /* bob:secret */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned answered, right_ones;
static struct web_config c;
static struct auth *a;
static int token;

static void done(void *arg, bool right)
{
	assert_ptr_equal(arg, &token);
	pthread_mutex_lock(&lock);
	answered++;
	right_ones += right;
	pthread_mutex_unlock(&lock);
}

static void tick(void *arg)
{
	(void)arg;
}

static unsigned wait_for(unsigned n)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned got = 0;

	for (int i = 0; i < 60000; i++) {
		pthread_mutex_lock(&lock);
		got = answered;
		pthread_mutex_unlock(&lock);
		if (got >= n)
			break;
		nanosleep(&pause, NULL);
	}
	return got;
}

static int setup(void **state)
{
	static char name[] = "alice", hash[128];
	struct crypt_data data = { 0 };
	char salt[CRYPT_GENSALT_OUTPUT_SIZE];

	(void)state;
	crypt_gensalt_rn("$2b$", 4, "0123456789abcdef", 16, salt, sizeof(salt));
	snprintf(hash, sizeof(hash), "%s", crypt_r("secret", salt, &data));
	c = (struct web_config){ .n_users = 1, .users = { { name, hash } } };
	answered = right_ones = 0;
	return auth_new(&a, done, tick, NULL);
}

static int teardown(void **state)
{
	(void)state;
	auth_stop(a);
	auth_free(a);
	return 0;
}

static void the_right_one_is_asked_once(void **state)
{
	(void)state;
	assert_int_equal(auth_check(a, &c, ALICE_SECRET, NULL), VERDICT_LATER);
	assert_int_equal(auth_check(a, &c, ALICE_SECRET, &token),
			 VERDICT_LATER);
	assert_int_equal(wait_for(1), 1);
	assert_int_equal(right_ones, 1);
	assert_int_equal(auth_check(a, &c, ALICE_SECRET, &token), VERDICT_YES);
	assert_int_equal(auth_check(a, &c, ALICE_SECRET, NULL), VERDICT_YES);
	assert_int_equal(wait_for(1), 1);
}

static void so_is_a_wrong_one(void **state)
{
	(void)state;
	auth_check(a, &c, ALICE_WRONG, &token);
	assert_int_equal(wait_for(1), 1);
	assert_int_equal(right_ones, 0);
	assert_int_equal(auth_check(a, &c, ALICE_WRONG, &token), VERDICT_NO);
	/* an unknown name is worked on as a known one */
	assert_int_equal(auth_check(a, &c, BOB_SECRET, &token), VERDICT_LATER);
	assert_int_equal(wait_for(2), 2);
	assert_int_equal(right_ones, 0);
}

static void another_hash_is_another_question(void **state)
{
	static char other[] =
		"$2y$04$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG";

	(void)state;
	auth_check(a, &c, ALICE_SECRET, &token);
	wait_for(1);
	assert_int_equal(auth_check(a, &c, ALICE_SECRET, &token), VERDICT_YES);
	c.users[0].value = other;
	assert_int_equal(auth_check(a, &c, ALICE_SECRET, &token),
			 VERDICT_LATER);
	assert_int_equal(wait_for(2), 2);
	assert_int_equal(right_ones, 1);
}

static void what_is_no_credential_is_no(void **state)
{
	static const char *const bad[] = { NULL,
					   "",
					   "Basic",
					   "Basic ",
					   "Basic !!!!",
					   "Basic YWxpY2U=",
					   "Bearer YWxpY2U6c2VjcmV0",
					   "Basic YWxpY2UAOnNlY3JldA==" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(auth_check(a, &c, bad[i], &token), VERDICT_NO);
	assert_int_equal(answered, 0);
}

static void only_so_many_wait(void **state)
{
	unsigned later = 0, busy = 0;
	char header[64];

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		snprintf(header, sizeof(header), "Basic YWxpY2U6%c%c%c%c",
			 'a' + i % 26, 'a' + i / 26, 'a', 'a');
		switch (auth_check(a, &c, header, &token)) {
		case VERDICT_LATER:
			later++;
			break;
		case VERDICT_BUSY:
			busy++;
			break;
		case VERDICT_YES:
		case VERDICT_NO:
			break;
		}
	}
	assert_true(busy > 0 && later >= 8);
	assert_int_equal(wait_for(later), later);
}

static void those_who_wait_at_the_end_get_a_no(void **state)
{
	unsigned asked = 0;
	char header[64];

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		snprintf(header, sizeof(header), "Basic YWxpY2U6%caaa",
			 'a' + (int)i);
		asked += auth_check(a, &c, header, &token) == VERDICT_LATER;
	}
	auth_stop(a);
	assert_int_equal(answered, asked);
	auth_free(a);
	assert_int_equal(auth_new(&a, done, tick, NULL), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(the_right_one_is_asked_once),
		T(so_is_a_wrong_one),
		T(another_hash_is_another_question),
		T(what_is_no_credential_is_no),
		T(only_so_many_wait),
		T(those_who_wait_at_the_end_get_a_no),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
