/* What is private does not leave; what a report needs stays. */
#include "core/scrub.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
	*state = scrub_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	scrub_free(*state);
	return 0;
}

static void becomes(const struct scrub *s, const char *text, const char *want)
{
	char *out = scrub_text(s, text);

	assert_non_null(out);
	assert_string_equal(out, want);
	free(out);
}

static void what_a_report_needs_stays(void **state)
{
	static const char *const texts[] = {
		"",
		"Linux 6.18.44, x86_64",
		"driver 570.86.10",
		"K tp_btf sock_*_length",
		"12 tok/s at 127.0.0.1:8000",
		"http://127.0.0.1:8000/metrics",
		"/sys/kernel/btf/vmlinux",
		"/proc/12/fd/4",
		"in /etc/modprobe.d",
		"12:34:56",
		"0.5 ms",
		"CapEff:\t000001fffeffffff",
		"bytes_per_token: 12",
		"Qwen/Qwen3-30B-A3B",
		"::1",
		"--tier T1,T2",
		"a:b",
		"and/or",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		becomes(*state, texts[i], texts[i]);
}

static void paths_keep_their_last_part(void **state)
{
	becomes(*state, "from /srv/ada/models/q/config.json (x)",
		"from .../config.json (x)");
	becomes(*state, "file:/srv/a/b", "file:.../b");
	becomes(*state, "/data", "/data");
	becomes(*state, "/proc/7/root/Srv/ada/x", ".../x");
	becomes(*state, "see /srv/a/b.", "see .../b.");
	becomes(*state, "~/models/x", "~.../x");
	becomes(*state, "file:///srv/ada/x", "file:.../x");
	becomes(*state, "//srv/ada/x", ".../x");
	becomes(*state, "http://127.0.0.1:80/v1/x", "http://127.0.0.1:80/v1/x");
	becomes(*state, "//", "//");
	becomes(*state, "///proc/7/maps", "///proc/7/maps");
}

static void addresses_and_hosts_go(void **state)
{
	becomes(*state, "at 10.1.2.3:80", "at <address>:80");
	becomes(*state, "fe80::1ff:fe23", "<address>");
	becomes(*state, "2001:db8:0:1:1:1:1:1", "<address>");
	becomes(*state, "02:42:ac:11:00:02", "<address>");
	becomes(*state, "http://ada:pw@node7.corp/x", "http://<host>/x");
	becomes(*state, "https://node7.corp:80/", "https://<host>:80/");
	becomes(*state, "by ada.l@corp.example", "by <mail>");
}

static void keys_go_by_their_look(void **state)
{
	becomes(*state, "sk-abcdefgh1234", "<key>");
	becomes(*state, "x hf_AbCdEfGhIjKl y", "x <key> y");
	becomes(*state, "Authorization: Bearer abcdef.ghijkl", "<key>");
	becomes(*state, "api_key=opensesame, next", "<key>, next");
	becomes(*state, "AWS_SECRET_ACCESS_KEY=opensesame", "AWS_SECRET_<key>");
	becomes(*state, "{\"password\": \"x y\"}", "{\"<key> y\"}");
	becomes(*state, "0123456789abcdef0123456789abcdef", "<id>");
	becomes(*state, "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE",
		"<key>");
}

static void values_of_an_environment_go(void **state)
{
	static const char data[] = "SECRET_WORD=tiger\0SHORT=abc\0"
				   "PLAIN=correct horse\0TERM=xterm-256color\0"
				   "NOT A VARIABLE\0EMPTY=";

	scrub_environ(*state, data, sizeof(data));
	becomes(*state, "a tiger, abc, tigers", "a <env>, abc, tigers");
	becomes(*state, "the correct horse", "the <env>");
	becomes(*state, "TERM xterm-256color", "TERM xterm-256color");
}

static void keys_of_a_command_line_go(void **state)
{
	static const char data[] = "vllm\0serve\0model-x\0--api-key\0lion\0"
				   "lynx\0--hf-token=bear\0--max-tokens\0"
				   "--port\0"
				   "8000\0--token\0wolf\0model-y";

	scrub_cmdline(*state, data, sizeof(data));
	becomes(*state, "lion, lynx and bear, wolf at 8000 of model-x, model-y",
		"<key>, <key> and <key>, <key> at 8000 of model-x, model-y");
}

static void keys_behind_names_of_any_length_go(void **state)
{
	char data[6000] = "--token";

	memset(data + 7, 'x', sizeof(data) - 7);
	memcpy(data + sizeof(data) - 8, "=mongoose", 8);
	scrub_cmdline(*state, data, sizeof(data));
	becomes(*state, "a mongoos", "a <key>");
}

static void names_are_whole_words(void **state)
{
	assert_true(scrub_word(*state, "node7", "<host>", true));
	assert_false(scrub_word(*state, "ab", "<host>", false));
	becomes(*state, "node7 node70 (node7.corp)",
		"<host> node70 (<host>.corp)");
}

static void the_longer_word_wins(void **state)
{
	scrub_word(*state, "alpha", "<a>", false);
	scrub_word(*state, "alphabet", "<b>", false);
	scrub_word(*state, "alphabet", "<c>", false);
	becomes(*state, "alphabet alpha", "<b> <a>");
}

static void there_is_a_limit_of_words(void **state)
{
	char word[16];
	unsigned n = 0;

	for (unsigned i = 0; i < SCRUB_WORDS_MAX + 10; i++) {
		snprintf(word, sizeof(word), "word%06u", i);
		n += scrub_word(*state, word, "<x>", false);
	}
	assert_int_equal(n, SCRUB_WORDS_MAX);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_a_report_needs_stays),
		TEST(paths_keep_their_last_part),
		TEST(addresses_and_hosts_go),
		TEST(keys_go_by_their_look),
		TEST(values_of_an_environment_go),
		TEST(keys_of_a_command_line_go),
		TEST(keys_behind_names_of_any_length_go),
		TEST(names_are_whole_words),
		TEST(the_longer_word_wins),
		TEST(there_is_a_limit_of_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
