#include "target/inject_borrow.h"

#include "target/inject_lease.h"
#include "target/inject_seccomp.h"
#include "target/inject_symbols.h"
#include "target/proc.h"
#include "wire/clock.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A parked thread stops at once, when it gets a processor. */
#define STOP_WAIT_NS 300000000ull
#define MADE_WAIT_NS 2000000000ull /* another thread may hold a lock */
#define MADE_SLICE_NS 500000
#define MADE_SPIN_NS 100000u
/* Three frames (of 12 KiB with AMX) and what pthread_create needs. */
#define STACK_ROOM 49152u
#define PAGE_LEAST 4096u
#define THREAD_STACK_BYTES ((uint64_t)1 << 20)

/* ---- taking ---------------------------------------------------------------- */

static bool read_status(const struct lease *l, struct probe_status *out)
{
	char path[64], text[4096];

	snprintf(path, sizeof(path), "task/%d/status", (int)l->choice.tid);
	if (proc_read(l->b->target->pid, path, text, sizeof(text)) <= 0)
		return false;
	probe_parse_status(text, out);
	return true;
}

/* By another than us: one thread alone may be. */
static bool is_traced(const struct lease *l)
{
	struct probe_status s;

	return !read_status(l, &s) || s.tracer;
}

/* Is there room below its stack pointer?  Not beyond a guard page, which may be
 * no mapping of its own. */
static bool has_room(struct lease *l)
{
	pid_t pid = l->b->target->pid;
	uint64_t sp = l->choice.at.sp;
	size_t place = 0;
	uint8_t byte;

	while (maps_next(&l->b->maps, &place, &l->stack))
		if (sp >= l->stack.start && sp < l->stack.end)
			break;
	if (sp < l->stack.start || sp >= l->stack.end ||
	    sp - l->stack.start < STACK_ROOM)
		return false;
	for (uint64_t below = PAGE_LEAST; below <= STACK_ROOM;
	     below += PAGE_LEAST)
		if (!symbols_read_process(&pid, sp - below, &byte, 1))
			return false;
	return true;
}

/* What can be known of it while it runs. */
static bool may_be_taken(struct lease *l)
{
	pid_t pid = l->b->target->pid;
	struct probe_status s;

	if (!read_status(l, &s) || s.tracer || s.seccomp == 1)
		return false;
	/* older kernels do not count them */
	l->filters = s.seccomp && !s.filters ? 1 : s.filters;
	return has_room(l) &&
	       symbols_read_process(&pid, l->choice.at.pc - 8, l->around,
				    sizeof(l->around));
}

static enum borrow_end stop(struct lease *l)
{
	uint64_t deadline_ns = lease_until(l, STOP_WAIT_NS);
	int err = stop_seize(&l->stop, l->choice.tid);

	if (err == -ESRCH || (err == -EPERM && is_traced(l)))
		return BORROW_AGAIN;
	if (err) {
		probe_denied(l->r, l->b->target->pid, err);
		return BORROW_FAILED;
	}
	inject_moment(MOMENT_SEIZED);
	/* signals that came first are its own business */
	while (stop_wait(&l->stop, deadline_ns) == STOP_SIGNAL)
		stop_go(&l->stop, false, l->stop.signal);
	l->begin_ns = l->stop.ran_ns;
	inject_moment(MOMENT_STOPPED);
	if (l->stop.at == STOP_NONE)
		return BORROW_LOST;
	if (l->stop.at == STOP_GROUP)
		stop_detach(&l->stop);
	return l->stop.at == STOP_TRAP ? BORROW_DONE : BORROW_AGAIN;
}

/* Is the thread where it was seen, in a call that can go on later? */
static bool is_as_chosen(const struct lease *l)
{
	uint64_t back = l->choice.at.pc - cpu_pc(&l->saved.regs);

	/* some machines show the place of the call, some the one behind it */
	return back <= 4 && cpu_sp(&l->saved.regs) == l->choice.at.sp &&
	       cpu_is_parked(&l->saved.regs, l->around + 4 - back,
			     l->choice.at.call);
}

/*
 * Not that of a fiber or a signal handler, which may end in the middle of other
 * things: the C library's block of a thread lies at the top of its stack, but
 * for the first one.
 */
static bool is_own_stack(const struct lease *l)
{
	return map_is(&l->stack, "[stack]") ||
	       (l->saved.thread > l->choice.at.sp &&
		l->saved.thread < l->stack.end);
}

/* BORROW_LOST: it would be in vain as well the next time. */
static enum borrow_end save(struct lease *l)
{
	struct thread_choice *c = &l->choice;

	if (cpu_save(l->stop.tid, &l->saved) ||
	    ptrace(PTRACE_GETSIGMASK, l->stop.tid, (void *)sizeof(l->sigmask),
		   &l->sigmask))
		return BORROW_LOST;
	if (!is_as_chosen(l))
		return BORROW_AGAIN;
	if (!is_own_stack(l))
		return BORROW_LOST;
	/* The same call at the same place may be a later one by now. */
	cpu_get_args(&l->saved.regs, c->at.args);
	thread_rank(&c->at, l->b->target->pidfd, &c->endless);
	return BORROW_DONE;
}

