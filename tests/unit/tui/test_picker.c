/* The picker of servers: moves, filters, follows its server, picks. */
#include "tui/picker.h"
#include "tui/screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct picker *p;
static char *text;

static void add(int32_t pid, const char *model)
{
	struct server *s = &p->servers.list[p->servers.n++];

	*s = (struct server){ .pid = pid, .port = 8000, .in_flight = NAN };
	snprintf(s->engine, sizeof(s->engine), "vLLM");
	snprintf(s->model, sizeof(s->model), "%s", model);
}

static int setup(void **state)
{
	(void)state;
	p = calloc(1, sizeof(*p));
	if (!p || grid_resize(&p->grid, 80, 24))
		return -1;
	p->looked = true;
	add(100, "Qwen3");
	add(200, "DeepSeek-V3");
	add(300, "Mixtral");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	grid_fini(&p->grid);
	free(p);
	free(text);
	text = NULL;
	return 0;
}

static bool shows(const char *what)
{
	size_t bytes;
	FILE *f;

	free(text);
	text = NULL;
	picker_draw(p);
	f = open_memstream(&text, &bytes);
	assert_non_null(f);
	assert_int_equal(grid_write(&p->grid, f), 0);
	fclose(f);
	return strstr(text, what) != NULL;
}

static void test_keys_move_and_enter_picks(void **state)
{
	(void)state;
	assert_true(shows("3 of 3") && shows("DeepSeek-V3"));
	assert_int_equal(picker_key(p, INPUT_DOWN), PICKED_NOTHING);
	assert_int_equal(picker_key(p, INPUT_ENTER), PICKED_SERVER);
	assert_int_equal(p->pid, 200);
	picker_key(p, INPUT_END);
	assert_int_equal(p->pid, 300);
	picker_key(p, INPUT_DOWN);
	assert_int_equal(p->pid, 300);
	picker_key(p, INPUT_HOME);
	assert_int_equal(p->pid, 100);
	assert_int_equal(picker_key(p, 'q'), PICKED_LEAVE);
	assert_int_equal(picker_key(p, INPUT_ESCAPE), PICKED_LEAVE);
}

static void test_the_cursor_stays_on_its_server(void **state)
{
	(void)state;
	picker_key(p, INPUT_DOWN);
	memmove(&p->servers.list[1], &p->servers.list[0],
		sizeof(p->servers.list[0]) * 3);
	p->servers.list[0].pid = 50;
	p->servers.n++;
	assert_int_equal(picker_key(p, INPUT_ENTER), PICKED_SERVER);
	assert_int_equal(p->pid, 200);
	/* gone: the next one */
	p->servers.list[2] = p->servers.list[3];
	p->servers.n--;
	assert_int_equal(picker_key(p, INPUT_ENTER), PICKED_SERVER);
	assert_int_equal(p->pid, 300);
}

static void test_the_filter_narrows_the_list(void **state)
{
	(void)state;
	picker_key(p, '/');
	for (const char *c = "MIX"; *c; c++)
		picker_key(p, *c);
	assert_true(shows("filter MIX") && shows("Mixtral"));
	assert_false(shows("Qwen3"));
	picker_key(p, INPUT_ENTER);
	assert_true(shows("1 of 3") && shows(" only MIX"));
	assert_int_equal(picker_key(p, INPUT_ENTER), PICKED_SERVER);
	assert_int_equal(p->pid, 300);
	picker_key(p, '/');
	picker_key(p, 'q');
	assert_true(shows("no server has that word"));
	assert_int_equal(picker_key(p, INPUT_ESCAPE), PICKED_NOTHING);
	assert_true(shows("Mixtral"));
	assert_int_equal(picker_key(p, INPUT_ESCAPE), PICKED_NOTHING);
	assert_true(shows("3 of 3"));
}

static void test_a_click_marks_and_a_second_one_picks(void **state)
{
	(void)state;
	assert_true(shows("3 of 3"));
	assert_int_equal(picker_mouse(p, MOUSE_PRESS, 5, 4), PICKED_NOTHING);
	assert_int_equal(p->pid, 300);
	assert_int_equal(picker_mouse(p, MOUSE_PRESS, 5, 4), PICKED_SERVER);
	assert_int_equal(picker_mouse(p, MOUSE_PRESS, 5, 9), PICKED_NOTHING);
	assert_int_equal(picker_mouse(p, MOUSE_PRESS, 5, 0), PICKED_NOTHING);
	picker_mouse(p, MOUSE_UP, 0, 0);
	assert_int_equal(p->pid, 200);
}

static void test_what_is_left_over_cannot_be_watched(void **state)
{
	(void)state;
	p->servers.list[0].left_over = true;
	assert_int_equal(picker_key(p, INPUT_ENTER), PICKED_NOTHING);
	assert_true(shows("left over, it serves nobody"));
}

static void test_an_empty_list_says_what_to_do(void **state)
{
	(void)state;
	p->servers.n = 0;
	assert_true(shows("moetop demo"));
	assert_int_equal(picker_key(p, INPUT_ENTER), PICKED_NOTHING);
	picker_key(p, INPUT_DOWN);
	assert_int_equal(picker_mouse(p, MOUSE_PRESS, 5, 2), PICKED_NOTHING);
	p->looked = false;
	assert_true(shows("looking for servers"));
}

static void test_every_size_and_a_full_list(void **state)
{
	(void)state;
	while (p->servers.n < SERVERS_MAX)
		add((int32_t)p->servers.n * 100 + 100, "another");
	for (int w = 1; w < 130; w += 3)
		for (int h = 1; h < 40; h++) {
			assert_int_equal(grid_resize(&p->grid, w, h), 0);
			picker_key(p, INPUT_END);
			picker_draw(p);
			picker_key(p, INPUT_PAGE_UP);
			picker_draw(p);
			assert_true(p->first >= 0 && p->shown <= h);
		}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_keys_move_and_enter_picks),
		T(test_the_cursor_stays_on_its_server),
		T(test_the_filter_narrows_the_list),
		T(test_a_click_marks_and_a_second_one_picks),
		T(test_what_is_left_over_cannot_be_watched),
		T(test_an_empty_list_says_what_to_do),
		T(test_every_size_and_a_full_list),
	};

	setlocale(LC_ALL, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
