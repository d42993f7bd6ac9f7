#include "tui/screen.h"
#include "tui/widgets.h"

static void say(struct view *v, struct rect body, const char *what)
{
	struct rect r = { body.x + 1, body.y + 1, body.w - 2, body.h - 1 };
	int y = wrap_draw(&v->grid, r, 0, "This version has no such screen.",
			  64);

	wrap_draw(&v->grid, r, y + 1, what, 0);
}

static void experts_draw(struct view *v, struct rect body)
{
	say(v, body,
	    "Screen 3 is kept for the heat map of rows per expert and layer. "
	    "What is known about the experts now is on screen 2 (layers).");
}

static void valley_draw(struct view *v, struct rect body)
{
	say(v, body,
	    "Screen 6 is kept for the curve of gain against tokens per step. "
	    "Where this server stands now is on screen 1 (overview).");
}

const struct screen screen_experts = {
	.title = "experts",
	.key = '3',
	.absent = true,
	.draw = experts_draw,
};

const struct screen screen_valley = {
	.title = "valley",
	.key = '6',
	.absent = true,
	.draw = valley_draw,
};
