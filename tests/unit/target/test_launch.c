/*
 * Options of servers: the command lines of tests/data/cases/cmdlines.jsonl, or of
 * MOETOP_CASES/cmdlines, each with the answer that a person gave; and the ways
 * to write an option.
 */
#include "target/cmdline.h"

#include <ctype.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct words {
	char env[4096], args[16384];
	size_t n_env, n_args;
};

/* ---- a shell's words ---------------------------------------------------- */

static bool is_assignment(const char *w)
{
	size_t n = strspn(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	return n > 0 && w[n] == '=';
}

static void add_word(struct words *w, const char *word)
{
	size_t n = strlen(word) + 1;

	if (w->n_args == 0 && is_assignment(word)) {
		memcpy(w->env + w->n_env, word, n);
		w->n_env += n;
		return;
	}
	memcpy(w->args + w->n_args, word, n);
	w->n_args += n;
}

/* Quotes and backslashes go, redirections end it, variables stay. */
static void split(const char *s, struct words *w)
{
	char word[4096];
	size_t n = 0;
	char quote = 0;
	bool any = false;

	memset(w, 0, sizeof(*w));
	/* "<port>" is a word */
	for (;
	     *s && (quote || memchr(word, '<', n) || (*s != '>' && *s != '&'));
	     s++) {
		if (*s == '\\' && quote != '\'' && s[1]) {
			word[n++] = *++s;
			any = true;
		} else if (quote ? *s == quote : *s == '\'' || *s == '"') {
			quote = quote ? 0 : *s;
			any = true;
		} else if (!quote && isspace((unsigned char)*s)) {
			word[n] = '\0';
			if (any)
				add_word(w, word);
			n = 0;
			any = false;
		} else {
			word[n++] = *s;
			any = true;
		}
		assert_true(n < sizeof(word) - 1);
	}
	word[n] = '\0';
	if (any)
		add_word(w, word);
}

/* ---- answers ------------------------------------------------------------ */

static bool is_variable(const char *s)
{
	return strchr(s, '$') || s[0] == '<';
}

static void same(const char *id, const char *key, const char *got,
		 const char *want)
{
	if (is_variable(want))
		want = "unknown";
	if (!got || strcmp(got, want) != 0)
		fail_msg("%s: %s is %s, expected %s", id, key,
			 got ? got : "not there", want);
}

static void same_count(const char *id, const char *key, uint32_t got,
		       const char *want)
{
	uint32_t n = is_variable(want) ? 0 : (uint32_t)atoi(want);

	if (got != n)
		fail_msg("%s: %s is %u, expected %s", id, key, got, want);
}

static const char *text_of(const json_t *e, const char *key)
{
	return json_string_value(json_object_get(e, key));
}

static void check_counts(const char *id, const struct cmdline *c,
			 const json_t *e)
{
	const struct {
		const char *key;
		uint32_t got;
	} counts[] = { { "tp", c->tp },        { "pp", c->pp },
		       { "dp", c->dp },        { "dp_rank", c->dp_rank },
		       { "nnodes", c->nodes }, { "node_rank", c->node_rank } };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		if (text_of(e, counts[i].key))
			same_count(id, counts[i].key, counts[i].got,
				   text_of(e, counts[i].key));
	if (text_of(e, "ep") && strncmp(text_of(e, "ep"), "on", 2) == 0)
		assert_int_equal(c->ep, c->tp * c->dp);
	else if (text_of(e, "ep"))
		same_count(id, "ep", c->ep, text_of(e, "ep"));
	if (json_is_null(json_object_get(e, "port")) || c->node_rank)
		assert_int_equal(c->port, 0);
	else
		same_count(id, "port", c->port, text_of(e, "port"));
	if (json_is_true(json_object_get(e, "dp_attention"))) {
		assert_true(c->dp_attention);
		assert_int_equal(c->gpus, c->tp * c->pp);
	}
}

static void check_texts(const char *id, const struct cmdline *c,
			const json_t *e)
{
	static const struct {
		const char *key;
		enum launch_id launch;
	} shown[] = { { "quant", LAUNCH_QUANT },
		      { "kv", LAUNCH_KV_TYPE },
		      { "moe", LAUNCH_MOE_BACKEND },
		      { "config_file", LAUNCH_CONFIG_FILE },
		      { "uds", LAUNCH_UDS } };
	char name[96];

	assert_string_equal(c->engine, text_of(e, "engine"));
	assert_string_equal(c->model, text_of(e, "model"));
	cmdline_model_name(c, name, sizeof(name));
	if (is_variable(c->model))
		assert_string_equal(name, "");
	if (text_of(e, "served"))
		assert_string_equal(c->served, text_of(e, "served"));
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (text_of(e, shown[i].key))
			same(id, shown[i].key,
			     launch_find(&c->launch, shown[i].launch),
			     text_of(e, shown[i].key));
	if (json_is_true(json_object_get(e, "eager")))
		assert_true(c->launch.eager);
	if (json_is_true(json_object_get(e, "eplb")))
		assert_true(c->launch.eplb);
}

static void check_json(const char *id, const struct cmdline *c, const json_t *e)
{
	const char *graph = text_of(e, "graph"), *d = text_of(e, "disagg");
	const char *got;
	json_t *o = graph ? json_loads(graph, 0, NULL) : NULL;

	if (o && text_of(o, "cudagraph_mode"))
		same(id, "graph", launch_find(&c->launch, LAUNCH_GRAPH_MODE),
		     text_of(o, "cudagraph_mode"));
	else if (o && !json_object_get(o, "cudagraph_capture_sizes"))
		assert_non_null(launch_find(&c->launch, LAUNCH_COMPILATION));
	else if (graph && !o)
		assert_non_null(launch_find(&c->launch, LAUNCH_CAPTURE));
	json_decref(o);
	got = launch_find(&c->launch, LAUNCH_DISAGGREGATION);
	if (d && (!got || strncmp(got, d, strlen(d)) != 0))
		fail_msg("%s: disagg is %s, expected %s", id, got ? got : "-",
			 d);
}

static void check_speculation(const char *id, const struct cmdline *c,
			      json_t *spec)
{
	static const struct {
		const char *key;
		enum launch_id launch;
	} words[] = {
		{ "speculative-algorithm", LAUNCH_SPECULATIVE },
		{ "speculative-num-steps", LAUNCH_DRAFT_STEPS },
		{ "speculative-eagle-topk", LAUNCH_DRAFT_TOPK },
		{ "speculative-num-draft-tokens", LAUNCH_DRAFT_TOKENS },
	};
	json_t *config = NULL;
	char number[24];

	if (text_of(spec, "speculative-config"))
		config = json_loads(text_of(spec, "speculative-config"), 0,
				    NULL);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (text_of(spec, words[i].key))
			same(id, words[i].key,
			     launch_find(&c->launch, words[i].launch),
			     text_of(spec, words[i].key));
	if (text_of(spec, "speculative-draft-model-path"))
		assert_non_null(launch_find(&c->launch, LAUNCH_DRAFT_MODEL));
	if (config) {
		snprintf(number, sizeof(number), "%d",
			 (int)json_integer_value(json_object_get(
				 config, "num_speculative_tokens")));
		same(id, "method", launch_find(&c->launch, LAUNCH_SPECULATIVE),
		     text_of(config, "method"));
		same(id, "tokens", launch_find(&c->launch, LAUNCH_DRAFT_TOKENS),
		     number);
	}
	json_decref(config);
}

static void real_command_lines(void **state)
{
	const char *cases = getenv("MOETOP_CASES");
	char path[512], *line = NULL;
	size_t room = 0;
	unsigned n = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/cmdlines.jsonl",
		 cases ? cases : "tests/data/cases");
	if (cases)
		snprintf(path, sizeof(path), "%s/cmdlines/cmdlines.jsonl",
			 cases);
	f = fopen(path, "r");
	assert_non_null(f);
	while (getline(&line, &room, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);
		json_t *e = json_object_get(o, "expect");
		const char *id = text_of(o, "id");
		struct words *w = malloc(sizeof(*w));
		struct cmdline c;

		split(text_of(o, "cmd"), w);
		if (cmdline_parse(w->args, w->n_args, &c))
			fail_msg("%s: no server", id);
		cmdline_environ(&c, w->env, w->n_env);
		check_counts(id, &c, e);
		check_texts(id, &c, e);
		check_json(id, &c, e);
		if (json_object_get(e, "spec"))
			check_speculation(id, &c, json_object_get(e, "spec"));
		free(w);
		json_decref(o);
		n++;
	}
	free(line);
	fclose(f);
	print_message("# %u command lines of %s\n", n, path);
	assert_true(n >= 20);
}

