/*
 * The order of the steps is what makes the tracer's death harmless: registers
 * are replaced only when the frame that restores them lies on the stack, the
 * signal mask only when the registers lead to that frame, and at the end the
 * registers come last.
 */
#include "target/inject_borrow.h"

#include "target/inject_stop.h"
#include "target/inject_symbols.h"
#include "target/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A parked thread stops at once, when it gets a processor. */
#define STOP_WAIT_NS 300000000ull
#define CALL_WAIT_NS 1000000000ull /* they may wait for a processor */
#define MADE_WAIT_NS 2000000000ull /* another thread may hold a lock */
#define MADE_SLICE_NS 500000
#define MADE_SPIN_NS 100000u
/*
 * A loaded machine would let the thread queue for a processor at every stop.  Its
 * children do not inherit it.
 */
#define URGENT_POLICY (SCHED_RR | SCHED_RESET_ON_FORK)
#define NAME_BYTES 64u /* just below the frame: the memfd's name, and zeroes */
#define ZEROES_AT 32u
#define THREAD_STACK_BYTES ((uint64_t)1 << 20)

struct lease {
	struct borrow *b;
	struct inject_report *r;
	const struct thread_choice *choice;
	struct stopped stop;
	struct cpu_saved saved;
	struct cpu_place home;      /* the frame that restores everything */
	struct cpu_place place;     /* home, or one that makes calls before */
	bool may_be_urgent, urgent; /* it runs before all ordinary threads */
	uint64_t sigmask;
	uint64_t begin_ns;
	uint64_t code; /* of the boot code in the target, 0 none */
	bool masked;
	uint8_t around[12]; /* of the code, from 8 before where it is to be */
	struct cpu_saved step;
	uint8_t frame[NAME_BYTES + CPU_FRAME_MAX];
};

/* ---- small things ------------------------------------------------------- */

static uint64_t earlier(const struct lease *l, uint64_t wait_ns)
{
	uint64_t t = stop_now_ns() + wait_ns;

	return t < l->b->deadline_ns ? t : l->b->deadline_ns;
}

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The control memory follows the library in its memfd. */
static uint64_t control_offset(const struct borrow *b)
{
	const uint64_t page = page_bytes();

	return (b->image->bytes + page - 1) & ~(page - 1);
}

