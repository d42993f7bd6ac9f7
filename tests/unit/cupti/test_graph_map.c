#include "cupti/graph_map.h"

#include <errno.h>

#include "tests/unit/cupti/check.h"

#define NODE(graph, i) ((uint64_t)(graph) << 32 | (i))

static int setup(void **state)
{
	*state = graph_map_new(64, 8);
	return *state == NULL;
}

static int teardown(void **state)
{
	graph_map_free(*state);
	return 0;
}

/* A template graph of `layers` layers: top-k, alignment, two other kernels. */
static void capture(struct graph_map *m, uint32_t graph, uint32_t layers)
{
	for (uint32_t i = 0; i < layers; i++) {
		struct launch topk = { .args = 1, .arg = { 1000 + i } };
		struct launch align = { .args = 1, .arg = { 2000 + i } };

		graph_map_created(m, NODE(graph, 4 * i), &topk, false);
		graph_map_created(m, NODE(graph, 4 * i + 1), &align, true);
		graph_map_created(m, NODE(graph, 4 * i + 2), NULL, false);
		graph_map_created(m, NODE(graph, 4 * i + 3), NULL, false);
	}
}

static void instantiate(struct graph_map *m, uint32_t from, uint32_t to,
			uint32_t layers)
{
	for (uint32_t i = 0; i < 4 * layers; i++)
		graph_map_cloned(m, NODE(to, i), NODE(from, i));
}

static void copies_know_the_launch_behind_their_original(void **state)
{
	struct graph_map *m = *state;
	struct launch l, align;

	capture(m, 5, 3);
	instantiate(m, 5, 9, 3);
	assert_int_equal(graph_map_find(m, NODE(9, 8), &l, &align), 0);
	assert_int_equal(l.arg[0], 1002);
	assert_int_equal(align.arg[0], 2002);
	assert_int_equal(graph_map_find(m, NODE(9, 2), &l, &align), -ENOENT);
	assert_int_equal(graph_map_find(m, NODE(9, 9), &l, &align), -ENOENT);
	assert_int_equal(graph_map_kernels(m, 9), 12);
	assert_int_equal(graph_map_kernels(m, 77), 0);
}

static void copies_outlive_their_template(void **state)
{
	struct graph_map *m = *state;
	struct launch l[4], align[4];

	capture(m, 5, 3);
	instantiate(m, 5, 9, 3);
	graph_map_forget(m, 5);
	assert_int_equal(graph_map_list(m, 5, l, align, 4), 0);
	assert_int_equal(graph_map_list(m, 9, l, align, 4), 3);
	assert_int_equal(l[0].arg[0], 1000);
	assert_int_equal(l[2].arg[0], 1002);
	assert_int_equal(align[1].arg[0], 2001);
	assert_int_equal(graph_map_list(m, 9, l, align, 2), 2);
}

static void forgotten_graphs_give_their_room_back(void **state)
{
	struct graph_map *m = *state;
	struct graph_map_counts c;

	for (uint32_t g = 1; g < 200; g++) {
		capture(m, 2 * g, 5);
		instantiate(m, 2 * g, 2 * g + 1, 5);
		graph_map_forget(m, 2 * g);
		graph_map_forget(m, 2 * g + 1);
	}
	graph_map_count(m, &c);
	assert_int_equal(c.overflow, 0);
	assert_int_equal(c.routing_nodes, 0);
	assert_int_equal(c.kernel_nodes, 0);
}

static void what_finds_no_room_is_counted(void **state)
{
	struct graph_map *m = *state;
	struct graph_map_counts c;

	capture(m, 1, 40); /* 80 routing nodes, room for 64 */
	graph_map_count(m, &c);
	assert_int_equal(c.routing_nodes, 64);
	assert_int_equal(c.overflow, 16);
	for (uint32_t g = 2; g < 12; g++)
		graph_map_created(m, NODE(g, 0), NULL, false);
	graph_map_count(m, &c);
	assert_int_equal(c.overflow, 16 + 3);
}

static void exec_slots_are_found_again(void **state)
{
	struct graph_map *m = *state;
	uint32_t a = graph_exec_get(m, (void *)0x1000);
	uint32_t b = graph_exec_get(m, (void *)0x2000);

	assert_int_not_equal(a, b);
	assert_int_equal(graph_exec_get(m, (void *)0x1000), a);
	assert_int_equal(graph_exec_get(m, NULL), UINT32_MAX);
	assert_int_equal(graph_exec_of_id(m, 7), UINT32_MAX);
	graph_exec_at(m, b)->id = 7;
	assert_int_equal(graph_exec_of_id(m, 7), UINT32_MAX);
	graph_exec_at(m, b)->alive = true;
	assert_int_equal(graph_exec_of_id(m, 7), b);
}

static void more_execs_than_slots_end_in_no_slot(void **state)
{
	struct graph_map *m = *state;

	for (uintptr_t i = 1; i <= GRAPH_EXECS_MAX; i++)
		assert_true(graph_exec_get(m, (void *)(i * 16)) <
			    GRAPH_EXECS_MAX);
	assert_int_equal(graph_exec_get(m, (void *)8), UINT32_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(copies_know_the_launch_behind_their_original),
		T(copies_outlive_their_template),
		T(forgotten_graphs_give_their_room_back),
		T(what_finds_no_room_is_counted),
		T(exec_slots_are_found_again),
		T(more_execs_than_slots_end_in_no_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
