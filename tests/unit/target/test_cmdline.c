#include "target/cmdline.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARSE(out, ...) parse((const char *const[]){ __VA_ARGS__, NULL }, out)

/* As the kernel shows it: each argument with its NUL. */
static int parse(const char *const *argv, struct cmdline *out)
{
	char *buf = NULL;
	size_t n = 0;
	int err;

	for (; *argv; argv++) {
		size_t len = strlen(*argv) + 1;

		buf = realloc(buf, n + len);
		assert_non_null(buf);
		memcpy(buf + n, *argv, len);
		n += len;
	}
	err = cmdline_parse(buf, n, out);
	free(buf);
	return err;
}

struct want {
	char id[16], engine[16], model[256];
	unsigned port, tp, pp, dp, ep;
};

static void check(const struct want *w, const char *args, size_t bytes)
{
	struct cmdline c;

	print_message("# %s\n", w->id);
	assert_int_equal(cmdline_parse(args, bytes, &c), 0);
	assert_string_equal(c.engine, w->engine);
	assert_string_equal(c.model, w->model);
	assert_int_equal(c.port, w->port);
	assert_int_equal(c.tp, w->tp);
	assert_int_equal(c.pp, w->pp);
	assert_int_equal(c.dp, w->dp);
	assert_int_equal(c.ep, w->ep);
}

static void real_servers(void **state)
{
	FILE *f = fopen("tests/data/cmdlines.txt", "r");
	char line[4096], args[16384];
	struct want w = { 0 };
	size_t n = 0;
	int cases = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#')
			continue;
		if (line[0] && w.id[0]) {
			memcpy(args + n, line, strlen(line) + 1);
			n += strlen(line) + 1;
		} else if (line[0]) {
			assert_int_equal(
				sscanf(line, "%15s %15s %255s %u %u %u %u %u",
				       w.id, w.engine, w.model, &w.port, &w.tp,
				       &w.pp, &w.dp, &w.ep),
				8);
		} else if (w.id[0]) {
			check(&w, args, n);
			memset(&w, 0, sizeof(w));
			n = 0;
			cases++;
		}
	}
	fclose(f);
	assert_int_equal(cases, 20);
}

static void ways_to_start(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(PARSE(&c, "/opt/vllm/bin/python3.12", "-B", "-X",
			       "dev", "/opt/vllm/bin/vllm", "serve", "a/b"),
			 0);
	assert_string_equal(c.model, "a/b");
	assert_int_equal(PARSE(&c, "python", "-u", "-m",
			       "vllm.entrypoints.openai.api_server", "--model",
			       "a/b"),
			 0);
	assert_string_equal(c.engine, "vllm");
	assert_int_equal(c.port, 8000);
	assert_int_equal(PARSE(&c, "/usr/bin/python3", "/usr/local/bin/sglang",
			       "serve", "--model-path", "x", "--port", "19000"),
			 0);
	assert_string_equal(c.engine, "sglang");
	assert_int_equal(c.port, 19000);
	assert_int_equal(PARSE(&c, "python3",
			       "vllm/entrypoints/openai/api_server.py",
			       "--model", "a/b"),
			 0);
	assert_string_equal(c.model, "a/b");
	assert_int_equal(PARSE(&c, "trtllm-serve", "a/b"), 0);
	assert_string_equal(c.model, "a/b");
}

static void not_servers(void **state)
{
	struct cmdline c = { .tp = 77 };

	(void)state;
#define NOT(...) assert_int_equal(PARSE(&c, __VA_ARGS__), -ENOENT)
	NOT("pkill", "-f", "VLLM::EngineCore");
	NOT("sh", "-c", "vllm serve a/b --port 9");
	NOT("python3", "/runner/sglang/sglang/test/run_suite.py");
	NOT("python3", "bench_serving.py", "vllm", "serve");
	NOT("python3", "-B", "-c", "from multiprocessing import x", "vllm",
	    "serve");
	NOT("vllm", "bench", "serve");
	NOT("trtllm-serve", "disaggregated", "-c", "router.yaml");
	NOT("vim", "vllm/entrypoints/openai/api_server.py");
	NOT("vllm");
	NOT("python3");
	NOT("python3", "-m");
	NOT("VLLM::EngineCore");
	NOT("moetop", "-p", "12");
	NOT("");
#undef NOT
	assert_int_equal(cmdline_parse("", 0, &c), -ENOENT);
	assert_int_equal(c.tp, 77);
}

