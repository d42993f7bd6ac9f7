/*
 * inject_aarch64.c - target/inject_aarch64.c at work, on 64-bit Arm
 *
 * Nothing can be traced under qemu, but its code can be run: a thread is caught
 * in a system call, a frame is built for it, and the registers that ptrace would
 * set are set by a second frame.  Then the call or the function is made, and the
 * thread is back with all its registers.  Prints TAP.
 */
#include <asm/sigcontext.h>
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "target/inject_arch.h"

#define STACK_BYTES 65536u
#define VECTORS 32
#define SIG_CATCH SIGUSR1
#define GADGET_BYTES 16u /* both */
#define MARK 77

/* What hold() has in its registers over the call, and what it finds after. */
struct hold {
	__uint128_t before[VECTORS];
	__uint128_t after[VECTORS];
	uint64_t kept[8]; /* x20..x27 */
	uint64_t pid;
	uint64_t signal;
};

long hold(void *stack_top, struct hold *h);
void jump(uint64_t frame, uint64_t sigreturn);
extern const uint8_t gadget_call[], gadget_sigreturn[];

/* clang-format off */
__asm__(
".text\n"
".balign 16\n"
"	nop\n"
".globl gadget_call\n"
"gadget_call:\n"
"	svc #0\n"
"	ret\n"
".globl gadget_sigreturn\n"
"gadget_sigreturn:\n"
"	mov x8, #139\n"
"	svc #0\n"
".globl jump\n"
"jump:\n"
"	mov sp, x0\n"
"	br x1\n"
/* All that is needed for the return lies on the stack of its own, so that it
 * can return twice. */
".globl hold\n"
"hold:\n"
"	mov x9, sp\n"
"	mov sp, x0\n"
"	stp x29, x30, [sp, #-16]!\n"
"	stp x19, x20, [sp, #-16]!\n"
"	stp x21, x22, [sp, #-16]!\n"
"	stp x23, x24, [sp, #-16]!\n"
"	stp x25, x26, [sp, #-16]!\n"
"	stp x27, x28, [sp, #-16]!\n"
"	stp d8, d9, [sp, #-16]!\n"
"	stp d10, d11, [sp, #-16]!\n"
"	stp d12, d13, [sp, #-16]!\n"
"	stp d14, d15, [sp, #-16]!\n"
"	stp x9, x1, [sp, #-16]!\n"
"	mov x19, x1\n"
"	mov x9, x1\n"
"	ldp q0, q1, [x9], #32\n	ldp q2, q3, [x9], #32\n"
"	ldp q4, q5, [x9], #32\n	ldp q6, q7, [x9], #32\n"
"	ldp q8, q9, [x9], #32\n	ldp q10, q11, [x9], #32\n"
"	ldp q12, q13, [x9], #32\n	ldp q14, q15, [x9], #32\n"
"	ldp q16, q17, [x9], #32\n	ldp q18, q19, [x9], #32\n"
"	ldp q20, q21, [x9], #32\n	ldp q22, q23, [x9], #32\n"
"	ldp q24, q25, [x9], #32\n	ldp q26, q27, [x9], #32\n"
"	ldp q28, q29, [x9], #32\n	ldp q30, q31, [x9], #32\n"
"	mov x20, #20\n	mov x21, #21\n	mov x22, #22\n	mov x23, #23\n"
"	mov x24, #24\n	mov x25, #25\n	mov x26, #26\n	mov x27, #27\n"
"	ldr x0, [x19, #1088]\n"
"	ldr x1, [x19, #1096]\n"
"	mov x8, #129\n" /* kill */
"	svc #0\n"
"	ldp x9, x10, [sp]\n"
"	add x11, x10, #512\n"
"	stp q0, q1, [x11], #32\n	stp q2, q3, [x11], #32\n"
"	stp q4, q5, [x11], #32\n	stp q6, q7, [x11], #32\n"
"	stp q8, q9, [x11], #32\n	stp q10, q11, [x11], #32\n"
"	stp q12, q13, [x11], #32\n	stp q14, q15, [x11], #32\n"
"	stp q16, q17, [x11], #32\n	stp q18, q19, [x11], #32\n"
"	stp q20, q21, [x11], #32\n	stp q22, q23, [x11], #32\n"
"	stp q24, q25, [x11], #32\n	stp q26, q27, [x11], #32\n"
"	stp q28, q29, [x11], #32\n	stp q30, q31, [x11], #32\n"
"	stp x20, x21, [x11], #16\n	stp x22, x23, [x11], #16\n"
"	stp x24, x25, [x11], #16\n	stp x26, x27, [x11], #16\n"
"	add x12, sp, #16\n"
"	ldp d14, d15, [x12], #16\n"
"	ldp d12, d13, [x12], #16\n"
"	ldp d10, d11, [x12], #16\n"
"	ldp d8, d9, [x12], #16\n"
"	ldp x27, x28, [x12], #16\n"
"	ldp x25, x26, [x12], #16\n"
"	ldp x23, x24, [x12], #16\n"
"	ldp x21, x22, [x12], #16\n"
"	ldp x19, x20, [x12], #16\n"
"	ldp x29, x30, [x12], #16\n"
"	mov sp, x9\n"
"	ret\n");
/* clang-format on */
_Static_assert(offsetof(struct hold, after) == 512, "used above");
_Static_assert(offsetof(struct hold, kept) == 1024, "used above");
_Static_assert(offsetof(struct hold, pid) == 1088, "used above");