static bool write_target(const struct lease *l, uint64_t address,
			 const void *data, size_t bytes)
{
	struct iovec from = { (void *)data, bytes };
	struct iovec to = { (void *)(uintptr_t)address, bytes };

	return process_vm_writev(l->b->target->pid, &from, 1, &to, 1, 0) ==
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

static int set_policy(const struct lease *l, int policy)
{
	const struct sched_param p = { .sched_priority =
					       policy == SCHED_OTHER ? 0 : 1 };

	return sched_setscheduler(l->stop.tid, policy, &p) ? -errno : 0;
}

/* Only when its way home ends it again. */
static void hurry(struct lease *l)
{
	l->urgent = l->may_be_urgent && !set_policy(l, URGENT_POLICY);
	if (l->urgent)
		inject_moment(MOMENT_URGENT);
}

static void calm(struct lease *l)
{
	if (l->urgent)
		set_policy(l, SCHED_OTHER);
	l->urgent = false;
}

/* ---- the way back --------------------------------------------------------- */

/* epoll_wait is not restarted by the kernel; without a time-out, and without a
 * signal that it may be waiting for, we can do that unnoticed. */
static bool wants_again(const struct lease *l)
{
	return l->choice->endless && cpu_is_eintr(&l->saved.regs) &&
	       !has_pending_signal(l);
}

/* All is as it was before: the thread stands in get_signal(). */
static void give_back(struct lease *l, bool changed)
{
	struct cpu_regs regs = l->saved.regs;
	bool again = wants_again(l);

	cpu_resume(&regs, again ? CPU_RESUME_AGAIN : CPU_RESUME_KERNEL);
	if (changed) {
		calm(l);
		inject_moment(MOMENT_CALM);
		cpu_set_vector(l->stop.tid, &l->saved);
		inject_moment(MOMENT_VECTOR);
		set_mask(l, l->sigmask);
		inject_moment(MOMENT_UNMASKED);
	}
	if (changed || again)
		cpu_set_regs(l->stop.tid, &regs);
	inject_moment(MOMENT_RESTORED);
	stop_detach(&l->stop);
	l->r->pause_ns = stop_now_ns() - l->begin_ns;
}

/* Put things right from wherever the thread stands.  One that cannot be had any
 * more puts itself right as soon as we are gone. */
static void retreat(struct lease *l)
{
	if (stop_settle(&l->stop, earlier(l, CALL_WAIT_NS)))
		give_back(l, true);
	calm(l);
}

/* ---- taking ---------------------------------------------------------------- */

/* Is the thread where it was seen, in a call that can go on later? */
static bool is_as_chosen(const struct lease *l)
{
	uint64_t back = l->choice->at.pc - cpu_pc(&l->saved.regs);

	/* some machines show the place of the call, some the one behind it */
	return back <= 4 && cpu_sp(&l->saved.regs) == l->choice->at.sp &&
	       cpu_is_parked(&l->saved.regs, l->around + 4 - back,
			     l->choice->at.call);
}

/* How the frame resumes the call, should the tracer die. */
static enum cpu_resume resume_alone(const struct lease *l)
{
	const struct thread_choice *c = l->choice;

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
	uint8_t *frame = l->frame + NAME_BYTES;

	cpu_resume(&wake, resume_alone(l));
	if (cpu_build_frame(&l->saved, &wake, l->sigmask, &t->gadgets, frame,
			    &l->home))
		return false;
	l->place = l->home;
	memset(l->frame, 0, NAME_BYTES);
	snprintf((char *)l->frame, NAME_BYTES, "%s", BOOT_NAME);
	return write_target(l, l->home.address - NAME_BYTES, l->frame,
			    NAME_BYTES + l->home.bytes);
}

/*
 * From now on the way home leads through one more system call.  Without the
 * room for it the way stays as it was.
 */
static void undo_by(struct lease *l, long number, const uint64_t args[6])
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

/*
 * The way home ends the urgency as well.  The flag stays with a thread whose
 * tracer has died: it may not drop that by itself.
 */
static void go_home_calmly(struct lease *l)
{
	const struct sched_param *none =
		(const void *)(uintptr_t)(l->home.address - NAME_BYTES +
					  ZEROES_AT);

	l->place = l->home;
	if (l->may_be_urgent)
		undo_by(l, SYS_sched_setscheduler,
			(const uint64_t[6]){ 0,
					     SCHED_OTHER | SCHED_RESET_ON_FORK,
					     (uint64_t)(uintptr_t)none });
}

static enum borrow_end take(struct lease *l)
{
	uint64_t deadline_ns = earlier(l, STOP_WAIT_NS);
	pid_t pid = l->b->target->pid;
	int err;

	if (!symbols_read_process(&pid, l->choice->at.pc - 8, l->around,
				  sizeof(l->around)))
		return BORROW_AGAIN;
	err = stop_seize(&l->stop, l->choice->tid);
	if (err == -ESRCH)
		return BORROW_AGAIN;
	if (err) {
		probe_denied(l->r, l->b->target->pid, err);
		return BORROW_FAILED;
	}
	inject_moment(MOMENT_SEIZED);
	l->begin_ns = stop_now_ns();
	/* signals that came first are its own business */
	while (stop_wait(&l->stop, deadline_ns) == STOP_SIGNAL)
		stop_go(&l->stop, false, l->stop.signal);
	inject_moment(MOMENT_STOPPED);
	if (l->stop.at == STOP_NONE)
		return BORROW_LOST;
	if (l->stop.at == STOP_GROUP)
		stop_detach(&l->stop);
	if (l->stop.at != STOP_TRAP)
		return BORROW_AGAIN;
	if (cpu_save(l->stop.tid, &l->saved) ||
	    ptrace(PTRACE_GETSIGMASK, l->stop.tid, (void *)sizeof(l->sigmask),
		   &l->sigmask)) {
		stop_detach(&l->stop);
		return BORROW_AGAIN;
	}
	if (!is_as_chosen(l)) {
		stop_detach(&l->stop);
		return BORROW_AGAIN;
	}
	if (!lay_frame(l)) {
		give_back(l, false);
		return BORROW_AGAIN;
	}
	l->may_be_urgent = l->b->urgent && !l->b->target->filtered &&
			   sched_getscheduler(l->stop.tid) == SCHED_OTHER;
	go_home_calmly(l);
	inject_moment(MOMENT_FRAME);
	return BORROW_DONE;
}

/* ---- system calls of the borrowed thread -------------------------------------- */

static bool to_call_stop(struct lease *l)
{
	uint64_t deadline_ns = earlier(l, CALL_WAIT_NS);

	do {
		if (stop_go(&l->stop, true, 0))
			return false;
		stop_wait(&l->stop, deadline_ns);
		/* job control may stop it in between; it goes on later */
	} while (l->stop.at == STOP_TRAP || l->stop.at == STOP_GROUP);
	return l->stop.at == STOP_CALL;
}

/*
 * One system call of the borrowed thread, which stands.  Its result, -errno as
 * the kernel gives it, or -EPROTO when the thread did not come that far.
 */
static int64_t call(struct lease *l, long number, const uint64_t args[6],
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

/* Close and unmap what the target has of ours, before the thread goes back
 * without having started another. */
static void tidy(struct lease *l)
{
	static const enum inject_moment none[3] = { MOMENTS, MOMENTS, MOMENTS };
	const struct borrow *b = l->b;
	const uint64_t fd[6] = { (uint64_t)b->fd_there };
	const uint64_t code[6] = { l->code, b->boot->bytes };
	const uint64_t control[6] = { b->control ? b->control->mapped : 0,
				      page_bytes() };

	if (b->fd_there < 0 || !stop_settle(&l->stop, earlier(l, CALL_WAIT_NS)))
		return;
	go_home_calmly(l);
	if (control[0])
		call(l, SYS_munmap, control, none);
	if (l->code)
		call(l, SYS_munmap, code, none);
	call(l, SYS_close, fd, none);
}

static enum borrow_end fail(struct lease *l, enum inject_refusal refusal,
			    const char *what, int64_t err)
{
	tidy(l);
	retreat(l);
	if (l->stop.at == STOP_GONE)
		return BORROW_AGAIN;
	probe_refuse(l->r, refusal, NULL, "%s in process %d: %s", what,
		     (int)l->b->target->pid, strerror((int)-err));
	return BORROW_FAILED;
}

static int fill_memfd(struct lease *l)
{
	struct borrow *b = l->b;
	const uint64_t page = page_bytes(), control = control_offset(b);
	uint64_t bytes = b->boot->bytes;
	struct boot_control *c;

	if (bytes > b->image->bytes - b->boot->offset)
		bytes = b->image->bytes - b->boot->offset;
	b->fd = (int)syscall(SYS_pidfd_getfd, b->target->pidfd, b->fd_there, 0);
	if (b->fd < 0 || ftruncate(b->fd, (off_t)(control + page)) ||
	    fcntl(b->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) ||
	    pwrite(b->fd, (const char *)b->image->data + b->boot->offset, bytes,
		   (off_t)b->boot->offset) != (ssize_t)bytes)
		return -errno;
	c = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd,
		 (off_t)control);
	if (c == MAP_FAILED)
		return -errno;
	*c = b->target->functions;
	c->bytes = page;
	c->code_bytes = b->boot->bytes;
	c->fd = b->fd_there;
	c->stack_bytes = THREAD_STACK_BYTES;
	snprintf(c->name, sizeof(c->name), "moetop");
	snprintf(c->entry, sizeof(c->entry), "InitializeInjection");
	b->control = c;
	return 0;
}

static enum borrow_end make_memfd(struct lease *l)
{
	const uint64_t args[6] = { l->home.address - NAME_BYTES,
				   MFD_CLOEXEC | MFD_ALLOW_SEALING };
	static const enum inject_moment moments[3] = { MOMENT_MEMFD_SET,
						       MOMENT_MEMFD_ENTERED,
						       MOMENT_MEMFD_LEFT };
	int64_t fd = call(l, SYS_memfd_create, args, moments);
	int err;

	if (fd < 0)
		return fail(l, INJECT_SECCOMP, "memfd_create", fd);
	l->b->fd_there = (int)fd;
	undo_by(l, SYS_close, (const uint64_t[6]){ (uint64_t)fd });
	err = fill_memfd(l);
	inject_moment(MOMENT_MEMFD_FILLED);
	return err ? fail(l, INJECT_DENIED, "its memfd", err) : BORROW_DONE;
}

static enum borrow_end map_code(struct lease *l)
{
	const struct borrow *b = l->b;
	const uint64_t args[6] = {
		0,           b->boot->bytes,        PROT_READ | PROT_EXEC,
		MAP_PRIVATE, (uint64_t)b->fd_there, b->boot->offset
	};
	static const enum inject_moment moments[3] = { MOMENT_MMAP_SET,
						       MOMENT_MMAP_ENTERED,
						       MOMENT_MMAP_LEFT };
	int64_t code = call(l, SYS_mmap, args, moments);

	if (code < 0 && code > -4096)
		return fail(l, INJECT_DENIED, "mapping the boot code", code);
	l->code = b->control->code = (uint64_t)code;
	return BORROW_DONE;
}

/* ---- the new thread ------------------------------------------------------------ */

/* Until the boot code has made it, or the borrowed thread stops. */
static bool wait_made(struct lease *l)
{
	const struct timespec slice = { .tv_nsec = MADE_SLICE_NS };
	struct boot_control *c = l->b->control;
	uint64_t begin_ns = stop_now_ns();
	uint64_t deadline_ns = earlier(l, MADE_WAIT_NS);

	while (!atomic_load(&c->made)) {
		uint64_t now_ns = stop_now_ns();

		if (now_ns >= deadline_ns)
			return false;
		if (now_ns - begin_ns < MADE_SPIN_NS) {
			sched_yield();
			continue;
		}
		syscall(SYS_futex, &c->made, FUTEX_WAIT, 0, &slice, NULL, 0);
		stop_wait(&l->stop, 0);
		if (l->stop.at == STOP_TRAP || l->stop.at == STOP_GROUP)
			stop_go(&l->stop, false, 0);
		else if (l->stop.at != STOP_NONE)
			return false;
	}
	return true;
}

static void set_word(_Atomic uint32_t *word)
{
	atomic_store(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/*
 * Take the thread back.  One that waited for us for too long has gone home by
 * its frame: it must not be touched then.
 */
static void take_back(struct lease *l)
{
	struct boot_control *c = l->b->control;

	if (!stop_settle(&l->stop, earlier(l, CALL_WAIT_NS))) {
		calm(l);
		set_word(&c->release);
		return;
	}
	inject_moment(MOMENT_BACK);
	if (atomic_load(&c->left)) {
		calm(l);
		stop_detach(&l->stop);
		l->r->pause_ns = stop_now_ns() - l->begin_ns;
		return;
	}
	if (atomic_load(&c->made) != BOOT_MADE)
		tidy(l);
	retreat(l);
	set_word(&c->taken);
	inject_moment(MOMENT_RELEASED);
}

static enum borrow_end start_thread(struct lease *l)
{
	struct borrow *b = l->b;
	struct boot_control *c = b->control;
	const uint64_t args[4] = { (uint64_t)b->fd_there, control_offset(b),
				   page_bytes() };
	struct cpu_regs regs;
	bool made;
	int err;

	/* the new thread closes and unmaps */
	go_home_calmly(l);
	cpu_enter(&l->saved, &l->place, &b->target->gadgets,
		  l->code + b->boot->enter, args, &regs);
	err = cpu_set_regs(l->stop.tid, &regs);
	if (err)
		return fail(l, INJECT_DENIED, "the boot code", err);
	inject_moment(MOMENT_BOOT_SET);
	stop_go(&l->stop, false, 0);
	inject_moment(MOMENT_BOOT_RUNS);
	made = wait_made(l);
	inject_moment(MOMENT_MADE);
	if (!made && l->stop.at == STOP_NONE) {
		/* A lock of the C library is held for long.  The thread comes
		 * back by its frame when it has it. */
		set_word(&c->release);
		probe_refuse(l->r, INJECT_TIMEOUT, "try again",
			     "starting a thread took more than %u ms",
			     (unsigned)(MADE_WAIT_NS / 1000000));
		calm(l);
		if (stop_settle(&l->stop, earlier(l, CALL_WAIT_NS)))
			stop_detach(&l->stop);
		l->r->pause_ns = stop_now_ns() - l->begin_ns;
		return BORROW_FAILED;
	}
	if (!made)
		return fail(l, INJECT_LOAD, "the boot code", -EFAULT);
	take_back(l);
	if (atomic_load(&c->made) != BOOT_MADE) {
		probe_refuse(l->r, INJECT_LOAD, "raise its limit of threads",
			     "process %d cannot start a thread: %s",
			     (int)b->target->pid, strerror(c->create_error));
		return BORROW_FAILED;
	}
	return BORROW_DONE;
}

static void init(struct borrow *b)
{
	b->fd = b->fd_there = -1;
	b->control = NULL;
}

enum borrow_end borrow_run(struct borrow *b, const struct thread_choice *choice,
			   struct inject_report *r)
{
	struct lease *l = aligned_alloc(64, (sizeof(*l) + 63) & ~63ul);
	enum borrow_end end;

	init(b);
	if (!l) {
		probe_refuse(r, INJECT_LOAD, NULL, "no memory");
		return BORROW_FAILED;
	}
	memset(l, 0, sizeof(*l));
	l->b = b;
	l->r = r;
	l->choice = choice;
	end = take(l);
	if (end == BORROW_DONE) {
		r->thread = choice->tid;
		r->call = (int)choice->at.call;
		end = make_memfd(l);
	}
	if (end == BORROW_DONE)
		end = map_code(l);
	if (end == BORROW_DONE)
		end = start_thread(l);
	r->stops += l->stop.stops;
	free(l);
	return end;
}

void borrow_close(struct borrow *b)
{
	if (b->control)
		munmap(b->control, page_bytes());
	if (b->fd >= 0)
		close(b->fd);
	init(b);
}
