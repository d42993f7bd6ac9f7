/*
 * inject_arch.h - what an injection must know of the processor
 *
 * One file per machine (inject_x86_64.c, inject_aarch64.c), each compiled to
 * nothing on the others.  Pure functions but for the four that call ptrace.
 *
 * A borrowed thread makes calls through two pieces of code that its process
 * has anyway: one system call instruction followed by a return, and the one
 * that returns from a signal handler.  Under its stack lies a signal frame with
 * its whole state, so that the plain return from whatever it is made to do ends
 * in rt_sigreturn and thereby where it was, with or without a tracer.
 */
#ifndef MOETOP_TARGET_INJECT_ARCH_H
#define MOETOP_TARGET_INJECT_ARCH_H

#include <elf.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#if defined(__x86_64__)
#define CPU_ELF_MACHINE EM_X86_64
#define CPU_AUDIT_ARCH AUDIT_ARCH_X86_64
struct cpu_regs {
	struct user_regs_struct r;
};
#elif defined(__aarch64__)
#define CPU_ELF_MACHINE EM_AARCH64
#define CPU_AUDIT_ARCH AUDIT_ARCH_AARCH64
struct cpu_regs {
	struct user_regs_struct r;
	int32_t call; /* NT_ARM_SYSTEM_CALL */
};
#endif

#define CPU_VECTOR_MAX 16384u /* AMX: 11 KiB, SVE of 2048 bits: 9 KiB */
#define CPU_FRAME_MAX (CPU_VECTOR_MAX + 8192u)

/* All of a stopped thread that must be put back, but the signal mask. */
struct cpu_saved {
	struct cpu_regs regs;
	uint64_t thread;     /* pointer to the C library's block of it */
	size_t vector_bytes; /* 0: there was none to save */
	_Alignas(64) uint8_t vector[CPU_VECTOR_MAX];
};

/* Addresses in the target; 0 not found. */
struct cpu_gadgets {
	uint64_t call;      /* the system call instruction, then a return */
	uint64_t sigreturn; /* calls rt_sigreturn: a handler returns to it */
};

/* Where the frame lies and how code below it is entered. */
struct cpu_place {
	uint64_t address; /* of the frame's first byte */
	size_t bytes;
	uint64_t sp; /* at the entry of what returns to the frame */
};

/* How the interrupted system call goes on. */
enum cpu_resume {
	CPU_RESUME_KERNEL, /* as the kernel left it: only inside get_signal() */
	CPU_RESUME_AGAIN,  /* the same call from its beginning */
	CPU_RESUME_EINTR   /* it returns -EINTR */
};

/* ---- ptrace: tid is stopped; 0 or -errno ----------------------------------- */

int cpu_save(pid_t tid, struct cpu_saved *s);
int cpu_get_regs(pid_t tid, struct cpu_regs *r);
/* All at once: a tracer that dies leaves the old or the new ones. */
int cpu_set_regs(pid_t tid, const struct cpu_regs *r);
int cpu_set_vector(pid_t tid, const struct cpu_saved *s);

/* ---- registers ------------------------------------------------------------- */

uint64_t cpu_pc(const struct cpu_regs *r);
uint64_t cpu_sp(const struct cpu_regs *r);
/* What a system call or a function returned. */
int64_t cpu_result(const struct cpu_regs *r);

/*
 * Has the stop taken the thread out of the system call `call`, such that it can
 * go on later?  around: the 8 bytes from pc - 4.
 */
bool cpu_is_parked(const struct cpu_regs *r, const uint8_t around[8],
		   long call);

/* The stop made the call return -EINTR: nothing restarts it by itself. */
bool cpu_is_eintr(const struct cpu_regs *r);

/* The arguments of the call.  The first is left as it is in args where a result of
 * -EINTR has replaced it. */
void cpu_get_args(const struct cpu_regs *r, uint64_t args[6]);

/* The kernel keeps a remaining time for the call (restart_syscall): only
 * CPU_RESUME_KERNEL keeps that. */
bool cpu_has_remainder(const struct cpu_regs *r);

/* *r, a thread that cpu_is_parked, such that its call goes on this way. */
void cpu_resume(struct cpu_regs *r, enum cpu_resume how);

/* ---- the frame and what runs below it --------------------------------------- */

/* Fill in what `text`, mapped executable at `address`, has of *g. */
void cpu_find_gadgets(const uint8_t *text, size_t bytes, uint64_t address,
		      struct cpu_gadgets *g);

/*
 * The signal frame that gives a thread `wake`, the vector state of s and the
 * signal mask back.  out[0..place->bytes) is to be written at place->address,
 * which lies below what the thread uses of its stack.  0, -EOVERFLOW.
 */
int cpu_build_frame(const struct cpu_saved *s, const struct cpu_regs *wake,
		    uint64_t sigmask, const struct cpu_gadgets *g,
		    uint8_t out[CPU_FRAME_MAX], struct cpu_place *place);

/* Registers of s that make one system call and return to the frame. */
void cpu_make_call(const struct cpu_saved *s, const struct cpu_place *place,
		   const struct cpu_gadgets *g, long number,
		   const uint64_t args[6], struct cpu_regs *out);

/* Registers of s that enter a function and return to the frame. */
void cpu_enter(const struct cpu_saved *s, const struct cpu_place *place,
	       const struct cpu_gadgets *g, uint64_t function,
	       const uint64_t args[4], struct cpu_regs *out);

#endif
