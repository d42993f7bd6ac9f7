/* Whose files may run with our rights. */
#include "core/trusted.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[PATH_MAX], inner[PATH_MAX + 8], file[PATH_MAX + 16],
	link_to_it[PATH_MAX + 8], real[PATH_MAX];

static int make(void **state)
{
	char name[] = "/tmp/moetop-trusted-XXXXXX";
	int fd;

	(void)state;
	if (!mkdtemp(name) || !realpath(name, folder))
		return -1;
	snprintf(inner, sizeof(inner), "%s/inner", folder);
	snprintf(file, sizeof(file), "%s/inner/lib.so", folder);
	snprintf(link_to_it, sizeof(link_to_it), "%s/link", folder);
	fd = mkdir(inner, 0755) ? -1 : open(file, O_CREAT | O_WRONLY, 0644);
	return fd < 0 || close(fd) || chmod(inner, 0755) || chmod(file, 0644) ||
	       symlink(file, link_to_it);
}

static int clean(void **state)
{
	(void)state;
	return unlink(link_to_it) || unlink(file) || rmdir(inner) ||
	       rmdir(folder);
}

static void our_own_is_trusted_by_any_name(void **state)
{
	(void)state;
	assert_true(trusted_file(file, real));
	assert_string_equal(real, file);
	assert_true(trusted_file(link_to_it, real));
	assert_string_equal(real, file);
	assert_true(trusted_file("/bin/sh", real));
}

static void what_others_can_write_or_replace_is_not(void **state)
{
	static const struct {
		const char *path;
		mode_t bad, good;
	} cases[] = {
		{ file, 0664, 0644 },   { file, 0646, 0644 },
		{ inner, 0775, 0755 },  { inner, 01777, 0755 },
		{ folder, 0777, 0700 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(chmod(cases[i].path, cases[i].bad), 0);
		assert_false(trusted_file(file, real));
		assert_int_equal(chmod(cases[i].path, cases[i].good), 0);
		assert_true(trusted_file(file, real));
	}
	/* entries of others are safe there, as in /tmp */
	assert_int_equal(chmod(folder, 01777), 0);
	assert_true(trusted_file(file, real));
	assert_int_equal(chmod(folder, 0700), 0);
}

static void what_is_no_file_is_not(void **state)
{
	(void)state;
	assert_false(trusted_file(inner, real));
	assert_false(trusted_file("/dev/null", real));
	assert_false(trusted_file("/nonexistent/lib.so", real));
	assert_false(trusted_file("", real));
}

static void another_users_is_not(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(chown(inner, 65534, 65534), 0);
	assert_false(trusted_file(file, real));
	assert_int_equal(chown(inner, 0, 0), 0);
	assert_int_equal(chown(file, 65534, 65534), 0);
	assert_false(trusted_file(file, real));
	assert_int_equal(chown(file, 0, 0), 0);
	assert_true(trusted_file(file, real));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_is_trusted_by_any_name),
		cmocka_unit_test(what_others_can_write_or_replace_is_not),
		cmocka_unit_test(what_is_no_file_is_not),
		cmocka_unit_test(another_users_is_not),
	};

	return cmocka_run_group_tests(tests, make, clean);
}