/* ---- ways to write them ------------------------------------------------- */

static struct cmdline parse(const char *cmd)
{
	struct words *w = malloc(sizeof(*w));
	struct cmdline c;

	split(cmd, w);
	assert_int_equal(cmdline_parse(w->args, w->n_args, &c), 0);
	free(w);
	return c;
}

static void is(const char *cmd, enum launch_id id, const char *want)
{
	struct cmdline c = parse(cmd);

	same(cmd, launch_name(id), launch_find(&c.launch, id), want);
}

static void spellings(void **state)
{
	(void)state;
	is("vllm serve m --quantization=fp8", LAUNCH_QUANT, "fp8");
	is("vllm serve m -q fp8", LAUNCH_QUANT, "fp8");
	is("vllm serve m --max_num_seqs 7", LAUNCH_MAX_SEQS, "7");
	is("sglang serve --model m --mem-frac 0.9", LAUNCH_MEMORY, "0.9");
	is("sglang serve --model m --moe-runner triton", LAUNCH_MOE_BACKEND,
	   "triton");
	is("sglang serve --model m --cuda-graph-bs 1 2 4 8 --port 1",
	   LAUNCH_CAPTURE, "1..8 (4)");
	is("vllm serve m --cuda-graph-sizes 512", LAUNCH_CAPTURE, "512");
	is("vllm serve m -cc.cudagraph_mode=FULL", LAUNCH_GRAPH_MODE, "FULL");
	is("vllm serve m --compilation-config '{\"cudagraph_capture_sizes\": "
	   "[1,2,64]}'",
	   LAUNCH_CAPTURE, "1..64 (3)");
	is("vllm serve m --compilation-config '{\"full_cuda_graph\": true}'",
	   LAUNCH_GRAPH_MODE, "FULL");
	is("vllm serve m --no-enable-prefix-caching", LAUNCH_PREFIX, "off");
	is("vllm serve m --enable-chunked-prefill", LAUNCH_CHUNKED, "on");
	is("sglang serve --model m --chunked-prefill-size -1", LAUNCH_CHUNKED,
	   "-1");
	is("vllm serve m --attention-config.backend FLASHINFER",
	   LAUNCH_ATTENTION, "FLASHINFER");
	is("vllm serve m --attention-config '{\"backend\": \"FLASHINFER\"}'",
	   LAUNCH_ATTENTION, "FLASHINFER");
	is("trtllm-serve m --kv_cache_free_gpu_memory_fraction 0.8",
	   LAUNCH_MEMORY, "0.8");
	is("vllm serve m --eplb-config.num_redundant_experts 32",
	   LAUNCH_REDUNDANT, "32");
	is("vllm serve m --speculative-config '{\"num_speculative_tokens\":2}'",
	   LAUNCH_SPECULATIVE, "on");
	is("vllm serve m --stream-interval 5", LAUNCH_STREAM_INTERVAL, "5");
	is("vllm serve m --kv-transfer-config nonsense", LAUNCH_DISAGGREGATION,
	   "kv-transfer");
}

