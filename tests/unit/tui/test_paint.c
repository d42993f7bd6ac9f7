/*
 * Bytes for the terminal: a small terminal of our own reads them and must show
 * the grid; only what changed is written.
 */
#include "tui/paint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define W 40
#define H 6

/* ---- a terminal ---------------------------------------------------------- */

struct shown {
	uint32_t glyph, marks[CELL_MARKS];
	char look[64]; /* the SGR in force, in the order it came */
};
static struct shown screen[H][W];
static char look[64];
static int at_x, at_y;
static unsigned moved; /* cells taken out or put in */

static void terminal_clear(void)
{
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++)
			screen[y][x] = (struct shown){ .glyph = ' ' };
	at_x = at_y = 0;
}

/* The last setting of each kind counts: attributes once, colours the last. */
static void normal_look(const char *raw, char out[64])
{
	static const char *const attributes[] = { "1m", "2m", "7m", "4m" };
	char fg[32] = "", bg[32] = "", copy[64], *save = NULL;
	bool has[4] = { false };

	strcpy(copy, raw);
	for (char *t = strtok_r(copy, "m", &save); t;
	     t = strtok_r(NULL, "m", &save)) {
		char whole[40];

		snprintf(whole, sizeof(whole), "%sm", t);
		if (whole[0] == '3')
			strcpy(fg, whole);
		else if (whole[0] == '4' && whole[1] != 'm')
			strcpy(bg, whole);
		for (int i = 0; i < 4; i++)
			has[i] |= !strcmp(whole, attributes[i]);
	}
	out[0] = '\0';
	for (int i = 0; i < 4; i++)
		if (has[i])
			strcat(out, attributes[i]);
	strcat(strcat(out, fg), bg);
}

static const char *terminal_control(const char *s)
{
	int y = 1, x = 1;
	size_t n = strcspn(s, "HJmP@");
	char normal[64];

	if (s[n] == 'J') {
		terminal_clear();
	} else if (s[n] == 'H') {
		sscanf(s, "%d;%d", &y, &x);
		at_x = x - 1;
		at_y = y - 1;
	} else if (s[n] == 'P' || s[n] == '@') {
		struct shown *at = &screen[at_y][at_x];
		size_t rest = sizeof(*at) * (size_t)(W - 1 - at_x);

		assert_int_equal(n, 0);
		if (s[n] == 'P')
			memmove(at, at + 1, rest);
		else
			memmove(at + 1, at, rest);
		moved++;
		if (s[n] == 'P')
			at += W - 1 - at_x;
		*at = (struct shown){ .glyph = ' ' };
	} else if (n == 0) {
		look[0] = '\0';
	} else {
		assert_true(strlen(look) + n + 2 < sizeof(look));
		strncat(look, s, n);
		strcat(look, "m");
		normal_look(look, normal);
		strcpy(look, normal);
	}
	return s + n + 1;
}

static void terminal_glyph(uint32_t glyph)
{
	int w = wcwidth((wchar_t)glyph);

	if (w == 0) {
		struct shown *c = &screen[at_y][at_x - 1];

		c = c->glyph ? c : c - 1;
		c->marks[c->marks[0] != 0] = glyph;
		return;
	}
	assert_true(at_y >= 0 && at_y < H && at_x >= 0 && at_x + w <= W);
	for (int i = 0; i < w; i++) {
		screen[at_y][at_x + i] =
			(struct shown){ .glyph = i ? 0 : glyph };
		strcpy(screen[at_y][at_x + i].look, look);
	}
	at_x += w;
}

static void terminal_read(const char *bytes, size_t n)
{
	char *text = strndup(bytes, n);

	for (const char *s = text; *s;) {
		if (*s == '\033')
			s = terminal_control(s + 2);
		else
			terminal_glyph(utf8_next(&s));
	}
	free(text);
}

