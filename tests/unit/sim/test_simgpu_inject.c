/* cuInit of the simulated driver loads what CUDA_INJECTION64_PATH names. */
#include "tests/unit/sim/simgpu_fixture.h"

#include <sys/syscall.h>

/* What is injected says through the environment what it found. */
static const char source[] =
	"#define _GNU_SOURCE\n"
	"#include <dlfcn.h>\n"
	"#include <stdio.h>\n"
	"#include <stdlib.h>\n"
	"#include <sys/syscall.h>\n"
	"#include <unistd.h>\n"
	"int InitializeInjection(void)\n"
	"{\n"
	"	int (*count)(int *), n = -1, calls = 0;\n"
	"	char text[64], *was = getenv(\"INJECTED\");\n"
	"	if (was)\n"
	"		sscanf(was, \"%d\", &calls);\n"
	"	*(void **)&count = dlsym(RTLD_DEFAULT, \"cuDeviceGetCount\");\n"
	"	if (!count || count(&n))\n"
	"		n = -1;\n"
	"	snprintf(text, sizeof(text), \"%d %d %ld\", calls + 1, n,\n"
	"		 syscall(SYS_gettid));\n"
	"	setenv(\"INJECTED\", text, 1);\n"
	"	return 1;\n"
	"}\n";

static void injection_runs_once_in_an_initialised_driver(void **state)
{
	char dir[] = "/tmp/moetop-inject-XXXXXX";
	char c[64], so[64], command[256], expected[64];
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(c, sizeof(c), "%s/i.c", dir);
	snprintf(so, sizeof(so), "%s/i.so", dir);
	f = fopen(c, "w");
	assert_non_null(f);
	fputs(source, f);
	fclose(f);
	snprintf(command, sizeof(command), "cc -shared -fPIC -o %s %s -ldl", so,
		 c);
	assert_int_equal(system(command), 0);
	setenv("CUDA_INJECTION64_PATH", so, 1);
	ok(cuInit(0));
	ok(cuInit(0));
	snprintf(expected, sizeof(expected), "1 1 %ld", syscall(SYS_gettid));
	assert_non_null(getenv("INJECTED"));
	assert_string_equal(getenv("INJECTED"), expected);
	unlink(c);
	unlink(so);
	rmdir(dir);
}

static void processes_without_a_library_start_as_well(void **state)
{
	int status = -1;
	char command[4200] = "CUDA_INJECTION64_PATH=/nonexistent.so ";
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	assert_true(n > 0);
	self[n] = '\0';
	strcat(command, self);
	strcat(command, " init");
	status = system(command);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(injection_runs_once_in_an_initialised_driver),
		cmocka_unit_test(processes_without_a_library_start_as_well),
	};

	if (argc > 1 && strcmp(argv[1], "init") == 0)
		return cuInit(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
