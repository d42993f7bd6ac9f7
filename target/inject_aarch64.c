/*
 * inject_aarch64.c - registers, frame and gadgets of 64-bit Arm
 *
 * Linux decides about the restart of an interrupted system call before a tracer
 * sees the stop: pc is back on the instruction and x0 is the first argument
 * again, unless the call ends with -EINTR.  What it does after the stop, the
 * number of restart_syscall in x8, is done here, because by then the stop is
 * another one (arch/arm64/kernel/signal.c, do_signal).
 *
 * A call discards what the scalable vectors have beyond 128 bits, so the 32
 * registers of 128 bits are the whole vector state of a parked thread, whatever
 * it did before (Documentation/arch/arm64/sve.rst, "System call behaviour").
 */
#include "target/inject_arch.h"

#ifdef __aarch64__

#include <asm/sigcontext.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

#define INSN_BYTES 4u
#define INSN_SVC 0xd4000001u           /* svc #0 */
#define INSN_RET 0xd65f03c0u           /* ret */
#define INSN_MOV_SIGRETURN 0xd2801168u /* mov x8, #139 */

#define CALL_FUTEX 98
#define CALL_NANOSLEEP 101
#define CALL_CLOCK_NANOSLEEP 115
#define CALL_RESTART 128

#define REG_NUMBER 8
#define REG_FRAME 29
#define REG_LINK 30
#define PSTATE_BTYPE 0xc00ull /* the last branch was an indirect one */
#define STACK_GAP 256u
#define STACK_ALIGN 16u

/* Register sets and records that older headers do not name. */
#define SET_SYSTEM_CALL 0x404
#define SET_SSVE 0x40b
#define SET_ZA 0x40c
#define SET_GCS 0x410
#define SVE_LIVE 1u
#define GCS_ON 1u

/* Head of the register sets SSVE and ZA. */
struct scalable {
	uint32_t bytes;
	uint32_t max_bytes;
	uint16_t length;
	uint16_t max_length;
	uint16_t flags;
	uint16_t reserved;
};

struct shadow_stack {
	uint64_t enabled;
	uint64_t locked;
	uint64_t pointer;
};

/* What rt_sigreturn finds at sp. */
struct frame {
	siginfo_t info;
	ucontext_t context;
};

_Static_assert(sizeof(siginfo_t) == 128, "the kernel's siginfo");
_Static_assert(sizeof(struct fpsimd_context) == 528, "32 vectors");
_Static_assert(offsetof(ucontext_t, uc_mcontext) == 176, "the kernel's layout");
_Static_assert(sizeof(struct frame) <= CPU_FRAME_MAX, "the frame fits");

/* ---- ptrace ------------------------------------------------------------------ */

static int get_set(pid_t tid, unsigned long set, void *out, size_t *bytes)
{
	struct iovec v = { .iov_base = out, .iov_len = *bytes };

	if (ptrace(PTRACE_GETREGSET, tid, set, &v))
		return -errno;
	*bytes = v.iov_len;
	return 0;
}

/* Zero when this processor, or this kernel, has no such registers. */
static struct scalable scalable_state(pid_t tid, unsigned long set)
{
	struct scalable s = { 0 };
	size_t bytes = sizeof(s);

	if (get_set(tid, set, &s, &bytes) || bytes < sizeof(s))
		memset(&s, 0, sizeof(s));
	return s;
}

/* State that the frame does not carry, or that forbids what it is for. */
static int check_extensions(pid_t tid)
{
	struct shadow_stack gcs = { 0 };
	size_t bytes = sizeof(gcs);

	if ((scalable_state(tid, SET_SSVE).flags & SVE_LIVE) ||
	    scalable_state(tid, SET_ZA).bytes > sizeof(struct scalable))
		return -EOPNOTSUPP;
	if (!get_set(tid, SET_GCS, &gcs, &bytes) && (gcs.enabled & GCS_ON))
		return -EOPNOTSUPP;
	return 0;
}

