#include "target/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void lines_of_the_kernel(void **state)
{
	static const char listening[] =
		"   0: 0100007F:1F40 00000000:0000 0A 00000000:00000005 "
		"00:00000000 00000000  1000        0 615 1 0000 100 0 0 10 0";
	static const char established[] =
		"  12: 0100007F:1F40 0100007F:D431 01 00000000:00000000 "
		"02:00000D9C 00000000     0        0 99999 2 0000 20 4 30 10";
	static const char six[] =
		"   3: 00000000000000000000000000000000:7530 "
		"00000000000000000000000000000000:0000 0A 00000000:00000000 "
		"00:00000000 00000000     0        0 18446744073709551615 1 0";
	struct listener l = { 0 };

	(void)state;
	assert_int_equal(listener_parse(listening, &l), 1);
	assert_int_equal(l.port, 8000);
	assert_int_equal(l.inode, 615);
	assert_int_equal(listener_parse(established, &l), 0);
	assert_int_equal(l.inode, 615);
	assert_int_equal(listener_parse(six, &l), 1);
	assert_int_equal(l.port, 30000);
	assert_true(l.inode == UINT64_MAX);
	assert_int_equal(listener_parse("", &l), -EINVAL);
	assert_int_equal(listener_parse("  sl  local_address", &l), -EINVAL);
	assert_int_equal(listener_parse("0: zz:1F40 0:0 0A", &l), -EINVAL);
}

/* A socket that listens on a port of the kernel's choice. */
static int listen_on(int family, uint16_t *port)
{
	struct sockaddr_storage a = { .ss_family = (sa_family_t)family };
	socklen_t n = sizeof(a);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
	*port = ntohs(family == AF_INET
			      ? ((struct sockaddr_in *)&a)->sin_port
			      : ((struct sockaddr_in6 *)&a)->sin6_port);
	return fd;
}

static pid_t owner(const struct sockets *s, uint16_t port)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->list[i].port == port)
			return s->list[i].pid;
	return 0;
}

static void ports_of_both_families(void **state)
{
	uint16_t port4, port6;
	int four = listen_on(AF_INET, &port4);
	int six = listen_on(AF_INET6, &port6);
	pid_t self = getpid();
	struct sockets s;

	(void)state;
	assert_int_equal(sockets_read(&self, 1, &s, NULL), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(owner(&s, port4), self);
	assert_int_equal(owner(&s, port6), self);
	assert_true(s.list[0].port < s.list[1].port);
	assert_false(s.denied);
	close(four);
	close(six);
	assert_int_equal(sockets_read(&self, 1, &s, NULL), 0);
	assert_int_equal(s.n, 0);
}

static void a_shared_port_is_listed_once(void **state)
{
	uint16_t port;
	int fd = listen_on(AF_INET, &port), hold[2];
	pid_t pids[2];
	struct sockets s;
	char c;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	pids[0] = getpid();
	pids[1] = fork();
	if (pids[1] == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit((int)read(hold[0], &c, 1));
	}
	assert_int_equal(sockets_read(pids, 2, &s, NULL), 0);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.list[0].pid, pids[0]);
	assert_int_equal(sockets_read(pids + 1, 1, &s, NULL), 0);
	assert_int_equal(owner(&s, port), pids[1]);
	assert_int_equal(write(hold[1], "x", 1), 1);
	waitpid(pids[1], NULL, 0);
	assert_int_equal(sockets_read(pids + 1, 1, &s, NULL), 0);
	assert_int_equal(s.n, 0);
	close(fd);
	close(hold[0]);
	close(hold[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_the_kernel),
		cmocka_unit_test(ports_of_both_families),
		cmocka_unit_test(a_shared_port_is_listed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