static bool shares_mounts(pid_t pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	return !stat("/proc/self/ns/mnt", &ours) && !stat(path, &theirs) &&
	       ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

/*
 * Filters that we may not see are taken for the container's, when it is our own
 * and we live under as many: another container of its pod may have others.
 */
static bool shares_filter(const struct lease *l)
{
	struct probe_status ours;
	char text[4096];

	if (proc_read(getpid(), "status", text, sizeof(text)) <= 0)
		return false;
	probe_parse_status(text, &ours);
	return ours.seccomp == 2 && ours.filters == l->filters &&
	       shares_mounts(l->b->target->pid);
}

static enum borrow_end check_filter(struct lease *l)
{
	int pid = (int)l->b->target->pid;
	struct seccomp_filters f;
	const char *name = "";
	enum seccomp_verdict v = SECCOMP_UNREADABLE;

	if (!seccomp_fetch(l->stop.tid, &f)) {
		v = seccomp_judge(&f, &name);
		seccomp_free(&f);
	} else if (shares_filter(l)) {
		v = SECCOMP_PASSES;
	}
	if (v == SECCOMP_PASSES)
		return BORROW_DONE;
	lease_give_back(l, false);
	if (v == SECCOMP_UNREADABLE)
		probe_refuse(l->r, INJECT_SECCOMP,
			     "run moetop as root, outside the container",
			     "process %d has a seccomp filter that we may not "
			     "see, and it might kill it",
			     pid);
	else
		probe_refuse(l->r, INJECT_SECCOMP,
			     "allow it in the seccomp profile of the server",
			     "the seccomp filter of process %d %s for %s", pid,
			     v == SECCOMP_KILLS ? "would kill it"
						: "returns an error",
			     name);
	return BORROW_FAILED;
}

static enum borrow_end take(struct lease *l)
{
	enum borrow_end end;

	if (!may_be_taken(l))
		return BORROW_AGAIN;
	if (l->b->urgent)
		lease_note_slack(l);
	end = stop(l);
	if (end != BORROW_DONE)
		return end;
	end = save(l);
	if (end != BORROW_DONE) {
		stop_detach(&l->stop);
		return end;
	}
	end = l->filters ? check_filter(l) : BORROW_DONE;
	if (end != BORROW_DONE)
		return end;
	l->policy = sched_getscheduler(l->stop.tid);
	l->may_be_urgent = l->b->urgent && !l->filters &&
			   (l->policy & ~SCHED_RESET_ON_FORK) == SCHED_OTHER;
	if (!lease_lay_frames(l)) {
		lease_give_back(l, false);
		return BORROW_AGAIN;
	}
	inject_moment(MOMENT_FRAME);
	return BORROW_DONE;
}

/* What an error of one of the calls that we have made means. */
static int blame(struct lease *l, const char *what, int err)
{
	int pid = (int)l->b->target->pid;

	if (err == -EPROTO || err == -ESRCH)
		return probe_refuse(l->r, INJECT_TIMEOUT, "try again",
				    "a thread of process %d did not come "
				    "through its call (%s)",
				    pid, what);
	if (err == -EMFILE || err == -ENFILE || err == -ENOMEM)
		return probe_refuse(
			l->r, INJECT_LOAD, "raise the limits of the server",
			"%s in process %d: %s", what, pid, strerror(-err));
	return probe_refuse(l->r, INJECT_DENIED,
			    "look for an SELinux or AppArmor denial in the "
			    "kernel log",
			    "%s in process %d: %s", what, pid, strerror(-err));
}

static enum borrow_end fail(struct lease *l, const char *what, int64_t err)
{
	lease_tidy(l);
	lease_retreat(l);
	if (l->stop.at == STOP_GONE)
		return BORROW_AGAIN;
	blame(l, what, (int)err);
	return BORROW_FAILED;
}

static int fill_memfd(struct lease *l)
{
	struct borrow *b = l->b;
	const uint64_t page = lease_page_bytes(),
		       control = lease_control_offset(b);
	uint64_t bytes = b->boot->bytes;
	struct boot_control *c;
	ssize_t n;
	int seals;

	if (bytes > b->image->bytes - b->boot->offset)
		bytes = b->image->bytes - b->boot->offset;
	b->fd = (int)syscall(SYS_pidfd_getfd, b->target->pidfd, b->fd_there, 0);
	if (b->fd < 0)
		return -errno;
	/* A thread that closes what is not its own may have given the number to
	 * another file by now. */
	seals = fcntl(b->fd, F_GET_SEALS);
	if (seals < 0 || seals & (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW))
		return -EBADF;
	if (ftruncate(b->fd, (off_t)(control + page)) ||
	    fcntl(b->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return -errno;
	n = pwrite(b->fd, (const char *)b->image->data + b->boot->offset, bytes,
		   (off_t)b->boot->offset);
	if (n != (ssize_t)bytes)
		return n < 0 ? -errno : -ENOMEM;
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
	const uint64_t args[6] = { l->home.address - LEASE_NAME_BYTES,
				   MFD_CLOEXEC | MFD_ALLOW_SEALING };
	static const enum inject_moment moments[3] = { MOMENT_MEMFD_SET,
						       MOMENT_MEMFD_ENTERED,
						       MOMENT_MEMFD_LEFT };
	int64_t fd = lease_call(l, SYS_memfd_create, args, moments);
	int err;

	if (fd < 0)
		return fail(l, "memfd_create", fd);
	l->b->fd_there = (int)fd;
	lease_undo_by(l, SYS_close, (const uint64_t[6]){ (uint64_t)fd });
	err = fill_memfd(l);
	inject_moment(MOMENT_MEMFD_FILLED);
	return err ? fail(l, "its memfd", err) : BORROW_DONE;
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
	int64_t code = lease_call(l, SYS_mmap, args, moments);

	if (code < 0 && code > -4096)
		return fail(l, "mapping the boot code", code);
	l->code = b->control->code = (uint64_t)code;
	return BORROW_DONE;
}

/* ---- the new thread ------------------------------------------------------------ */

/* Until the boot code has made it, or the borrowed thread stops. */
static bool wait_made(struct lease *l)
{
	const struct timespec slice = { .tv_nsec = MADE_SLICE_NS };
	struct boot_control *c = l->b->control;
	uint64_t begin_ns = clock_now_ns();
	uint64_t deadline_ns = lease_until(l, MADE_WAIT_NS);

	while (!atomic_load(&c->made)) {
		uint64_t now_ns = clock_now_ns();

		if (now_ns >= deadline_ns)
			return false;
		if (now_ns - begin_ns < MADE_SPIN_NS) {
			sched_yield();
			continue;
		}
		syscall(SYS_futex, &c->made, FUTEX_WAIT, 0, &slice, NULL, 0);
		stop_wait(&l->stop, 0);
		if (l->stop.at != STOP_NONE && !stop_go_past(&l->stop, false))
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

	if (!stop_settle(&l->stop, lease_back_until(l))) {
		lease_calm(l);
		set_word(&c->release);
		return;
	}
	inject_moment(MOMENT_BACK);
	if (atomic_load(&c->left)) {
		lease_calm(l);
		stop_detach(&l->stop);
		l->r->pause_ns = clock_now_ns() - l->begin_ns;
		return;
	}
	if (atomic_load(&c->made) != BOOT_MADE)
		lease_tidy(l);
	set_word(lease_retreat(l) ? &c->taken : &c->release);
	inject_moment(MOMENT_RELEASED);
}

static enum borrow_end start_thread(struct lease *l)
{
	struct borrow *b = l->b;
	struct boot_control *c = b->control;
	const uint64_t args[4] = { (uint64_t)b->fd_there,
				   lease_control_offset(b),
				   lease_page_bytes() };
	struct cpu_regs regs;
	bool made;
	int err;

	/* the new thread closes and unmaps */
	l->place = l->calm;
	cpu_enter(&l->saved, &l->place, &b->target->gadgets,
		  l->code + b->boot->enter, args, &regs);
	err = cpu_set_regs(l->stop.tid, &regs);
	if (err)
		return fail(l, "the boot code", err);
	inject_moment(MOMENT_BOOT_SET);
	stop_go(&l->stop, false, 0);
	inject_moment(MOMENT_BOOT_RUNS);
	made = wait_made(l);
	inject_moment(MOMENT_MADE);
	if (!made && l->stop.at == STOP_NONE) {
		/* A lock of the C library is held for long.  The thread comes
		 * back by its frame when it has it. */
		atomic_store(&c->go, BOOT_GO_END);
		set_word(&c->release);
		probe_refuse(l->r, INJECT_TIMEOUT, "try again",
			     "starting a thread took more than %u ms",
			     (unsigned)(MADE_WAIT_NS / 1000000));
		lease_calm(l);
		if (stop_settle(&l->stop, lease_back_until(l)))
			stop_detach(&l->stop);
		l->r->pause_ns = clock_now_ns() - l->begin_ns;
		return BORROW_FAILED;
	}
	if (!made)
		return fail(l, "the boot code", -EFAULT);
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
	l->choice = *choice;
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
	if (l->masked)
		lease_set_slack(l);
	r->stops += l->stop.stops;
	free(l);
	return end;
}

void borrow_close(struct borrow *b)
{
	if (b->control)
		munmap(b->control, lease_page_bytes());
	if (b->fd >= 0)
		close(b->fd);
	init(b);
}
