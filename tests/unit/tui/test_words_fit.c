/* What the model says stands whole on the first screen of 80x24: every sentence
 * of a finding with the longest gain beside it, and verdicts of their limits. */
#include "model/findings.h"
#include "tests/unit/tui/scenes.h"
#include "tui/tui.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct snapshot shot;
static char screen[1 << 16];

static void draw(void)
{
	const struct snapshot *history[] = { &shot };
	const struct tui_options o = { .ascii = false };
	FILE *f = tmpfile();
	size_t n;

	assert_non_null(f);
	assert_int_equal(tui_print(f, history, 1, 80, 24, 0, &o), 0);
	rewind(f);
	n = fread(screen, 1, sizeof(screen) - 1, f);
	screen[n] = '\0';
	fclose(f);
}

static const char *const rules[] = {
	"valley_near",    "valley_far",        "per_row_reads",
	"kernel_floor",   "ep_imbalance",      "straggler_experts",
	"skewed_experts", "host_bound",        "padding",
	"dense_bound",    "speculation_costs", "kv_bound",
	"compute_bound",  "smbu_impossible",
};
#define RULES (sizeof(rules) / sizeof(rules[0]))

/* Facts that make everything fire, with numbers out of all proportion. */
static void facts_of(const char *rule, struct finding_facts *a)
{
	double *v = &a->tokens;

	finding_facts_clear(a);
	for (; v <= &a->effective; v++)
		*v = 1e12;
	a->regime = !strcmp(rule, "kv_bound")        ? REGIME_KV
		    : !strcmp(rule, "compute_bound") ? REGIME_COMPUTE
						     : REGIME_VALLEY;
	a->side = strcmp(rule, "valley_far") ? SIDE_NEAR : SIDE_FAR;
	a->merge = 8;
	a->merge_cost_ratio = a->exit_cost_ratio = 0;
	a->ridge_rows = 37;
	a->effective = 1e9;
	a->kept = 1e11;
	if (!strcmp(rule, "per_row_reads") || !strcmp(rule, "kernel_floor"))
		a->tokens = 8;
	if (!strcmp(rule, "host_bound") || !strcmp(rule, "dense_bound"))
		a->idle_ratio = a->dense_ratio = 1;
	a->expert_time_ratio = 1;
}

static void findings_stand_whole(void **state)
{
	static struct finding found[SNAPSHOT_FINDINGS_MAX];

	(void)state;
	for (unsigned i = 0; i < RULES; i++) {
		struct finding_facts a;
		unsigned n, seen = 0;

		facts_of(rules[i], &a);
		n = finding_rules(&a, found);
		for (unsigned j = 0; j < n; j++) {
			if (strcmp(found[j].rule, rules[i]))
				continue;
			scene_fill(&shot, SCENE_NEAR);
			shot.n_findings = 1;
			shot.findings[0] = found[j];
			finding_words(&found[j], shot.findings[0].text,
				      sizeof(shot.findings[0].text));
			draw();
			seen++;
			if (strstr(screen, shot.findings[0].text))
				continue;
			print_error("%s is cut:\n%s\n", shot.findings[0].text,
				    screen);
			fail();
		}
		assert_int_equal(seen, 1);
	}
}

/* Two rows of words for each line. */
static void verdicts_stand_whole(void **state)
{
	static const char *const marks[] = { "first", "second", "third" };

	(void)state;
	scene_fill(&shot, SCENE_NEAR);
	for (unsigned i = 0; i < 3; i++) {
		size_t n = (size_t)snprintf(shot.verdict[i],
					    sizeof(shot.verdict[i]), "%s",
					    marks[i]);

		while (n + 14 < VERDICT_ROWS * VERDICT_COLUMNS - 12)
			n += (size_t)snprintf(shot.verdict[i] + n,
					      sizeof(shot.verdict[i]) - n,
					      " experts12345");
		snprintf(shot.verdict[i] + n, sizeof(shot.verdict[i]) - n,
			 " %s.", marks[i]);
	}
	draw();
	for (unsigned i = 0; i < 3; i++) {
		char end[16];

		snprintf(end, sizeof(end), "%s.", marks[i]);
		assert_non_null(strstr(screen, end));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(findings_stand_whole),
		cmocka_unit_test(verdicts_stand_whole),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
