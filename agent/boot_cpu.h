/*
 * boot_cpu.h - the few lines of the boot code that are not C
 *
 * BOOT_CODE_HEAD: struct boot_head and boot_start, the new thread's first
 * function: it calls boot_thread(control, &leave) and ends with a jump, not a
 * call, to leave.munmap(code, bytes), which returns to where boot_start would
 * have returned to: nobody comes back to the code that is gone.
 */
#ifndef MOETOP_AGENT_BOOT_CPU_H
#define MOETOP_AGENT_BOOT_CPU_H

#define BOOT_SECTION "moetop_boot"

struct boot_leave {
	unsigned long code, bytes;
	unsigned long munmap; /* 0: the code stays */
};

/* clang-format off */
#define BOOT_HEAD_ASM							\
	".section " BOOT_SECTION ",\"ax\",%progbits\n"			\
	".balign 64\n"							\
	".quad 0x544f4f42504f544d\n"					\
	".long 1\n"							\
	".long __start_" BOOT_SECTION " - .\n"				\
	".long __stop_" BOOT_SECTION " - .\n"				\
	".long boot_borrowed - .\n"					\
	".balign 16\n"							\
	".type boot_start,%function\n"					\
	"boot_start:\n"

#if defined(__x86_64__)
#define BOOT_CODE_HEAD BOOT_HEAD_ASM					\
	"	endbr64\n"						\
	"	sub	$24, %rsp\n"					\
	"	mov	%rsp, %rsi\n"					\
	"	call	boot_thread\n"					\
	"	mov	(%rsp), %rdi\n"					\
	"	mov	8(%rsp), %rsi\n"				\
	"	mov	16(%rsp), %rax\n"				\
	"	add	$24, %rsp\n"					\
	"	test	%rax, %rax\n"					\
	"	jz	1f\n"						\
	"	jmp	*%rax\n"					\
	"1:	ret\n"							\
	".size boot_start, . - boot_start\n"				\
	".previous\n"
#elif defined(__aarch64__)
#define BOOT_CODE_HEAD BOOT_HEAD_ASM					\
	"	hint	#34\n" /* bti c */				\
	"	stp	x29, x30, [sp, #-48]!\n"			\
	"	mov	x29, sp\n"					\
	"	add	x1, sp, #16\n"					\
	"	bl	boot_thread\n"					\
	"	ldp	x0, x1, [sp, #16]\n"				\
	"	ldr	x16, [sp, #32]\n"				\
	"	ldp	x29, x30, [sp], #48\n"				\
	"	cbz	x16, 1f\n"					\
	"	br	x16\n"						\
	"1:	mov	x0, #0\n"					\
	"	ret\n"							\
	".size boot_start, . - boot_start\n"				\
	".previous\n"
#endif
/* clang-format on */

#if defined(__x86_64__)
static inline void boot_relax(void)
{
	__asm__ volatile("pause");
}

static inline long boot_call(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline void boot_relax(void)
{
	__asm__ volatile("yield");
}

static inline long boot_call(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#endif

#endif
