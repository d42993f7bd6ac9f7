#include <stdio.h>
#include <string.h>

#include "tui/keys.h"
#include "tui/screen.h"
#include "tui/widgets.h"

/* One line of help: what is explained, and how. */
struct help_line {
	const char *name, *text;
};

static const struct help_line signs[] = {
	{ "", "SIGNS" },
	{ "61 %", "measured" },
	{ "61 %~", "inferred from other measurements" },
	{ "61 %≈", "modelled: a formula, an assumption" },
	{ "61 %§", "scraped: the engine's own claim" },
	{ "(61 %)", "stale: source silent or load changed" },
	{ "-", "unknown" },
	{ "…", "unknown yet, being gathered" },
};

static const struct help_line numbers[] = {
	{ "", "NUMBERS" },
	{ "φ", "expert reads per row; 1: none shared" },
	{ "η", "how much of one more request is free" },
	{ "V", "sparsity lost times sharing missing" },
	{ "B", "tokens in a step, short prompts too" },
	{ "MBU", "DRAM bytes over what it could move" },
	{ "S-MBU", "bytes the step needs, over the same" },
	{ "MFU", "useful arithmetic over dense peak" },
	{ "lost", "records and requests missed" },
};

#define LINES_MAX 64u

static unsigned add_lines(struct help_line *to, unsigned n,
			  const struct help_line *from, size_t count)
{
	for (size_t i = 0; i < count && n < LINES_MAX; i++)
		to[n++] = from[i];
	return n;
}

static unsigned key_lines(struct help_line *to, unsigned n)
{
	to[n++] = (struct help_line){ "", "KEYS" };
	for (unsigned i = 0; i < BINDINGS && n < LINES_MAX; i++)
		to[n++] = (struct help_line){ bindings[i].name,
					      bindings[i].help };
	return n;
}

static unsigned screen_lines(struct help_line *to, unsigned n,
			     char names[SCREENS][4])
{
	to[n++] = (struct help_line){ "", "SCREENS" };
	for (unsigned i = 0; i < SCREEN_HELP && n < LINES_MAX; i++) {
		if (screens[i]->absent)
			continue;
		snprintf(names[i], sizeof(names[i]), "%c", screens[i]->key);
		to[n++] = (struct help_line){ names[i], screens[i]->title };
	}
	return n;
}

static void draw_lines(struct view *v, struct rect r,
		       const struct help_line *lines, unsigned n, int first)
{
	for (int y = 0; y < r.h && (unsigned)(first + y) < n; y++) {
		const struct help_line *l = &lines[first + y];
		if (!l->name[0]) {
			grid_text(&v->grid, r, 1, y, STYLE_TITLE, l->text);
			continue;
		}
		text_cut(&v->grid, r, 2, y, 10, STYLE_STRONG, l->name);
		text_cut(&v->grid, r, 13, y, r.w - 14, STYLE_NORMAL, l->text);
	}
}

/* Two columns where there is room, else one that scrolls. */
static unsigned collect(struct help_line *lines, char names[SCREENS][4],
			unsigned *half)
{
	unsigned n = key_lines(lines, 0);

	*half = n;
	n = screen_lines(lines, n, names);
	n = add_lines(lines, n, signs, sizeof(signs) / sizeof(*signs));
	return add_lines(lines, n, numbers, sizeof(numbers) / sizeof(*numbers));
}

static void help_draw(struct view *v, struct rect body)
{
	struct help_line lines[LINES_MAX];
	char names[SCREENS][4];
	unsigned half, n = collect(lines, names, &half);
	struct rect left = body, right = body;

	if (body.w < 100) {
		draw_lines(v, body, lines, n, screen_first(v, (int)n, body.h));
		if ((int)n > body.h)
			text_right(&v->grid, body, 0, 0, body.w - 1, STYLE_DIM,
				   "arrows scroll");
		return;
	}
	left.w = body.w / 2;
	right.x += left.w;
	right.w -= left.w;
	draw_lines(v, left, lines, half, 0);
	draw_lines(v, right, lines + half, n - half, 0);
}

const struct screen screen_help = {
	.title = "help",
	.key = INPUT_NONE,
	.draw = help_draw,
	.key_pressed = screen_scroll,
};