static void numbers_that_explain(void **state)
{
	struct cmdline c = parse("vllm serve m --enforce-eager --enable-eplb "
				 "--eplb-config {\\\"num_redundant_experts\\\":"
				 "2} --stream-interval 8 -asc 4");

	(void)state;
	assert_true(c.launch.eager);
	assert_true(c.launch.eplb);
	assert_int_equal(c.launch.redundant_experts, 2);
	assert_int_equal(c.launch.stream_interval, 8);
	assert_int_equal(c.api_servers, 4);
	c = parse("sglang serve --model m --tp 4 --dp 2 --pp 2 --nnodes 2 "
		  "--node-rank 1 --cuda-graph-max-bs 256 "
		  "--speculative-num-draft-tokens 4");
	assert_int_equal(c.gpus, 16);
	assert_int_equal(c.port, 0);
	assert_int_equal(c.role, CMDLINE_WORKERS);
	assert_int_equal(c.launch.capture_max, 256);
	assert_int_equal(c.launch.draft_tokens, 4);
	c = parse("vllm serve m --headless -dp 4 --data-parallel-rank 2");
	assert_int_equal(c.role, CMDLINE_WORKERS);
	assert_true(c.one_rank_of_dp);
	assert_int_equal(c.dp_rank, 2);
	assert_int_equal(c.gpus, 4);
}

