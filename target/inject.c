/*
 * inject.c - the sequence: look, choose a thread, borrow it, load
 */
#include "target/inject.h"

#include "target/inject_lease.h"
#include "target/inject_load.h"
#include "target/inject_stop.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHOICES 16
#define SEARCH_NS 1000000000ull
#define SEARCH_STEP_NS 1000000
#define URGENT_NICE (-20) /* a thread of the target waits for us */

struct job {
	struct borrow b;
	struct inject_report *r;
	int err;
};

/* The search for a thread. */
struct search {
	struct thread_choice choices[CHOICES];
	pid_t lost[CHOICES];
	unsigned n_lost, parked, looked;
};

static int busy(const struct search *s, pid_t pid, struct inject_report *r)
{
	return probe_refuse(
		r, INJECT_BUSY,
		"try again, or start the server with: moetop run -- CMD",
		"of %u threads in process %d, %u wait where one may be "
		"borrowed, and none could be stopped there",
		s->looked, (int)pid, s->parked);
}

static void let_go(const struct search *s)
{
	for (unsigned i = 0; i < s->n_lost; i++)
		stop_let_go(s->lost[i]);
}

static bool is_lost(const struct search *s, pid_t tid)
{
	for (unsigned i = 0; i < s->n_lost; i++)
		if (s->lost[i] == tid)
			return true;
	return false;
}

/* One look at all threads.  BORROW_AGAIN: none of them could be had. */
static enum borrow_end try_each(struct borrow *b, struct search *s,
				uint64_t end_ns, struct inject_report *r)
{
	const struct inject_target *t = b->target;
	int n, err;

	s->looked = 0;
	n = thread_choose(t->pid, t->pidfd, t->code, t->n_code, s->choices,
			  CHOICES, &s->looked);
	if (n < 0) {
		probe_denied(r, t->pid, n);
		return BORROW_FAILED;
	}
	s->parked = (unsigned)n;
	maps_free(&b->maps);
	err = n ? maps_read(t->pid, &b->maps) : 0;
	if (err) {
		probe_denied(r, t->pid, err);
		return BORROW_FAILED;
	}
	for (int i = 0; i < n && s->n_lost < CHOICES; i++) {
		enum borrow_end end;

		let_go(s);
		if (clock_now_ns() >= end_ns)
			break;
		if (is_lost(s, s->choices[i].tid))
			continue;
		r->tries++;
		end = borrow_run(b, &s->choices[i], r);
		if (end == BORROW_DONE)
			return end;
		borrow_close(b);
		if (end == BORROW_FAILED)
			return end;
		if (end == BORROW_LOST)
			s->lost[s->n_lost++] = s->choices[i].tid;
	}
	return BORROW_AGAIN;
}

/* Borrow the best thread that lets itself be borrowed, for a second. */
static int borrow(struct borrow *b, struct inject_report *r)
{
	const struct timespec step = { .tv_nsec = SEARCH_STEP_NS };
	uint64_t end_ns = clock_now_ns() + SEARCH_NS;
	struct search s = { .n_lost = 0 };
	enum borrow_end end;

	while ((end = try_each(b, &s, end_ns, r)) == BORROW_AGAIN) {
		if (clock_now_ns() >= end_ns)
			return busy(&s, b->target->pid, r);
		nanosleep(&step, NULL);
	}
	return end == BORROW_DONE ? 0 : probe_error(r->refusal);
}

static int has_ring(pid_t pid)
{
	struct proc_fds fds;

	return !proc_fds_read(pid, &fds, NULL, NULL) && fds.ring[0];
}

/*
 * The part that traces runs in a thread of its own: ptrace requests must come
 * from one thread, and its end lets go of whatever it still traces.
 */
static void *trace(void *cls)
{
	const struct sched_param real_time = { .sched_priority = 1 };
	const struct sched_param ordinary = { .sched_priority = 0 };
	struct job *j = cls;
	struct rlimit rttime;

	prctl(PR_SET_TIMERSLACK, 1);
	/* May we?  Only for the thread of the target: two real-time threads that
	 * wake each other are moved from one processor to the other. */
	j->b.urgent = !sched_setscheduler(0, SCHED_RR, &real_time) &&
		      !sched_setscheduler(0, SCHED_OTHER, &ordinary);
	/* whose limit is kept by a signal that kills */
	if (prlimit(j->b.target->pid, RLIMIT_RTTIME, NULL, &rttime) ||
	    rttime.rlim_cur != RLIM_INFINITY)
		j->b.urgent = false;
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), URGENT_NICE);
	j->err = borrow(&j->b, j->r);
	return NULL;
}

static int trace_in_thread(struct job *j)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, NULL, trace, j);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return probe_refuse(j->r, INJECT_LOAD, NULL, "no thread: %s",
				    strerror(err));
	pthread_join(thread, NULL);
	return j->err;
}

static int run(struct job *j, const struct inject_image *image)
{
	struct boot_code boot;
	int err;

	if (!image || image_find_boot(image, &boot))
		return probe_refuse(j->r, INJECT_IMAGE, "install moetop again",
				    "the library to load is no agent of this "
				    "version");
	j->b.image = image;
	j->b.boot = &boot;
	j->b.fd = -1;
	err = trace_in_thread(j);
	maps_free(&j->b.maps);
	if (!err)
		err = load_library(&j->b, j->r);
	borrow_close(&j->b);
	if (!err && !has_ring(j->b.target->pid))
		err = probe_refuse(j->r, INJECT_LOAD,
				   "look at the limits of its memory and "
				   "descriptors",
				   "the agent in process %d could not make its "
				   "ring",
				   (int)j->b.target->pid);
	return err;
}

int inject(pid_t pid, const struct inject_image *image, struct inject_report *r)
{
	struct job j = { .r = r };
	struct inject_target t;
	int err;

	*r = (struct inject_report){ 0 };
	err = probe_open(&t, pid, r);
	if (err)
		return err;
	j.b.target = &t;
	j.b.deadline_ns = clock_now_ns() + INJECT_LIMIT_NS - LEASE_BACK_NS;
	err = probe_lock(&t, r);
	if (!err)
		err = run(&j, image);
	err = probe_blame(&t, err, r);
	if (!err && t.audited)
		snprintf(r->why, sizeof(r->why),
			 "LD_AUDIT is set in process %d: its auditor sees the "
			 "agent being loaded",
			 (int)pid);
	probe_close(&t);
	return err;
}

int inject_check(pid_t pid, struct inject_report *r)
{
	struct inject_target t;
	int err;

	*r = (struct inject_report){ 0 };
	err = probe_open(&t, pid, r);
	if (!err)
		probe_close(&t);
	return err;
}
