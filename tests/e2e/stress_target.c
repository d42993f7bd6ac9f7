/*
 * stress_target.c - a process that does all that an injector could disturb
 *
 *	stress_target SECONDS [EARLY [FORKERS]]
 *
 * 64 threads: allocation and trimming, dlopen, fork, pthread_create, epoll,
 * floating point that is computed twice, registers held over a system call,
 * every call in which a thread may be parked, and signals: 1000 a second by
 * sigqueue, two timers.  Half of the threads take the signals; the others are
 * deaf, and no call of theirs may ever end early: at most EARLY may (0), by
 * EINTR, where an injector is killed in the middle of its work.
 *
 * FORKERS (6) of the threads do nothing but fork: for some milliseconds each time
 * nobody else may change the memory map.
 *
 * "ready" on standard output, then one JSON object for each line of standard
 * input, and one at the end: after SECONDS, or when standard input ends.  Exit
 * status 1: something was wrong.  With about 1.2 CPUs busy when there are 2.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/stress_regs.h"
#include "tests/e2e/stress_worker.h"

#define TIMER_NS 5000000
#define ALTSTACK_BYTES 16384
#define FORKERS 6
#define FORKERS_MAX 32
#define SIG_QUEUED (SIGRTMIN + 3)
#define SIG_TIMER (SIGRTMIN + 4)
#define SIG_NEVER (SIGRTMIN + 5)

/* ---- system calls that end at their time -------------------------------- */

static void rest(struct worker *w, unsigned mean_us)
{
	unsigned us = mean_us / 2 + pick(w, mean_us + 1);
	struct timespec t = span(us);
	uint64_t start_ns = now_ns();

	ended(w, "nanosleep", nanosleep(&t, NULL), 0, start_ns, us);
}

static void turn_poll(struct worker *w)
{
	unsigned ms = 1 + pick(w, 50);
	uint64_t start_ns = now_ns();

	ended(w, "poll", poll(NULL, 0, (int)ms), 0, start_ns, ms * 1000);
}

static void turn_sleep(struct worker *w)
{
	rest(w, 20000);
}

static void turn_clock(struct worker *w)
{
	unsigned us = 1000 + pick(w, 30000);
	struct timespec t = span(us);
	uint64_t start_ns = now_ns();

	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	ended(w, "clock_nanosleep", errno ? -1 : 0, 0, start_ns, us);
}

static void turn_select(struct worker *w)
{
	unsigned us = 1000 + pick(w, 30000);
	struct timeval t = { .tv_usec = (suseconds_t)us };
	uint64_t start_ns = now_ns();

	ended(w, "select", select(0, NULL, NULL, NULL, &t), 0, start_ns, us);
}

static void turn_recv(struct worker *w)
{
	struct timeval t = { .tv_usec = 20000 };
	uint64_t start_ns;
	char byte;

	if (!w->fd[0]) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->fd))
			wrong("socketpair", -1, errno);
		setsockopt(w->fd[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	}
	start_ns = now_ns();
	ended(w, "recv", recv(w->fd[0], &byte, 1, 0), EAGAIN, start_ns, 16000);
}

static void turn_sigwait(struct worker *w)
{
	struct timespec t = span(20000);
	uint64_t start_ns = now_ns();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIG_NEVER);
	ended(w, "sigtimedwait", sigtimedwait(&set, NULL, &t), EAGAIN, start_ns,
	      20000);
}

static void turn_futex(struct worker *w)
{
	struct timespec t = span(20000);
	uint64_t start_ns = now_ns();
	uint32_t word = 0;

	ended(w, "futex",
	      syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0),
	      ETIMEDOUT, start_ns, 20000);
}

static void turn_epoll(struct worker *w)
{
	int e = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event;

	if (e < 0)
		wrong("epoll_create1", e, errno);
	for (int i = 0; i < 10 && !atomic_load(&stop); i++) {
		uint64_t start_ns = now_ns();

		ended(w, "epoll", epoll_wait(e, &event, 1, 20), 0, start_ns,
		      20000);
	}
	if (close(e))
		wrong("close", -1, errno);
}

