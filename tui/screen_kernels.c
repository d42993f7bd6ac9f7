#include "tui/buckets.h"
#include "tui/overview.h"
#include "tui/screen.h"
#include "tui/tables.h"
#include "tui/widgets.h"

/* Screens this tall show the step above the table, and where its time is. */
#define STEP_ROWS_MIN 14
#define PHASE_ROWS_MIN 17
#define HIST_ROWS_MIN 5
#define HIST_ROWS_MOST 14

static void draw_phase(struct view *v, struct rect r, const char *name,
		       const struct snapshot_step *p)
{
	struct fields fs = { 0 };

	fields_value(&fs, 0, name, p->seconds, NUMBER_SECONDS);
	fields_value(&fs, 1, "busy", p->busy, NUMBER_SECONDS);
	fields_value(&fs, 2, "idle between kernels", p->gap, NUMBER_SECONDS);
	fields_value(&fs, 2, "before the next step", p->between,
		     NUMBER_SECONDS);
	fields_value(&fs, 3, "kernels", p->kernels, NUMBER_COUNT);
	fields_value(&fs, 3, "launches", p->launches, NUMBER_COUNT);
	fields_draw(&v->grid, r, 0, "   ", &fs, NULL);
}

/* A line for the decode step, one for a step with prompts. */
static int draw_phases(struct view *v, struct rect r)
{
	if (v->shot.n_steps < SNAPSHOT_PHASES)
		return 0;
	draw_phase(v, (struct rect){ r.x, r.y, r.w, 1 }, "decode step",
		   &v->shot.steps[0]);
	draw_phase(v, (struct rect){ r.x, r.y + 1, r.w, 1 },
		   "step with prompts", &v->shot.steps[1]);
	return 2;
}

/* What is left below a short table shows how steps and rows are spread. */
static void draw_hists(struct view *v, struct rect r)
{
	struct rect left = { r.x, r.y, r.w / 2 - 1, r.h };
	struct rect right = { r.x + r.w / 2 + 1, r.y, r.w - r.w / 2 - 1, r.h };
	const struct snapshot_hist *h = v->shot.hists;

	buckets_draw(&v->grid, left, "decode step", &h[HISTOGRAM_STEP],
		     NUMBER_SECONDS, EXPLAIN_HISTOGRAM + HISTOGRAM_STEP);
	buckets_draw(&v->grid, right, "rows per active expert",
		     &h[HISTOGRAM_ROWS_PER_EXPERT], NUMBER_COUNT,
		     EXPLAIN_HISTOGRAM + HISTOGRAM_ROWS_PER_EXPERT);
}

static void kernels_draw(struct view *v, struct rect body)
{
	struct class_order o;
	struct table t;
	int left;

	if (!v->shot.n_classes) {
		grid_text(&v->grid, body, 1, 1, STYLE_NORMAL,
			  "no kernel has been seen yet: they come with the "
			  "first kernel window");
		return;
	}
	if (body.h >= STEP_ROWS_MIN) {
		int used = 2;

		overview_step(v, (struct rect){ body.x, body.y, body.w, 2 });
		if (body.h >= PHASE_ROWS_MIN)
			used += draw_phases(v, (struct rect){ body.x + 1,
							      body.y + used,
							      body.w - 2, 2 });
		body.y += used + 1;
		body.h -= used + 1;
	}
	class_table(&v->shot, &o, &t);
	left = body.h - t.rows - t.footer - 2;
	if (left >= HIST_ROWS_MIN) {
		left = left < HIST_ROWS_MOST ? left : HIST_ROWS_MOST;
		body.h -= left;
		draw_hists(v, (struct rect){ body.x + 1, body.y + body.h,
					     body.w - 2, left });
	}
	table_show(v, (struct rect){ body.x + 1, body.y, body.w - 2, body.h },
		   &t);
}

const struct screen screen_kernels = {
	.title = "kernels",
	.key = '5',
	.sorts = true,
	.filters = true,
	.draw = kernels_draw,
	.key_pressed = screen_select,
	.column_clicked = table_clicked,
};