static int results, failures;
static struct cpu_saved caught;
static uint64_t told[4];
static unsigned told_times;

static void check(bool good, const char *name)
{
	results++;
	failures += !good;
	printf("%s %d - %s\n", good ? "ok" : "not ok", results, name);
}

/* ---- a thread that is caught in a call ------------------------------------- */

/* What ptrace would read of the thread that the signal has interrupted. */
static void on_catch(int number, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	const mcontext_t *m = &u->uc_mcontext;
	struct user_fpsimd_struct v = { 0 };
	struct fpsimd_context c;

	(void)number;
	(void)info;
	memcpy(&c, m->__reserved, sizeof(c));
	if (c.head.magic != FPSIMD_MAGIC)
		abort();
	for (unsigned i = 0; i < 31; i++)
		caught.regs.r.regs[i] = m->regs[i];
	caught.regs.r.sp = m->sp;
	caught.regs.r.pc = m->pc;
	caught.regs.r.pstate = m->pstate;
	caught.regs.call = -1;
	memcpy(v.vregs, c.vregs, sizeof(v.vregs));
	v.fpsr = c.fpsr;
	v.fpcr = c.fpcr;
	caught.vector_bytes = sizeof(v);
	memcpy(caught.vector, &v, sizeof(v));
}

static struct cpu_gadgets gadgets(void)
{
	struct cpu_gadgets g = { 0 };

	cpu_find_gadgets(gadget_call, GADGET_BYTES,
			 (uint64_t)(uintptr_t)gadget_call, &g);
	return g;
}

/* A function to be called in the thread; spoils what it may. */
static __attribute__((noinline)) void tell(uint64_t a, uint64_t b, uint64_t c,
					   uint64_t d)
{
	told[0] = a;
	told[1] = b;
	told[2] = c;
	told[3] = d;
	told_times++;
	__asm__ volatile("movi v0.16b, #1\n\tmovi v17.16b, #2\n\t"
			 "mov x9, #1\n\tmov x15, #2\n\tfmov s3, #1.0"
			 :
			 :
			 : "v0", "v17", "v3", "x9", "x15");
}

/* Set the registers as ptrace would: by a frame of their own, built on a stack
 * that nobody uses. */
static void set_registers(const struct cpu_regs *to,
			  const struct cpu_gadgets *g)
{
	static _Alignas(16) uint8_t stack[CPU_FRAME_MAX + 4096];
	static uint8_t bytes[CPU_FRAME_MAX];
	struct cpu_saved s = caught;
	struct cpu_place place;

	s.regs.r.sp = (uint64_t)(uintptr_t)(stack + sizeof(stack));
	if (cpu_build_frame(&s, to, 0, g, bytes, &place))
		abort();
	memcpy((void *)(uintptr_t)place.address, bytes, place.bytes);
	jump(place.address, g->sigreturn);
}

static void fill(struct hold *h)
{
	memset(h, 0, sizeof(*h));
	for (unsigned i = 0; i < VECTORS; i++)
		memset(&h->before[i], (int)(0x31 + i * 3),
		       sizeof(h->before[i]));
	h->pid = (uint64_t)getpid();
	h->signal = SIG_CATCH;
}

static bool kept_all(const struct hold *h)
{
	for (unsigned i = 0; i < 8; i++)
		if (h->kept[i] != 20 + i)
			return false;
	return !memcmp(h->before, h->after, sizeof(h->before));
}

static int close_on_the_way = -1; /* a descriptor, by a frame of its own */

