/* Request bodies in, events out. */
#include "sim/server/api.h"

#include <jansson.h>

#include "tests/unit/sim/server_test.h"

#define CONTEXT 4096u

static struct api_request q;
static char why[256], text[4096];

static int parse(enum api_kind kind, const char *body)
{
	q = (struct api_request){ 0 };
	return api_parse(kind, body, strlen(body), CONTEXT, &q, why,
			 sizeof(why));
}

static struct api_response response(void)
{
	return (struct api_response){
		.request = &q,
		.id = "cmpl-1",
		.model = "m",
		.created = 1700000000,
	};
}

static void completion_fields_are_read(void **state)
{
	(void)state;
	assert_int_equal(parse(API_COMPLETION,
			       "{\"prompt\":\"12345678\",\"max_tokens\":7,"
			       "\"stream\":true,\"ignore_eos\":true,"
			       "\"stream_options\":{\"include_usage\":true}}"),
			 0);
	assert_int_equal(q.prompt_tokens, 2);
	assert_int_equal(q.max_tokens, 7);
	assert_true(q.stream && q.ignore_eos && q.include_usage);
	assert_int_equal(parse(API_COMPLETION, "{\"prompt\":\"x\"}"), 0);
	assert_int_equal(q.max_tokens, API_MAX_TOKENS_DEFAULT);
	assert_false(q.stream || q.ignore_eos || q.include_usage);
}

static void prompts_may_be_token_lists(void **state)
{
	(void)state;
	assert_int_equal(parse(API_COMPLETION, "{\"prompt\":[1,2,3]}"), 0);
	assert_int_equal(q.prompt_tokens, 3);
	assert_int_equal(parse(API_COMPLETION, "{\"prompt\":[\"abcdefghi\"]}"),
			 0);
	assert_int_equal(q.prompt_tokens, 3);
	assert_int_equal(parse(API_GENERATE,
			       "{\"input_ids\":[5,6],\"sampling_params\":"
			       "{\"max_new_tokens\":3,\"ignore_eos\":true}}"),
			 0);
	assert_int_equal(q.prompt_tokens, 2);
	assert_int_equal(q.max_tokens, 3);
	assert_true(q.ignore_eos);
}

static void chat_defaults_to_the_rest_of_the_context(void **state)
{
	(void)state;
	assert_int_equal(parse(API_CHAT, "{\"messages\":[{\"role\":\"user\","
					 "\"content\":\"abcd\"}]}"),
			 0);
	assert_int_equal(q.prompt_tokens, 1);
	assert_int_equal(q.max_tokens, CONTEXT - 1);
}

static void bad_bodies_say_what_is_wrong(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"7",
		"{}",
		"{\"prompt\":7}",
		"{\"prompt\":[]}",
		"{\"prompt\":[\"a\",\"b\"]}",
		"{\"prompt\":[1,\"b\"]}",
		"{\"prompt\":\"x\",\"max_tokens\":0}",
		"{\"prompt\":\"x\",\"max_tokens\":-5}",
		"{\"prompt\":\"x\",\"max_tokens\":1e3}",
		"{\"prompt\":\"x\",\"max_tokens\":4096}",
		"{\"prompt\":\"x\",\"stream\":1}",
		"{\"prompt\":\"x\",\"n\":2}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why[0] = 0;
		assert_int_equal(parse(API_COMPLETION, bad[i]), -EINVAL);
		assert_true(strlen(why) > 5);
	}
	assert_int_equal(parse(API_CHAT, "{\"messages\":[]}"), -EINVAL);
	assert_int_equal(
		parse(API_CHAT, "{\"messages\":[{\"content\":\"x\"}]}"),
		-EINVAL);
	assert_int_equal(parse(API_GENERATE, "{\"prompt\":\"x\"}"), -EINVAL);
}

/* The JSON between "data: " and the empty line. */
static json_t *event_json(size_t n)
{
	json_error_t e;
	json_t *j;

	assert_int_equal(n, strlen(text));
	assert_int_equal(strncmp(text, "data: ", 6), 0);
	assert_string_equal(text + n - 2, "\n\n");
	j = json_loads(text + 6, 0, &e);
	assert_non_null(j);
	return j;
}

static const char *choice_text(const json_t *j, const char *in, const char *key)
{
	const json_t *c = json_array_get(json_object_get(j, "choices"), 0);

	if (in)
		c = json_object_get(c, in);
	return json_string_value(json_object_get(c, key));
}

