#include "core/child.h"
#include "core/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY_US 20000
#define END_NS (3 * NS_PER_S)

static int connect_to(uint16_t port, bool listening)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int failed;

	if (fd < 0)
		return -errno;
	failed = listening ? bind(fd, (struct sockaddr *)&a, sizeof(a))
			   : connect(fd, (struct sockaddr *)&a, sizeof(a));
	if (!failed)
		return fd;
	failed = -errno;
	close(fd);
	return failed;
}

uint16_t child_free_port(void)
{
	struct sockaddr_in a = { 0 };
	socklen_t bytes = sizeof(a);
	int fd = connect_to(0, true);
	uint16_t port = 0;

	if (fd < 0)
		return 0;
	if (!getsockname(fd, (struct sockaddr *)&a, &bytes))
		port = ntohs(a.sin_port);
	close(fd);
	return port;
}

__attribute__((noreturn)) static void become(char *const argv[],
					     const char *agent, int output,
					     int report, pid_t parent)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), err;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0); /* Ctrl-C is for the screen; the child ends after it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before it could be tied to us */
		_exit(1);
	dup2(nothing, 0);
	dup2(nothing, 1);
	dup2(output, 2);
	setenv("CUDA_INJECTION64_PATH", agent, 1);
	execv(argv[0], argv);
	err = errno;
	if (write(report, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int child_start(struct child *c, char *const argv[], const char *agent)
{
	int report[2], err = 0, output;
	pid_t self = getpid(), pid;

	output = memfd_create("moetop-child", MFD_CLOEXEC);
	if (output < 0)
		return -errno;
	if (pipe2(report, O_CLOEXEC)) {
		err = -errno;
		close(output);
		return err;
	}
	pid = fork();
	if (pid == 0)
		become(argv, agent, output, report[1], self);
	err = pid < 0 ? -errno : 0;
	close(report[1]);
	/* an exec that worked closes the pipe without a word */
	if (!err &&
	    read(report[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
		err = -err;
		waitpid(pid, NULL, 0);
	}
	close(report[0]);
	if (err) {
		close(output);
		return err;
	}
	*c = (struct child){ .pid = pid, .output = output };
	return 0;
}

static bool ended(struct child *c)
{
	if (c->pid > 0 && waitpid(c->pid, NULL, WNOHANG) == 0)
		return false;
	c->pid = 0;
	return true;
}

int child_wait_port(struct child *c, uint16_t port, unsigned timeout_ms)
{
	uint64_t until_ns = clock_now_ns() + timeout_ms * NS_PER_MS;

	while (clock_now_ns() < until_ns) {
		int fd = connect_to(port, false);

		if (fd >= 0) {
			close(fd);
			return 0;
		}
		if (ended(c))
			return -ECHILD;
		if (usleep(LOOK_EVERY_US) && errno == EINTR)
			return -EINTR;
	}
	return -ETIMEDOUT;
}

void child_last_words(const struct child *c, char *out, size_t bytes)
{
	char tail[512];
	off_t end = lseek(c->output, 0, SEEK_END);
	off_t from = end > (off_t)sizeof(tail) - 1
			     ? end - (off_t)sizeof(tail) + 1
			     : 0;
	ssize_t n = pread(c->output, tail, sizeof(tail) - 1, from);
	char *line;

	out[0] = '\0';
	if (n <= 0)
		return;
	while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' '))
		n--;
	tail[n] = '\0';
	line = strrchr(tail, '\n');
	snprintf(out, bytes, "%s", line ? line + 1 : tail);
}

void child_end(struct child *c)
{
	uint64_t until_ns = clock_now_ns() + END_NS;

	if (c->pid > 0)
		kill(c->pid, SIGTERM);
	while (!ended(c) && clock_now_ns() < until_ns)
		usleep(LOOK_EVERY_US);
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	close(c->output);
}
