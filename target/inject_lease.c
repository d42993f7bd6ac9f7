#include "target/inject_lease.h"

#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define ZEROES_AT 32u /* in the bytes of the name */
/*
 * A loaded machine would let the thread queue for a processor at every stop.  Its
 * children do not inherit it.
 */
#define URGENT_POLICY (SCHED_RR | SCHED_RESET_ON_FORK)

uint64_t lease_until(const struct lease *l, uint64_t wait_ns)
{
	uint64_t t = clock_now_ns() + wait_ns;

	return t < l->b->deadline_ns ? t : l->b->deadline_ns;
}

uint64_t lease_back_until(const struct lease *l)
{
	return l->b->deadline_ns + LEASE_BACK_NS;
}

uint64_t lease_page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t lease_control_offset(const struct borrow *b)
{
	const uint64_t page = lease_page_bytes();

	return (b->image->bytes + page - 1) & ~(page - 1);
}

static bool write_target(const struct lease *l, uint64_t address,
			 const void *data, size_t bytes)
{
	struct iovec from = { (void *)data, bytes };
	struct iovec to = { (void *)(uintptr_t)address, bytes };

	/* by the thread: the process may be another program by now */
	return process_vm_writev(l->stop.tid, &from, 1, &to, 1, 0) ==
	       (ssize_t)bytes;
}

static int set_mask(const struct lease *l, uint64_t mask)
{
	return ptrace(PTRACE_SETSIGMASK, l->stop.tid, (void *)sizeof(mask),
		      &mask)
		       ? -errno
		       : 0;
}

/*
 * Everything but what the code itself may earn: a fault that is blocked would
 * make the kernel reset the handler of the whole process.
 */
static uint64_t blocked_mask(void)
{
	static const int open[] = { SIGTRAP, SIGSEGV, SIGBUS,
				    SIGILL,  SIGFPE,  SIGSYS };
	uint64_t mask = UINT64_MAX;

	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		mask &= ~(1ull << (open[i] - 1));
	return mask;
}

static bool has_pending_signal(const struct lease *l)
{
	char path[64], text[4096];
	const char *own, *shared;
	uint64_t pending = 0;

	snprintf(path, sizeof(path), "task/%d/status", (int)l->stop.tid);
	if (proc_read(l->b->target->pid, path, text, sizeof(text)) <= 0)
		return true;
	own = strstr(text, "\nSigPnd:\t");
	shared = strstr(text, "\nShdPnd:\t");
	if (own)
		pending |= strtoull(own + 9, NULL, 16);
	if (shared)
		pending |= strtoull(shared + 9, NULL, 16);
	return pending & ~l->sigmask;
}

static int set_policy(const struct lease *l, int policy, int priority)
{
	const struct sched_param p = { .sched_priority = priority };

	return sched_setscheduler(l->stop.tid, policy, &p) ? -errno : 0;
}

/* Only when its way home ends it again. */
static void hurry(struct lease *l)
{
	l->urgent = l->may_be_urgent && !set_policy(l, URGENT_POLICY, 1);
	if (l->urgent)
		inject_moment(MOMENT_URGENT);
}

void lease_calm(struct lease *l)
{
	if (l->urgent)
		set_policy(l, l->policy, 0);
	l->urgent = false;
}

static uint64_t read_slack(pid_t tid)
{
	char text[32];

	return proc_read(tid, "timerslack_ns", text, sizeof(text)) > 0
		       ? strtoull(text, NULL, 10)
		       : 0;
}

void lease_note_slack(struct lease *l)
{
	l->slack_ns = read_slack(l->choice.tid);
}