int cpu_get_regs(pid_t tid, struct cpu_regs *r)
{
	struct cpu_regs now = { 0 };
	size_t bytes = sizeof(now.r);
	int err = get_set(tid, NT_PRSTATUS, &now.r, &bytes);

	if (err)
		return err;
	if (bytes != sizeof(now.r))
		return -EPROTO; /* a 32-bit process */
	bytes = sizeof(now.call);
	err = get_set(tid, SET_SYSTEM_CALL, &now.call, &bytes);
	if (err)
		return err;
	*r = now;
	return 0;
}

int cpu_save(pid_t tid, struct cpu_saved *s)
{
	size_t bytes = sizeof(struct user_fpsimd_struct);
	size_t pointer_bytes = sizeof(s->thread);
	int err = check_extensions(tid);

	if (!err)
		err = cpu_get_regs(tid, &s->regs);
	if (!err)
		err = get_set(tid, NT_PRFPREG, s->vector, &bytes);
	if (!err)
		err = get_set(tid, NT_ARM_TLS, &s->thread, &pointer_bytes);
	if (err)
		return err;
	s->vector_bytes = bytes;
	return 0;
}

int cpu_set_regs(pid_t tid, const struct cpu_regs *r)
{
	struct user_regs_struct copy = r->r;
	struct iovec v = { .iov_base = &copy, .iov_len = sizeof(copy) };

	return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &v) ? -errno : 0;
}

int cpu_set_vector(pid_t tid, const struct cpu_saved *s)
{
	struct iovec v = { .iov_base = (void *)(uintptr_t)s->vector,
			   .iov_len = s->vector_bytes };

	if (!s->vector_bytes)
		return 0;
	return ptrace(PTRACE_SETREGSET, tid, NT_PRFPREG, &v) ? -errno : 0;
}

/* ---- registers --------------------------------------------------------------- */

uint64_t cpu_pc(const struct cpu_regs *r)
{
	return r->r.pc;
}

uint64_t cpu_sp(const struct cpu_regs *r)
{
	return r->r.sp;
}

int64_t cpu_result(const struct cpu_regs *r)
{
	return (int64_t)r->r.regs[0];
}

static uint32_t instruction(const uint8_t *p)
{
	uint32_t i;

	memcpy(&i, p, sizeof(i));
	return i;
}

bool cpu_is_eintr(const struct cpu_regs *r)
{
	return cpu_result(r) == -EINTR;
}

void cpu_get_args(const struct cpu_regs *r, uint64_t args[6])
{
	for (unsigned i = cpu_is_eintr(r); i < 6; i++)
		args[i] = r->r.regs[i];
}

/* About to make the call (again), or just back from it with -EINTR. */
bool cpu_is_parked(const struct cpu_regs *r, const uint8_t around[8], long call)
{
	unsigned at = cpu_is_eintr(r) ? 0 : INSN_BYTES;

	return call >= 0 && r->r.regs[REG_NUMBER] == (uint64_t)call &&
	       instruction(around + at) == INSN_SVC;
}

/* ppoll and pselect6 have what is left written to their argument. */
bool cpu_has_remainder(const struct cpu_regs *r)
{
	if (cpu_is_eintr(r))
		return false;
	switch (r->r.regs[REG_NUMBER]) {
	case CALL_NANOSLEEP:
	case CALL_RESTART:
	case CALL_FUTEX:
		return true;
	case CALL_CLOCK_NANOSLEEP:
		return !(r->r.regs[1] & TIMER_ABSTIME);
	default:
		return false;
	}
}

/* After -EINTR the first argument is lost: such a call cannot begin again. */
void cpu_resume(struct cpu_regs *r, enum cpu_resume how)
{
	if (cpu_is_eintr(r))
		return;
	if (how == CPU_RESUME_EINTR) {
		r->r.regs[0] = (uint64_t)-EINTR;
		r->r.pc += INSN_BYTES;
	} else if (how == CPU_RESUME_KERNEL && cpu_has_remainder(r)) {
		r->r.regs[REG_NUMBER] = CALL_RESTART;
	}
}

