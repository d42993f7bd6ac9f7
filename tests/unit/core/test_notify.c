/* What a service manager is told. */
#include "core/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static int manager;
static char name[64];

static int setup(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)state;
	snprintf(name, sizeof(name), "@moetop-test-%d", (int)getpid());
	memcpy(a.sun_path, name, strlen(name));
	a.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	return bind(manager, (struct sockaddr *)&a,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				strlen(name)));
}

static int teardown(void **state)
{
	(void)state;
	return close(manager);
}

static const char *heard(void)
{
	static char text[128];
	ssize_t got = recv(manager, text, sizeof(text) - 1, 0);

	text[got > 0 ? got : 0] = '\0';
	return text;
}

static void ready_alive_and_gone(void **state)
{
	struct notify n;

	(void)state;
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "2000", 1);
	notify_init(&n);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_int_equal(n.period_ns, 1000000);
	notify_ready(&n);
	assert_memory_equal(heard(), "READY=1", 7);
	notify_alive(&n, 5000000);
	assert_string_equal(heard(), "WATCHDOG=1");
	notify_alive(&n, 5500000); /* too early */
	assert_string_equal(heard(), "");
	notify_alive(&n, 6000000);
	assert_string_equal(heard(), "WATCHDOG=1");
	notify_fini(&n);
	assert_string_equal(heard(), "STOPPING=1");
}

static void nobody_wants_to_know(void **state)
{
	struct notify n;

	(void)state;
	notify_init(&n);
	assert_int_equal(n.fd, -1);
	notify_ready(&n);
	notify_alive(&n, 1);
	notify_fini(&n);
	assert_string_equal(heard(), "");
}

static void the_watchdog_of_another_is_not_ours(void **state)
{
	struct notify n;

	(void)state;
	setenv("WATCHDOG_USEC", "2000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	notify_init(&n);
	assert_int_equal(n.period_ns, 0);
	setenv("WATCHDOG_USEC", "nonsense", 1);
	notify_init(&n);
	assert_int_equal(n.period_ns, 0);
	notify_fini(&n);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(ready_alive_and_gone),
		T(nobody_wants_to_know),
		T(the_watchdog_of_another_is_not_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
