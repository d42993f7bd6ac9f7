#include "tui/screen.h"
#include "tui/tables.h"
#include "tui/widgets.h"

static struct rect table_rect(struct rect body)
{
	return (struct rect){ body.x + 1, body.y, body.w - 2, body.h };
}

static void layers_draw(struct view *v, struct rect body)
{
	struct layer_order o;
	struct table t;

	if (!v->shot.n_layers) {
		grid_text(&v->grid, body, 1, 1, STYLE_NORMAL,
			  "no MoE layer has been seen yet: they come with the "
			  "first kernel window");
		return;
	}
	layer_table(&v->shot, false, &o, &t);
	table_show(v, table_rect(body), &t);
}

const struct screen screen_layers = {
	.title = "layers",
	.key = '2',
	.sorts = true,
	.filters = true,
	.draw = layers_draw,
	.key_pressed = screen_select,
	.column_clicked = table_clicked,
};
