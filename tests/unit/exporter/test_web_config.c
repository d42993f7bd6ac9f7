/* The file of --web.config.file: what is taken, and what refuses it whole. */
#include "exporter/web_config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HASH "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
#define TLS "tls_server_config: {cert_file: a, key_file: b"

static struct web_config c;
static char why[256];

static int parse(const char *text)
{
	why[0] = '\0';
	return web_config_parse(&c, text, strlen(text), "/etc/x", why,
				sizeof(why));
}

static void take(const char *text)
{
	if (parse(text))
		fail_msg("%s: %s", text, why);
}

static void refuse(const char *text, const char *words)
{
	if (parse(text) != -EINVAL)
		fail_msg("taken: %s", text);
	if (!strstr(why, words))
		fail_msg("%s: %s", text, why);
}

static void everything(void **state)
{
	(void)state;
	take("tls_server_config:\n"
	     "  cert_file: server.crt\n"
	     "  key_file: /keys/server.key\n"
	     "  client_auth_type: RequireAndVerifyClientCert\n"
	     "  client_ca_file: ca.crt\n"
	     "  client_allowed_sans: [a.example, 'b.example']\n"
	     "  min_version: TLS13\n"
	     "  max_version: TLS13\n"
	     "  cipher_suites:\n"
	     "    - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n"
	     "  curve_preferences: [X25519, CurveP256]\n"
	     "  prefer_server_cipher_suites: true\n"
	     "http_server_config:\n"
	     "  http2: false\n"
	     "  headers:\n"
	     "    X-Frame-Options: deny\n"
	     "basic_auth_users:\n"
	     "  alice: " HASH "\n"
	     "  bob: '" HASH "'\n"
	     "rate_limit:\n"
	     "  interval: 1m30s\n"
	     "  burst: 20\n");
	assert_true(c.have_tls);
	assert_string_equal(c.tls.cert_file, "/etc/x/server.crt");
	assert_string_equal(c.tls.key_file, "/keys/server.key");
	assert_int_equal(c.tls.client_auth, CLIENT_REQUIRE_AND_VERIFY);
	assert_int_equal(c.tls.n_sans, 2);
	assert_int_equal(c.tls.min_version, 13);
	assert_int_equal(c.tls.n_ciphers, 1);
	assert_int_equal(c.tls.n_curves, 2);
	assert_true(c.tls.server_order);
	assert_int_equal(c.n_headers, 1);
	assert_string_equal(c.headers[0].value, "deny");
	assert_int_equal(c.n_users, 2);
	assert_string_equal(c.users[1].name, "bob");
	assert_string_equal(c.users[1].value, HASH);
	assert_true(c.rate_interval_s == 90);
	assert_int_equal(c.rate_burst, 20);
	web_config_fini(&c);
}

static void nothing(void **state)
{
	static const char *const texts[] = { "", "# only words\n", "{}",
					     "basic_auth_users:\n", "---\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		take(texts[i]);
		assert_false(c.have_tls);
		assert_int_equal(c.n_users, 0);
		assert_int_equal(c.tls.min_version, 12);
		web_config_fini(&c);
	}
}

static void what_is_not_known_refuses_the_file(void **state)
{
	static const char *const bad[][2] = {
		{ "tls_config: {}", "'tls_config' is no key" },
		{ "a: b", "'a' is no key" },
		{ "- a", "not a mapping" },
		{ "word", "not a mapping" },
		{ "a: [", "not YAML" },
		{ "basic_auth_users: {a: " HASH "}\nbasic_auth_users: {b: " HASH
		  "}",
		  "twice" },
		{ "basic_auth_users: {a: " HASH ", a: " HASH "}", "twice" },
		{ "basic_auth_users: {a: secret}", "no bcrypt hash" },
		{ "basic_auth_users: {a: $2b$99$"
		  "X0h1gDsPszWURQaxFh."
		  "zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}",
		  "no bcrypt hash" },
		{ "basic_auth_users: {a: $2b$31$"
		  "X0h1gDsPszWURQaxFh."
		  "zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}",
		  "has cost 31" },
		{ "basic_auth_users: {a: $2b$15$"
		  "X0h1gDsPszWURQaxFh."
		  "zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG}",
		  "at most 14" },
		{ "basic_auth_users: {a: [x]}", "not a single value" },
		{ "http_server_config: {headers: {X-Other: a}}",
		  "no header that may be set" },
		{ "http_server_config: {headers: {X-Frame-Options: "
		  "\"a\\r\\nb\"}}",
		  "line end" },
		{ "http_server_config: {http2: maybe}",
		  "neither true nor false" },
		{ "tls_server_config: {}", "cert_file" },
		{ "tls_server_config: {cert_file: a}", "key_file" },
		{ "tls_server_config: {cert_file: a, cert: b, key_file: c}",
		  "one of cert_file" },
		{ TLS ", client_auth_type: Always}", "'Always' is none of" },
		{ TLS ", client_ca_file: c}", "client_auth_type" },
		{ TLS ", min_version: SSL3}", "'SSL3' is none of" },
		{ TLS ", min_version: TLS13, max_version: TLS12}",
		  "below min_version" },
		{ TLS ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}",
		  "not known here" },
		{ TLS ", curve_preferences: CurveP256}", "not a list" },
		{ TLS ", bogus: 1}", "'bogus' is no key" },
		{ "rate_limit: {interval: soon}", "no duration" },
		{ "rate_limit: {burst: -1}", "no number" },
		{ "basic_auth_users: {a: " HASH "}\n---\nx: y", "second" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse(bad[i][0], bad[i][1]);
}

static void the_line_is_told(void **state)
{
	(void)state;
	refuse("basic_auth_users:\n  a: " HASH "\n  b: plain\n", "line 3:");
}

/* It is one line for a log, whatever the file holds. */
static void the_reason_is_one_plain_line(void **state)
{
	(void)state;
	refuse("\"a\\nb\\e[2J\": 1\n", "a?b?[2J");
}

static void a_missing_file(void **state)
{
	(void)state;
	assert_int_equal(
		web_config_read(&c, "/nowhere/web.yml", why, sizeof(why)),
		-ENOENT);
	assert_non_null(strstr(why, "No such file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything),
		cmocka_unit_test(nothing),
		cmocka_unit_test(what_is_not_known_refuses_the_file),
		cmocka_unit_test(the_line_is_told),
		cmocka_unit_test(the_reason_is_one_plain_line),
		cmocka_unit_test(a_missing_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
