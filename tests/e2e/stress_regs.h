/*
 * stress_regs.h - registers that must survive a stop in a system call
 *
 * The kernel keeps every register but rax, rcx and r11 over a system call, and
 * 128 bytes below the stack pointer belong to the code.  Code that holds values
 * there while it waits notices when an injector forgets one of them.
 */
#ifndef MOETOP_TESTS_STRESS_REGS_H
#define MOETOP_TESTS_STRESS_REGS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REGS_VECTOR_BYTES 32
#define REGS_VECTORS 16
#define REGS_GENERAL 7

struct regs {
	uint8_t vector[REGS_VECTORS][REGS_VECTOR_BYTES];
	uint64_t general[REGS_GENERAL];
	uint32_t mxcsr;
	uint32_t pad;
	uint64_t red_zone[2]; /* its far and its near end */
};

#ifdef __x86_64__

#define REGS_LOAD_LOW                    \
	"vmovdqu   0(%[in]), %%ymm0\n\t" \
	"vmovdqu  32(%[in]), %%ymm1\n\t" \
	"vmovdqu  64(%[in]), %%ymm2\n\t" \
	"vmovdqu  96(%[in]), %%ymm3\n\t" \
	"vmovdqu 128(%[in]), %%ymm4\n\t" \
	"vmovdqu 160(%[in]), %%ymm5\n\t" \
	"vmovdqu 192(%[in]), %%ymm6\n\t" \
	"vmovdqu 224(%[in]), %%ymm7\n\t"
#define REGS_LOAD_HIGH                    \
	"vmovdqu 256(%[in]), %%ymm8\n\t"  \
	"vmovdqu 288(%[in]), %%ymm9\n\t"  \
	"vmovdqu 320(%[in]), %%ymm10\n\t" \
	"vmovdqu 352(%[in]), %%ymm11\n\t" \
	"vmovdqu 384(%[in]), %%ymm12\n\t" \
	"vmovdqu 416(%[in]), %%ymm13\n\t" \
	"vmovdqu 448(%[in]), %%ymm14\n\t" \
	"vmovdqu 480(%[in]), %%ymm15\n\t"
#define REGS_STORE_LOW                    \
	"vmovdqu %%ymm0,   0(%[out])\n\t" \
	"vmovdqu %%ymm1,  32(%[out])\n\t" \
	"vmovdqu %%ymm2,  64(%[out])\n\t" \
	"vmovdqu %%ymm3,  96(%[out])\n\t" \
	"vmovdqu %%ymm4, 128(%[out])\n\t" \
	"vmovdqu %%ymm5, 160(%[out])\n\t" \
	"vmovdqu %%ymm6, 192(%[out])\n\t" \
	"vmovdqu %%ymm7, 224(%[out])\n\t"
#define REGS_STORE_HIGH                    \
	"vmovdqu %%ymm8, 256(%[out])\n\t"  \
	"vmovdqu %%ymm9, 288(%[out])\n\t"  \
	"vmovdqu %%ymm10, 320(%[out])\n\t" \
	"vmovdqu %%ymm11, 352(%[out])\n\t" \
	"vmovdqu %%ymm12, 384(%[out])\n\t" \
	"vmovdqu %%ymm13, 416(%[out])\n\t" \
	"vmovdqu %%ymm14, 448(%[out])\n\t" \
	"vmovdqu %%ymm15, 480(%[out])\n\t"
#define REGS_VECTOR_CLOBBERS                                                 \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",      \
		"xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", \
		"xmm15"

#include <poll.h>