void lease_set_slack(const struct lease *l)
{
	pid_t tid = l->choice.tid;
	char path[64];
	int fd;

	if (!l->slack_ns || read_slack(tid) == l->slack_ns)
		return;
	snprintf(path, sizeof(path), "/proc/%d/timerslack_ns", (int)tid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	dprintf(fd, "%llu", (unsigned long long)l->slack_ns);
	close(fd);
}

/* ---- the way back --------------------------------------------------------- */

/* epoll_wait is not restarted by the kernel; without a time-out, and without a
 * signal that it may be waiting for, we can do that unnoticed. */
static bool wants_again(const struct lease *l)
{
	return l->choice.endless && cpu_is_eintr(&l->saved.regs) &&
	       !has_pending_signal(l);
}

bool lease_give_back(struct lease *l, bool changed)
{
	struct cpu_regs regs = l->saved.regs;
	bool again = wants_again(l);
	int err = 0;

	cpu_resume(&regs, again ? CPU_RESUME_AGAIN : CPU_RESUME_KERNEL);
	if (changed) {
		lease_calm(l);
		inject_moment(MOMENT_CALM);
		err = cpu_set_vector(l->stop.tid, &l->saved);
		inject_moment(MOMENT_VECTOR);
		set_mask(l, l->sigmask);
		inject_moment(MOMENT_UNMASKED);
	}
	if (!err && (changed || again))
		err = cpu_set_regs(l->stop.tid, &regs);
	inject_moment(MOMENT_RESTORED);
	stop_detach(&l->stop);
	l->r->pause_ns = clock_now_ns() - l->begin_ns;
	return !err;
}

bool lease_retreat(struct lease *l)
{
	bool back = stop_settle(&l->stop, lease_back_until(l)) &&
		    lease_give_back(l, true);

	lease_calm(l);
	return back;
}

/* How the frame resumes the call, should the tracer die. */
static enum cpu_resume resume_alone(const struct lease *l)
{
	const struct thread_choice *c = &l->choice;

	if (cpu_is_eintr(&l->saved.regs))
		return c->endless ? CPU_RESUME_AGAIN : CPU_RESUME_EINTR;
	/* the kernel forgets the rest of its time at rt_sigreturn */
	if (cpu_has_remainder(&l->saved.regs))
		return thread_may_begin_again(&c->at) ? CPU_RESUME_AGAIN
						      : CPU_RESUME_EINTR;
	return CPU_RESUME_AGAIN;
}

static bool lay_frame(struct lease *l)
{
	const struct inject_target *t = l->b->target;
	struct cpu_regs wake = l->saved.regs;
	uint8_t *frame = l->frame + LEASE_NAME_BYTES;

	cpu_resume(&wake, resume_alone(l));
	if (cpu_build_frame(&l->saved, &wake, l->sigmask, &t->gadgets, frame,
			    &l->home))
		return false;
	memset(l->frame, 0, LEASE_NAME_BYTES);
	snprintf((char *)l->frame, LEASE_NAME_BYTES, "%s", BOOT_NAME);
	return write_target(l, l->home.address - LEASE_NAME_BYTES, l->frame,
			    LEASE_NAME_BYTES + l->home.bytes);
}

void lease_undo_by(struct lease *l, long number, const uint64_t args[6])
{
	const struct cpu_gadgets *g = &l->b->target->gadgets;
	struct cpu_place place;

	l->step = l->saved;
	cpu_make_call(&l->saved, &l->place, g, number, args, &l->step.regs);
	if (!cpu_build_frame(&l->step, &l->step.regs, blocked_mask(), g,
			     l->frame, &place) &&
	    write_target(l, place.address, l->frame, place.bytes))
		l->place = place;
}

bool lease_lay_frames(struct lease *l)
{
	uint64_t args[6] = { 0, SCHED_OTHER | SCHED_RESET_ON_FORK };

	if (!lay_frame(l))
		return false;
	args[2] = l->home.address - LEASE_NAME_BYTES + ZEROES_AT;
	l->place = l->home;
	if (l->may_be_urgent)
		lease_undo_by(l, SYS_sched_setscheduler, args);
	/* no urgency where there was no room for its end */
	l->may_be_urgent &= l->place.sp != l->home.sp;
	l->calm = l->place;
	return true;
}

/* ---- system calls of the borrowed thread -------------------------------------- */

static bool to_call_stop(struct lease *l)
{
	uint64_t deadline_ns = lease_until(l, LEASE_CALL_WAIT_NS);

	if (stop_go(&l->stop, true, 0))
		return false;
	stop_wait(&l->stop, deadline_ns);
	while (stop_go_past(&l->stop, true))
		stop_wait(&l->stop, deadline_ns);
	return l->stop.at == STOP_CALL;
}

int64_t lease_call(struct lease *l, long number, const uint64_t args[6],
		   const enum inject_moment moments[3])
{
	const struct inject_target *t = l->b->target;
	struct cpu_regs regs;
	int err;

	cpu_make_call(&l->saved, &l->place, &t->gadgets, number, args, &regs);
	err = cpu_set_regs(l->stop.tid, &regs);
	if (err)
		return err;
	inject_moment(moments[0]);
	err = l->masked ? 0 : set_mask(l, blocked_mask());
	if (err)
		return err;
	if (!l->masked) {
		inject_moment(MOMENT_MASKED);
		hurry(l);
	}
	l->masked = true;
	if (!to_call_stop(l))
		return -EPROTO;
	inject_moment(moments[1]);
	if (!to_call_stop(l))
		return -EPROTO;
	inject_moment(moments[2]);
	err = cpu_get_regs(l->stop.tid, &regs);
	return err ? err : cpu_result(&regs);
}

void lease_tidy(struct lease *l)
{
	static const enum inject_moment none[3] = { MOMENTS, MOMENTS, MOMENTS };
	const struct borrow *b = l->b;
	const uint64_t fd[6] = { (uint64_t)b->fd_there };
	const uint64_t code[6] = { l->code, b->boot->bytes };
	const uint64_t control[6] = { b->control ? b->control->mapped : 0,
				      lease_page_bytes() };

	/* a signal that waits in this stop would be lost by going on */
	if (b->fd_there < 0 || !stop_settle(&l->stop, lease_back_until(l)) ||
	    stop_sent_signal(&l->stop))
		return;
	l->place = l->calm;
	if (control[0])
		lease_call(l, SYS_munmap, control, none);
	if (l->code)
		lease_call(l, SYS_munmap, code, none);
	lease_call(l, SYS_close, fd, none);
}
