#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "target/tls_library.h"

#define offset_of(...)                                     \
	tls_cheap_offset((const uint8_t[]){ __VA_ARGS__ }, \
			 sizeof((const uint8_t[]){ __VA_ARGS__ }))

#ifdef __x86_64__
/* As compilers have begun the functions of libssl. */
static void first_emulated_instruction_is_found(void **state)
{
	(void)state;
	/* SSL_write_ex of Debian 12: sub, call */
	assert_int_equal(
		offset_of(0x48, 0x83, 0xec, 0x08, 0xe8, 0x87, 0xfb, 0xff, 0xff),
		4);
	/* SSL_write: sub, mov %fs:, mov, xor, test, js */
	assert_int_equal(offset_of(0x48, 0x83, 0xec, 0x18, 0x64, 0x48, 0x8b,
				   0x04, 0x25, 0x28, 0, 0, 0, 0x48, 0x89, 0x44,
				   0x24, 0x08, 0x31, 0xc0, 0x85, 0xd2, 0x78,
				   0x2f),
			 22);
	/* with CET: endbr64, push %rbp */
	assert_int_equal(offset_of(0xf3, 0x0f, 0x1e, 0xfa, 0x55), 4);
	assert_int_equal(offset_of(0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57), 4);
	/* SSL_do_handshake: push; SSL_free: test, je */
	assert_int_equal(offset_of(0x53, 0x48, 0x83, 0xec, 0x30), 0);
	assert_int_equal(offset_of(0x48, 0x85, 0xff, 0x0f, 0x84, 0, 0, 0, 0),
			 3);
}

static void what_touches_an_argument_is_not_passed(void **state)
{
	(void)state;
	/* mov %rdi, %rbx; mov %esi, %edi; xor %edx, %edx; nothing; a cut one */
	assert_int_equal(offset_of(0x48, 0x89, 0xfb, 0x55), 0);
	assert_int_equal(offset_of(0x48, 0x83, 0xec, 0x08, 0x89, 0xf7, 0x55),
			 0);
	assert_int_equal(offset_of(0x31, 0xd2, 0x55), 0);
	assert_int_equal(tls_cheap_offset((const uint8_t *)"", 0), 0);
	assert_int_equal(offset_of(0x48, 0x83, 0xec), 0);
	/* a probe of somebody else's */
	assert_int_equal(offset_of(0xcc, 0x83, 0xec, 0x08, 0xe8), 0);
}
#endif

static void
filters_forbid_returns_where_the_kernel_does_not_spare_them(void **state)
{
	const char *free = "Name:\ta\nSeccomp:\t0\nSeccomp_filters:\t0\n";
	const char *filtered = "Name:\ta\nSeccomp:\t2\nSeccomp_filters:\t1\n";

	(void)state;
	assert_true(tls_returns_harmless("6.12.9", free));
	assert_true(tls_returns_harmless("6.12.9", "Name:\ta\n"));
	assert_false(tls_returns_harmless("6.11.0-rc1", filtered));
	assert_false(tls_returns_harmless("6.12.9+deb13", filtered));
	assert_false(tls_returns_harmless("6.13.2", filtered));
	assert_false(tls_returns_harmless("next", filtered));
	assert_true(tls_returns_harmless("6.10.11", filtered));
	assert_true(tls_returns_harmless("6.14.0", filtered));
	assert_true(tls_returns_harmless("5.15.0", filtered));
	assert_true(tls_returns_harmless("7.0.0", filtered));
}

static void options_of_servers_tell_that_they_end_tls(void **state)
{
	static const char vllm[] = "python\0-m\0vllm\0--ssl-keyfile\0/k";
	static const char hypercorn[] = "hypercorn\0--keyfile=/k\0app";
	static const char plain[] = "vllm\0serve\0a/--ssl-x\0--port\00080";

	(void)state;
	assert_true(tls_in_words(vllm, sizeof(vllm)));
	assert_true(tls_in_words(vllm, sizeof(vllm) - 1));
	assert_true(tls_in_words(hypercorn, sizeof(hypercorn)));
	assert_false(tls_in_words(plain, sizeof(plain)));
	assert_false(tls_in_words("--ss", 4));
	assert_false(tls_in_words("", 0));
}

static void process_without_libssl_has_none(void **state)
{
	struct tls_library found[TLS_LIBRARIES_MAX];

	(void)state;
	assert_true(tls_libraries_find(-1, found, TLS_LIBRARIES_MAX) < 0);
	assert_int_equal(tls_libraries_find(1, found, 0) > 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(first_emulated_instruction_is_found),
		cmocka_unit_test(what_touches_an_argument_is_not_passed),
#endif
		cmocka_unit_test(
			filters_forbid_returns_where_the_kernel_does_not_spare_them),
		cmocka_unit_test(options_of_servers_tell_that_they_end_tls),
		cmocka_unit_test(process_without_libssl_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
