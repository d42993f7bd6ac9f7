/* Where a server listens, by the kernel's tables. */
#include "target/bound.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void lines_of_the_kernel(void **state)
{
	static const struct {
		const char *line, *want;
	} cases[] = {
		{ "  0: 0500000A:1F40 00000000:0000 0A 00000000:00000000 00:0",
		  "10.0.0.5" },
		{ " 12: 0100007F:1F40 00000000:0000 0A 00000000:00000000",
		  "127.0.0.1" },
		{ "   0: 000000FD000000000000000005000000:1F40 "
		  "00000000000000000000000000000000:0000 0A 0",
		  "[fd00::5]" },
		/* connected, another port, no line at all */
		{ "  0: 0500000A:1F40 0100000A:1234 01 0", NULL },
		{ "  0: 0500000A:1F41 00000000:0000 0A 0", NULL },
		{ "  0: 0500:1F40 00000000:0000 0A 0", NULL },
		{ "  sl  local_address rem_address   st", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[BOUND_ADDRESS_MAX] = "";

		assert_int_equal(bound_parse(cases[i].line, 8000, out),
				 cases[i].want ? 1 : 0);
		assert_string_equal(out, cases[i].want ? cases[i].want : "");
	}
}

static void a_socket_of_ours(void **state)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);
	char out[BOUND_ADDRESS_MAX];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "127.0.0.9", &a.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	assert_int_equal(bound_find(getpid(), ntohs(a.sin_port), out), 0);
	assert_string_equal(out, "127.0.0.9");
	close(fd);
	assert_int_equal(bound_find(getpid(), ntohs(a.sin_port), out), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_the_kernel),
		cmocka_unit_test(a_socket_of_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
