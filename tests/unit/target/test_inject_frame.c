/*
 * What a borrowed thread does when its tracer has gone: a child that holds
 * values in all its registers is stopped, everything of it is changed, and it
 * must find back by the frame alone.
 */
#include <stdio.h>

#ifdef __x86_64__

#include "target/inject_arch.h"
#include "target/inject_probe.h"
#include "target/inject_stop.h"
#include "target/inject_symbols.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/e2e/stress_regs.h"
#include "wire/clock.h"

#define WAIT_NS 2000000000ull
#define HOLD_MS 20

struct child {
	pid_t pid;
	struct stopped stop;
	struct inject_target target;
	struct thread_call call;
	struct cpu_saved saved;
	struct cpu_place place;
	uint8_t frame[CPU_FRAME_MAX];
};

static struct child child;

/* 1: registers lost, 2: signal mask lost. */
static int hold(bool libc)
{
	sigset_t before, after;
	int bad = 0;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (regs_hold(HOLD_MS, libc))
		bad = 1;
	sigprocmask(SIG_SETMASK, NULL, &after);
	if (!sigismember(&after, SIGUSR1) || sigismember(&after, SIGUSR2))
		bad = 2;
	return bad;
}

/* A child that is stopped in its poll. */
static void stop_in_poll(bool libc)
{
	struct inject_report r = { 0 };
	struct thread_call at = { .call = -1 };
	char path[64], text[256];
	uint8_t around[8];

	child.pid = fork();
	assert_true(child.pid >= 0);
	if (child.pid == 0) {
		int bad = 0;

		for (int i = 0; i < 10 && !bad; i++)
			bad = hold(libc);
		_exit(bad);
	}
	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child.pid);
	for (int i = 0; i < 2000; i++) {
		FILE *f = fopen(path, "re");
		size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

		if (f)
			fclose(f);
		text[n] = '\0';
		if (!thread_parse_call(text, &at) && at.call == SYS_poll)
			break;
		poll(NULL, 0, 1);
	}
	assert_int_equal(at.call, SYS_poll);
	assert_int_equal(probe_open(&child.target, child.pid, &r), 0);
	do {
		assert_int_equal(stop_seize(&child.stop, child.pid), 0);
		assert_int_equal(
			stop_wait(&child.stop, clock_now_ns() + WAIT_NS),
			STOP_TRAP);
		assert_int_equal(cpu_save(child.pid, &child.saved), 0);
		assert_true(symbols_read_process(
			&child.pid, cpu_pc(&child.saved.regs) - 4, around, 8));
		if (cpu_is_parked(&child.saved.regs, around, SYS_poll)) {
			child.call = at;
			return;
		}
		stop_detach(&child.stop);
	} while (!kill(child.pid, 0));
}

static void write_frame(const struct cpu_place *place)
{
	struct iovec from = { child.frame, place->bytes };
	struct iovec to = { (void *)(uintptr_t)place->address, place->bytes };

	assert_int_equal(process_vm_writev(child.pid, &from, 1, &to, 1, 0),
			 place->bytes);
}

static void lay_frame(enum cpu_resume how)
{
	struct cpu_regs wake = child.saved.regs;
	uint64_t mask;

	assert_int_equal(ptrace(PTRACE_GETSIGMASK, child.pid,
				(void *)sizeof(mask), &mask),
			 0);
	cpu_resume(&wake, how);
	assert_int_equal(cpu_build_frame(&child.saved, &wake, mask,
					 &child.target.gadgets, child.frame,
					 &child.place),
			 0);
	write_frame(&child.place);
}

/* Set everything to something else, let go, and see what the child says. */
static int let_go(long call, const uint64_t args[6])
{
	const uint64_t all = UINT64_MAX & ~(1ull << (SIGTRAP - 1)) &
			     ~(1ull << (SIGSEGV - 1));
	struct cpu_saved wreck = child.saved;
	struct cpu_regs regs;
	int status;

	memset(wreck.vector + 160, 0x5a, 256); /* xmm0 .. xmm15 */
	cpu_make_call(&child.saved, &child.place, &child.target.gadgets, call,
		      args, &regs);
	regs.r.rbx = regs.r.rbp = regs.r.r12 = regs.r.r13 = regs.r.r14 = 1;
	assert_int_equal(cpu_set_regs(child.pid, &regs), 0);
	assert_int_equal(
		ptrace(PTRACE_SETSIGMASK, child.pid, (void *)sizeof(all), &all),
		0);
	assert_int_equal(cpu_set_vector(child.pid, &wreck), 0);
	stop_detach(&child.stop);
	probe_close(&child.target);
	kill(child.pid, SIGUSR2); /* kills one that does not take it any more */
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	return status;
}

