/* Ranks among processes that this test makes: each maps what it is told. */
#include "target/ranks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/moetop-ranks-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static void map_file(const char *name)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (ftruncate(fd, 4096) ||
	    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
}

/* A process with these files mapped, names apart by spaces. */
static pid_t process(const char *files)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		char text[128];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(text, sizeof(text), "%s", files);
		for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
			map_file(w);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void look(struct target *t)
{
	struct proc_fds fds[TARGET_PIDS_MAX] = { 0 };

	for (unsigned i = 0; i < t->n_pids; i++)
		(void)proc_fds_read(t->pids[i], &fds[i], NULL, NULL);
	ranks_find(t, fds);
}

static void who_owns_a_gpu_is_a_rank_and_who_only_maps_cuda_is_not(void **state)
{
	struct target t = { .n_pids = 3 };

	(void)state;
	t.pids[0] = process("libcuda.so.1");
	t.pids[1] = process("libcuda.so.1 moetop-sim-gpu0-1");
	t.pids[2] = process("libc_of_its_own");
	look(&t);
	assert_int_equal(t.n_ranks, 1);
	assert_int_equal(t.ranks[0].pid, t.pids[1]);
	assert_true(t.ranks[0].has_cuda);
	assert_true(t.ranks[0].owns_gpu);
	assert_int_not_equal(t.ranks[0].start_ticks, 0);
	for (int i = 0; i < 3; i++)
		end(t.pids[i]);
}

static void without_an_owner_cuda_alone_counts(void **state)
{
	struct target t = { .n_pids = 2 };

	(void)state;
	t.pids[0] = process("none");
	t.pids[1] = process("libcuda.so.1");
	look(&t);
	assert_int_equal(t.n_ranks, 1);
	assert_int_equal(t.ranks[0].pid, t.pids[1]);
	assert_false(t.ranks[0].owns_gpu);
	end(t.pids[0]);
	end(t.pids[1]);
}

static void an_owner_that_comes_later_takes_over(void **state)
{
	struct target t = { .n_pids = 1 };

	(void)state;
	t.pids[0] = process("libcuda.so.1");
	look(&t);
	assert_int_equal(t.ranks[0].pid, t.pids[0]);
	t.pids[t.n_pids++] = process("libcuda.so.1 moetop-sim-gpu0-2");
	look(&t);
	assert_int_equal(t.n_ranks, 1);
	assert_int_equal(t.ranks[0].pid, t.pids[1]);
	end(t.pids[0]);
	end(t.pids[1]);
}

static void one_that_is_gone_is_no_rank(void **state)
{
	struct target t = { .n_pids = 1 };

	(void)state;
	t.pids[0] = process("libcuda.so.1 moetop-sim-gpu0-3");
	look(&t);
	assert_int_equal(t.n_ranks, 1);
	end(t.pids[0]);
	look(&t);
	assert_int_equal(t.n_ranks, 0);
}

static void titles_tell_the_rank(void **state)
{
	(void)state;
	assert_int_equal(ranks_title_number("VLLM::Worker_TP3", 1, 4), 3);
	assert_int_equal(ranks_title_number("VLLM::Worker_DP1_TP0_EP4", 1, 4),
			 4);
	assert_int_equal(ranks_title_number("VLLM::Worker_PP1_TP1", 2, 2), 3);
	assert_int_equal(ranks_title_number("VLLM::EngineCore_DP2", 1, 1), 2);
	assert_int_equal(
		ranks_title_number("sglang::scheduler_MOE_DP1_TP2", 1, 4), 2);
	assert_int_equal(ranks_title_number("sglang::scheduler_TP0", 0, 0), 0);
	assert_int_equal(ranks_title_number("sglang::scheduler_gpu1_tp1", 1, 2),
			 1);
	assert_int_equal(ranks_title_number("sglang::scheduler", 1, 4), -1);
	assert_int_equal(ranks_title_number("VLLM::Worker_TP", 1, 4), -1);
	assert_int_equal(ranks_title_number("", 1, 4), -1);
	assert_int_equal(ranks_title_number("VLLM::Worker_TP99999999999", 1, 4),
			 -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			who_owns_a_gpu_is_a_rank_and_who_only_maps_cuda_is_not),
		cmocka_unit_test(without_an_owner_cuda_alone_counts),
		cmocka_unit_test(an_owner_that_comes_later_takes_over),
		cmocka_unit_test(one_that_is_gone_is_no_rank),
		cmocka_unit_test(titles_tell_the_rank),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
