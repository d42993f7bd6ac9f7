#include "core/loop.h"
#include "wire/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct watch {
	int fd; /* -1: free */
	void (*fn)(void *arg);
	void *arg;
};

struct timer {
	uint64_t period_ns, due_ns; /* period 0: free */
	void (*fn)(void *arg);
	void *arg;
};

struct loop {
	int epoll, timerfd, signalfd;
	bool stopped;
	int result;
	void (*on_signal)(void *arg, int signo);
	void *signal_arg;
	sigset_t old_mask;
	struct watch watches[LOOP_FDS_MAX];
	struct timer timers[LOOP_TIMERS_MAX];
};

/* Two keys that no index of a watch can be. */
enum { KEY_TIMER = LOOP_FDS_MAX, KEY_SIGNAL };

static int add_fd(struct loop *l, int fd, uint32_t key)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u32 = key };

	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int loop_new(struct loop **out)
{
	struct loop *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	for (unsigned i = 0; i < LOOP_FDS_MAX; i++)
		l->watches[i].fd = -1;
	l->signalfd = -1;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->timerfd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	err = l->epoll < 0 || l->timerfd < 0 ? -errno
					     : add_fd(l, l->timerfd, KEY_TIMER);
	if (err) {
		loop_free(l);
		return err;
	}
	*out = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->signalfd >= 0) {
		close(l->signalfd);
		sigprocmask(SIG_SETMASK, &l->old_mask, NULL);
	}
	if (l->timerfd >= 0)
		close(l->timerfd);
	if (l->epoll >= 0)
		close(l->epoll);
	free(l);
}

/* ---- descriptors ------------------------------------------------------- */

int loop_watch(struct loop *l, int fd, void (*fn)(void *arg), void *arg)
{
	for (uint32_t i = 0; i < LOOP_FDS_MAX; i++) {
		int err;

		if (l->watches[i].fd >= 0)
			continue;
		err = add_fd(l, fd, i);
		if (err)
			return err;
		l->watches[i] = (struct watch){ fd, fn, arg };
		return 0;
	}
	return -ENOSPC;
}

void loop_unwatch(struct loop *l, int fd)
{
	for (unsigned i = 0; i < LOOP_FDS_MAX; i++) {
		if (fd < 0 || l->watches[i].fd != fd)
			continue;
		epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
		l->watches[i] = (struct watch){ .fd = -1 };
	}
}

static void run_watch(struct loop *l, uint32_t key)
{
	/* A copy: the callback may unwatch itself. */
	struct watch w = l->watches[key];

	if (w.fd >= 0)
		w.fn(w.arg);
}

/* ---- timers ------------------------------------------------------------ */

static struct timer *next_timer(struct loop *l)
{
	struct timer *next = NULL;

	for (unsigned i = 0; i < LOOP_TIMERS_MAX; i++) {
		struct timer *t = &l->timers[i];

		if (t->period_ns && (!next || t->due_ns < next->due_ns))
			next = t;
	}
	return next;
}

static void arm(struct loop *l)
{
	const struct timer *t = next_timer(l);
	struct itimerspec spec = { 0 };

	if (t) {
		/* an all-zero time would disarm */
		spec.it_value.tv_sec = (time_t)(t->due_ns / NS_PER_S);
		spec.it_value.tv_nsec = (long)(t->due_ns % NS_PER_S) | 1;
	}
	timerfd_settime(l->timerfd, TFD_TIMER_ABSTIME, &spec, NULL);
}

int loop_every(struct loop *l, uint64_t period_ns, void (*fn)(void *arg),
	       void *arg)
{
	for (int i = 0; i < (int)LOOP_TIMERS_MAX; i++) {
		if (l->timers[i].period_ns)
			continue;
		l->timers[i] =
			(struct timer){ .period_ns = period_ns,
					.due_ns = clock_now_ns() + period_ns,
					.fn = fn,
					.arg = arg };
		arm(l);
		return i;
	}
	return -ENOSPC;
}

void loop_set_period(struct loop *l, int timer, uint64_t period_ns)
{
	l->timers[timer].period_ns = period_ns;
	l->timers[timer].due_ns = clock_now_ns() + period_ns;
	arm(l);
}

static void run_timers(struct loop *l, uint64_t now_ns)
{
	struct timer *t;

	while (!l->stopped && (t = next_timer(l)) && t->due_ns <= now_ns) {
		uint64_t missed = (now_ns - t->due_ns) / t->period_ns;

		t->due_ns += (missed + 1) * t->period_ns;
		t->fn(t->arg);
	}
	arm(l);
}

/* ---- signals ----------------------------------------------------------- */

int loop_signals(struct loop *l, const int *signals,
		 void (*fn)(void *arg, int signo), void *arg)
{
	sigset_t set;
	int err;

	sigemptyset(&set);
	for (; *signals; signals++)
		sigaddset(&set, *signals);
	l->signalfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (l->signalfd < 0)
		return -errno;
	err = add_fd(l, l->signalfd, KEY_SIGNAL);
	if (err) {
		close(l->signalfd);
		l->signalfd = -1;
		return err;
	}
	sigprocmask(SIG_BLOCK, &set, &l->old_mask);
	l->on_signal = fn;
	l->signal_arg = arg;
	return 0;
}

static void run_signals(struct loop *l)
{
	struct signalfd_siginfo info;

	while (!l->stopped &&
	       read(l->signalfd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		l->on_signal(l->signal_arg, (int)info.ssi_signo);
}

/* ---- the loop ---------------------------------------------------------- */

int loop_run(struct loop *l)
{
	struct epoll_event events[LOOP_FDS_MAX + 2];
	uint64_t expirations;

	l->stopped = false;
	while (!l->stopped) {
		int n = epoll_wait(l->epoll, events, LOOP_FDS_MAX + 2, -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++)
			if (events[i].data.u32 == KEY_SIGNAL)
				run_signals(l);
		/* only to make it unreadable; the deadlines are our own */
		if (read(l->timerfd, &expirations, sizeof(expirations)) > 0)
			run_timers(l, clock_now_ns());
		for (int i = 0; i < n && !l->stopped; i++)
			if (events[i].data.u32 < LOOP_FDS_MAX)
				run_watch(l, events[i].data.u32);
	}
	return l->result;
}

void loop_stop(struct loop *l, int result)
{
	l->stopped = true;
	l->result = result;
}