/* One more call on the way home, as lease_undo_by lays it. */
static void lay_close(struct cpu_place *place, const struct cpu_gadgets *g)
{
	const uint64_t args[6] = { (uint64_t)close_on_the_way };
	static uint8_t bytes[CPU_FRAME_MAX];
	static struct cpu_saved step;

	step = caught;
	cpu_make_call(&caught, place, g, __NR_close, args, &step.regs);
	if (cpu_build_frame(&step, &step.regs, 0, g, bytes, place))
		abort();
	memcpy((void *)(uintptr_t)place->address, bytes, place->bytes);
}

/* Catch a thread in a call, borrow it for one system call or one function, and
 * let it go on: its call then returns MARK. */
static bool borrow(struct hold *h, long call, uint64_t function, sigset_t *mask)
{
	static _Alignas(16) uint8_t stack[STACK_BYTES];
	static uint8_t bytes[CPU_FRAME_MAX];
	static volatile bool again;
	static struct cpu_place place;
	const uint64_t args[6] = { 11, 22, 33, 44, 55, 66 };
	struct cpu_gadgets g = gadgets();
	struct cpu_regs wake, to;
	uint64_t blocked = 1u << (SIGUSR2 - 1);
	long ret;

	fill(h);
	again = false;
	ret = hold(stack + STACK_BYTES, h);
	if (again) {
		sigprocmask(SIG_SETMASK, NULL, mask);
		return ret == MARK;
	}
	again = true;
	wake = caught.regs;
	wake.r.regs[0] = MARK;
	if (ret || cpu_build_frame(&caught, &wake, blocked, &g, bytes, &place))
		return false;
	memcpy((void *)(uintptr_t)place.address, bytes, place.bytes);
	memset(h->after, 0, sizeof(h->after));
	if (close_on_the_way >= 0)
		lay_close(&place, &g);
	if (function)
		cpu_enter(&caught, &place, &g, function, args, &to);
	else
		cpu_make_call(&caught, &place, &g, call, args, &to);
	set_registers(&to, &g);
	return false;
}

static void test_borrowed(void)
{
	struct sigaction action = { .sa_sigaction = on_catch,
				    .sa_flags = SA_SIGINFO };
	static struct hold h;
	sigset_t mask;

	sigaction(SIG_CATCH, &action, NULL);
	check(borrow(&h, __NR_getppid, 0, &mask),
	      "a thread that made a call for others finds back to its own");
	check(kept_all(&h), "with its 32 vectors and its own registers");
	check(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIG_CATCH),
	      "and with the signal mask of the frame");
	check(borrow(&h, 0, (uint64_t)(uintptr_t)tell, &mask) && kept_all(&h),
	      "and so does one that ran a function");
	check(told_times == 1 && told[0] == 11 && told[1] == 22 &&
		      told[2] == 33 && told[3] == 44,
	      "which had its four arguments");
	close_on_the_way = dup(0);
	check(borrow(&h, 0, (uint64_t)(uintptr_t)tell, &mask) && kept_all(&h) &&
		      sigismember(&mask, SIGUSR2) && told_times == 2 &&
		      fcntl(close_on_the_way, F_GETFD) < 0,
	      "and one that closes a descriptor on its way home");
}

/* ---- registers alone --------------------------------------------------------- */

static const uint8_t svc_after[8] = { 0, 0, 0, 0, 1, 0, 0, 0xd4 };
static const uint8_t svc_before[8] = { 1, 0, 0, 0xd4, 0, 0, 0, 0 };

static struct cpu_regs in_call(uint64_t number, int64_t x0)
{
	struct cpu_regs r = { 0 };

	r.r.regs[8] = number;
	r.r.regs[0] = (uint64_t)x0;
	r.r.pc = 0x1000;
	r.r.sp = 0x7ff0;
	return r;
}

static void test_parked(void)
{
	struct cpu_regs waits = in_call(__NR_ppoll, 5);
	struct cpu_regs ended = in_call(__NR_epoll_pwait, -EINTR);
	uint64_t args[6] = { 0 };

	check(cpu_is_parked(&waits, svc_after, __NR_ppoll) &&
		      !cpu_is_parked(&waits, svc_before, __NR_ppoll),
	      "a call that will be made again has pc on its instruction");
	check(cpu_is_parked(&ended, svc_before, __NR_epoll_pwait) &&
		      !cpu_is_parked(&ended, svc_after, __NR_epoll_pwait),
	      "a call that was interrupted has it behind");
	cpu_get_args(&waits, args);
	check(args[0] == 5 && args[3] == 0, "its arguments can be had");
	args[0] = 7;
	cpu_get_args(&ended, args);
	check(args[0] == 7, "but the first, where the result has replaced it");
	check(!cpu_is_parked(&waits, svc_after, __NR_read) &&
		      !cpu_is_parked(&waits, svc_after, -1),
	      "another call, or none, is not the one that was seen");
	check(cpu_is_eintr(&ended) && !cpu_is_eintr(&waits), "EINTR is seen");
}

