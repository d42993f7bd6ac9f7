/* The tables of tests/data/process_tables.txt, and what is asked of one. */
#include "target/processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MEMBERS_MAX 32u

static struct {
	struct processes table;
	char name[128];
	int torch;
	struct {
		int pid;
		char name[32];
	} job[8];
	unsigned n_jobs, expected, found;
	bool grouped;
} now;

static bool embeds(void *cls, pid_t pid)
{
	(void)cls;
	return pid == now.torch;
}

static void ray_job(void *cls, pid_t pid, char *out, size_t room)
{
	(void)cls;
	for (unsigned i = 0; i < now.n_jobs; i++)
		if (now.job[i].pid == pid)
			snprintf(out, room, "%s", now.job[i].name);
}

static const struct processes_ask ask = { .embeds = embeds,
					  .ray_job = ray_job };

static void add(const char *line)
{
	struct proc_stat s = { .state = 'S' };
	char args[512];
	int at = 0;
	unsigned long start;
	size_t n;

	assert_int_equal(sscanf(line, "%d %d %d %d %lu %n", &s.pid, &s.ppid,
				&s.pgrp, &s.session, &start, &at),
			 5);
	s.start_ticks = start;
	if (line[at] == '~')
		snprintf(s.comm, sizeof(s.comm), "%s", line + at + 1);
	n = (size_t)snprintf(args, sizeof(args), "%s", line + at) + 1;
	for (size_t i = 0; i < n; i++)
		if (args[i] == '|')
			args[i] = '\0';
	assert_int_equal(
		processes_add(&now.table, &s, args, line[at] == '~' ? 0 : n),
		0);
}

static int pid_order(const void *a, const void *b)
{
	return *(const pid_t *)a - *(const pid_t *)b;
}

static void check(const char *line)
{
	static const char *const groups[] = {
		[GROUP_SERVER] = "server",
		[GROUP_EMBEDDED] = "embedded",
		[GROUP_ACTORS] = "actors",
		[GROUP_LEFT_OVER] = "left_over",
	};
	char group[16], engine[16], got[512] = "", want[512] = "";
	pid_t pids[MEMBERS_MAX];
	int first, at = 0, root;
	unsigned n;

	if (!now.grouped)
		processes_group(&now.table, &ask);
	now.grouped = true;
	assert_int_equal(
		sscanf(line, "> %15s %d %15s%n", group, &first, engine, &at),
		3);
	root = processes_find(&now.table, first);
	assert_true(root >= 0);
	if (now.table.all[root].root != root)
		fail_msg("%s: %d is no first process", now.name, first);
	assert_string_equal(groups[now.table.all[root].group], group);
	n = processes_members(&now.table, root, pids, MEMBERS_MAX);
	assert_int_equal(pids[0], first);
	qsort(pids, n, sizeof(pids[0]), pid_order);
	for (unsigned i = 0; i < n; i++)
		sprintf(got + strlen(got), " %d", (int)pids[i]);
	snprintf(want, sizeof(want), "%s", line + at);
	if (strcmp(got, want) != 0)
		fail_msg("%s:%s are%s", now.name, want, got);
	now.expected++;
}

static void end_case(void)
{
	if (!now.name[0])
		return;
	if (!now.grouped)
		processes_group(&now.table, &ask);
	for (unsigned i = 0; i < now.table.n; i++)
		now.found += now.table.all[i].root == (int)i;
	if (now.found != now.expected)
		fail_msg("%s: %u servers, %u expected", now.name, now.found,
			 now.expected);
	processes_free(&now.table);
	memset(&now, 0, sizeof(now));
}

static void servers_of_tables(void **state)
{
	FILE *f = fopen("tests/data/process_tables.txt", "r");
	char line[1024];
	unsigned cases = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '=') {
			end_case();
			snprintf(now.name, sizeof(now.name), "%.100s",
				 line + 2);
			cases++;
		} else if (line[0] == '>') {
			check(line);
		} else if (strncmp(line, "job ", 4) == 0) {
			assert_int_equal(sscanf(line, "job %d %31s",
						&now.job[now.n_jobs].pid,
						now.job[now.n_jobs].name),
					 2);
			now.n_jobs++;
		} else if (sscanf(line, "torch %d", &now.torch) != 1 &&
			   line[0] && line[0] != '#') {
			add(line);
		}
	}
	end_case();
	fclose(f);
	assert_int_equal(cases, 38);
}

