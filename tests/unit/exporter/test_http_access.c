/* A web configuration that changes while it is in force. */
#include "exporter/http_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ALICE "basic_auth_users: {alice: " HASH "}\n"
#define HASH "$2y$04$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"

static char folder[] = "/tmp/moetop-access-XXXXXX", path[64], other[64];
static char said[640];
static struct access *a;

static void report(void *arg, const char *line)
{
	(void)arg;
	snprintf(said, sizeof(said), "%s", line);
}

/* As a new file, which no clock is too coarse to tell from the old one. */
static void put(const char *text)
{
	FILE *f = fopen(other, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(rename(other, path), 0);
}

static const struct web_config *now(void)
{
	struct tls *tls;

	return access_now(a, &tls);
}

static int setup(void **state)
{
	(void)state;
	strcpy(strrchr(folder, '-'), "-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/web.yml", folder);
	snprintf(other, sizeof(other), "%s/new.yml", folder);
	*said = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	access_free(a);
	a = NULL;
	unlink(path);
	return rmdir(folder);
}

static void start(const char *text)
{
	char why[256] = "";

	put(text);
	if (access_new(&a, path, report, NULL, why, sizeof(why)))
		fail_msg("%s", why);
}

static void what_is_right_holds_at_once(void **state)
{
	(void)state;
	start("rate_limit: {interval: 1s}\n");
	assert_int_equal(now()->n_users, 0);
	put(ALICE);
	assert_int_equal(now()->n_users, 1);
	assert_non_null(strstr(said, "read again"));
}

static void a_file_that_is_half_written_opens_no_door(void **state)
{
	static const char *const halves[] = { "", "# later\n",
					      "basic_auth_users:\n",
					      "rate_limit: {interval: 1s}\n" };

	(void)state;
	start(ALICE);
	assert_non_null(now());
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		*said = '\0';
		put(halves[i]);
		assert_null(now());
		assert_non_null(strstr(said, "passwords cannot be switched "
					     "off while it runs"));
	}
	put(ALICE);
	assert_int_equal(now()->n_users, 1);
}

static void what_is_wrong_lets_nobody_in(void **state)
{
	(void)state;
	start(ALICE);
	put("basic_auth_users: {alice: plain}\n");
	assert_null(now());
	assert_non_null(strstr(said, "no bcrypt hash"));
	unlink(path);
	assert_null(now());
	put(ALICE);
	assert_non_null(now());
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(what_is_right_holds_at_once),
		T(a_file_that_is_half_written_opens_no_door),
		T(what_is_wrong_lets_nobody_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