static void overrides_become_one(void **state)
{
	struct cmdline c =
		parse("vllm serve m --hf-overrides '{\"a\":{\"x\":1}}' "
		      "--hf-overrides.a.y=2 --hf-overrides.b true "
		      "--hf-overrides.c word");

	(void)state;
	assert_string_equal(c.overrides, "{\"a\":{\"x\":1,\"y\":2},\"b\":true,"
					 "\"c\":\"word\"}");
	assert_false(c.overrides_unknown);
	c = parse("sglang serve --model m --json-model-override-args {bad");
	assert_string_equal(c.overrides, "");
	assert_true(c.overrides_unknown);
}

static void files_and_environment(void **state)
{
	static const char yaml[] = "tensor_parallel_size: 8\n"
				   "moe_config:\n  backend: TRTLLM\n"
				   "    deeper: 1\n"
				   "kv_cache_config:\n"
				   "  dtype: fp8 # quantised\n"
				   "enable_attention_dp: true\n"
				   "cuda_graph_config: # sizes\n"
				   "  max_batch_size: 64\n";
	static const char env[] = "VLLM_ATTENTION_BACKEND=FLASHINFER\0"
				  "VLLM_USE_DEEP_GEMM=0\0"
				  "VLLM_USE_FLASHINFER_MOE_FP8=1\0"
				  "CUDA_VISIBLE_DEVICES=2,3\0"
				  "SGLANG_RUST_SERVER=0\0X=\0=\0";
	struct cmdline c = parse("trtllm-serve m --config c.yaml --ep_size 4");

	(void)state;
	cmdline_yaml(&c, yaml, sizeof(yaml) - 1);
	assert_int_equal(c.tp, 8);
	assert_int_equal(c.ep, 4);
	assert_true(c.dp_attention);
	assert_true(c.kv_element_bytes == 1);
	assert_int_equal(c.launch.capture_max, 64);
	assert_string_equal(launch_find(&c.launch, LAUNCH_MOE_BACKEND),
			    "TRTLLM");
	c = parse("vllm serve m --attention-backend X");
	cmdline_environ(&c, env, sizeof(env) - 1);
	assert_string_equal(launch_find(&c.launch, LAUNCH_ATTENTION), "X");
	assert_string_equal(launch_find(&c.launch, LAUNCH_DEEP_GEMM), "off");
	assert_string_equal(launch_find(&c.launch, LAUNCH_MOE_BACKEND),
			    "flashinfer");
	assert_string_equal(launch_find(&c.launch, LAUNCH_DEVICES), "2,3");
	assert_null(launch_find(&c.launch, LAUNCH_FRONT_END));
}

static void the_list_is_bounded_and_clean(void **state)
{
	struct launch l = { 0 };
	char big[200];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	for (int i = LAUNCH_IDS - 1; i >= 0; i--)
		launch_set(&l, (enum launch_id)i, big);
	assert_int_equal(l.n, LAUNCH_MAX);
	assert_int_equal(l.more, LAUNCH_IDS - LAUNCH_MAX);
	for (unsigned i = 1; i < l.n; i++)
		assert_true(l.list[i - 1].id < l.list[i].id);
	assert_int_equal(strlen(l.list[0].value), 47);
	assert_string_equal(l.list[0].value + 45, "..");
	launch_set(&l, l.list[0].id, "a\033[31mb\nc\xff");
	assert_string_equal(l.list[0].value, "a?[31mb?c?");
	launch_set_sizes(&l, "nothing");
	assert_int_equal(l.capture_max, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_command_lines),
		cmocka_unit_test(spellings),
		cmocka_unit_test(numbers_that_explain),
		cmocka_unit_test(overrides_become_one),
		cmocka_unit_test(files_and_environment),
		cmocka_unit_test(the_list_is_bounded_and_clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
