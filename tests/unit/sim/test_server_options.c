/* The command line, scenarios, schedules of users, and URLs. */
#include "sim/server/options.h"

#include <arpa/inet.h>
#include <unistd.h>

#include "sim/server/load.h"
#include "tests/unit/sim/server_test.h"

static struct sim_options o;
static char why[512];
static char file[] = "/tmp/moetop-options-XXXXXX";

static int parse(const char *const *args)
{
	char *argv[32] = { (char *)(uintptr_t) "moetop-sim" };
	int n = 1;

	while (*args)
		argv[n++] = (char *)(uintptr_t)*args++;
	why[0] = 0;
	return options_parse(n, argv, &o, why, sizeof(why));
}

#define PARSE(...) parse((const char *const[]){ __VA_ARGS__, NULL })

static int make_file(void **state)
{
	int fd = mkstemp(file);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int drop_file(void **state)
{
	(void)state;
	return unlink(file);
}

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void defaults_are_those_of_the_help(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--model", file), 0);
	assert_string_equal(o.model, file);
	assert_string_equal(o.gpu, "H200");
	assert_string_equal(o.host, "127.0.0.1");
	assert_int_equal(o.port, 8000);
	assert_int_equal(o.max_seqs, 1024);
	assert_int_equal(o.max_tokens, 8192);
	assert_int_equal(o.flavour, KERNELS_VLLM);
	assert_int_equal(o.routing.kind, ROUTING_POPULARITY);
	assert_true(o.graphs);
	assert_int_equal(o.users.phases, 0);
}

static void values_are_read(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--model", file, "--engine=sglang", "--eager",
			       "--port", "0", "--routing", "zipf:1.1",
			       "--persistence", "0.25", "--users", "1:2,7",
			       "--seed=99", "--tp", "1", "--duration", "2.5"),
			 0);
	assert_int_equal(o.flavour, KERNELS_SGLANG);
	assert_false(o.graphs);
	assert_int_equal(o.port, 0);
	assert_int_equal(o.routing.kind, ROUTING_ZIPF);
	assert_true(o.routing.persistence == 0.25);
	assert_int_equal(o.users.phases, 2);
	assert_int_equal(o.seed, 99);
	assert_int_equal(o.routing.seed, 99);
	assert_true(o.duration_s == 2.5);
}

static void mistakes_are_named(void **state)
{
	static const char *const bad[][2] = {
		{ "--gpu", "" },          { "--port", "65536" },
		{ "--port", "x" },        { "--tp", "17" },
		{ "--ep", "0" },          { "--max-num-seqs", "0" },
		{ "--users", "5," },      { "--routing", "fair" },
		{ "--speed", "2" },       { "--scenario", "no-such" },
		{ "--persistence", "2" }, { "--engine", "tgi" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(PARSE("--model", file, bad[i][0], bad[i][1]),
				 -EINVAL);
		assert_non_null(strstr(why, bad[i][0]));
	}
	assert_int_equal(PARSE("--model", file, "--tp", "4", "--ep", "2"),
			 -EINVAL);
	assert_non_null(strstr(why, "--ep"));
	assert_int_equal(PARSE("--model", file, "--tp", "4", "--ep", "4"), 0);
	assert_int_equal(PARSE("--port", "0"), -EINVAL);
	assert_non_null(strstr(why, "--model"));
	assert_int_equal(PARSE("--model", "/nowhere/config.json"), -EINVAL);
	assert_int_equal(PARSE("--model"), -EINVAL);
	assert_int_equal(PARSE("model.json"), -EINVAL);
}

static void file_name_of_a_popularity_survives(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("--model", file, "--routing", "popularity:f.csv"), 0);
	assert_ptr_equal(o.routing.file, o.routing_text + 11);
	assert_string_equal(o.routing.file, "f.csv");
}

static void command_line_overrules_the_scenario(void **state)
{
	char text[256];

	(void)state;
	snprintf(text, sizeof(text),
		 "# comment\n--model %s --gpu A100 # more\n\n--users\t1:5,9\n",
		 file);
	write_file(text);
	assert_int_equal(PARSE("--scenario", file), 0);
	assert_string_equal(o.gpu, "A100");
	assert_int_equal(o.users.phases, 2);
	assert_int_equal(PARSE("--gpu", "H100", "--scenario", file), 0);
	assert_string_equal(o.gpu, "H100");
	write_file("--nonsense 1\n");
	assert_int_equal(PARSE("--scenario", file), -EINVAL);
}

static void schedules_are_read(void **state)
{
	struct users u;

	(void)state;
	assert_int_equal(users_parse("1:10,16:2.5a,512", &u), 0);
	assert_int_equal(u.phases, 3);
	assert_int_equal(users_at(&u, 0)->users, 1);
	assert_int_equal(users_at(&u, 9.99)->users, 1);
	assert_int_equal(users_at(&u, 10)->users, 16);
	assert_true(users_at(&u, 10)->abandon);
	assert_int_equal(users_at(&u, 12.5)->users, 512);
	assert_int_equal(users_at(&u, 1e9)->users, 512);
	assert_int_equal(users_peak(&u), 512);
	assert_int_equal(users_parse("3:1,2:5", &u), 0);
	assert_int_equal(users_at(&u, 100)->users, 2);
}

static void bad_schedules_are_refused(void **state)
{
	static const char *const bad[] = { "",      ",",     "x",    "1,2",
					   "1:",    "1:0",   "1:-3", "1:nan",
					   "1:5;2", "-1",    "1:5,", "1b",
					   "20001", "1:2:3", " 1" };
	struct users u = { .phases = 77 };
	char many[4 * USERS_PHASES_MAX + 8] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(users_parse(bad[i], &u), -EINVAL);
	for (unsigned i = 0; i < USERS_PHASES_MAX; i++)
		strcat(many, "1:1,");
	strcat(many, "1:1");
	assert_int_equal(users_parse(many, &u), -EINVAL);
	assert_int_equal(u.phases, 77);
}

static void load_goes_to_this_machine_only(void **state)
{
	static const char *const bad[] = {
		"http://192.0.2.1:80",    "https://127.0.0.1",
		"http://example.com/",    "http://127.0.0.1:0",
		"http://127.0.0.1:70000", "http://127.0.0.1:80/v1",
		"127.0.0.1:80",           "http://",
	};
	uint32_t address = 0;
	uint16_t port = 0;

	(void)state;
	assert_int_equal(
		load_parse_url("http://localhost:81/", &address, &port), 0);
	assert_int_equal(ntohl(address), 0x7f000001);
	assert_int_equal(port, 81);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(load_parse_url(bad[i], &address, &port),
				 -EINVAL);
	assert_int_equal(port, 81);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_the_help),
		cmocka_unit_test(values_are_read),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(file_name_of_a_popularity_survives),
		cmocka_unit_test(command_line_overrules_the_scenario),
		cmocka_unit_test(schedules_are_read),
		cmocka_unit_test(bad_schedules_are_refused),
		cmocka_unit_test(load_goes_to_this_machine_only),
	};

	return cmocka_run_group_tests(tests, make_file, drop_file);
}