static void the_frame_gives_all_back(void **state)
{
	const uint64_t none[6] = { 0 };

	(void)state;
	signal(SIGUSR2, SIG_IGN);
	for (int libc = 0; libc < 2; libc++) {
		stop_in_poll(libc);
		lay_frame(CPU_RESUME_AGAIN);
		assert_int_equal(let_go(SYS_getpid, none), 0);
		stop_in_poll(libc);
		lay_frame(CPU_RESUME_EINTR);
		assert_int_equal(let_go(SYS_getpid, none), 0);
	}
}

/* Three calls on the way: each leads to the one before. */
static void a_chain_of_frames_leads_home(void **state)
{
	const uint64_t args[6] = { 0 };

	(void)state;
	signal(SIGUSR2, SIG_IGN);
	stop_in_poll(true);
	lay_frame(CPU_RESUME_AGAIN);
	for (int i = 0; i < 3; i++) {
		struct cpu_saved step = child.saved;
		struct cpu_place place;

		cpu_make_call(&child.saved, &child.place, &child.target.gadgets,
			      SYS_gettid, args, &step.regs);
		assert_int_equal(cpu_build_frame(&step, &step.regs, 0,
						 &child.target.gadgets,
						 child.frame, &place),
				 0);
		assert_true(place.address + place.bytes <= child.place.address);
		write_frame(&place);
		child.place = place;
	}
	assert_int_equal(let_go(SYS_getpid, args), 0);
}

/* The red zone and what lies above it belong to the thread. */
static void what_a_parked_thread_waits_for(void **state)
{
	struct thread_call now = { .call = SYS_poll };

	(void)state;
	stop_in_poll(true);
	cpu_get_args(&child.saved.regs, now.args);
	assert_memory_equal(now.args, child.call.args, 3 * sizeof(uint64_t));
	assert_true(child.saved.thread != 0);
	stop_detach(&child.stop);
	probe_close(&child.target);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
}

static void the_frame_lies_below_the_red_zone(void **state)
{
	const uint64_t none[6] = { 0 };
	uint64_t sp;

	(void)state;
	signal(SIGUSR2, SIG_IGN);
	stop_in_poll(false);
	lay_frame(CPU_RESUME_AGAIN);
	sp = cpu_sp(&child.saved.regs);
	assert_true(child.place.address + child.place.bytes <= sp - 128);
	assert_int_equal(child.place.sp % 16, 8);
	assert_true(child.place.sp >= child.place.address);
	assert_int_equal(let_go(SYS_getpid, none), 0);
}

static void gadgets_in_code(void **state)
{
	static const uint8_t code[] = { 0x90, 0x0f, 0x05, 0x90, 0x0f, 0x05,
					0xc3, 0x48, 0xc7, 0xc0, 0x0f, 0,
					0,    0,    0x0f, 0x05 };
	struct cpu_gadgets g = { 0 };

	(void)state;
	cpu_find_gadgets(code, 6, 0x1000, &g);
	assert_int_equal(g.call, 0);
	cpu_find_gadgets(code, sizeof(code), 0x1000, &g);
	assert_int_equal(g.call, 0x1004);
	assert_int_equal(g.sigreturn, 0x1007);
	cpu_find_gadgets(code, sizeof(code), 0x9000, &g);
	assert_int_equal(g.call, 0x1004); /* the first one stays */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_frame_gives_all_back),
		cmocka_unit_test(a_chain_of_frames_leads_home),
		cmocka_unit_test(what_a_parked_thread_waits_for),
		cmocka_unit_test(the_frame_lies_below_the_red_zone),
		cmocka_unit_test(gadgets_in_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	puts("1..0 # skip: the registers of x86-64");
	return 0;
}

#endif
