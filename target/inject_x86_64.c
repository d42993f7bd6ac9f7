/*
 * x86-64.  The frame is the one that the kernel builds for a signal handler
 * (arch/x86/kernel/signal_64.c): the return address, ucontext, and, aligned to
 * 64 bytes, the XSAVE image between its two magic numbers.
 */
#ifdef __x86_64__

#include "target/inject_arch.h"

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define RED_ZONE_BYTES 128u
#define EFLAGS_TF 0x100ull
#define EFLAGS_DF 0x400ull
#define EFLAGS_AC 0x40000ull
#define USER_CS 0x33u
#define USER_SS 0x2bu
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516
#define INSTRUCTION_BYTES 2u /* syscall */

/* XSAVE image: legacy area, then a header, then the extended components. */
#define XSAVE_SOFTWARE 464u /* left to software in the legacy area */
#define XSAVE_HEADER 512u
#define XSAVE_EXTENDED 576u
#define XFEATURES_LEGACY 3ull /* x87 and SSE */
#define XSAVE_MAGIC1 0x46505853u
#define XSAVE_MAGIC2 0x46505845u

#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u
#define UC_STRICT_RESTORE_SS 4u
/* No valid mode: rt_sigreturn leaves the alternate stack as it is. */
#define NO_ALTSTACK 0x7fffffff

struct frame {
	uint64_t link; /* return address */
	uint64_t flags, next;
	uint64_t stack_sp;
	int32_t stack_flags, pad;
	uint64_t stack_bytes;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t vector;
	uint64_t reserved[8];
	uint64_t sigmask;
};

struct xsave_software {
	uint32_t magic1, extended_bytes;
	uint64_t xfeatures;
	uint32_t xsave_bytes, pad[7];
};

_Static_assert(sizeof(struct frame) == 8 + 304, "rt_sigframe");
_Static_assert(sizeof(struct xsave_software) == 48, "software bytes");

int cpu_get_regs(pid_t tid, struct cpu_regs *r)
{
	struct cpu_regs now;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &now.r))
		return -errno;
	*r = now;
	return 0;
}

int cpu_set_regs(pid_t tid, const struct cpu_regs *r)
{
	return ptrace(PTRACE_SETREGS, tid, NULL, &r->r) ? -errno : 0;
}

int cpu_save(pid_t tid, struct cpu_saved *s)
{
	struct iovec v = { s->vector, sizeof(s->vector) };
	int err = cpu_get_regs(tid, &s->regs);

	if (err)
		return err;
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &v))
		return -errno;
	if (v.iov_len < XSAVE_EXTENDED || v.iov_len >= sizeof(s->vector))
		return -EOVERFLOW;
	s->vector_bytes = v.iov_len;
	s->thread = s->regs.r.fs_base;
	return 0;
}

int cpu_set_vector(pid_t tid, const struct cpu_saved *s)
{
	struct iovec v = { (void *)s->vector, s->vector_bytes };

	if (ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &v))
		return -errno;
	return 0;
}

uint64_t cpu_pc(const struct cpu_regs *r)
{
	return r->r.rip;
}

uint64_t cpu_sp(const struct cpu_regs *r)
{
	return r->r.rsp;
}

int64_t cpu_result(const struct cpu_regs *r)
{
	return (int64_t)r->r.rax;
}

bool cpu_is_eintr(const struct cpu_regs *r)
{
	return cpu_result(r) == -EINTR;
}

void cpu_get_args(const struct cpu_regs *r, uint64_t args[6])
{
	args[0] = r->r.rdi;
	args[1] = r->r.rsi;
	args[2] = r->r.rdx;
	args[3] = r->r.r10;
	args[4] = r->r.r8;
	args[5] = r->r.r9;
}

bool cpu_has_remainder(const struct cpu_regs *r)
{
	return cpu_result(r) == -ERESTART_RESTARTBLOCK;
}

bool cpu_is_parked(const struct cpu_regs *r, const uint8_t around[8], long call)
{
	int64_t result = cpu_result(r);

	if (call < 0 || (int64_t)r->r.orig_rax != call)
		return false;
	if (around[2] != 0x0f || around[3] != 0x05)
		return false;
	return result == -EINTR ||
	       (result >= -ERESTART_RESTARTBLOCK && result <= -ERESTARTSYS);
}

void cpu_resume(struct cpu_regs *r, enum cpu_resume how)
{
	if (how == CPU_RESUME_KERNEL)
		return;
	if (how == CPU_RESUME_AGAIN) {
		r->r.rax = r->r.orig_rax;
		r->r.rip -= INSTRUCTION_BYTES;
	} else {
		r->r.rax = (uint64_t)-EINTR;
	}
	r->r.orig_rax = UINT64_MAX;
}

void cpu_find_gadgets(const uint8_t *text, size_t bytes, uint64_t address,
		      struct cpu_gadgets *g)
{
	/* syscall; ret and mov $15,%rax; syscall */
	static const uint8_t call[] = { 0x0f, 0x05, 0xc3 };
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0,
					     0,    0,    0x0f, 0x05 };
	const uint8_t *p;

	p = g->call ? NULL : memmem(text, bytes, call, sizeof(call));
	if (p)
		g->call = address + (uint64_t)(p - text);
	p = g->sigreturn ? NULL
			 : memmem(text, bytes, sigreturn, sizeof(sigreturn));
	if (p)
		g->sigreturn = address + (uint64_t)(p - text);
}

