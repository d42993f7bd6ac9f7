/* The text format, apart from what any metric means. */
#include "target/promtext.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char seen[8192];

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	size_t n = strlen(seen);
	va_list ap;

	va_start(ap, format);
	vsnprintf(seen + n, sizeof(seen) - n, format, ap);
	va_end(ap);
}

static void on_sample(void *arg, const struct promtext_sample *s)
{
	(void)arg;
	say("%s/%d", s->name, (int)s->type);
	for (unsigned i = 0; i < s->n_labels; i++)
		say(" %s=<%s>", s->labels[i].name, s->labels[i].value);
	if (isnan(s->value))
		say(" nan");
	else
		say(" %.17g", s->value);
	if (!isnan(s->timestamp))
		say(" at %.17g", s->timestamp);
	say("%s;", s->exemplar ? " #" : "");
}

static void on_family(void *arg, const char *name, enum promtext_type type)
{
	(void)arg;
	say("[%s %d];", name, (int)type);
}

static const struct promtext_handler handler = { on_sample, on_family };

/* In pieces of `step` bytes. */
static struct promtext_stats read_in(const char *text, size_t step)
{
	struct promtext_stats stats;
	struct promtext *x;
	size_t n = strlen(text);

	seen[0] = '\0';
	assert_int_equal(promtext_new(&x, &handler, NULL), 0);
	for (size_t i = 0; i < n; i += step)
		promtext_feed(x, text + i, n - i < step ? n - i : step);
	promtext_finish(x);
	stats = *promtext_stats(x);
	promtext_free(x);
	return stats;
}

static void each_line_means_what_it_says(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "a 1", "a/0 1;" },
		{ "a 1\n", "a/0 1;" },
		{ "a 1\r\n", "a/0 1;" },
		{ " \ta\t 1 \t\n", "a/0 1;" },
		{ "\xef\xbb\xbf"
		  "a 1\n",
		  "a/0 1;" },
		{ "a:b_9{} 1.5e3", "a:b_9/0 1500;" },
		{ "a{x=\"1\"} 2 1700000000000",
		  "a/0 x=<1> 2 at 1700000000000;" },
		{ "a{x=\"1\",y=\"2\",} 3", "a/0 x=<1> y=<2> 3;" },
		{ "a { x = \"1\" , y = \"2\" } 3", "a/0 x=<1> y=<2> 3;" },
		{ "a{x=\"q\\\"b\\\\n\\nz\\t\"} 1", "a/0 x=<q\"b\\n\nz\\t> 1;" },
		{ "a{x=\"} 5 # {\"} 1", "a/0 x=<} 5 # {> 1;" },
		{ "a{x=\"\xc3\xa9\"} 1", "a/0 x=<\xc3\xa9> 1;" },
		{ "a NaN", "a/0 nan;" },
		{ "a -nan", "a/0 nan;" },
		{ "a nan", "a/0 nan;" },
		{ "a +Inf\na -Inf", "a/0 inf;a/0 -inf;" },
		{ "{\"a.b\",\"x y\"=\"1\"} 2", "a.b/0 x y=<1> 2;" },
		{ "# TYPE a counter\na_total 3 # {t=\"x\"} 1 2",
		  "[a 1];a_total/1 3 #;" },
		{ "# TYPE a counter\na_total 3 1.5 # {} 1",
		  "[a 1];a_total/1 3 at 1.5 #;" },
		{ "# TYPE a counter\na_created 1.5e9",
		  "[a 1];a_created/1 1500000000;" },
		{ "# TYPE h histogram\nh_sum 1\nh_bucket{le=\"+Inf\"} 2\n"
		  "h_count 2",
		  "[h 3];h_sum/3 1;h_bucket/3 le=<+Inf> 2;h_count/3 2;" },
		{ "# TYPE s summary\ns{quantile=\"0.5\"} 1",
		  "[s 5];s/5 quantile=<0.5> 1;" },
		{ "# HELP a words\n# TYPE a gauge\n# UNIT a x\n#\n# EOF",
		  "[a 0];[a 2];" },
		{ "# TYPE a gauge\nab 1", "[a 2];ab/0 1;" },
		{ "# TYPE a weird\na 1", "[a 0];a/0 1;" },
		{ "\n\n   \n", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t step = 1; step < 9; step += 7) {
			struct promtext_stats s = read_in(cases[i].text, step);

			assert_int_equal(s.bad_lines, 0);
			assert_string_equal(seen, cases[i].want);
		}
}

static void a_bad_line_takes_nothing_with_it(void **state)
{
	static const char *const bad[] = {
		"a",
		"a ",
		"9a 1",
		"a{x=1} 2",
		"a{x} 2",
		"a{x=\"1\" 2",
		"a{x=\"1\"y=\"2\"} 3",
		"a{=\"1\"} 2",
		"a 1 x",
		"a 1 2 3",
		"a x",
		"{} 1",
		"a{\"b\"} 1",
		"a b c",
		"a{x=\"1\\",
		"# TYPE 9 gauge",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct promtext_stats s;
		char text[256];

		snprintf(text, sizeof(text), "b 1\n%s\nc 2\n", bad[i]);
		s = read_in(text, 3);
		print_message("# %s\n", bad[i]);
		assert_int_equal(s.bad_lines, 1);
		assert_int_equal(s.samples, 2);
		assert_string_equal(seen, "b/0 1;c/0 2;");
	}
}

static void long_lines_and_zero_bytes_are_counted(void **state)
{
	static char text[3 * PROMTEXT_LINE_MAX];
	struct promtext_stats s;
	struct promtext *x;
	size_t n;

	(void)state;
	memset(text, 'a', PROMTEXT_LINE_MAX + 1);
	strcpy(text + PROMTEXT_LINE_MAX + 1, " 1\nb 2\n");
	s = read_in(text, 1000);
	assert_int_equal(s.long_lines, 1);
	assert_string_equal(seen, "b/0 2;");
	/* the longest legal label is read whole */
	n = (size_t)snprintf(text, sizeof(text), "a{x=\"");
	memset(text + n, 'v', PROMTEXT_LINE_MAX - n - 4);
	strcpy(text + PROMTEXT_LINE_MAX - 4, "\"} 1\nc 3\n");
	s = read_in(text, 4096);
	assert_int_equal(s.samples, 2);
	assert_int_equal(s.long_lines, 0);
	seen[0] = '\0';
	assert_int_equal(promtext_new(&x, &handler, NULL), 0);
	promtext_feed(x, "a\0b 1\nc 2", 9);
	promtext_finish(x);
	assert_int_equal(promtext_stats(x)->bad_lines, 1);
	assert_string_equal(seen, "c/0 2;");
	promtext_free(x);
}

static void more_labels_than_there_is_room_for(void **state)
{
	char text[4096];
	size_t n = (size_t)snprintf(text, sizeof(text), "a{");
	struct promtext_stats s;

	(void)state;
	for (unsigned i = 0; i < PROMTEXT_LABELS_MAX + 1; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "l%u=\"\",",
				      i);
	snprintf(text + n, sizeof(text) - n, "} 1\nb 2\n");
	s = read_in(text, sizeof(text));
	assert_int_equal(s.bad_lines, 1);
	assert_string_equal(seen, "b/0 2;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_means_what_it_says),
		cmocka_unit_test(a_bad_line_takes_nothing_with_it),
		cmocka_unit_test(long_lines_and_zero_bytes_are_counted),
		cmocka_unit_test(more_labels_than_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
