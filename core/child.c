#include "core/child.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY_US 20000
#define END_NS (3 * NS_PER_S)

/* ---- start ------------------------------------------------------------- */

struct plumbing {
	int words[2];  /* standard output of the child */
	int report[2]; /* errno of a failed exec; closes by itself */
	int errors;
};

static void close_plumbing(struct plumbing *p)
{
	const int fds[] = { p->words[0], p->words[1], p->report[0],
			    p->report[1], p->errors };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int lay_plumbing(struct plumbing *p)
{
	int err;

	*p = (struct plumbing){ { -1, -1 }, { -1, -1 }, -1 };
	p->errors = memfd_create("moetop-child", MFD_CLOEXEC);
	if (p->errors >= 0 && !pipe2(p->words, O_CLOEXEC) &&
	    !pipe2(p->report, O_CLOEXEC))
		return 0;
	err = -errno;
	close_plumbing(p);
	return err;
}

__attribute__((noreturn)) static void become(char *const argv[],
					     const char *agent,
					     const struct plumbing *p,
					     pid_t parent)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), err;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	setpgid(0, 0); /* Ctrl-C is for the screen; the child ends after it */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before it could be tied to us */
		_exit(1);
	dup2(nothing, 0);
	dup2(p->words[1], 1);
	dup2(p->errors, 2);
	setenv("CUDA_INJECTION64_PATH", agent, 1);
	execv(argv[0], argv);
	err = errno;
	if (write(p->report[1], &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int child_set_rows(const struct settings *s)
{
	char mode[16];

	snprintf(mode, sizeof(mode), "%u", (unsigned)s->rows);
	return setenv("MOETOP_ROWS", mode, 1) ? -ENOMEM : 0;
}

int child_start(struct child *c, char *const argv[], const char *agent)
{
	struct plumbing p;
	pid_t self = getpid(), pid;
	int err = lay_plumbing(&p);

	if (err)
		return err;
	pid = fork();
	if (pid == 0)
		become(argv, agent, &p, self);
	err = pid < 0 ? -errno : 0;
	close(p.words[1]);
	close(p.report[1]);
	p.words[1] = p.report[1] = -1;
	/* an exec that worked closes the pipe without a word */
	if (!err &&
	    read(p.report[0], &err, sizeof(err)) == (ssize_t)sizeof(err)) {
		err = -err;
		waitpid(pid, NULL, 0);
	}
	if (err) {
		close_plumbing(&p);
		return err;
	}
	close(p.report[0]);
	*c = (struct child){ .pid = pid,
			     .words = p.words[0],
			     .errors = p.errors };
	return 0;
}

/* ---- life -------------------------------------------------------------- */

static int parse_port(const char *line, uint16_t *port)
{
	const char *colon = strrchr(line, ':');
	unsigned long n;

	if (!colon || !strstr(line, "listening on"))
		return -EPROTO;
	n = strtoul(colon + 1, NULL, 10);
	if (!n || n > UINT16_MAX)
		return -EPROTO;
	*port = (uint16_t)n;
	return 0;
}

int child_wait_port(struct child *c, unsigned timeout_ms, uint16_t *port)
{
	uint64_t until_ns = clock_now_ns() + timeout_ms * NS_PER_MS;
	char line[256] = "";
	size_t n = 0;

	while (n + 1 < sizeof(line) && !strchr(line, '\n')) {
		struct pollfd p = { .fd = c->words, .events = POLLIN };
		uint64_t now_ns = clock_now_ns();
		ssize_t got;

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1) < 1)
			continue;
		got = read(c->words, line + n, sizeof(line) - 1 - n);
		if (got <= 0)
			return -ECHILD;
		n += (size_t)got;
		line[n] = '\0';
	}
	return parse_port(line, port);
}

void child_last_words(const struct child *c, char *out, size_t bytes)
{
	char tail[512];
	off_t end = lseek(c->errors, 0, SEEK_END);
	off_t room = (off_t)sizeof(tail) - 1;
	ssize_t n = pread(c->errors, tail, sizeof(tail) - 1,
			  end > room ? end - room : 0);
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

static bool ended(struct child *c)
{
	if (c->pid > 0 && waitpid(c->pid, NULL, WNOHANG) == 0)
		return false;
	c->pid = 0;
	return true;
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
	close(c->words);
	close(c->errors);
}
