#include "core/counters.h"
#include "core/privileges.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_EVERY_NS (50 * NS_PER_MS)
#define ALARM_S 10      /* a call that takes longer has hung */
#define OPEN_ALARM_S 30 /* the driver may have to wake all GPUs */
#define END_STEPS 100   /* of 10 ms; from the half on, by force */
#define MESSAGES_FD_MIN 10
#define ARGUMENTS 5 /* after the word */

/* ---- the child ----------------------------------------------------------- */

/* Where messages go; standard output is left to what the libraries print. */
static int set_messages_apart(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, MESSAGES_FD_MIN);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0)
		return -1;
	close(null);
	return fd;
}

static bool tell(int fd, const struct counters_message *m)
{
	const char *at = (const char *)m;
	size_t left = sizeof(*m);

	while (left) {
		ssize_t n = write(fd, at, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		left -= (size_t)n;
	}
	return true;
}

static bool tell_readings(int fd, const struct pm_reading *r, unsigned n)
{
	while (n) {
		struct counters_message m = { .kind = COUNTERS_READINGS_ARE };

		m.n = n < COUNTERS_READINGS ? n : COUNTERS_READINGS;
		memcpy(m.readings, r, m.n * sizeof(*r));
		if (!tell(fd, &m))
			return false;
		r += m.n;
		n -= m.n;
	}
	return true;
}

static void pass_time(void)
{
	struct timespec t = { .tv_nsec = READ_EVERY_NS };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static int sample(struct pm *p, int fd)
{
	static struct pm_reading readings[PM_READINGS_MAX];
	unsigned round = 0;
	int n = 0;

	while (n >= 0) {
		struct counters_message m = { .kind = COUNTERS_INFO };

		alarm(ALARM_S);
		pass_time();
		n = pm_read(p, readings, PM_READINGS_MAX);
		if (n < 0 || !tell_readings(fd, readings, (unsigned)n))
			break;
		if (round++ % (NS_PER_S / READ_EVERY_NS))
			continue;
		m.info = *pm_info(p);
		if (!tell(fd, &m))
			break;
	}
	return n < 0;
}

int counters_main(int argc, char **argv)
{
	struct counters_message m = { .kind = COUNTERS_STATUS };
	struct pm_options o = { 0 };
	struct pm *p = NULL;
	int failed, fd;

	if (argc != 2 + ARGUMENTS)
		return 2;
	fd = set_messages_apart();
	if (fd < 0)
		return 1;
	prctl(PR_SET_NAME, "moetop-counters");
	(void)privileges_keep(PRIVILEGES_COUNTERS);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_INJECTION64_PATH");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGALRM, SIG_DFL);
	alarm(OPEN_ALARM_S);
	o.library = argv[2];
	o.driver = argv[3][0] ? argv[3] : NULL;
	o.device = (unsigned)strtoul(argv[4], NULL, 10);
	o.interval_ns = strtoull(argv[5], NULL, 10);
	o.peak_bytes_per_second = strtod(argv[6], NULL);
	m.status.error = pm_open(&p, &o, m.status.why, sizeof(m.status.why),
				 m.status.fix, sizeof(m.status.fix));
	if (!tell(fd, &m) || m.status.error) {
		pm_close(p);
		return 1;
	}
	failed = sample(p, fd);
	pm_close(p);
	return failed;
}

/* ---- the parent ---------------------------------------------------------- */

/* In the child between fork and exec: async-signal-safe calls only. */
__attribute__((noreturn)) static void become(int out, char *const argv[])
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0); /* Ctrl-C is for us; it ends cleanly when we do */
	(void)privileges_pass_on(PRIVILEGES_COUNTERS);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execv("/proc/self/exe", argv);
	_exit(127);
}

/* One that was ended is gone, or was never there. */
static bool has_left(struct counters *c)
{
	if (c->pid && !waitpid(c->pid, NULL, WNOHANG))
		return false;
	*c = (struct counters){ .fd = -1 };
	return true;
}

int counters_start(struct counters *c, const struct pm_options *o)
{
	char device[16], interval[24], peak[32];
	char *argv[] = { (char *)"moetop",
			 (char *)COUNTERS_WORD,
			 (char *)o->library,
			 (char *)(o->driver ? o->driver : ""),
			 device,
			 interval,
			 peak,
			 NULL };
	int fds[2], err = 0;
	pid_t pid;

	if (!has_left(c))
		return -EBUSY;
	snprintf(device, sizeof(device), "%u", o->device);
	snprintf(interval, sizeof(interval), "%llu",
		 (unsigned long long)o->interval_ns);
	snprintf(peak, sizeof(peak), "%.17g", o->peak_bytes_per_second);
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fcntl(fds[0], F_SETFL, O_NONBLOCK) ? -1 : fork();
	if (pid == 0)
		become(fds[1], argv);
	if (pid < 0)
		err = -errno;
	close(fds[1]);
	if (err) {
		close(fds[0]);
		return err;
	}
	*c = (struct counters){ .pid = pid, .fd = fds[0] };
	return 0;
}

int counters_next(struct counters *c, struct counters_message *out)
{
	while (c->have < sizeof(c->next)) {
		ssize_t n = read(c->fd, (char *)&c->next + c->have,
				 sizeof(c->next) - c->have);

		if (n > 0)
			c->have += (size_t)n;
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n < 0 && errno == EAGAIN)
			return 0;
		else
			return -EPIPE;
	}
	c->have = 0;
	if (c->next.kind < COUNTERS_STATUS || c->next.kind > COUNTERS_INFO ||
	    c->next.n > COUNTERS_READINGS)
		return -EPROTO;
	*out = c->next;
	if (out->kind == COUNTERS_STATUS) {
		out->status.why[sizeof(out->status.why) - 1] = '\0';
		out->status.fix[sizeof(out->status.fix) - 1] = '\0';
	}
	return 1;
}

void counters_end(struct counters *c)
{
	struct timespec t = { .tv_nsec = 10 * NS_PER_MS };

	if (!c->pid || c->fd < 0)
		return;
	close(c->fd); /* its next message finds nobody, and it stops cleanly */
	c->fd = -1;
	for (int i = 0; i < END_STEPS && !has_left(c); i++) {
		if (i == END_STEPS / 2)
			kill(c->pid, SIGKILL);
		nanosleep(&t, NULL);
	}
}