static void events_are_json_that_clients_know(void **state)
{
	struct api_response r;
	json_t *j;

	(void)state;
	parse(API_COMPLETION, "{\"prompt\":\"x\"}");
	r = response();
	j = event_json(api_event(&r, 0, 1, NULL, text, sizeof(text)));
	assert_string_equal(choice_text(j, NULL, "text"), " the");
	assert_null(choice_text(j, NULL, "finish_reason"));
	json_decref(j);
	j = event_json(api_event(&r, 1, 2, "length", text, sizeof(text)));
	assert_string_equal(choice_text(j, NULL, "text"), " model routes");
	assert_string_equal(choice_text(j, NULL, "finish_reason"), "length");
	json_decref(j);
	q.kind = API_CHAT;
	j = event_json(api_role_event(&r, text, sizeof(text)));
	assert_string_equal(choice_text(j, "delta", "role"), "assistant");
	json_decref(j);
	j = event_json(api_event(&r, 2, 1, NULL, text, sizeof(text)));
	assert_string_equal(choice_text(j, "delta", "content"), " routes");
	json_decref(j);
	j = event_json(api_usage_event(&r, 9, text, sizeof(text)));
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(j, "usage"),
						   "completion_tokens")),
		9);
	json_decref(j);
}

static void generate_repeats_the_text_so_far(void **state)
{
	struct api_response r;
	json_t *j;

	(void)state;
	parse(API_GENERATE, "{\"text\":\"x\"}");
	r = response();
	j = event_json(api_event(&r, 2, 1, "length", text, sizeof(text)));
	assert_string_equal(json_string_value(json_object_get(j, "text")),
			    " the model routes");
	json_decref(j);
}

static void whole_answers_are_json(void **state)
{
	static const enum api_kind kinds[] = { API_COMPLETION, API_CHAT,
					       API_GENERATE };
	struct api_response r;

	(void)state;
	parse(API_COMPLETION, "{\"prompt\":\"x\"}");
	r = response();
	for (size_t i = 0; i < 3; i++) {
		size_t n;
		json_t *j;

		q.kind = kinds[i];
		n = api_whole(&r, 5, "stop", text, sizeof(text));
		j = json_loadb(text, n, 0, NULL);
		assert_non_null(j);
		json_decref(j);
	}
}

static void text_that_does_not_fit_is_left_out(void **state)
{
	struct api_response r;
	char small[64];

	(void)state;
	parse(API_COMPLETION, "{\"prompt\":\"x\"}");
	r = response();
	for (size_t room = 1; room < sizeof(small); room++) {
		memset(small, 'Z', sizeof(small));
		assert_true(api_event(&r, 0, 50, NULL, small, room) < room);
		assert_int_equal(small[room], 'Z');
	}
}

static void longest_event_fits_its_promise(void **state)
{
	static char long_text[API_EVENT_BYTES + 500 * API_TEXT_BYTES + 2];
	struct api_response r;
	size_t n;

	(void)state;
	parse(API_COMPLETION, "{\"prompt\":\"x\"}");
	r = response();
	n = api_event(&r, 7, 500, "length", long_text, sizeof(long_text));
	assert_string_equal(long_text + n - 2, "\n\n");
}

static void errors_and_names_are_escaped(void **state)
{
	char out[64];
	size_t n;
	json_t *j;

	(void)state;
	api_escape("a\"b\\c\n", out, sizeof(out));
	assert_string_equal(out, "a\\\"b\\\\c\\u000a");
	api_escape("0123456789", out, 12);
	assert_true(strlen(out) < 12);
	n = api_error(404, "no \"such\" page", text, sizeof(text));
	j = json_loadb(text, n, 0, NULL);
	assert_non_null(j);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completion_fields_are_read),
		cmocka_unit_test(prompts_may_be_token_lists),
		cmocka_unit_test(chat_defaults_to_the_rest_of_the_context),
		cmocka_unit_test(bad_bodies_say_what_is_wrong),
		cmocka_unit_test(events_are_json_that_clients_know),
		cmocka_unit_test(generate_repeats_the_text_so_far),
		cmocka_unit_test(whole_answers_are_json),
		cmocka_unit_test(text_that_does_not_fit_is_left_out),
		cmocka_unit_test(longest_event_fits_its_promise),
		cmocka_unit_test(errors_and_names_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
