/*
 * stress_calls.c - what a system call returns that was stopped in the middle
 *
 *	stress_calls CALL MS	one thread, in this call for MS milliseconds
 *	stress_calls all MS	one thread in each call
 *	stress_calls list	the names
 *
 * "ready" on standard output just before the calls, then a line for each:
 * {"call":..., "ret":..., "errno":..., "ms":...}.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long limit_ms;
static int full[2]; /* a byte arrives here when the time is over */

static struct timespec limit(void)
{
	return (struct timespec){ .tv_sec = limit_ms / 1000,
				  .tv_nsec = limit_ms % 1000 * 1000000 };
}

static struct timeval limit_tv(void)
{
	return (struct timeval){ .tv_sec = limit_ms / 1000,
				 .tv_usec = limit_ms % 1000 * 1000 };
}

static long call_poll(void)
{
	return poll(NULL, 0, (int)limit_ms);
}

static long call_poll_forever(void)
{
	struct pollfd p = { .fd = full[0], .events = POLLIN };

	return poll(&p, 1, -1);
}

static long call_ppoll(void)
{
	struct timespec t = limit();

	return ppoll(NULL, 0, &t, NULL);
}

static long call_select(void)
{
	struct timeval t = limit_tv();

	return select(0, NULL, NULL, NULL, &t);
}

static long call_pselect(void)
{
	struct timespec t = limit();

	return pselect(0, NULL, NULL, NULL, &t, NULL);
}

static long call_nanosleep(void)
{
	struct timespec t = limit();

	return nanosleep(&t, NULL);
}

static long call_clock_nanosleep(void)
{
	struct timespec t;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += limit_ms / 1000;
	t.tv_nsec += limit_ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	err = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	errno = err;
	return err ? -1 : 0;
}

static long call_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(EPOLL_CLOEXEC), &event, 1,
			  (int)limit_ms);
}

static long call_epoll_forever(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int e = epoll_create1(EPOLL_CLOEXEC);

	epoll_ctl(e, EPOLL_CTL_ADD, full[0], &event);
	return epoll_wait(e, &event, 1, -1);
}

static int listener(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval t = limit_tv();
	sa_family_t any = AF_UNIX;

	if (s < 0 || bind(s, (struct sockaddr *)&any, sizeof(any)) ||
	    listen(s, 1) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)))
		perror("stress_calls: socket");
	return s;
}

static long call_accept(void)
{
	return accept(listener(), NULL, NULL);
}

static long call_recv(void)
{
	struct timeval t = limit_tv();
	int fd[2];
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return -1;
	setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	return recv(fd[0], &byte, 1, 0);
}

static long call_sigtimedwait(void)
{
	struct timespec t = limit();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 5);
	return sigtimedwait(&set, NULL, &t);
}

static long call_read(void)
{
	char byte;

	return read(full[0], &byte, 1);
}

static long call_futex(void)
{
	struct timespec t = limit();
	uint32_t word = 0;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

static const struct call {
	const char *name;
	long (*make)(void);
} calls[] = {
	{ "poll", call_poll },
	{ "poll_forever", call_poll_forever },
	{ "ppoll", call_ppoll },
	{ "select", call_select },
	{ "pselect", call_pselect },
	{ "nanosleep", call_nanosleep },
	{ "clock_nanosleep", call_clock_nanosleep },
	{ "epoll", call_epoll },
	{ "epoll_forever", call_epoll_forever },
	{ "accept", call_accept },
	{ "recv", call_recv },
	{ "sigtimedwait", call_sigtimedwait },
	{ "read", call_read },
	{ "futex", call_futex },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static void *make_call(void *arg)
{
	const struct call *c = arg;
	struct timespec a, b;
	long ret;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &a);
	errno = 0;
	ret = c->make();
	err = ret < 0 ? errno : 0;
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("{\"call\":\"%s\",\"ret\":%ld,\"errno\":%d,\"ms\":%.1f}\n",
	       c->name, ret, err,
	       (double)(b.tv_sec - a.tv_sec) * 1e3 +
		       (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
	fflush(stdout);
	return NULL;
}

/* Another process fills the pipe, so that this one keeps its one thread. */
static void fill_later(void)
{
	struct timespec t = limit();

	if (pipe(full)) {
		perror("stress_calls: pipe");
		exit(2);
	}
	if (fork())
		return;
	close(STDOUT_FILENO);
	nanosleep(&t, NULL);
	if (write(full[1], "xxxx", 4) != 4)
		_exit(1);
	_exit(0);
}

static void all_calls(void)
{
	pthread_t thread[CALLS];

	for (size_t i = 0; i < CALLS; i++)
		if (pthread_create(&thread[i], NULL, make_call,
				   (void *)(uintptr_t)&calls[i]))
			exit(2);
	for (size_t i = 0; i < CALLS; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (size_t i = 0; i < CALLS; i++)
			puts(calls[i].name);
		return 0;
	}
	limit_ms = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	if (limit_ms < 1 || limit_ms > 60000) {
		fprintf(stderr, "usage: stress_calls CALL|all|list MS\n");
		return 2;
	}
	fill_later();
	puts("ready");
	fflush(stdout);
	if (!strcmp(argv[1], "all")) {
		all_calls();
		return 0;
	}
	for (size_t i = 0; i < CALLS; i++)
		if (!strcmp(argv[1], calls[i].name)) {
			make_call((void *)(uintptr_t)&calls[i]);
			return 0;
		}
	fprintf(stderr, "stress_calls: no call %s\n", argv[1]);
	return 2;
}
