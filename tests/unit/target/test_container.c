#include "target/container.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *cgroup, *described;
} cases[] = {
	{ "0::/\n", "" },
	{ "0::/user.slice/user-1000.slice/session-3.scope\n", "" },
	{ "0::/system.slice/vllm.service\n", "" },
	{ "0::/system.slice/docker-" ID ".scope\n", "docker 0123456789ab" },
	{ "12:memory:/docker/" ID "\n11:cpu:/docker/" ID "\n",
	  "docker 0123456789ab" },
	{ "0::/../docker-" ID ".scope\n", "docker 0123456789ab" },
	{ "0::/machine.slice/libpod-" ID ".scope/container\n",
	  "podman 0123456789ab" },
	{ "0::/default/" ID "\n", "container 0123456789ab" },
	{ "0::/system.slice/nerdctl-" ID ".scope\n", "nerdctl 0123456789ab" },
	{ "0::/kubepods.slice/kubepods-burstable.slice/"
	  "kubepods-burstable-pod0a1b2c3d_0000_1111_2222_333344445555.slice/"
	  "cri-containerd-" ID ".scope\n",
	  "pod 0a1b2c3d-0000-1111-2222-333344445555 0123456789ab" },
	{ "0::/kubepods/besteffort/pod0a1b2c3d-0000-1111-2222-333344445555/" ID
	  "\n",
	  "pod 0a1b2c3d-0000-1111-2222-333344445555 0123456789ab" },
	{ "0::/kubepods.slice/kubepods-"
	  "pod0123456789abcdef0123456789abcdef.slice/crio-" ID ".scope\n",
	  "pod 0123456789abcdef0123456789abcdef 0123456789ab" },
	{ "1:name=systemd:/\n9:memory:/kubepods/pod0a1b2c3d-0000-1111-2222-"
	  "333344445555/" ID "\n",
	  "pod 0a1b2c3d-0000-1111-2222-333344445555 0123456789ab" },
	{ "0::/lxc.payload.gpu-box/init.scope\n", "lxc gpu-box" },
	{ "4:cpuset:/lxc/gpu-box\n", "lxc gpu-box" },
	{ "0::/machine.slice/machine-serve.scope\n", "machine serve" },
	{ "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n",
	  "slurm 42" },
	{ "5:devices:/slurm/uid_1000/job_7/step_batch\n", "slurm 7" },
	/* a long number is not yet a container, nor is a word */
	{ "4:memory:/jobs/0123456789abcdef0123456789abcdef\n", "" },
	{ "0::/podium/docker-compose.service\n", "" },
	{ "0::/a/x" ID "\n", "" },
	{ "no colons\n:\n::\n", "" },
};

static void names_of_groups(void **state)
{
	struct container c;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		container_parse(cases[i].cgroup, strlen(cases[i].cgroup), &c);
		container_describe(&c, text, sizeof(text));
		assert_string_equal(text, cases[i].described);
	}
}

static void a_pod_by_its_name(void **state)
{
	struct container c = { .pod_uid = "0a1b", .pod_name = "llm-0" };
	char text[64];

	(void)state;
	container_describe(&c, text, sizeof(text));
	assert_string_equal(text, "pod llm-0");
	strcpy(c.id, ID);
	container_describe(&c, text, sizeof(text));
	assert_string_equal(text, "pod llm-0 0123456789ab");
}

static void pids_inside(void **state)
{
	struct container c = { .inner_pid = 7 };
	char text[64];

	(void)state;
	assert_int_equal(container_inner_pid("Pid:\t9\nNSpid:\t900\t7\t1\n"),
			 1);
	assert_int_equal(container_inner_pid("Pid:\t9\nNSpid:\t900\n"), 0);
	assert_int_equal(container_inner_pid("Pid:\t9\nNSpid:\tx\ty\n"), 0);
	assert_int_equal(container_inner_pid("Pid:\t9\n"), 0);
	container_describe(&c, text, sizeof(text));
	assert_string_equal(text, "namespace, pid 7 inside");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_groups),
		cmocka_unit_test(a_pod_by_its_name),
		cmocka_unit_test(pids_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