static ssize_t load(const char *pid, const char *name, char *out, size_t room)
{
	char path[512];
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "tests/data/procs/vllm_0.32.0_cpu/%s/%s",
		 pid, name);
	f = fopen(path, "r");
	assert_non_null(f);
	n = (ssize_t)fread(out, 1, room, f);
	fclose(f);
	return n;
}

/* /proc as it was on a machine that served a model of two layers. */
static void a_real_vllm(void **state)
{
	static const char *const pids[] = { "359", "32354", "313", "314" };
	char stat[1024], args[4096];
	pid_t members[8];
	int root;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		ssize_t n = load(pids[i], "stat", stat, sizeof(stat));
		struct proc_stat s;

		assert_int_equal(proc_stat_parse(stat, (size_t)n, &s), 0);
		n = load(pids[i], "cmdline", args, sizeof(args));
		assert_int_equal(processes_add(&now.table, &s, args, (size_t)n),
				 0);
	}
	processes_group(&now.table, NULL);
	root = processes_find(&now.table, 32354);
	for (unsigned i = 0; i < now.table.n; i++)
		assert_int_equal(now.table.all[i].root, root);
	assert_int_equal(now.table.all[root].group, GROUP_SERVER);
	assert_int_equal(now.table.all[root].port, 8177);
	assert_int_equal(processes_members(&now.table, root, members, 8), 4);
	assert_int_equal(members[3], 359); /* below the engine core */
	processes_free(&now.table);
	memset(&now, 0, sizeof(now));
}

static void put(pid_t pid, pid_t ppid, const char *args, size_t bytes)
{
	struct proc_stat s = { .pid = pid, .ppid = ppid, .state = 'S' };

	assert_int_equal(processes_add(&now.table, &s, args, bytes), 0);
}

static void the_server_around_above_or_below(void **state)
{
	static const char serve[] = "vllm\0serve\0a/b";
	static const char other[] = "vllm\0serve\0c/d";
	unsigned several;

	(void)state;
	put(1, 0, "init", 5);
	put(2, 1, "bash", 5);
	put(10, 2, serve, sizeof(serve));
	put(11, 10, "VLLM::EngineCore", 17);
	put(12, 11, "cc1", 4);
	put(20, 1, other, sizeof(other));
	put(30, 1, "cron", 5);
	processes_group(&now.table, NULL);
	assert_int_equal(processes_server(&now.table, 12, &several), 2);
	assert_int_equal(processes_server(&now.table, 10, &several), 2);
	assert_int_equal(several, 0);
	assert_int_equal(processes_server(&now.table, 2, &several), 2);
	assert_int_equal(several, 1);
	assert_int_equal(processes_server(&now.table, 1, &several), 2);
	assert_int_equal(several, 2);
	assert_int_equal(processes_server(&now.table, 30, &several), -1);
	assert_int_equal(processes_server(&now.table, 99, &several), -1);
	processes_free(&now.table);
	memset(&now, 0, sizeof(now));
}

static void the_dead_are_left_out(void **state)
{
	struct proc_stat s = { .pid = 5, .state = 'Z' };

	(void)state;
	assert_int_equal(processes_add(&now.table, &s, "", 0), 0);
	assert_int_equal(now.table.n, 0);
	processes_group(&now.table, NULL);
	assert_int_equal(processes_find(&now.table, 5), -1);
}

static void this_machine(void **state)
{
	int self;

	(void)state;
	assert_int_equal(processes_read(&now.table), 0);
	self = processes_find(&now.table, getpid());
	assert_true(self >= 0);
	assert_int_equal(now.table.all[self].ppid, getppid());
	assert_int_equal(now.table.all[self].session, getsid(0));
	assert_int_equal(now.table.all[self].pgrp, getpgrp());
	processes_free(&now.table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_of_tables),
		cmocka_unit_test(a_real_vllm),
		cmocka_unit_test(the_server_around_above_or_below),
		cmocka_unit_test(the_dead_are_left_out),
		cmocka_unit_test(this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
