#include "target/inject_seccomp.h"

#include "target/inject_arch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf_common.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#define THREAD_FLAGS                                                        \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | \
	 CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |               \
	 CLONE_CHILD_CLEARTID)

/* ---- the machine of classic BPF ---------------------------------------------- */

struct machine {
	uint32_t a, x, memory[BPF_MEMWORDS];
};

static bool load(struct machine *m, const struct sock_filter *i,
		 const struct seccomp_data *call)
{
	bool to_x = BPF_CLASS(i->code) == BPF_LDX;
	uint32_t v;

	switch (BPF_MODE(i->code)) {
	case BPF_ABS:
		if (to_x || i->k % 4 || i->k > sizeof(*call) - 4)
			return false;
		memcpy(&v, (const char *)call + i->k, 4);
		break;
	case BPF_IMM:
		v = i->k;
		break;
	case BPF_LEN:
		v = sizeof(*call);
		break;
	case BPF_MEM:
		if (i->k >= BPF_MEMWORDS)
			return false;
		v = m->memory[i->k];
		break;
	default:
		return false;
	}
	*(to_x ? &m->x : &m->a) = v;
	return true;
}

static bool compute(struct machine *m, const struct sock_filter *i)
{
	uint32_t v = BPF_SRC(i->code) == BPF_X ? m->x : i->k;

	switch (BPF_OP(i->code)) {
	case BPF_ADD:
		m->a += v;
		return true;
	case BPF_SUB:
		m->a -= v;
		return true;
	case BPF_MUL:
		m->a *= v;
		return true;
	case BPF_DIV:
		m->a = v ? m->a / v : 0;
		return true;
	case BPF_MOD:
		m->a = v ? m->a % v : 0;
		return true;
	case BPF_AND:
		m->a &= v;
		return true;
	case BPF_OR:
		m->a |= v;
		return true;
	case BPF_XOR:
		m->a ^= v;
		return true;
	case BPF_LSH:
		m->a = v < 32 ? m->a << v : 0;
		return true;
	case BPF_RSH:
		m->a = v < 32 ? m->a >> v : 0;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	}
	return false;
}

/* How many instructions to pass over; UINT32_MAX no jump of ours. */
static uint32_t jump(const struct machine *m, const struct sock_filter *i)
{
	uint32_t v = BPF_SRC(i->code) == BPF_X ? m->x : i->k;
	bool yes;

	switch (BPF_OP(i->code)) {
	case BPF_JA:
		return i->k;
	case BPF_JEQ:
		yes = m->a == v;
		break;
	case BPF_JGT:
		yes = m->a > v;
		break;
	case BPF_JGE:
		yes = m->a >= v;
		break;
	case BPF_JSET:
		yes = m->a & v;
		break;
	default:
		return UINT32_MAX;
	}
	return yes ? i->jt : i->jf;
}

static bool store(struct machine *m, const struct sock_filter *i)
{
	if (i->k >= BPF_MEMWORDS)
		return false;
	m->memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? m->a : m->x;
	return true;
}

static void move(struct machine *m, const struct sock_filter *i)
{
	if (BPF_MISCOP(i->code) == BPF_TAX)
		m->x = m->a;
	else
		m->a = m->x;
}

