#include "core/counters.h"
#include "core/clock.h"
#include "core/privileges.h"

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
#define ALARM_S 10 /* a call that takes longer has hung */
#define ARGUMENTS 6

/* ---- the child ----------------------------------------------------------- */

static bool tell(const struct counters_message *m)
{
	const char *at = (const char *)m;
	size_t left = sizeof(*m);

	while (left) {
		ssize_t n = write(STDOUT_FILENO, at, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		left -= (size_t)n;
	}
	return true;
}

static bool tell_readings(const struct pm_reading *r, unsigned n)
{
	while (n) {
		struct counters_message m = { .kind = COUNTERS_READINGS_ARE };

		m.n = n < COUNTERS_READINGS ? n : COUNTERS_READINGS;
		memcpy(m.readings, r, m.n * sizeof(*r));
		if (!tell(&m))
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

static int sample(struct pm *p)
{
	static struct pm_reading readings[PM_READINGS_MAX];
	unsigned round = 0;
	int n = 0;

	while (n >= 0) {
		struct counters_message m = { .kind = COUNTERS_INFO };

		alarm(ALARM_S);
		pass_time();
		n = pm_read(p, readings, PM_READINGS_MAX);
		if (n < 0 || !tell_readings(readings, (unsigned)n))
			break;
		if (round++ % (NS_PER_S / READ_EVERY_NS))
			continue;
		m.info = *pm_info(p);
		if (!tell(&m))
			break;
	}
	return n < 0;
}

int counters_main(int argc, char **argv)
{
	struct counters_message m = { .kind = COUNTERS_STATUS };
	struct pm_options o = { 0 };
	struct pm *p = NULL;
	int failed;

	if (argc != 2 + ARGUMENTS - 1)
		return 2;
	prctl(PR_SET_NAME, "moetop-counters");
	(void)privileges_keep(PRIVILEGES_COUNTERS);
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_INJECTION64_PATH");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGALRM, SIG_DFL);
	alarm(ALARM_S);
	o.library = argv[2];
	o.driver = argv[3][0] ? argv[3] : NULL;
	o.device = (unsigned)strtoul(argv[4], NULL, 10);
	o.interval_ns = strtoull(argv[5], NULL, 10);
	o.peak_bytes_per_second = strtod(argv[6], NULL);
	m.status.error = pm_open(&p, &o, m.status.why, sizeof(m.status.why),
				 m.status.fix, sizeof(m.status.fix));
	if (!tell(&m) || m.status.error) {
		pm_close(p);
		return 1;
	}
	failed = sample(p);
	pm_close(p);
	return failed;
}

/* ---- the parent ---------------------------------------------------------- */

/* In the child between fork and exec: async-signal-safe calls only. */
static void become(int out, char *const argv[])
{
	sigset_t none;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execv("/proc/self/exe", argv);
	_exit(127);
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
	int fds[2];
	pid_t pid;

	snprintf(device, sizeof(device), "%u", o->device);
	snprintf(interval, sizeof(interval), "%llu",
		 (unsigned long long)o->interval_ns);
	snprintf(peak, sizeof(peak), "%.17g", o->peak_bytes_per_second);
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0)
		become(fds[1], argv);
	close(fds[1]);
	if (pid < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK)) {
		int err = -errno;

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
	*out = c->next;
	if (out->n > COUNTERS_READINGS)
		out->n = COUNTERS_READINGS;
	if (out->kind == COUNTERS_STATUS) {
		out->status.why[sizeof(out->status.why) - 1] = '\0';
		out->status.fix[sizeof(out->status.fix) - 1] = '\0';
	}
	return 1;
}

void counters_end(struct counters *c)
{
	struct timespec t = { .tv_nsec = 10 * NS_PER_MS };

	if (!c->pid)
		return;
	close(c->fd); /* its next message finds nobody, and it stops cleanly */
	for (int i = 0; i < 50; i++) {
		if (waitpid(c->pid, NULL, WNOHANG))
			goto out;
		nanosleep(&t, NULL);
	}
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
out:
	*c = (struct counters){ .fd = -1 };
}
