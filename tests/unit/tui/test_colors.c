/*
 * The screens in every colour depth: what they look like (tests/golden/colors-*,
 * UPDATE=1 rewrites them), and that they say the same.
 *
 * A file has the text of a screen, then its looks: a letter for each
 * foreground, background and attributes, and for every row how many cells have
 * which, from left to right.
 */
#include "tests/unit/tui/golden.h"

#include "tui/heat.h"
#include "tui/paint.h"

#define W 80
#define H 24
#define LOOKS_MAX 52u

static const char *const depth_names[DEPTHS] = {
	[DEPTH_MONO] = "mono",
	[DEPTH_8] = "8",
	[DEPTH_256] = "256",
	[DEPTH_TRUE] = "true",
};

static const struct {
	enum scene scene;
	unsigned screen;
} pictures[] = {
	{ SCENE_NEAR, 0 },          { SCENE_GONE, 0 }, { SCENE_RANKS, 2 },
	{ SCENE_SOLO, 3 },          { SCENE_KV, 4 },   { SCENE_NEAR, 5 },
	{ SCENE_TIERS_MISSING, 0 },
};
#define PICTURES (sizeof(pictures) / sizeof(*pictures))

/* ---- looks ---------------------------------------------------------------- */

struct looks {
	unsigned n;
	struct look look[LOOKS_MAX];
};

static bool same(struct look a, struct look b)
{
	return a.fg == b.fg && a.bg == b.bg && a.attributes == b.attributes;
}

static char letter(struct looks *l, struct look look)
{
	unsigned i = 0;

	while (i < l->n && !same(l->look[i], look))
		i++;
	assert_true(i < LOOKS_MAX);
	if (i == l->n)
		l->look[l->n++] = look;
	return (char)(i < 26 ? 'a' + i : 'A' + i - 26);
}

static void print_color(FILE *f, int color, enum color_depth d)
{
	if (color < 0)
		fputs("own", f);
	else
		fprintf(f, d == DEPTH_TRUE ? "#%06x" : "%d", color);
}

static void print_look(FILE *f, struct look l, enum color_depth d)
{
	print_color(f, l.fg, d);
	fputs(" on ", f);
	print_color(f, l.bg, d);
	fprintf(f, "%s%s%s%s", l.attributes & LOOK_BOLD ? " bold" : "",
		l.attributes & LOOK_DIM ? " dim" : "",
		l.attributes & LOOK_REVERSE ? " reverse" : "",
		l.attributes & LOOK_UNDERLINE ? " underline" : "");
}

static void print_row(FILE *f, const struct grid *g, int y, enum color_depth d,
		      struct looks *l)
{
	char last = 0;
	int run = 0;

	for (int x = 0; x <= g->w; x++) {
		char c = 0;

		if (x < g->w)
			c = letter(
				l,
				theme_look(
					THEME_DEFAULT,
					(enum style)grid_cell(g, x, y)->style,
					d));
		if (c != last && run)
			fprintf(f, "%d%c", run, last);
		run = c == last ? run + 1 : 1;
		last = c;
	}
	fputc('\n', f);
}

static void print_picture(FILE *f, const struct grid *g, enum color_depth d)
{
	struct looks l = { 0 };

	assert_int_equal(grid_write(g, f), 0);
	for (int y = 0; y < g->h; y++)
		print_row(f, g, y, d, &l);
	for (unsigned i = 0; i < l.n; i++) {
		fprintf(f, "%c ", letter(&l, l.look[i]));
		print_look(f, l.look[i], d);
		fputc('\n', f);
	}
}

static void check_depth(enum color_depth d)
{
	char name[64], *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	for (unsigned i = 0; i < PICTURES; i++) {
		struct view *v = golden_view(pictures[i].scene, false);

		golden_draw(v, W, H, pictures[i].screen);
		fprintf(f, "==== %s, %s\n", scene_names[pictures[i].scene],
			screens[pictures[i].screen]->title);
		print_picture(f, &v->grid, d);
		view_free(v);
	}
	assert_int_equal(fclose(f), 0);
	snprintf(name, sizeof(name), "colors-%s-%dx%d", depth_names[d], W, H);
	golden_compare(name, text);
	free(text);
}

static void test_true_color(void **state)
{
	(void)state;
	check_depth(DEPTH_TRUE);
}

static void test_256_colors(void **state)
{
	(void)state;
	check_depth(DEPTH_256);
}

static void test_8_colors(void **state)
{
	(void)state;
	check_depth(DEPTH_8);
}

static void test_mono(void **state)
{
	(void)state;
	check_depth(DEPTH_MONO);
}

/* ---- the same words ------------------------------------------------------- */

/* Without control sequences, and without blanks at the ends of lines. */
static void strip(char *text)
{
	char *to = text, *line = text;

	for (const char *p = text; *p; p++) {
		if (*p == '\033' && p[1] == '[') {
			p += 2;
			while (*p && !(*p >= '@' && *p <= '~'))
				p++;
			if (!*p)
				break;
			continue;
		}
		if (*p == '\n') {
			while (to > line && to[-1] == ' ')
				to--;
			*to++ = '\n';
			line = to;
			continue;
		}
		*to++ = *p;
	}
	*to = '\0';
}

static char *in_depth(const struct grid *g, unsigned theme, enum color_depth d)
{
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(paint_write(g, theme, d, f), 0);
	fclose(f);
	strip(text);
	return text;
}

static void check_words(const struct grid *g)
{
	char *want = NULL;
	size_t bytes;
	FILE *f = open_memstream(&want, &bytes);

	assert_non_null(f);
	assert_int_equal(grid_write(g, f), 0);
	fclose(f);
	strip(want);
	for (unsigned i = 0; i < THEMES * DEPTHS; i++) {
		char *got =
			in_depth(g, i / DEPTHS, (enum color_depth)(i % DEPTHS));

		assert_string_equal(got, want);
		free(got);
	}
	free(want);
}

static void test_every_depth_and_theme_says_the_same(void **state)
{
	static const enum scene scenes[] = { SCENE_RANKS, SCENE_GONE };

	(void)state;
	for (unsigned i = 0; i < sizeof(scenes) / sizeof(*scenes); i++) {
		struct view *v = golden_view(scenes[i], false);

		for (unsigned screen = 0; screen < SCREENS; screen++) {
			golden_draw(v, 100, 30, screen);
			check_words(&v->grid);
		}
		view_free(v);
	}
}

/* ---- not by colour alone -------------------------------------------------- */

/* Neighbouring levels of the heat map that look alike without colours have
 * another glyph or attribute two levels on. */
static void test_heat_is_told_without_colors(void **state)
{
	struct view *v = golden_view(SCENE_NEAR, false);

	(void)state;
	for (unsigned level = 0; level + 2 <= HEAT_LEVELS; level++)
		assert_true(heat_glyph(&v->grid, level) !=
			    heat_glyph(&v->grid, level + 2));
	v->grid.ascii = true;
	for (unsigned level = 0; level < HEAT_LEVELS; level++)
		assert_true(heat_glyph(&v->grid, level) !=
			    heat_glyph(&v->grid, level + 1));
	view_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_true_color),
		cmocka_unit_test(test_256_colors),
		cmocka_unit_test(test_8_colors),
		cmocka_unit_test(test_mono),
		cmocka_unit_test(test_every_depth_and_theme_says_the_same),
		cmocka_unit_test(test_heat_is_told_without_colors),
	};

	return cmocka_run_group_tests(tests, golden_setup, NULL);
}