/*
 * The kernel refuses an image longer than the one that this thread may have, and
 * then restores SSE alone; ptrace's image has room for components that the
 * thread has no permission for (AMX).  So: the components in use, no more.
 */
static size_t xsave_bytes(uint64_t xfeatures, size_t bytes)
{
	size_t end = XSAVE_EXTENDED;

	for (unsigned i = 2; i < 63; i++) {
		unsigned size, offset, flags, none;

		if (!(xfeatures >> i & 1) ||
		    !__get_cpuid_count(0xd, i, &size, &offset, &flags, &none))
			continue;
		if (offset + (size_t)size > end)
			end = offset + (size_t)size;
	}
	return end < bytes ? end : bytes;
}

/* The vector state as rt_sigreturn wants it.  Returns its length. */
static size_t build_vector(const struct cpu_saved *s, uint8_t *out)
{
	const uint32_t magic2 = XSAVE_MAGIC2;
	struct xsave_software soft = { .magic1 = XSAVE_MAGIC1 };
	uint64_t xfeatures;
	size_t bytes;

	memcpy(&xfeatures, s->vector + XSAVE_HEADER, sizeof(xfeatures));
	bytes = xsave_bytes(xfeatures, s->vector_bytes);
	if (!out)
		return bytes + sizeof(magic2);
	soft.xfeatures = xfeatures | XFEATURES_LEGACY;
	soft.xsave_bytes = (uint32_t)bytes;
	soft.extended_bytes = (uint32_t)(bytes + sizeof(magic2));
	memcpy(out, s->vector, bytes);
	memcpy(out + XSAVE_SOFTWARE, &soft, sizeof(soft));
	memcpy(out + bytes, &magic2, sizeof(magic2));
	return bytes + sizeof(magic2);
}

static void fill_frame(struct frame *f, const struct user_regs_struct *r)
{
	f->flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	f->stack_flags = NO_ALTSTACK;
	f->r8 = r->r8;
	f->r9 = r->r9;
	f->r10 = r->r10;
	f->r11 = r->r11;
	f->r12 = r->r12;
	f->r13 = r->r13;
	f->r14 = r->r14;
	f->r15 = r->r15;
	f->rdi = r->rdi;
	f->rsi = r->rsi;
	f->rbp = r->rbp;
	f->rbx = r->rbx;
	f->rdx = r->rdx;
	f->rax = r->rax;
	f->rcx = r->rcx;
	f->rsp = r->rsp;
	f->rip = r->rip;
	f->eflags = r->eflags;
	f->cs = USER_CS;
	f->ss = USER_SS;
}

int cpu_build_frame(const struct cpu_saved *s, const struct cpu_regs *wake,
		    uint64_t sigmask, const struct cpu_gadgets *g,
		    uint8_t out[CPU_FRAME_MAX], struct cpu_place *place)
{
	uint64_t top = (s->regs.r.rsp - RED_ZONE_BYTES) & ~15ull;
	size_t vector_bytes = build_vector(s, NULL);
	uint64_t vector = (top - vector_bytes) & ~63ull;
	uint64_t context = (vector - sizeof(struct frame)) & ~15ull;
	/* a function is entered with its return address 8 above 16 */
	uint64_t start = context - sizeof(uint64_t);
	struct frame f = { .link = g->sigreturn,
			   .vector = vector,
			   .sigmask = sigmask };

	if (top - start > CPU_FRAME_MAX || start > top)
		return -EOVERFLOW;
	fill_frame(&f, &wake->r);
	memset(out, 0, (size_t)(top - start));
	memcpy(out, &f, sizeof(f));
	build_vector(s, out + (vector - start));
	place->address = start;
	place->bytes = (size_t)(top - start);
	place->sp = start;
	return 0;
}

static void enter(const struct cpu_saved *s, const struct cpu_place *place,
		  uint64_t pc, struct cpu_regs *out)
{
	*out = s->regs;
	out->r.rip = pc;
	out->r.rsp = place->sp;
	out->r.orig_rax = UINT64_MAX;
	out->r.eflags &= ~(EFLAGS_TF | EFLAGS_DF | EFLAGS_AC);
}

void cpu_make_call(const struct cpu_saved *s, const struct cpu_place *place,
		   const struct cpu_gadgets *g, long number,
		   const uint64_t args[6], struct cpu_regs *out)
{
	enter(s, place, g->call, out);
	out->r.rax = (uint64_t)number;
	out->r.rdi = args[0];
	out->r.rsi = args[1];
	out->r.rdx = args[2];
	out->r.r10 = args[3];
	out->r.r8 = args[4];
	out->r.r9 = args[5];
}

void cpu_enter(const struct cpu_saved *s, const struct cpu_place *place,
	       const struct cpu_gadgets *g, uint64_t function,
	       const uint64_t args[4], struct cpu_regs *out)
{
	(void)g;
	enter(s, place, function, out);
	out->r.rax = 0;
	out->r.rdi = args[0];
	out->r.rsi = args[1];
	out->r.rdx = args[2];
	out->r.rcx = args[3];
}

#endif