/* What a look is in escape sequences, with everything from the start. */
static void expected_look(const struct paint *p, const struct cell *c,
			  char out[64])
{
	struct look l = c->changed ? p->changed[c->style] : p->looks[c->style];

	out[0] = '\0';
	if (l.attributes & LOOK_BOLD)
		strcat(out, "1m");
	if (l.attributes & LOOK_DIM)
		strcat(out, "2m");
	if (l.attributes & LOOK_REVERSE)
		strcat(out, "7m");
	if (l.attributes & LOOK_UNDERLINE)
		strcat(out, "4m");
	if (p->depth == DEPTH_TRUE && l.fg >= 0)
		sprintf(out + strlen(out), "38;2;%d;%d;%dm", l.fg >> 16,
			l.fg >> 8 & 255, l.fg & 255);
	if (p->depth == DEPTH_256 && l.fg >= 0)
		sprintf(out + strlen(out), "38;5;%dm", l.fg);
	if (p->depth == DEPTH_8 && l.fg >= 0)
		sprintf(out + strlen(out), "3%dm", l.fg);
	if (p->depth == DEPTH_TRUE && l.bg >= 0)
		sprintf(out + strlen(out), "48;2;%d;%d;%dm", l.bg >> 16,
			l.bg >> 8 & 255, l.bg & 255);
	if (p->depth == DEPTH_256 && l.bg >= 0)
		sprintf(out + strlen(out), "48;5;%dm", l.bg);
	if (p->depth == DEPTH_8 && l.bg >= 0)
		sprintf(out + strlen(out), "4%dm", l.bg);
}

static void check_shows(const struct paint *p, const struct grid *g)
{
	for (int y = 0; y < H; y++)
		for (int x = 0; x < W; x++) {
			const struct cell *c = grid_cell(g, x, y);
			const struct shown *s = &screen[y][x];
			char want[64], got[64];
			struct look l;

			assert_int_equal(s->glyph, c->glyph);
			assert_int_equal(s->marks[0], c->marks[0]);
			if (!c->glyph) /* looks as its left half */
				continue;
			expected_look(p, c, want);
			normal_look(s->look, got);
			/* a blank without a background looks like any other */
			l = c->changed ? p->changed[c->style]
				       : p->looks[c->style];
			if (c->glyph != ' ' || l.bg >= 0 ||
			    l.attributes & (LOOK_REVERSE | LOOK_UNDERLINE))
				assert_string_equal(got, want);
		}
}

/* ---- the tests ----------------------------------------------------------- */

static struct grid now, before;

static int setup(void **state)
{
	(void)state;
	look[0] = '\0';
	return grid_resize(&now, W, H) || grid_resize(&before, W, H);
}

static int teardown(void **state)
{
	(void)state;
	grid_fini(&now);
	grid_fini(&before);
	return 0;
}

/* Something at random, wide and combining glyphs among it. */
static void scribble(uint32_t *seed, unsigned times)
{
	static const char *const texts[] = { "a", "zz",     "φη", "世界",
					     "é", "12.3 %", "  ", "█▌" };

	while (times--) {
		*seed = *seed * 1664525 + 1013904223;
		unsigned r = *seed >> 8;

		grid_text(&now, grid_rect(&now), (int)(r % W),
			  (int)(r / 64 % H), (enum style)(r / 512 % STYLES),
			  texts[r / 65536 % 8]);
		now.cells[r % (W * H)].changed = r & 1;
	}
}

static void paint_and_check(struct paint *p, bool whole)
{
	assert_int_equal(paint_diff(p, whole ? NULL : &before, &now), 0);
	terminal_read(p->bytes, p->n);
	check_shows(p, &now);
	memcpy(before.cells, now.cells, sizeof(struct cell) * W * H);
}

static void test_the_terminal_shows_the_grid(void **state)
{
	uint32_t seed = 3;

	(void)state;
	for (unsigned theme = 0; theme < THEMES; theme++)
		for (unsigned d = 0; d < DEPTHS; d++) {
			struct paint p;

			paint_init(&p, paint_caps_ansi((enum color_depth)d),
				   theme, (enum color_depth)d);
			look[0] = '\0';
			grid_clear(&now);
			scribble(&seed, 20);
			paint_and_check(&p, true);
			for (unsigned i = 0; i < 20; i++) {
				scribble(&seed, i % 5);
				paint_and_check(&p, false);
			}
			paint_fini(&p);
		}
}