/* A pipe that this thread fills now and then: a read that never blocks long. */
static void turn_pipe(struct worker *w)
{
	char byte = (char)pick(w, 100), back;
	ssize_t n;

	if (!w->fd[0] && pipe(w->fd))
		wrong("pipe", -1, errno);
	if (write(w->fd[1], &byte, 1) != 1)
		wrong("write", -1, errno);
	n = read(w->fd[0], &back, 1);
	if (n != 1 || back != byte)
		wrong("read", n, errno);
}

/* ---- locks of libc --------------------------------------------------------- */

static void turn_malloc(struct worker *w)
{
	for (int i = 0; i < 150; i++) {
		void **p = &w->piece[pick(w, PIECES)];
		size_t n = 16 + pick(w, pick(w, 8) ? 2000 : 400000);

		free(*p);
		*p = malloc(n);
		if (!*p)
			wrong("malloc", 0, errno);
		else
			memset(*p, 1, n < 64 ? n : 64);
	}
	if (pick(w, 64) == 0)
		malloc_trim(0);
}

static void turn_load(struct worker *w)
{
	static const char *const names[] = { "libresolv.so.2", "libanl.so.1",
					     "libBrokenLocale.so.1" };
	void *h = dlopen(names[pick(w, 3)], RTLD_NOW);

	if (!h || !dlsym(h, "_init")) {
		/* Either may be missing; the lookup took the locks. */
		dlerror();
	}
	if (h && dlclose(h))
		wrong("dlclose", -1, 0);
}

static void turn_fork(struct worker *w)
{
	pid_t child = fork();
	int status = 0;

	(void)w;
	if (child == 0) {
		free(malloc(5000));
		_exit(7);
	}
	if (child < 0) {
		wrong("fork", -1, errno);
		return;
	}
	for (int i = 0; waitpid(child, &status, WNOHANG) == 0; i++) {
		struct timespec t = span(1000);

		nanosleep(&t, NULL);
		if (i == 5000) {
			atomic_fetch_add(&count.fork_hung, 1);
			kill(child, SIGKILL);
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
		wrong("child", status, 0);
}

static void *nothing(void *arg)
{
	free(malloc(100));
	return arg;
}

static void turn_thread(struct worker *w)
{
	pthread_t t;
	void *back = NULL;
	int err = pthread_create(&t, NULL, nothing, w);

	if (!err)
		err = pthread_join(t, &back);
	if (err || back != w)
		wrong("pthread_create", -1, err);
}

/* ---- registers --------------------------------------------------------------- */

static __attribute__((noinline)) double series(unsigned n, double x)
{
	double sum = 1, part = 0.5;

	for (unsigned i = 1; i < n; i++) {
		sum = sum * 1.0000001 + part * x;
		part = part * 0.999 + 1e-9 * (double)i;
	}
	return sum;
}

static void turn_arithmetic(struct worker *w)
{
	double x = 1 + (double)pick(w, 1000) * 1e-3;
	double a = series(100000, x), b = series(100000, x);

	if (memcmp(&a, &b, sizeof(a)))
		atomic_fetch_add(&count.arithmetic, 1);
}

static void turn_registers(struct worker *w)
{
	if (regs_hold(1 + (int)pick(w, 20), pick(w, 2) != 0))
		atomic_fetch_add(&count.registers, 1);
}

/* ---- signals ------------------------------------------------------------------ */

static void on_signal(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	(void)context;
	if (!self)
		atomic_fetch_add(&count.foreign, 1);
	else if (self->deaf)
		wrong("a handler in a deaf thread", number, 0);
	if (number == SIG_QUEUED) {
		atomic_fetch_add(&count.handled_sum,
				 (uint64_t)info->si_value.sival_int);
		atomic_fetch_add(&count.handled, 1);
	} else if (number == SIG_TIMER) {
		atomic_fetch_add(&count.timer, 1 + (uint64_t)info->si_overrun);
	} else {
		atomic_fetch_add(&count.alarms, 1);
	}
	errno = saved;
}

/* Each second one goes to a thread of its own choice, which may be the one
 * that stands still. */
static int send_one(struct worker *w, int value)
{
	union sigval v = { .sival_int = value };
	struct worker *to = &workers[pick(w, worker_count)];

	if (to->deaf || value % 2)
		return sigqueue(getpid(), SIG_QUEUED, v) ? errno : 0;
	return pthread_sigqueue(to->thread, SIG_QUEUED, v);
}

static void turn_send(struct worker *w)
{
	static struct timespec next;
	uint64_t n = atomic_load(&count.sent);
	int value = (int)(n % 1000);

	if (!next.tv_sec)
		clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += 1000000;
	if (next.tv_nsec >= 1000000000) {
		next.tv_nsec -= 1000000000;
		next.tv_sec++;
	}
	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL))
		atomic_fetch_add(&count.early, 1);
	if (send_one(w, value))
		return;
	atomic_fetch_add(&count.sent_sum, (uint64_t)value);
	atomic_store(&count.sent, n + 1);
}

