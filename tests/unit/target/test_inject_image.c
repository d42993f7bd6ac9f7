#include "target/inject_image.h"

#include "target/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void nothing_at_all(void **state)
{
	static const char text[] = "\177ELF and nothing behind it";
	const struct inject_image none = { 0 }, empty = { "", 0 },
				  brief = { text, sizeof(text) };
	struct boot_code b = { .enter = 42 };

	(void)state;
	assert_int_equal(image_find_boot(&none, &b), -EINVAL);
	assert_int_equal(image_find_boot(&empty, &b), -EINVAL);
	assert_int_equal(image_find_boot(&brief, &b), -EINVAL);
	assert_int_equal(b.enter, 42);
}

/* This program is an ELF file of our machine, but no agent. */
static void a_program_of_another_kind(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct inject_image image;
	struct boot_code b;
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	image.bytes = (size_t)st.st_size;
	image.data = mmap(NULL, image.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	assert_ptr_not_equal(image.data, MAP_FAILED);
	assert_int_equal(image_find_boot(&image, &b), -EINVAL);
	munmap((void *)image.data, image.bytes);
}

/* inject() looks at the image before it touches the process. */
static void a_bad_image_is_refused(void **state)
{
	const struct inject_image image = { "no library", 10 };
	struct inject_report r;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(inject(pid, &image, &r), -EINVAL);
	assert_int_equal(r.refusal, INJECT_IMAGE);
	assert_int_equal(r.stops, 0);
	assert_int_equal(inject(pid, NULL, &r), -EINVAL);
	kill(pid, SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_at_all),
		cmocka_unit_test(a_program_of_another_kind),
		cmocka_unit_test(a_bad_image_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
