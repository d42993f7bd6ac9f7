/* Sequences of kernels, the classes of their names; arguments. */
#include "sim/server/kernels.h"

#include <ctype.h>
#include <regex.h>
#include <unistd.h>

#include "tests/unit/sim/server_test.h"
#include "wire/kernel_class.h"

static const char *const patterns[CLASSES] = {
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = regex,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

static enum kernel_class classify(const char *name)
{
	for (int c = 1; c < CLASSES; c++) {
		regex_t r;
		int match;

		assert_int_equal(
			regcomp(&r, patterns[c], REG_EXTENDED | REG_NOSUB), 0);
		match = !regexec(&r, name, 0, NULL, 0);
		regfree(&r);
		if (match)
			return (enum kernel_class)c;
	}
	return CLASS_OTHER;
}

static const char *const backends[] = {
	"vllm-triton",  "sglang-triton", "cutlass-fp8", "deepgemm-masked",
	"deepgemm",     "flashinfer",    "trtllm-gen",  "marlin",
	"marlin-mxfp4", "gpt-oss",       "deepep-ll",   "deepep-normal",
	"mtp",          "mtp-same",      "piecewise",   "shared-stream",
	"rows-vllm",    "rows-sglang",   "rows-other",
};
#define BACKENDS (sizeof(backends) / sizeof(backends[0]))

static void read_backend(const char *name, struct sequence *s)
{
	char path[256], why[256] = "";

	snprintf(path, sizeof(path), "sim/sequences/%s.seq", name);
	if (sequence_read(path, s, why, sizeof(why)))
		fail_msg("%s", why);
}

/* The class that a file gives a kernel is what its name says. */
static void names_fall_into_their_classes(void **state)
{
	static struct sequence s;

	(void)state;
	for (size_t b = 0; b < BACKENDS; b++) {
		read_backend(backends[b], &s);
		for (unsigned i = 0; i < s.lines; i++) {
			const struct seq_line *l = &s.line[i];

			if (l->role < SEQ_FORK && classify(l->name) != l->klass)
				fail_msg("%s: %s is class %d, not %d",
					 backends[b], l->name,
					 classify(l->name), l->klass);
		}
	}
}

static void ampere_has_names_of_its_own(void **state)
{
	(void)state;
	for (int w = 0; w < WEIGHTS_KINDS; w++)
		assert_int_equal(
			classify(kernel_ampere_gemm((enum seq_weights)w)),
			CLASS_GEMM_DENSE);
}

/* _ZN...: a length in front of an identifier is that of the identifier, for the
 * identifier that a kernel is known by. */
static bool is_well_formed(const char *name)
{
	const char *p = name + 2;

	if (strncmp(name, "_Z", 2))
		return true;
	p += *p == 'N';
	for (char *end; *p >= '0' && *p <= '9';) {
		unsigned long n = strtoul(p, &end, 10);

		if (strnlen(end, n) < n)
			return false;
		for (unsigned long i = 0; i < n; i++)
			if (!isalnum((unsigned char)end[i]) && end[i] != '_')
				return false;
		p = end + n;
	}
	return *p == 'I' || *p == 'E' || *p == 'P' || *p == 'v' || *p == 'i';
}

static void mangled_names_are_well_formed(void **state)
{
	static struct sequence s;

	(void)state;
	for (size_t b = 0; b < BACKENDS; b++) {
		read_backend(backends[b], &s);
		for (unsigned i = 0; i < s.lines; i++)
			if (!is_well_formed(s.line[i].name))
				fail_msg("%s: %s", backends[b], s.line[i].name);
	}
}

static void lines_that_mean_nothing_are_refused(void **state)
{
	static const char *const bad[] = {
		"moe 0 - 1000 rows 8 - gemm.dense",
		"moe 0 - 1000 rows 8 - gemm.nothing name",
		"moe 2 - 1000 rows 8 - gemm.dense name",
		"moe 0 - experts:1:third rows 8 - gemm.dense name",
		"moe 0 - 1:2*apples rows 8 - gemm.dense name",
		"moe 0 - 1000 rows/0 8 - gemm.dense name",
		"moe 0 - 1000 rows 8 sometimes gemm.dense name",
		"elsewhere 0 - 1000 rows 8 - gemm.dense name",
		"moe 0 - 1000 rows @ - gemm.dense name",
		"moe 0 - 1000 rows @8apples - gemm.dense name",
		"moe 0 - 1000 rows @4ids - gemm.dense name",
		"moe 0 - 1000 rows @8>rows - gemm.dense name",
		"moe 0 - 1000 rows @8ids:8 - gemm.dense name",
		"moe 0 - 1000 rows @s16:8ids - gemm.dense name",
		"moe 0 - 1000 rows @s16,8ids - gemm.dense name",
		"moe 0 - 1000 rows @s16,8ids:12 - gemm.dense name",
		"moe fork",
	};
	static struct sequence s;
	char path[] = "/tmp/moetop-sequence-XXXXXX", why[256];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		fprintf(f, "%s\n", bad[i]);
		fclose(f);
		*why = 0;
		assert_int_equal(sequence_read(path, &s, why, sizeof(why)),
				 -EINVAL);
		assert_true(*why);
	}
	unlink(path);
	assert_int_equal(sequence_read(path, &s, why, sizeof(why)), -ENOENT);
}

static void triton_drops_arguments_that_are_one(void **state)
{
	struct kernel_args a = { .n = 0 };

	(void)state;
	args_pointer(&a, 0x1234);
	args_triton_u32(&a, 1);
	args_triton_u32(&a, 0);
	args_triton_u32(&a, 7);
	args_bool(&a, true);
	args_f64(&a, 1.0);
	args_triton_end(&a);
	assert_int_equal(a.n, 7);
	assert_memory_equal(a.bytes, "\x08\x04\x04\x01\x08\x08\x08", 8);
	assert_int_equal(a.value[0], 0x1234);
	assert_int_equal((uint32_t)a.value[2], 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_fall_into_their_classes),
		cmocka_unit_test(ampere_has_names_of_its_own),
		cmocka_unit_test(mangled_names_are_well_formed),
		cmocka_unit_test(lines_that_mean_nothing_are_refused),
		cmocka_unit_test(triton_drops_arguments_that_are_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
