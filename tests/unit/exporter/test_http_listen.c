/* Where HTTP may be asked to listen. */
#include "exporter/exporter.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char why[256];

static void addresses(void **state)
{
	static const struct {
		const char *listen;
		int err;
	} cases[] = {
		{ "127.0.0.1:0", 0 },   { "localhost:0", 0 },
		{ "0.0.0.0:0", 0 },     { "", -EINVAL },
		{ ":0", -EINVAL },      { "x", -EINVAL },
		{ "65536", -EINVAL },   { "-1", -EINVAL },
		{ "80x", -EINVAL },     { "1.2.3:80", -EINVAL },
		{ "::1:80", -EINVAL },  { "[::1]", -EINVAL },
		{ "[::1:80", -EINVAL }, { "example.org:80", -EINVAL },
		{ "[]:80", -EINVAL },   { "192.0.2.1:0", -EADDRNOTAVAIL },
	};
	const struct http_config six = { .listen = "[::1]:0" };
	struct http *h;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct http_config config = { .listen = cases[i].listen };
		int err = http_open(&h, &config, why, sizeof(why));

		if (err != cases[i].err)
			fail_msg("%s gave %d", cases[i].listen, err);
		if (!err)
			http_close(h);
		else
			assert_non_null(strstr(why, cases[i].listen));
		assert_int_equal(
			http_check_listen(cases[i].listen, why, sizeof(why)),
			err == -EINVAL ? -EINVAL : 0);
	}
	http_close(NULL);
	/* a machine may have no IPv6, but never a bad address here */
	switch (http_open(&h, &six, why, sizeof(why))) {
	case 0:
		assert_true(http_port(h) > 0);
		http_close(h);
		break;
	case -EADDRNOTAVAIL:
	case -EAFNOSUPPORT:
		break;
	default:
		fail_msg("%s", why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
