#include "target/inject_probe.h"

#include "target/inject_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void a_status_of_proc(void **state)
{
	struct probe_status s;

	(void)state;
	probe_parse_status("Name:\tState:\tT (bad)\nState:\tS (sleeping)\n"
			   "Threads:\t17\nTracerPid:\t42\n"
			   "Uid:\t1000\t1000\t1000\t1000\n"
			   "Gid:\t100\t100\t100\t100\n"
			   "Seccomp:\t2\nSeccomp_filters:\t3\n"
			   "x86_Thread_features:\tshstk wrss\n"
			   "x86_Thread_features_locked:\t\n",
			   &s);
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.threads, 17);
	assert_int_equal(s.tracer, 42);
	assert_int_equal(s.uid, 1000);
	assert_int_equal(s.gid, 100);
	assert_int_equal(s.seccomp, 2);
	assert_int_equal(s.filters, 3);
	assert_true(s.shadow_stack);
}

static void a_locked_feature_is_not_in_use(void **state)
{
	struct probe_status s;

	(void)state;
	probe_parse_status("Name:\tx\nState:\tR (running)\n"
			   "x86_Thread_features:\t\n"
			   "x86_Thread_features_locked:\tshstk\n",
			   &s);
	assert_false(s.shadow_stack);
	assert_int_equal(s.tracer, 0);
	assert_int_equal(s.seccomp, 0);
}

static void each_refusal_has_its_word(void **state)
{
	(void)state;
	for (int i = 0; i < INJECT_REFUSALS; i++) {
		const char *name = inject_refusal_name((enum inject_refusal)i);

		assert_true(strlen(name) > 1);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(
				name,
				inject_refusal_name((enum inject_refusal)k));
	}
	assert_string_equal(inject_refusal_name(INJECT_REFUSALS), "unknown");
}

/* ---- processes of ours ------------------------------------------------------ */

static pid_t sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static enum inject_refusal refusal_of(pid_t pid, struct inject_report *r)
{
	int err = inject_check(pid, r);

	assert_int_equal(err == 0, r->refusal == INJECT_OK);
	if (err)
		assert_true(r->why[0]);
	return r->refusal;
}

static void no_such_process(void **state)
{
	struct inject_report r;
	pid_t pid = sleeper();

	(void)state;
	end(pid);
	assert_int_equal(refusal_of(pid, &r), INJECT_NO_PROCESS);
	assert_int_equal(refusal_of(0, &r), INJECT_NO_PROCESS);
	assert_int_equal(refusal_of(-1, &r), INJECT_NO_PROCESS);
}

static void a_zombie(void **state)
{
	struct inject_report r;
	pid_t pid = sleeper();
	siginfo_t info;

	(void)state;
	kill(pid, SIGKILL);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	assert_int_equal(refusal_of(pid, &r), INJECT_NO_PROCESS);
	end(pid);
}

static void a_stopped_process(void **state)
{
	struct inject_report r;
	pid_t pid = sleeper();

	(void)state;
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	assert_int_equal(refusal_of(pid, &r), INJECT_STOPPED);
	assert_non_null(strstr(r.fix, "CONT"));
	end(pid);
}

static void a_traced_process(void **state)
{
	struct inject_report r;
	pid_t pid = sleeper();

	(void)state;
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(refusal_of(pid, &r), INJECT_TRACED);
	assert_non_null(strstr(r.why, "traced by"));
	end(pid);
}

static void a_fit_process(void **state)
{
	struct inject_target t;
	struct inject_report r = { 0 };
	pid_t pid = sleeper();

	(void)state;
	assert_int_equal(refusal_of(pid, &r), INJECT_OK);
	assert_int_equal(probe_open(&t, pid, &r), 0);
	assert_true(t.gadgets.call && t.gadgets.sigreturn);
	assert_true(t.functions.dlopen && t.functions.pthread_create);
	assert_true(t.has_proc);
	assert_int_equal(t.uid, getuid());
	probe_close(&t);
	end(pid);
}

/* ---- maps -------------------------------------------------------------------- */

static struct maps text(char *s)
{
	return (struct maps){ .text = s, .bytes = strlen(s) };
}

static void lines_of_maps(void **state)
{
	static char s[] =
		"7f0000000000-7f0000001000 r-xp 00002000 fe:00 4711   "
		"/usr/lib/libc.so.6 (deleted)\n"
		"nonsense\n"
		"7f0000002000-7f0000001000 r--p 00000000 00:00 0 \n"
		"7f0000003000-7f0000004000 rw-p 00000000 00:00 0 \n"
		"7f0000005000-7f0000006000 r--p 00000000 00:00 9 /a "
		"b/libc-2.31.so";
	struct maps m = text(s);
	struct map map;
	size_t place = 0, n;
	const char *name;

	(void)state;
	assert_true(maps_next(&m, &place, &map));
	assert_int_equal(map.start, 0x7f0000000000);
	assert_int_equal(map.end, 0x7f0000001000);
	assert_int_equal(map.offset, 0x2000);
	assert_int_equal(map.inode, 4711);
	assert_true(map.readable && map.executable && !map.writable);
	n = map_name(&map, &name);
	assert_int_equal(n, 9);
	assert_memory_equal(name, "libc.so.6", 9);
	assert_true(map_is(&map, "libc"));
	assert_false(map_is(&map, "lib"));
	assert_true(maps_next(&m, &place, &map));
	assert_int_equal(map.start, 0x7f0000003000);
	assert_int_equal(map_name(&map, &name), 0);
	assert_false(map_is(&map, "libc"));
	assert_true(maps_next(&m, &place, &map));
	assert_true(map_is(&map, "libc"));
	assert_false(maps_next(&m, &place, &map));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_status_of_proc),
		cmocka_unit_test(a_locked_feature_is_not_in_use),
		cmocka_unit_test(each_refusal_has_its_word),
		cmocka_unit_test(no_such_process),
		cmocka_unit_test(a_zombie),
		cmocka_unit_test(a_stopped_process),
		cmocka_unit_test(a_traced_process),
		cmocka_unit_test(a_fit_process),
		cmocka_unit_test(lines_of_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