/* poll(NULL, 0, ms) as one instruction, with all registers held. */
static void regs_hold_raw(const struct regs *in, struct regs *out, int ms)
{
	register const struct regs *from __asm__("r12") = in;
	register struct regs *to __asm__("r13") = out;
	long call = 7, limit = ms;

	__asm__ volatile(
		REGS_LOAD_LOW REGS_LOAD_HIGH
		"ldmxcsr 568(%[in])\n\t"
		"lea -256(%%rsp), %%rsp\n\t"
		"mov 576(%[in]), %%r8\n\t"
		"mov %%r8, -128(%%rsp)\n\t"
		"mov 584(%[in]), %%r8\n\t"
		"mov %%r8, -8(%%rsp)\n\t"
		"mov 512(%[in]), %%r8\n\t"
		"mov 520(%[in]), %%r9\n\t"
		"mov 528(%[in]), %%r10\n\t"
		"mov 536(%[in]), %%r14\n\t"
		"mov 544(%[in]), %%r15\n\t"
		"mov 552(%[in]), %%rbx\n\t"
		"xor %%edi, %%edi\n\t"
		"xor %%esi, %%esi\n\t"
		"syscall\n\t"
		"mov %%r8, 512(%[out])\n\t"
		"mov %%r9, 520(%[out])\n\t"
		"mov %%r10, 528(%[out])\n\t"
		"mov %%r14, 536(%[out])\n\t"
		"mov %%r15, 544(%[out])\n\t"
		"mov %%rbx, 552(%[out])\n\t"
		"mov %%rdi, 560(%[out])\n\t"
		"stmxcsr 568(%[out])\n\t"
		"mov -128(%%rsp), %%r8\n\t"
		"mov %%r8, 576(%[out])\n\t"
		"mov -8(%%rsp), %%r8\n\t"
		"mov %%r8, 584(%[out])\n\t"
		"lea 256(%%rsp), %%rsp\n\t" REGS_STORE_LOW REGS_STORE_HIGH
		"vzeroupper\n\t"
		: "+a"(call), "+d"(limit)
		: [in] "r"(from), [out] "r"(to)
		: "rbx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r14",
		  "r15", "memory", "cc", REGS_VECTOR_CLOBBERS);
}

/* The same through libc's poll: its registers are those of any caller. */
static void regs_hold_libc(const struct regs *in, struct regs *out, int ms)
{
	register const struct regs *from __asm__("r12") = in;
	register struct regs *to __asm__("r13") = out;
	int (*call)(struct pollfd *, nfds_t, int) = poll;
	long limit = ms;

	__asm__ volatile(
		REGS_LOAD_LOW REGS_LOAD_HIGH
		"ldmxcsr 568(%[in])\n\t"
		"mov %%rsp, %%r15\n\t"
		"lea -256(%%rsp), %%rsp\n\t"
		"and $-16, %%rsp\n\t"
		"mov 536(%[in]), %%r14\n\t"
		"mov 552(%[in]), %%rbx\n\t"
		"xor %%edi, %%edi\n\t"
		"xor %%esi, %%esi\n\t"
		"call *%%rax\n\t"
		"mov %%r15, %%rsp\n\t"
		"mov %%r14, 536(%[out])\n\t"
		"mov %%rbx, 552(%[out])\n\t"
		"stmxcsr 568(%[out])\n\t" REGS_STORE_LOW REGS_STORE_HIGH
		"vzeroupper\n\t"
		: "+a"(call), "+d"(limit)
		: [in] "r"(from), [out] "r"(to)
		: "rbx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r14",
		  "r15", "memory", "cc", REGS_VECTOR_CLOBBERS);
}

/* Wait ms with every register holding something; true: one has changed. */
static bool regs_hold(int ms, bool libc)
{
	struct regs in = { 0 }, out;

	if (!__builtin_cpu_supports("avx2")) {
		poll(NULL, 0, ms);
		return false;
	}
	for (unsigned i = 0; i < REGS_VECTORS; i++)
		memset(in.vector[i], (int)(0xa1 + i * 5), REGS_VECTOR_BYTES);
	for (unsigned i = 0; i < REGS_GENERAL; i++)
		in.general[i] = 0x123456789abcdef0u + i * 0x1111u;
	in.general[6] = 0;  /* rdi: the call's own argument */
	in.mxcsr = 0x3f80u; /* another rounding than the usual one */
	in.red_zone[0] = 0x0dd0feed0dd0feedu;
	in.red_zone[1] = 0xfeed0dd0feed0dd0u;
	out = in;
	if (libc)
		regs_hold_libc(&in, &out, ms);
	else
		regs_hold_raw(&in, &out, ms);
	__asm__ volatile("ldmxcsr %0" : : "m"((const uint32_t){ 0x1f80 }));
	return memcmp(&in, &out, sizeof(in)) != 0;
}

#else

#include <poll.h>

static bool regs_hold(int ms, bool libc)
{
	(void)libc;
	poll(NULL, 0, ms);
	return false;
}

#endif
#endif