static void test_what_is_the_same_costs_nothing(void **state)
{
	uint32_t seed = 5;
	struct paint p;

	(void)state;
	paint_init(&p, paint_caps_ansi(DEPTH_256), 0, DEPTH_256);
	scribble(&seed, 30);
	paint_and_check(&p, true);
	paint_and_check(&p, false);
	assert_int_equal(p.n, 0);
	grid_put(&now, grid_rect(&now), 3, 2, STYLE_NORMAL, 'q');
	paint_and_check(&p, false);
	assert_in_range(p.n, 1, 24);
	paint_fini(&p);
}

/* A graph between two borders, which moves on by a cell. */
static void test_a_graph_that_moves_is_moved(void **state)
{
	struct paint p;

	(void)state;
	for (unsigned d = 0; d < DEPTHS; d++) {
		paint_init(&p, paint_caps_ansi((enum color_depth)d), 1,
			   (enum color_depth)d);
		look[0] = '\0';
		moved = 0;
		for (int i = 0; i < 30; i++) {
			grid_clear(&now);
			grid_text(&now, grid_rect(&now), 0, 1, STYLE_FRAME,
				  "│");
			for (int x = 1; x < W - 6; x++)
				grid_put(&now, grid_rect(&now), x, 1,
					 STYLE_SPARK,
					 0x2800 + (uint32_t)(x + i) * 7 % 256);
			grid_text(&now, grid_rect(&now), W - 6, 1, STYLE_STRONG,
				  i & 1 ? "世界" : " 12 ");
			paint_and_check(&p, i == 0);
			if (i)
				assert_in_range(p.n, 1, 130);
		}
		assert_int_equal(moved, 2 * 29);
		paint_fini(&p);
	}
}

static void test_the_last_cell_may_not_be_written(void **state)
{
	struct paint_caps caps = *paint_caps_ansi(DEPTH_MONO);
	struct paint p;

	(void)state;
	caps.scrolls = true;
	paint_init(&p, &caps, 0, DEPTH_MONO);
	grid_put(&now, grid_rect(&now), W - 1, H - 1, STYLE_NORMAL, '#');
	grid_put(&now, grid_rect(&now), W - 2, H - 1, STYLE_NORMAL, '!');
	assert_int_equal(paint_diff(&p, NULL, &now), 0);
	assert_null(memchr(p.bytes, '#', p.n));
	assert_non_null(memchr(p.bytes, '!', p.n));
	paint_fini(&p);
}

static void test_a_poor_terminal_gets_what_it_has(void **state)
{
	const struct paint_caps caps = { .at = "\033[%i%p1%d;%p2%dH$<5>",
					 .normal = "\033[m$<2>",
					 .bold = "\033[1m$<2>" };
	struct paint p;

	(void)state;
	paint_init(&p, &caps, 0, DEPTH_MONO);
	grid_text(&now, grid_rect(&now), 1, 1, STYLE_STRONG, "bold");
	assert_int_equal(paint_diff(&p, NULL, &now), 0);
	assert_non_null(memmem(p.bytes, p.n, "\033[1mbold", 8));
	assert_null(memmem(p.bytes, p.n, "$<", 2)); /* padding is no text */
	paint_fini(&p);
}

static void test_a_file_gets_whole_lines(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	(void)state;
	grid_text(&now, grid_rect(&now), 0, 0, STYLE_BAD, "bad");
	assert_int_equal(paint_write(&now, 0, DEPTH_TRUE, f), 0);
	fclose(f);
	assert_non_null(strstr(text, "\033[1m\033[38;2;215;95;95mbad\033[m"));
	assert_int_equal(text[bytes - 1], '\n');
	free(text);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_terminal_shows_the_grid),
		T(test_what_is_the_same_costs_nothing),
		T(test_a_graph_that_moves_is_moved),
		T(test_the_last_cell_may_not_be_written),
		T(test_a_poor_terminal_gets_what_it_has),
		T(test_a_file_gets_whole_lines),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