/* ---- the frame --------------------------------------------------------------- */

void cpu_find_gadgets(const uint8_t *text, size_t bytes, uint64_t address,
		      struct cpu_gadgets *g)
{
	for (size_t i = 0; i + 2 * INSN_BYTES <= bytes; i += INSN_BYTES) {
		uint32_t first = instruction(text + i);
		uint32_t second = instruction(text + i + INSN_BYTES);

		if (!g->call && first == INSN_SVC && second == INSN_RET)
			g->call = address + i;
		if (!g->sigreturn && first == INSN_MOV_SIGRETURN &&
		    second == INSN_SVC)
			g->sigreturn = address + i;
	}
}

static void put_registers(mcontext_t *m, const struct cpu_regs *wake)
{
	for (unsigned i = 0; i < 31; i++)
		m->regs[i] = wake->r.regs[i];
	m->sp = wake->r.sp;
	m->pc = wake->r.pc;
	m->pstate = wake->r.pstate;
}

/* The vector record, and the empty one that ends the list (it is there). */
static void put_vectors(uint8_t *at, const struct cpu_saved *s)
{
	struct user_fpsimd_struct from;
	struct fpsimd_context c = {
		.head = { .magic = FPSIMD_MAGIC, .size = sizeof(c) },
	};

	memcpy(&from, s->vector, sizeof(from));
	c.fpsr = from.fpsr;
	c.fpcr = from.fpcr;
	memcpy(c.vregs, from.vregs, sizeof(c.vregs));
	memcpy(at, &c, sizeof(c));
}

int cpu_build_frame(const struct cpu_saved *s, const struct cpu_regs *wake,
		    uint64_t sigmask, const struct cpu_gadgets *g,
		    uint8_t out[CPU_FRAME_MAX], struct cpu_place *place)
{
	struct frame f = { 0 };
	mcontext_t *m = &f.context.uc_mcontext;
	size_t bytes = offsetof(struct frame, context.uc_mcontext.__reserved) +
		       sizeof(struct fpsimd_context) +
		       sizeof(struct _aarch64_ctx);

	(void)g; /* the return address is in x30 */
	if (s->vector_bytes < sizeof(struct user_fpsimd_struct) ||
	    s->regs.r.sp < STACK_GAP + bytes + STACK_ALIGN)
		return -EOVERFLOW;
	put_registers(m, wake);
	put_vectors(m->__reserved, s);
	memcpy(&f.context.uc_sigmask, &sigmask, sizeof(sigmask));
	memcpy(out, &f, bytes);
	place->bytes = bytes;
	place->address = (s->regs.r.sp - STACK_GAP - bytes) &
			 ~(uint64_t)(STACK_ALIGN - 1);
	place->sp = place->address;
	return 0;
}

static void start_below(const struct cpu_saved *s,
			const struct cpu_place *place,
			const struct cpu_gadgets *g, struct cpu_regs *out)
{
	*out = s->regs;
	out->call = -1;
	out->r.sp = place->sp;
	out->r.regs[REG_LINK] = g->sigreturn;
	out->r.regs[REG_FRAME] = 0;
	out->r.pstate &= ~PSTATE_BTYPE;
}

void cpu_make_call(const struct cpu_saved *s, const struct cpu_place *place,
		   const struct cpu_gadgets *g, long number,
		   const uint64_t args[6], struct cpu_regs *out)
{
	start_below(s, place, g, out);
	for (unsigned i = 0; i < 6; i++)
		out->r.regs[i] = args[i];
	out->r.regs[REG_NUMBER] = (uint64_t)number;
	out->r.pc = g->call;
}

void cpu_enter(const struct cpu_saved *s, const struct cpu_place *place,
	       const struct cpu_gadgets *g, uint64_t function,
	       const uint64_t args[4], struct cpu_regs *out)
{
	start_below(s, place, g, out);
	for (unsigned i = 0; i < 4; i++)
		out->r.regs[i] = args[i];
	out->r.pc = function;
}

#endif
