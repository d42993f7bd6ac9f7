/* simgpu_child.h - tests of the simulated GPU in processes of their own, which
 * end with 0 or the number of the check that failed */
#ifndef MOETOP_TESTS_UNIT_SIM_SIMGPU_CHILD_H
#define MOETOP_TESTS_UNIT_SIM_SIMGPU_CHILD_H

#include "tests/unit/sim/simgpu_fixture.h"

#include <sys/wait.h>

#define KERNELS 12

static CUdeviceptr memory;

static int launch_all(void)
{
	int bad = 0;

	for (int i = 0; i < KERNELS; i++)
		bad |= launch_write(gpu.stream, memory, 0, 5000, NULL);
	return bad | cuStreamSynchronize(gpu.stream);
}

static void expect_child(int (*body)(void))
{
	int status = 0;
	char file[80]; /* _exit leaves it */
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	snprintf(file, sizeof(file), "/dev/shm/moetop-sim-gpu%u-%d", getuid(),
		 (int)pid);
	unlink(file);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHECK(n, x)               \
	do {                      \
		if (!(x))         \
			return n; \
	} while (0)

#endif
