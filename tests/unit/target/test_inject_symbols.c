#include "target/inject_symbols.h"

#include "target/inject_maps.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define IMAGE_BYTES 65536u
#define ROUNDS 20000

/* Where our own C library begins. */
static uint64_t libc_base(void)
{
	uint64_t base = 0;
	size_t place = 0;
	struct maps maps;
	struct map m;

	assert_int_equal(maps_read(getpid(), &maps), 0);
	while (!base && maps_next(&maps, &place, &m))
		if (map_is(&m, "libc") && m.offset == 0)
			base = m.start;
	maps_free(&maps);
	assert_true(base);
	return base;
}

static void functions_of_our_own_libc(void **state)
{
	static const char *const names[] = {
		"dlopen",
		"dlsym",
		"dlerror",
		"pthread_create",
		"pthread_attr_init",
		"pthread_attr_setstacksize",
		"munmap",
		"gnu_get_libc_version",
	};
	pid_t pid = getpid();
	const struct symbols_memory memory = { symbols_read_process, &pid };
	struct symbols s;

	(void)state;
	assert_int_equal(symbols_open(&s, &memory, libc_base()), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint64_t ours = symbols_find(&s, names[i]);
		void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

		assert_non_null(libc);
		/* a sanitizer may stand before it, so ask libc alone */
		assert_int_equal(ours, (uintptr_t)dlsym(libc, names[i]));
		dlclose(libc);
	}
	assert_int_equal(symbols_find(&s, "no_such_function_at_all"), 0);
	assert_int_equal(symbols_find(&s, ""), 0);
}

static void an_indirect_function_is_none(void **state)
{
	pid_t pid = getpid();
	const struct symbols_memory memory = { symbols_read_process, &pid };
	struct symbols s;

	(void)state;
	assert_int_equal(symbols_open(&s, &memory, libc_base()), 0);
	assert_int_equal(symbols_find(&s, "strlen"), 0);
}

struct image {
	uint8_t bytes[IMAGE_BYTES];
	unsigned reads;
};

static bool read_image(void *cls, uint64_t address, void *out, size_t bytes)
{
	struct image *i = cls;

	i->reads++;
	if (address > IMAGE_BYTES || bytes > IMAGE_BYTES - address)
		return false;
	memcpy(out, i->bytes + address, bytes);
	return true;
}

static void no_library_there(void **state)
{
	static struct image image;
	const struct symbols_memory memory = { read_image, &image };
	struct symbols s = { .base = 42 };

	(void)state;
	assert_int_equal(symbols_open(&s, &memory, 0), -ENOEXEC);
	assert_int_equal(symbols_open(&s, &memory, IMAGE_BYTES - 1), -EFAULT);
	memcpy(image.bytes, "\177ELF\1", 5);
	assert_int_equal(symbols_open(&s, &memory, 0), -ENOEXEC);
	assert_int_equal(s.base, 42);
}

/* The beginning of our own libc, with bytes changed at random: no answer is
 * wrong enough to hang or crash. */
static void a_hostile_library_ends(void **state)
{
	static struct image good, image;
	const struct symbols_memory memory = { read_image, &image };
	uint64_t base = libc_base();
	unsigned seed = 7;

	(void)state;
	memcpy(good.bytes, (const void *)(uintptr_t)base, IMAGE_BYTES / 4);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct symbols s;
		unsigned flips = 1 + (unsigned)rand_r(&seed) % 16;

		image = good;
		/* the dynamic section lies elsewhere: give it one of ours */
		for (unsigned k = 0; k < flips; k++)
			image.bytes[(unsigned)rand_r(&seed) % 1024] =
				(uint8_t)rand_r(&seed);
		if (!symbols_open(&s, &memory, 0))
			symbols_find(&s, "dlopen");
		s = (struct symbols){
			.memory = memory,
			.symbols = (unsigned)rand_r(&seed) % IMAGE_BYTES,
			.strings = 64,
			.hash = (unsigned)rand_r(&seed) % IMAGE_BYTES
		};
		symbols_find(&s, "dlopen");
		assert_true(image.reads < 20000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_our_own_libc),
		cmocka_unit_test(an_indirect_function_is_none),
		cmocka_unit_test(no_library_there),
		cmocka_unit_test(a_hostile_library_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
