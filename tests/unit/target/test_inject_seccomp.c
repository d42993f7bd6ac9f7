#include "target/inject_seccomp.h"

#include "target/inject_arch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define NR offsetof(struct seccomp_data, nr)
#define ARG(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* One call gets `action`, all others pass. */
#define FILTER(number, action)                                               \
	{                                                                    \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR),                      \
			BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
			BPF_STMT(BPF_RET | BPF_K, (action)),                 \
			BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),        \
	}

static enum seccomp_verdict judge(struct sock_filter *program, unsigned n,
				  const char **name)
{
	struct seccomp_filters f = { .n = 1, .all = { { n, program } } };

	return seccomp_judge(&f, name);
}

static void a_filter_without_our_calls_passes(void **state)
{
	struct sock_filter p[] = FILTER(SYS_ptrace, SECCOMP_RET_KILL_PROCESS);
	const char *name = "none";

	(void)state;
	assert_int_equal(judge(p, LENGTH(p), &name), SECCOMP_PASSES);
	assert_string_equal(name, "none");
}

static void errors_forbid_and_signals_kill(void **state)
{
	static const struct {
		uint32_t action;
		enum seccomp_verdict verdict;
	} cases[] = {
		{ SECCOMP_RET_ERRNO | EPERM, SECCOMP_FORBIDS },
		{ SECCOMP_RET_TRACE, SECCOMP_FORBIDS },
		{ SECCOMP_RET_TRAP, SECCOMP_KILLS },
		{ SECCOMP_RET_KILL_THREAD, SECCOMP_KILLS },
		{ SECCOMP_RET_KILL_PROCESS, SECCOMP_KILLS },
		{ SECCOMP_RET_LOG, SECCOMP_PASSES },
		{ 0x12340000, SECCOMP_KILLS },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct sock_filter p[] =
			FILTER(SYS_memfd_create, cases[i].action);
		const char *name = "";

		assert_int_equal(judge(p, LENGTH(p), &name), cases[i].verdict);
		if (cases[i].verdict != SECCOMP_PASSES)
			assert_string_equal(name, "memfd_create");
	}
}

static void clone3_may_be_missing_but_not_denied(void **state)
{
	struct sock_filter missing[] =
		FILTER(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
	struct sock_filter denied[] =
		FILTER(SYS_clone3, SECCOMP_RET_ERRNO | EPERM);
	const char *name;

	(void)state;
	assert_int_equal(judge(missing, LENGTH(missing), &name),
			 SECCOMP_PASSES);
	assert_int_equal(judge(denied, LENGTH(denied), &name), SECCOMP_FORBIDS);
}

static void a_call_we_can_do_without_may_fail(void **state)
{
	struct sock_filter p[] =
		FILTER(SYS_sched_yield, SECCOMP_RET_ERRNO | EPERM);
	struct sock_filter k[] = FILTER(SYS_sched_yield, SECCOMP_RET_KILL);
	const char *name;

	(void)state;
	assert_int_equal(judge(p, LENGTH(p), &name), SECCOMP_PASSES);
	assert_int_equal(judge(k, LENGTH(k), &name), SECCOMP_KILLS);
}

/* Container profiles look at the arguments of clone. */
static void arguments_count(void **state)
{
	struct sock_filter p[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(0)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x7e020000),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const char *name;

	(void)state;
	assert_int_equal(judge(p, LENGTH(p), &name), SECCOMP_PASSES);
	p[3].k = 0x00010000; /* CLONE_THREAD */
	assert_int_equal(judge(p, LENGTH(p), &name), SECCOMP_FORBIDS);
	assert_string_equal(name, "clone");
}

static void the_strictest_filter_counts(void **state)
{
	struct sock_filter mild[] =
		FILTER(SYS_memfd_create, SECCOMP_RET_ERRNO | EPERM);
	struct sock_filter hard[] =
		FILTER(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS);
	struct seccomp_filters f = {
		.n = 2,
		.all = { { LENGTH(hard), hard }, { LENGTH(mild), mild } },
	};
	const char *name;

	(void)state;
	assert_int_equal(seccomp_judge(&f, &name), SECCOMP_KILLS);
}

static void arithmetic_and_memory(void **state)
{
	const struct seccomp_data call = { .nr = 6, .args = { 1000 } };
	struct sock_filter p[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NR), /* 6 */
		BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 7), /* 42 */
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_LD | BPF_IMM, 2),
		BPF_STMT(BPF_MISC | BPF_TAX, 0), /* x = 2 */
		BPF_STMT(BPF_LD | BPF_MEM, 3),
		BPF_STMT(BPF_ALU | BPF_LSH | BPF_X, 0),  /* 168 */
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 68), /* 100 */
		BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3),  /* 33 */
		BPF_STMT(BPF_ALU | BPF_NEG, 0),
		BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 40), /* 7 */
		BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 8),   /* 15 */
		BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 1),  /* 14 */
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1),  /* 7 */
		BPF_STMT(BPF_RET | BPF_A, 0),
	};

	(void)state;
	assert_int_equal(seccomp_run(p, LENGTH(p), &call), 7);
	p[8].k = 0; /* division by zero gives zero */
	assert_int_equal(seccomp_run(p, LENGTH(p), &call), ((40 | 8) ^ 1) >> 1);
}

static void nonsense_kills(void **state)
{
	const struct seccomp_data call = { 0 };
	struct sock_filter far[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(call)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter beyond[] = {
		BPF_JUMP(BPF_JMP | BPF_JA, 0xffffffff, 0, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter memory[] = {
		BPF_STMT(BPF_ST, BPF_MEMWORDS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter endless[] = { BPF_STMT(BPF_LD | BPF_IMM, 1) };

	(void)state;
	assert_int_equal(seccomp_run(far, 2, &call), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(seccomp_run(beyond, 2, &call),
			 SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(seccomp_run(memory, 2, &call),
			 SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(seccomp_run(endless, 1, &call),
			 SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(seccomp_run(NULL, 0, &call), SECCOMP_RET_KILL_PROCESS);
}

static void random_programs_end(void **state)
{
	const struct seccomp_data call = { .nr = 1 };
	struct sock_filter p[64];
	unsigned seed = 3;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		for (size_t k = 0; k < LENGTH(p); k++)
			p[k] = (struct sock_filter){
				.code = (uint16_t)(rand_r(&seed) & 0xff),
				.jt = (uint8_t)(rand_r(&seed) & 7),
				.jf = (uint8_t)(rand_r(&seed) & 7),
				.k = (uint32_t)(rand_r(&seed) & 31),
			};
		seccomp_run(p, LENGTH(p), &call);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_filter_without_our_calls_passes),
		cmocka_unit_test(errors_forbid_and_signals_kill),
		cmocka_unit_test(clone3_may_be_missing_but_not_denied),
		cmocka_unit_test(a_call_we_can_do_without_may_fail),
		cmocka_unit_test(arguments_count),
		cmocka_unit_test(the_strictest_filter_counts),
		cmocka_unit_test(arithmetic_and_memory),
		cmocka_unit_test(nonsense_kills),
		cmocka_unit_test(random_programs_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