static timer_t start_timers(void)
{
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIG_TIMER };
	struct itimerspec spec = { .it_interval.tv_nsec = TIMER_NS,
				   .it_value.tv_nsec = TIMER_NS };
	struct itimerval alarm = { .it_interval.tv_usec = 10000,
				   .it_value.tv_usec = 10000 };
	timer_t timer;

	sigaction(SIG_QUEUED, &action, NULL);
	sigaction(SIG_TIMER, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &spec, NULL) ||
	    setitimer(ITIMER_REAL, &alarm, NULL)) {
		perror("stress_target: timers");
		exit(2);
	}
	return timer;
}

static void stop_timer(timer_t timer)
{
	struct itimerspec none = { 0 };
	struct itimerval no_alarm = { 0 };

	timer_settime(timer, 0, &none, NULL);
	setitimer(ITIMER_REAL, &no_alarm, NULL);
}

/* ---- the threads ------------------------------------------------------------- */

static const struct kind kinds[] = {
	{ "malloc", turn_malloc, 14, 10000, false },
	{ "dlopen", turn_load, 6, 20000, false },
	{ "fork", turn_fork, FORKERS, 80000, true },
	{ "thread", turn_thread, 6, 5000, true },
	{ "epoll", turn_epoll, 8, 0, false },
	{ "arithmetic", turn_arithmetic, 4, 20000, false },
	{ "registers", turn_registers, 5, 0, true },
	{ "poll", turn_poll, 4, 0, false },
	{ "nanosleep", turn_sleep, 2, 0, false },
	{ "clock_nanosleep", turn_clock, 2, 0, false },
	{ "select", turn_select, 2, 0, false },
	{ "recv", turn_recv, 1, 0, false },
	{ "sigtimedwait", turn_sigwait, 1, 0, true },
	{ "pipe", turn_pipe, 1, 5000, true },
	{ "futex", turn_futex, 1, 0, true },
	{ "signals", turn_send, 1, 0, true },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void *work(void *arg)
{
	struct worker *w = arg;
	sigset_t all;

	self = w;
	w->altstack.ss_size = ALTSTACK_BYTES;
	w->altstack.ss_sp = malloc(ALTSTACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(w->deaf ? SIG_BLOCK : SIG_UNBLOCK, &all, NULL);
	pthread_sigmask(SIG_BLOCK, NULL, &w->mask);
	if (!w->altstack.ss_sp || sigaltstack(&w->altstack, NULL))
		wrong("sigaltstack", -1, errno);
	while (!atomic_load(&stop)) {
		w->kind->turn(w);
		atomic_fetch_add(&w->turns, 1);
		if (w->kind->pause_us)
			rest(w, w->kind->pause_us);
	}
	for (unsigned i = 0; i < PIECES; i++)
		free(w->piece[i]);
	return NULL;
}

/* They inherit a full mask: no handler may run before they are set up. */
static void start_workers(unsigned forkers)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	for (size_t k = 0; k < KINDS; k++) {
		unsigned n =
			kinds[k].turn == turn_fork ? forkers : kinds[k].count;

		for (unsigned i = 0; i < n; i++) {
			struct worker *w = &workers[worker_count++];

			w->kind = &kinds[k];
			w->seed = worker_count;
			w->deaf = kinds[k].deaf || i % 2;
		}
	}
	for (unsigned i = 0; i < worker_count; i++)
		if (pthread_create(&workers[i].thread, NULL, work,
				   &workers[i])) {
			fprintf(stderr, "stress_target: no thread %u\n", i);
			exit(2);
		}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Longest time that one thread has not come round. */
static uint64_t still_ms(void)
{
	static uint64_t seen[THREADS_MAX], since_ns[THREADS_MAX], most;
	uint64_t t = now_ns();

	for (unsigned i = 0; i < worker_count; i++) {
		uint64_t turns = atomic_load(&workers[i].turns);

		if (turns != seen[i] || !since_ns[i]) {
			seen[i] = turns;
			since_ns[i] = t;
		}
		if (most < (t - since_ns[i]) / 1000000)
			most = (t - since_ns[i]) / 1000000;
	}
	return most;
}

static void stop_workers(void)
{
	struct timespec end;

	atomic_store(&stop, true);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 10;
	for (unsigned i = 0; i < worker_count; i++)
		if (pthread_timedjoin_np(workers[i].thread, NULL, &end))
			atomic_fetch_add(&count.stuck, 1);
	for (int i = 0;
	     i < 2000 && atomic_load(&count.handled) < atomic_load(&count.sent);
	     i++)
		poll(NULL, 0, 1);
}

/* ---- what it says -------------------------------------------------------------- */

static void say(const char *name, uint64_t v)
{
	printf(",\"%s\":%" PRIu64, name, v);
}

static void print_turns(void)
{
	printf(",\"turns\":{");
	for (size_t k = 0; k < KINDS; k++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < worker_count; i++)
			if (workers[i].kind == &kinds[k])
				sum += atomic_load(&workers[i].turns);
		printf("%s\"%s\":%" PRIu64, k ? "," : "", kinds[k].name, sum);
	}
	printf("}");
}

static void print_counters(uint64_t start_ns, bool last)
{
	uint64_t n = atomic_load(&count.wrong);

	printf("{\"last\":%s", last ? "true" : "false");
	say("elapsed_ms", (now_ns() - start_ns) / 1000000);
	say("threads", worker_count);
	say("wrong", n);
	say("registers", atomic_load(&count.registers));
	say("arithmetic", atomic_load(&count.arithmetic));
	say("fork_hung", atomic_load(&count.fork_hung));
	say("foreign", atomic_load(&count.foreign));
	say("stuck", atomic_load(&count.stuck));
	say("eintr", atomic_load(&count.eintr));
	say("early", atomic_load(&count.early));
	say("handled", atomic_load(&count.handled));
	say("handled_sum", atomic_load(&count.handled_sum));
	say("sent", atomic_load(&count.sent));
	say("sent_sum", atomic_load(&count.sent_sum));
	say("timer", atomic_load(&count.timer));
	say("alarms", atomic_load(&count.alarms));
	say("late_ms", atomic_load(&count.late_ms));
	say("still_ms", still_ms());
	print_turns();
	printf(",\"texts\":[");
	for (uint64_t i = 0; i < n && i < TEXTS; i++)
		printf("%s\"%s\"", i ? "," : "", texts[i]);
	printf("]}\n");
	fflush(stdout);
}

static void converse(uint64_t start_ns, uint64_t end_ns)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[256];

	while (now_ns() < end_ns) {
		int n = poll(&in, 1, 100);

		still_ms();
		if (n < 0 && errno != EINTR)
			wrong("poll of stdin", n, errno);
		if (n <= 0)
			continue;
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		print_counters(start_ns, false);
	}
}