static void test_remainder(void)
{
	struct cpu_regs absolute = in_call(__NR_clock_nanosleep, 1);
	struct cpu_regs relative = absolute;
	struct cpu_regs nap = in_call(__NR_nanosleep, 0x7000);
	struct cpu_regs again = in_call(__NR_restart_syscall, 0x7000);
	struct cpu_regs polls = in_call(__NR_ppoll, 0x7000);
	struct cpu_regs ended = in_call(__NR_nanosleep, -EINTR);

	absolute.r.regs[1] = TIMER_ABSTIME;
	check(cpu_has_remainder(&relative) && cpu_has_remainder(&nap) &&
		      cpu_has_remainder(&again),
	      "the kernel keeps what is left of a relative sleep");
	check(!cpu_has_remainder(&absolute) && !cpu_has_remainder(&polls) &&
		      !cpu_has_remainder(&ended),
	      "and nothing of a time on the clock, of ppoll, of an ended call");
}

static void test_resume(void)
{
	struct cpu_regs nap = in_call(__NR_nanosleep, 0x7000), r = nap;
	struct cpu_regs polls = in_call(__NR_ppoll, 0x7000);

	cpu_resume(&r, CPU_RESUME_KERNEL);
	check(r.r.regs[8] == __NR_restart_syscall && r.r.pc == nap.r.pc &&
		      r.r.regs[0] == nap.r.regs[0],
	      "a sleep goes on by restart_syscall");
	r = polls;
	cpu_resume(&r, CPU_RESUME_KERNEL);
	check(!memcmp(&r, &polls, sizeof(r)), "ppoll is made again");
	r = nap;
	cpu_resume(&r, CPU_RESUME_AGAIN);
	check(!memcmp(&r, &nap, sizeof(r)), "and so is a sleep, when asked");
	cpu_resume(&r, CPU_RESUME_EINTR);
	check(cpu_result(&r) == -EINTR && cpu_pc(&r) == nap.r.pc + 4,
	      "or it returns -EINTR, behind its instruction");
	polls = r;
	cpu_resume(&r, CPU_RESUME_AGAIN);
	check(!memcmp(&r, &polls, sizeof(r)),
	      "a call that has returned -EINTR stays so");
}

static void test_frame(void)
{
	struct cpu_gadgets g = gadgets(), none = { 0 };
	static uint8_t bytes[CPU_FRAME_MAX];
	struct cpu_saved s = caught;
	struct cpu_place place, before = { 1, 2, 3 };

	check(g.call == (uint64_t)(uintptr_t)gadget_call &&
		      g.sigreturn == (uint64_t)(uintptr_t)gadget_sigreturn,
	      "both gadgets are found");
	cpu_find_gadgets(gadget_call, 4, 0x4000, &none);
	check(!none.call && !none.sigreturn,
	      "half a gadget at the end of the text is none");
	check(!cpu_build_frame(&s, &s.regs, 0, &g, bytes, &place) &&
		      place.address % 16 == 0 && place.sp % 16 == 0 &&
		      place.address + place.bytes <= s.regs.r.sp - 128,
	      "the frame is aligned, below the stack in use");
	place = before;
	s.vector_bytes = 0;
	check(cpu_build_frame(&s, &s.regs, 0, &g, bytes, &place) ==
			      -EOVERFLOW &&
		      place.address == 1,
	      "no vectors, no frame");
	s = caught;
	s.regs.r.sp = 512;
	check(cpu_build_frame(&s, &s.regs, 0, &g, bytes, &place) == -EOVERFLOW,
	      "no stack, no frame");
}

static void test_no_tracer(void)
{
	struct cpu_saved s = { 0 };
	struct cpu_regs r = { 0 };

	check(cpu_get_regs(getpid(), &r) < 0 && cpu_save(getpid(), &s) < 0 &&
		      cpu_set_regs(getpid(), &r) < 0 && !s.vector_bytes,
	      "a thread that is not stopped is an error");
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	test_borrowed();
	test_parked();
	test_remainder();
	test_resume();
	test_frame();
	test_no_tracer();
	printf("1..%d\n", results);
	return failures != 0;
}