static void simulated_server(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(PARSE(&c, "build/sim/moetop-sim", "--engine", "sglang",
			       "--model", "sim/models/qwen3-30b.json", "--gpu",
			       "H200", "--port=8123", "--tp", "2", "--users",
			       "16"),
			 0);
	assert_string_equal(c.engine, "sglang");
	assert_string_equal(c.version, "simulated");
	assert_string_equal(c.gpu, "H200");
	assert_int_equal(c.port, 8123);
	assert_int_equal(c.tp, 2);
	assert_int_equal(PARSE(&c, "moetop-sim", "--model", "m.json"), 0);
	assert_string_equal(c.engine, "vllm");
}

static void model_behind_options(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(PARSE(&c, "vllm", "serve", "--port", "8001",
			       "--max-model-len", "4096",
			       "--enable-prefix-caching", "a/b"),
			 0);
	assert_string_equal(c.model, "a/b");
	assert_int_equal(PARSE(&c, "vllm", "serve", "--dtype", "bfloat16"), 0);
	assert_string_equal(c.model, "");
}

/* How many words an unknown option takes nobody knows: none of them is a
 * model, up to the next option. */
static void words_of_an_unknown_option(void **state)
{
	struct cmdline c;

	(void)state;
	PARSE(&c, "vllm", "serve", "--new-list", "x", "y/z", "--port", "8001");
	assert_string_equal(c.model, "");
	assert_int_equal(c.port, 8001);
	PARSE(&c, "vllm", "serve", "--new-list", "x", "y", "a/b");
	assert_string_equal(c.model, "");
	PARSE(&c, "vllm", "serve", "a/b", "--new-list", "x", "y/z");
	assert_string_equal(c.model, "a/b");
	PARSE(&c, "vllm", "serve", "--new-list", "x", "y/z", "--tp", "2",
	      "a/b");
	assert_string_equal(c.model, "a/b");
	PARSE(&c, "vllm", "serve", "--new-list", "x", "y/z", "--model", "a/b");
	assert_string_equal(c.model, "a/b");
	PARSE(&c, "vllm", "serve", "--new=x", "a/b");
	assert_string_equal(c.model, "a/b");
	/* a known list ends at the next option, too */
	PARSE(&c, "vllm", "serve", "--served-model-name", "x", "y/z");
	assert_string_equal(c.model, "");
}

static void spellings(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(PARSE(&c, "vllm", "serve", "a/b",
			       "--tensor_parallel_size=4", "-dp", "2", "-ep",
			       "-dcp", "8", "--tensor-parallel-size-x", "9"),
			 0);
	assert_int_equal(c.tp, 4);
	assert_int_equal(c.dp, 2);
	assert_int_equal(c.ep, 8);
	assert_int_equal(PARSE(&c, "sglang", "serve", "--model-path", "m",
			       "--tp", "8", "--moe-a2a-backend", "deepep"),
			 0);
	assert_int_equal(c.ep, 8);
	assert_int_equal(PARSE(&c, "vllm", "serve", "a/b", "--tp", "-1",
			       "--port", "99999"),
			 0);
	assert_int_equal(c.tp, 0);
	assert_int_equal(c.port, 0);
	assert_true(c.port_given);
}

static void the_type_of_the_cache(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(PARSE(&c, "vllm", "serve", "a/b", "--kv-cache-dtype",
			       "fp8_e4m3"),
			 0);
	assert_true(c.kv_element_bytes == 1);
	assert_int_equal(PARSE(&c, "sglang", "serve", "--model-path", "m",
			       "--kv-cache-dtype=bfloat16"),
			 0);
	assert_true(c.kv_element_bytes == 2);
	assert_int_equal(
		PARSE(&c, "vllm", "serve", "a/b", "--kv-cache-dtype", "auto"),
		0);
	assert_true(c.kv_element_bytes == 0);
}