uint32_t seccomp_run(const struct sock_filter *program, unsigned n,
		     const struct seccomp_data *call)
{
	struct machine m = { 0 };
	uint32_t skip;

	for (uint64_t pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &program[pc];
		bool good = true;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
		case BPF_LDX:
			good = load(&m, i, call);
			break;
		case BPF_ST:
		case BPF_STX:
			good = store(&m, i);
			break;
		case BPF_ALU:
			good = compute(&m, i);
			break;
		case BPF_JMP:
			skip = jump(&m, i);
			good = skip < n;
			pc += good ? skip : 0;
			break;
		case BPF_RET:
			return BPF_RVAL(i->code) == BPF_A ? m.a : i->k;
		default:
			move(&m, i);
		}
		if (!good)
			break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* ---- our calls ------------------------------------------------------------------ */

static const struct our_call {
	const char *name;
	int number;
	bool needed;
	uint64_t args[6];
} our_calls[] = {
	{ "memfd_create",
	  SYS_memfd_create,
	  true,
	  { 0, MFD_CLOEXEC | MFD_ALLOW_SEALING } },
	{ "mmap",
	  SYS_mmap,
	  true,
	  { 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, 3 } },
	{ "mmap",
	  SYS_mmap,
	  true,
	  { 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 3 } },
	{ "mmap",
	  SYS_mmap,
	  true,
	  { 0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
	    UINT64_MAX } },
	{ "mprotect", SYS_mprotect, true, { 0, 4096, PROT_READ | PROT_WRITE } },
	{ "rt_sigreturn", SYS_rt_sigreturn, true, { 0 } },
	{ "futex", SYS_futex, true, { 0 } },
	{ "clone3", SYS_clone3, true, { 0, 88 } },
	{ "clone", SYS_clone, true, { THREAD_FLAGS } },
	{ "rt_sigprocmask", SYS_rt_sigprocmask, true, { 2, 0, 0, 8 } },
	{ "set_robust_list", SYS_set_robust_list, false, { 0, 24 } },
	{ "rseq", SYS_rseq, false, { 0, 32 } },
	{ "sched_yield", SYS_sched_yield, false, { 0 } },
	{ "prctl", SYS_prctl, false, { PR_SET_NAME } },
	{ "openat",
	  SYS_openat,
	  true,
	  { (uint32_t)AT_FDCWD, 0, O_RDONLY | O_CLOEXEC } },
	{ "read", SYS_read, true, { 3 } },
	{ "newfstatat", SYS_newfstatat, false, { 3 } },
	{ "fstat", SYS_fstat, false, { 3 } },
	{ "close", SYS_close, true, { 3 } },
	{ "munmap", SYS_munmap, true, { 0, 4096 } },
	{ "madvise", SYS_madvise, false, { 0, 4096, MADV_DONTNEED } },
	{ "ftruncate", SYS_ftruncate, true, { 3, 4096 } },
	{ "fcntl", SYS_fcntl, true, { 3, F_ADD_SEALS, F_SEAL_SHRINK } },
	{ "clock_nanosleep", SYS_clock_nanosleep, false, { 1 } },
	{ "gettid", SYS_gettid, false, { 0 } },
	{ "exit", SYS_exit, true, { 0 } },
};

/* SECCOMP_RET_KILL_PROCESS is the strictest and the least as a signed number. */
static uint32_t strictest(const struct seccomp_filters *f,
			  const struct our_call *c)
{
	uint32_t answer = SECCOMP_RET_ALLOW;
	struct seccomp_data call = { .nr = c->number, .arch = CPU_AUDIT_ARCH };

	memcpy(call.args, c->args, sizeof(call.args));
	for (unsigned i = 0; i < f->n; i++) {
		uint32_t one =
			seccomp_run(f->all[i].program, f->all[i].n, &call);

		if ((int32_t)(one & SECCOMP_RET_ACTION_FULL) <
		    (int32_t)(answer & SECCOMP_RET_ACTION_FULL))
			answer = one;
	}
	return answer;
}

static enum seccomp_verdict judge_call(const struct seccomp_filters *f,
				       const struct our_call *c)
{
	uint32_t answer = strictest(f, c);

	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_USER_NOTIF:
		return SECCOMP_PASSES;
	case SECCOMP_RET_ERRNO:
		/* the C library has another way without clone3 */
		if (c->number == SYS_clone3 &&
		    (answer & SECCOMP_RET_DATA) == ENOSYS)
			return SECCOMP_PASSES;
		return c->needed ? SECCOMP_FORBIDS : SECCOMP_PASSES;
	case SECCOMP_RET_TRACE: /* ENOSYS without that tracer */
		return c->needed ? SECCOMP_FORBIDS : SECCOMP_PASSES;
	}
	return SECCOMP_KILLS;
}

enum seccomp_verdict seccomp_judge(const struct seccomp_filters *f,
				   const char **name)
{
	enum seccomp_verdict worst = SECCOMP_PASSES;

	for (size_t i = 0; i < sizeof(our_calls) / sizeof(our_calls[0]); i++) {
		enum seccomp_verdict v = judge_call(f, &our_calls[i]);

		if (v > worst) {
			worst = v;
			*name = our_calls[i].name;
		}
	}
	return worst;
}

int seccomp_fetch(pid_t tid, struct seccomp_filters *f)
{
	struct seccomp_filters got = { 0 };
	int err = 0;

	while (got.n < SECCOMP_FILTERS_MAX) {
		void *at = (void *)(uintptr_t)got.n;
		long n = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, at, NULL);
		struct sock_filter *p;

		if (n < 0 && errno == ENOENT && got.n)
			break;
		err = n < 0 ? -errno : 0;
		if (!err && (n == 0 || n > (long)SECCOMP_PROGRAM_MAX))
			err = -EPROTO;
		p = err ? NULL : calloc((size_t)n, sizeof(*p));
		if (!err && !p)
			err = -ENOMEM;
		if (!err && ptrace(PTRACE_SECCOMP_GET_FILTER, tid, at, p) != n)
			err = -EPROTO;
		if (err) {
			free(p);
			seccomp_free(&got);
			return err;
		}
		got.all[got.n].n = (unsigned)n;
		got.all[got.n++].program = p;
	}
	*f = got;
	return 0;
}

void seccomp_free(struct seccomp_filters *f)
{
	for (unsigned i = 0; i < f->n; i++)
		free(f->all[i].program);
	f->n = 0;
}
