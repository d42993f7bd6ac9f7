#include "target/inject_thread.h"

#include "target/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define AGAIN_MS_MAX 10000

/* Which argument is the time-out, and how "none" looks. */
enum timeout { OF_SOCKET, TIMEOUT_MS, TIMEOUT_POINTER, ALWAYS_TIMED };

struct parked {
	long call;
	unsigned rank_endless, rank_timed;
	enum timeout timeout;
	unsigned arg;
};

/*
 * 0: even a thread that must find back alone makes the same call again.
 * 1: the kernel keeps the rest of its time.  2: begun again by the kernel.
 * 3: begun again by us.  4, 5: comes back with EINTR.
 */
static const struct parked parked[] = {
#ifdef SYS_poll
	{ SYS_poll, 0, 1, TIMEOUT_MS, 2 },
#endif
	{ SYS_ppoll, 0, 1, TIMEOUT_POINTER, 2 },
#ifdef SYS_select
	{ SYS_select, 0, 1, TIMEOUT_POINTER, 4 },
#endif
	{ SYS_pselect6, 0, 1, TIMEOUT_POINTER, 4 },
	{ SYS_nanosleep, 1, 1, ALWAYS_TIMED, 0 },
	{ SYS_clock_nanosleep, 1, 1, ALWAYS_TIMED, 0 },
	{ SYS_accept, 2, 4, OF_SOCKET, 0 },
	{ SYS_accept4, 2, 4, OF_SOCKET, 0 },
	{ SYS_recvfrom, 2, 4, OF_SOCKET, 0 },
	{ SYS_recvmsg, 2, 4, OF_SOCKET, 0 },
#ifdef SYS_epoll_wait
	{ SYS_epoll_wait, 3, 4, TIMEOUT_MS, 3 },
#endif
	{ SYS_epoll_pwait, 3, 4, TIMEOUT_MS, 3 },
#ifdef SYS_epoll_pwait2
	{ SYS_epoll_pwait2, 3, 4, TIMEOUT_POINTER, 3 },
#endif
	{ SYS_rt_sigtimedwait, 5, 5, TIMEOUT_POINTER, 2 },
};

int thread_parse_call(const char *text, struct thread_call *out)
{
	struct thread_call c = { .call = -1 };
	unsigned long long v[8];

	if (!strncmp(text, "running", 7))
		return -EAGAIN;
	if (sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &c.call,
		   &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 9)
		return -EINVAL;
	for (unsigned i = 0; i < 6; i++)
		c.args[i] = v[i];
	c.sp = v[6];
	c.pc = v[7];
	*out = c;
	return 0;
}

/* Has the target's socket a time-out for reading?  One that we cannot ask may
 * have. */
static bool is_socket_endless(int pidfd, int socket)
{
	struct timeval t = { .tv_sec = 1 };
	socklen_t bytes = sizeof(t);
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, socket, 0);
	bool endless;

	if (fd < 0)
		return false;
	endless = !getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &bytes) &&
		  !t.tv_sec && !t.tv_usec;
	close(fd);
	return endless;
}

static bool is_endless(const struct parked *p, const struct thread_call *at,
		       int pidfd)
{
	switch (p->timeout) {
	case OF_SOCKET:
		return is_socket_endless(pidfd, (int)at->args[p->arg]);
	case TIMEOUT_MS:
		return (int32_t)at->args[p->arg] < 0;
	case TIMEOUT_POINTER:
		return at->args[p->arg] == 0;
	case ALWAYS_TIMED:
		break;
	}
	return false;
}

int thread_rank(const struct thread_call *at, int pidfd, bool *endless)
{
	for (size_t i = 0; i < sizeof(parked) / sizeof(parked[0]); i++) {
		const struct parked *p = &parked[i];

		if (p->call != at->call)
			continue;
		*endless = is_endless(p, at, pidfd);
		return (int)(*endless ? p->rank_endless : p->rank_timed);
	}
	return -1;
}

bool thread_may_begin_again(const struct thread_call *at)
{
#ifdef SYS_poll
	if (at->call == SYS_poll)
		return (int32_t)at->args[2] <= AGAIN_MS_MAX;
#endif
	(void)at;
	return false;
}

bool thread_wchan_is_parked(const char *wchan)
{
	static const char *const safe[] = {
		"poll_schedule_timeout", "do_poll",
		"do_sys_poll",           "do_select",
		"hrtimer_nanosleep",     "do_nanosleep"
	};

	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++) {
		size_t n = strlen(safe[i]);

		/* the compiler may have split the function: name.suffix */
		if (!strncmp(wchan, safe[i], n) &&
		    (wchan[n] == '\0' || wchan[n] == '.'))
			return true;
	}
	return false;
}

static bool read_task(pid_t pid, pid_t tid, const char *name, char *buf,
		      size_t room)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%d/%s", (int)tid, name);
	return proc_read(pid, path, buf, room) > 0;
}

static bool is_in(const struct thread_code *code, unsigned n, uint64_t pc)
{
	for (unsigned i = 0; i < n; i++)
		if (pc >= code[i].start && pc < code[i].end)
			return true;
	return false;
}

/* Threads that only wait for events, by their names. */
static bool is_event_thread(pid_t pid, pid_t tid)
{
	char comm[32];

	return read_task(pid, tid, "comm", comm, sizeof(comm)) &&
	       (!strncmp(comm, "cuda-Evt", 8) || !strncmp(comm, "ZMQbg", 5));
}

/* The rank of one thread's call; -1 it may not be borrowed. */
static int judge(pid_t pid, int pidfd, struct thread_choice *c)
{
	char text[256], wchan[64];
	int rank;

	if (!read_task(pid, c->tid, "syscall", text, sizeof(text)) ||
	    thread_parse_call(text, &c->at))
		return -1;
	rank = thread_rank(&c->at, pidfd, &c->endless);
	if (rank < 0 && c->at.call != SYS_restart_syscall)
		return -1;
	if (!read_task(pid, c->tid, "wchan", wchan, sizeof(wchan)))
		wchan[0] = '\0';
	if (rank < 0) {
		c->endless = false;
		rank = thread_wchan_is_parked(wchan) ? 1 : -1;
	}
	/* stopped, frozen or traced in the middle of the call */
	if (strstr(wchan, "_stop") || strstr(wchan, "freeze"))
		return -1;
	return rank;
}

static void insert(struct thread_choice *all, unsigned *n, unsigned max,
		   const struct thread_choice *c)
{
	unsigned at = *n;

	while (at > 0 && all[at - 1].rank > c->rank)
		at--;
	if (at >= max)
		return;
	if (*n < max)
		++*n;
	memmove(all + at + 1, all + at, (*n - at - 1) * sizeof(*all));
	all[at] = *c;
}

int thread_choose(pid_t pid, int pidfd, const struct thread_code *code,
		  unsigned n, struct thread_choice *out, unsigned max,
		  unsigned *looked)
{
	const struct dirent *e;
	unsigned found = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((e = readdir(dir))) {
		struct thread_choice c = { .tid = (pid_t)atoi(e->d_name) };
		int rank;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		++*looked;
		rank = judge(pid, pidfd, &c);
		if (rank < 0 || !is_in(code, n, c.at.pc))
			continue;
		c.rank = (unsigned)rank * 4 + (c.tid == pid ? 2 : 0) +
			 (is_event_thread(pid, c.tid) ? 0 : 1);
		insert(out, &found, max, &c);
	}
	closedir(dir);
	return (int)found;
}