static bool all_well(uint64_t early)
{
	return !atomic_load(&count.wrong) &&
	       atomic_load(&count.early) <= early &&
	       !atomic_load(&count.registers) &&
	       !atomic_load(&count.arithmetic) &&
	       !atomic_load(&count.fork_hung) && !atomic_load(&count.foreign) &&
	       !atomic_load(&count.stuck) &&
	       atomic_load(&count.sent) == atomic_load(&count.handled) &&
	       atomic_load(&count.sent_sum) == atomic_load(&count.handled_sum);
}

int main(int argc, char **argv)
{
	static struct worker here; /* what the handler finds in this thread */
	uint64_t start_ns = now_ns(), seconds, early, forkers;
	timer_t timer;

	seconds = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	early = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	forkers = argc > 3 ? strtoull(argv[3], NULL, 10) : FORKERS;
	if (!seconds || seconds > 36000 || forkers > FORKERS_MAX) {
		fprintf(stderr,
			"usage: stress_target SECONDS [EARLY [FORKERS]]\n");
		return 2;
	}
	self = &here;
	timer = start_timers();
	start_workers((unsigned)forkers);
	puts("ready");
	fflush(stdout);
	converse(start_ns, start_ns + seconds * 1000000000u);
	stop_workers();
	stop_timer(timer);
	print_counters(start_ns, true);
	return all_well(early) ? 0 : 1;
}
