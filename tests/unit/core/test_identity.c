/* What a server is called. */
#include "core/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *name(const struct identity *i, const char *engine,
			uint16_t port)
{
	static struct snapshot_target t;

	t = (struct snapshot_target){ .pid = 42, .port = port };
	snprintf(t.engine, sizeof(t.engine), "%s", engine);
	identity_fill(i, &t);
	return t.server;
}

static void by_engine_and_port(void **state)
{
	const struct identity plain = { .pid = 42 };

	(void)state;
	assert_string_equal(name(&plain, "vllm", 8000), "vllm:8000");
	assert_string_equal(name(&plain, "", 8000), "server:8000");
	assert_string_equal(name(&plain, "vllm", 0), "vllm:pid-42");
}

static void by_pod_or_container(void **state)
{
	const struct identity pod = { .pod = "llm-0", .id = "0123456789ab" };
	const struct identity own = { .own_network = true,
				      .id = "0123456789ab" };
	const struct identity host = { .id = "0123456789ab" };

	(void)state;
	assert_string_equal(name(&pod, "vllm", 8000), "llm-0:8000");
	assert_string_equal(name(&own, "vllm", 8000), "vllm-0123456789ab:8000");
	assert_string_equal(name(&host, "vllm", 8000), "vllm:8000");
}

static void a_second_one_ends_with_its_pid(void **state)
{
	const struct identity second = { .distinguished = true };

	(void)state;
	assert_string_equal(name(&second, "vllm", 8000), "vllm:8000-42");
	assert_string_equal(name(&second, "vllm", 0), "vllm:pid-42");
}

static void of_this_process(void **state)
{
	struct identity i = { .distinguished = true };

	(void)state;
	identity_read(&i, getpid());
	assert_int_equal(i.pid, getpid());
	assert_false(i.own_network);
	assert_true(i.distinguished);
	identity_read(&i, 1 << 30); /* nobody's */
	assert_string_equal(i.pod, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_engine_and_port),
		cmocka_unit_test(by_pod_or_container),
		cmocka_unit_test(a_second_one_ends_with_its_pid),
		cmocka_unit_test(of_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
