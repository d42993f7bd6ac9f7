/*
 * stress_worker.h - a thread of stress_target, and what it finds wrong
 */
#ifndef MOETOP_TESTS_STRESS_WORKER_H
#define MOETOP_TESTS_STRESS_WORKER_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 96
#define PIECES 64
#define TEXTS 16

struct worker;
struct kind {
	const char *name;
	void (*turn)(struct worker *);
	unsigned count;
	unsigned pause_us; /* mean, after each turn */
	bool deaf;         /* all of them; else every second one */
};

struct worker {
	const struct kind *kind;
	pthread_t thread;
	unsigned seed;
	bool deaf;
	_Atomic uint64_t turns;
	void *piece[PIECES];
	int fd[2];
	sigset_t mask; /* what it has set, and must find */
	stack_t altstack;
};

static struct worker workers[THREADS_MAX];
static unsigned worker_count;
static _Thread_local struct worker *self; /* NULL: not a thread of ours */
static _Atomic bool stop;

static struct {
	_Atomic uint64_t wrong, registers, arithmetic, eintr, early, fork_hung;
	_Atomic uint64_t sent, sent_sum, handled, handled_sum;
	_Atomic uint64_t foreign, timer, alarms, late_ms, stuck;
} count;

static char texts[TEXTS][96];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned pick(struct worker *w, unsigned below)
{
	return ((unsigned)rand_r(&w->seed) >> 8) % below;
}

static struct timespec span(unsigned us)
{
	return (struct timespec){ .tv_sec = us / 1000000,
				  .tv_nsec = us % 1000000 * 1000l };
}

static void wrong(const char *what, long ret, int err)
{
	uint64_t n = atomic_fetch_add(&count.wrong, 1);

	if (n < TEXTS)
		snprintf(texts[n], sizeof(texts[n]), "%s: ret %ld errno %d",
			 what, ret, err);
}

static void raise_to(_Atomic uint64_t *most, uint64_t v)
{
	uint64_t old = atomic_load(most);

	while (old < v && !atomic_compare_exchange_weak(most, &old, v))
		;
}

/* ---- system calls that end at their time -------------------------------- */

/* Calls that the kernel never restarts after any stop (signal(7)). */
static bool may_be_interrupted(struct worker *w, const char *what)
{
	return !w->deaf || !strcmp(what, "epoll") || !strcmp(what, "recv") ||
	       !strcmp(what, "accept") || !strcmp(what, "sigtimedwait");
}

/* Its signal mask and its alternate stack are what it has set itself. */
static void check_thread(struct worker *w, const char *what)
{
	sigset_t mask;
	stack_t altstack;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (int i = 1; i < SIGRTMAX; i++)
		if (sigismember(&mask, i) != sigismember(&w->mask, i)) {
			wrong(what, -i, -2);
			break;
		}
	sigaltstack(NULL, &altstack);
	if (altstack.ss_sp != w->altstack.ss_sp ||
	    altstack.ss_size != w->altstack.ss_size)
		wrong(what, (long)altstack.ss_size, -3);
}

/* A call that began at start_ns and should take us and then fail with want
 * (0: return 0). */
static void ended(struct worker *w, const char *what, long ret, int want,
		  uint64_t start_ns, unsigned us)
{
	int err = ret < 0 ? errno : 0;
	uint64_t took_ns = now_ns() - start_ns;

	check_thread(w, what);
	if (err == EINTR) {
		atomic_fetch_add(may_be_interrupted(w, what) ? &count.eintr
							     : &count.early,
				 1);
		return;
	}
	if (err != want || ret > 0)
		wrong(what, ret, err);
	else if (took_ns + 1000000 < us * 1000ull)
		wrong(what, (long)(took_ns / 1000), -1);
	else
		raise_to(&count.late_ms, (took_ns - us * 1000ull) / 1000000);
}

#endif
