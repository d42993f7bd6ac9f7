#include "tui/overview.h"
#include "tui/screen.h"
#include "tui/tables.h"
#include "tui/widgets.h"

/* Screens this tall show the step above the table. */
#define STEP_ROWS_MIN 14

static void kernels_draw(struct view *v, struct rect body)
{
	struct class_order o;
	struct table t;

	if (!v->shot.n_classes) {
		grid_text(&v->grid, body, 1, 1, STYLE_NORMAL,
			  "no kernel has been seen yet: they come with the "
			  "first kernel window");
		return;
	}
	if (body.h >= STEP_ROWS_MIN) {
		overview_step(v, (struct rect){ body.x, body.y, body.w, 2 });
		body.y += 3;
		body.h -= 3;
	}
	class_table(&v->shot, &o, &t);
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