static void overrides_are_noted(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(
		PARSE(&c, "vllm", "serve", "a/b", "--hf-overrides", "{}"), 0);
	assert_string_equal(c.overrides, "{}");
}

static void an_option_at_the_end_lacks_its_value(void **state)
{
	struct cmdline c;

	(void)state;
	assert_int_equal(PARSE(&c, "vllm", "serve", "a/b", "--port"), 0);
	assert_int_equal(c.port, 8000);
}

static void yaml_fills_what_the_command_line_left(void **state)
{
	static const char yaml[] = "# options\n"
				   "tensor-parallel-size: 8\n"
				   "port: \"9000\"  # quoted\n"
				   "enable_expert_parallel: true\n"
				   "nested:\n"
				   "  data-parallel-size: 3\n"
				   "model: other/model\n"
				   ": x\nport\n";
	struct cmdline c;

	(void)state;
	assert_int_equal(
		PARSE(&c, "vllm", "serve", "a/b", "--config", "c.yaml"), 0);
	assert_string_equal(c.config_file, "c.yaml");
	cmdline_yaml(&c, yaml, sizeof(yaml) - 1);
	assert_int_equal(c.tp, 8);
	assert_int_equal(c.dp, 1);
	assert_int_equal(c.ep, 8);
	assert_int_equal(c.port, 9000);
	assert_string_equal(c.model, "a/b");
}

static void later_arguments_fill_what_is_missing(void **state)
{
	static const char more[] = "--model\0m.json\0--gpu\0H100\0--users\0"
				   "16";
	struct cmdline c;

	(void)state;
	assert_int_equal(
		PARSE(&c, "moetop-sim", "--scenario", "s", "--gpu", "B200"), 0);
	assert_true(c.simulated);
	assert_string_equal(c.config_file, "s");
	assert_int_equal(cmdline_add(&c, more, sizeof(more)), 0);
	assert_string_equal(c.model, "m.json");
	assert_string_equal(c.gpu, "B200");
}

static void names_for_people(void **state)
{
	static const struct {
		const char *model, *name;
	} cases[] = {
		{ "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B" },
		{ "/models/Qwen3-30B-A3B/", "Qwen3-30B-A3B" },
		{ "./m", "m" },
		{ "sim/models/qwen3-30b.json", "qwen3-30b" },
		{ "/c/hub/models--Qwen--Qwen3-30B/snapshots/abc",
		  "Qwen/Qwen3-30B" },
		{ "/c/models--", "" },
		{ "/c/models--x--", "x/" },
		{ "/", "" },
		{ "", "" },
	};
	struct cmdline c = { 0 };
	char name[96];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(c.model, sizeof(c.model), "%s", cases[i].model);
		cmdline_model_name(&c, name, sizeof(name));
		assert_string_equal(name, cases[i].name);
	}
	memset(c.model, 'x', sizeof(c.model) - 1);
	cmdline_model_name(&c, name, sizeof(name));
	assert_int_equal(strlen(name), sizeof(name) - 1);
}

static void worker_titles(void **state)
{
	static const char core[] = "VLLM::EngineCore_DP0\0\0\0";

	(void)state;
	assert_string_equal(cmdline_worker(core, sizeof(core)), "vllm");
	assert_string_equal(cmdline_worker("sglang::scheduler_TP0", 22),
			    "sglang");
	assert_null(cmdline_worker("pkill\0-f\0VLLM::EngineCore", 25));
	assert_null(cmdline_worker("VLLM", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_servers),
		cmocka_unit_test(ways_to_start),
		cmocka_unit_test(not_servers),
		cmocka_unit_test(simulated_server),
		cmocka_unit_test(model_behind_options),
		cmocka_unit_test(words_of_an_unknown_option),
		cmocka_unit_test(spellings),
		cmocka_unit_test(the_type_of_the_cache),
		cmocka_unit_test(overrides_are_noted),
		cmocka_unit_test(an_option_at_the_end_lacks_its_value),
		cmocka_unit_test(yaml_fills_what_the_command_line_left),
		cmocka_unit_test(later_arguments_fill_what_is_missing),
		cmocka_unit_test(names_for_people),
		cmocka_unit_test(worker_titles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
