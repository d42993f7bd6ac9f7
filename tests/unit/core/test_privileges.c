/* Capabilities: sets of threads, what is needed, what a file must be. */
#include "core/broker.h"
#include "core/driver.h"
#include "core/privileges.h"
#include "core/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HAS(mask, cap) ((mask) >> (cap)&1)

static void names_are_joined_and_unknown_ones_are_numbers(void **state)
{
	char out[64], tight[10];

	(void)state;
	privileges_names(PRIVILEGES_BPF, out, sizeof(out));
	assert_string_equal(out, "cap_perfmon,cap_bpf");
	privileges_names(PRIVILEGE(63), out, sizeof(out));
	assert_string_equal(out, "63");
	privileges_names(0, out, sizeof(out));
	assert_string_equal(out, "");
	privileges_names(PRIVILEGES_ALL, tight, sizeof(tight));
	assert_int_equal(strlen(tight), sizeof(tight) - 1);
}

static void all_are_needed_as_long_as_nothing_is_known(void **state)
{
	const struct privileges_facts none = { 0 };

	(void)state;
	assert_true(privileges_needed(&none) == PRIVILEGES_ALL);
}

static void a_settled_server_of_ours_needs_four(void **state)
{
	const struct privileges_facts f = { .requests = true,
					    .agents = true,
					    .model = true };

	(void)state;
	assert_true(privileges_needed(&f) ==
		    (PRIVILEGES_BPF | PRIVILEGE(CAP_SYS_PTRACE) |
		     PRIVILEGE(CAP_SYS_NICE)));
}

static void packets_keep_net_admin(void **state)
{
	const struct privileges_facts f = { .requests = true,
					    .by_packets = true };

	(void)state;
	assert_true(HAS(privileges_needed(&f), CAP_NET_ADMIN));
}

static void containers_keep_sys_admin(void **state)
{
	const struct privileges_facts network = { .agents = true,
						  .other_network = true };
	const struct privileges_facts filters = { .agents = true,
						  .filtered = true };

	(void)state;
	assert_true(HAS(privileges_needed(&network), CAP_SYS_ADMIN));
	assert_true(HAS(privileges_needed(&filters), CAP_SYS_ADMIN));
}

static void counters_for_administrators_keep_sys_admin(void **state)
{
	const struct privileges_facts f = { .agents = true, .counters = true };

	(void)state;
	assert_true(HAS(privileges_needed(&f), CAP_SYS_ADMIN));
}

/* In a child, for it cannot be taken back. */
static void a_program_gets_what_is_passed_on(void **state)
{
	const uint64_t mask = PRIVILEGES_COUNTERS;
	struct privilege_sets has;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(privileges_read(&has), 0);
	pid = fork();
	if (!pid) {
		uint64_t ambient = 0;

		if (privileges_pass_on(mask))
			_exit(1);
		for (unsigned cap = 0; cap < 64; cap++)
			if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0,
				  0) == 1)
				ambient |= PRIVILEGE(cap);
		_exit(ambient == (has.permitted & mask) ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void the_driver_s_files_are_read(void **state)
{
	char v[16];

	(void)state;
	assert_int_equal(driver_version("NVRM version: NVIDIA UNIX x86_64 "
					"Kernel Module  570.86.10  Fri\n"
					"GCC version:  12.2",
					v, sizeof(v)),
			 570);
	assert_string_equal(v, "570.86.10");
	assert_int_equal(driver_version("no\n570.1", v, sizeof(v)), 0);
	assert_int_equal(driver_version("", v, sizeof(v)), 0);
	assert_string_equal(v, "");
	assert_true(driver_restricts("A: 0\nRmProfilingAdminOnly: 1\n"));
	assert_false(driver_restricts("RmProfilingAdminOnly: 0\nA: 1\n"));
	assert_false(driver_restricts(""));
}

static void another_user_or_no_model_keeps_reading(void **state)
{
	const struct privileges_facts other = { .agents = true,
						.model = true,
						.other_user = true };
	const struct privileges_facts blind = { .agents = true };

	(void)state;
	assert_true(HAS(privileges_needed(&other), CAP_DAC_READ_SEARCH));
	assert_true(HAS(privileges_needed(&blind), CAP_DAC_READ_SEARCH));
}

static void only_root_s_or_our_own_files_are_trusted(void **state)
{
	struct stat file;

	(void)state;
	assert_int_equal(stat("/proc/self/exe", &file), 0);
	file.st_mode = S_IFREG | 0755;
	assert_true(privileges_trust(&file));
	file.st_mode = S_IFREG | 0775;
	assert_false(privileges_trust(&file));
	file.st_mode = S_IFREG | 0757;
	assert_false(privileges_trust(&file));
	file.st_mode = S_IFREG | 0644;
	file.st_uid += 12345;
	assert_false(privileges_trust(&file));
	file.st_uid = 0;
	assert_true(privileges_trust(&file));
}

static void note_effective(void *arg)
{
	*(uint64_t *)arg = privileges_effective();
}

static void the_broker_has_what_the_caller_gives_up(void **state)
{
	uint64_t have = privileges_effective(), there = ~0ull;
	uint64_t want = have & PRIVILEGES_BPF;
	struct broker *b;

	(void)state;
	assert_int_equal(broker_new(&b, PRIVILEGES_BPF), 0);
	assert_int_equal(privileges_keep(0), 0);
	assert_true(privileges_effective() == 0);
	broker_call(b, note_effective, &there);
	assert_true(there == want);
	broker_keep(b, PRIVILEGE(CAP_BPF));
	broker_call(b, note_effective, &there);
	assert_true(there == (have & PRIVILEGE(CAP_BPF)));
	assert_int_not_equal(privileges_raise(), 1); /* nothing to raise */
	assert_true(privileges_effective() == 0);
	broker_free(b);
	broker_free(NULL);
}

static void an_unknown_user_cannot_be_become(void **state)
{
	char why[128] = "";

	(void)state;
	assert_true(privileges_become("no such user", why, sizeof(why)) < 0);
	assert_non_null(strstr(why, "--user: "));
	assert_non_null(strstr(why, "; "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_joined_and_unknown_ones_are_numbers),
		cmocka_unit_test(all_are_needed_as_long_as_nothing_is_known),
		cmocka_unit_test(a_settled_server_of_ours_needs_four),
		cmocka_unit_test(packets_keep_net_admin),
		cmocka_unit_test(containers_keep_sys_admin),
		cmocka_unit_test(counters_for_administrators_keep_sys_admin),
		cmocka_unit_test(a_program_gets_what_is_passed_on),
		cmocka_unit_test(the_driver_s_files_are_read),
		cmocka_unit_test(another_user_or_no_model_keeps_reading),
		cmocka_unit_test(only_root_s_or_our_own_files_are_trusted),
		cmocka_unit_test(an_unknown_user_cannot_be_become),
		cmocka_unit_test(the_broker_has_what_the_caller_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
