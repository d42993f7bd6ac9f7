#include "cupti/graph_map.h"

#include <errno.h>
#include <pthread.h>

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

		graph_map_created(m, NODE(graph, 4 * i), m, &topk);
		graph_map_created(m, NODE(graph, 4 * i + 1), m, &align);
		graph_map_created(m, NODE(graph, 4 * i + 2), m, NULL);
		graph_map_created(m, NODE(graph, 4 * i + 3), m, NULL);
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
	struct launch l;

	capture(m, 5, 3);
	instantiate(m, 5, 9, 3);
	assert_int_equal(graph_map_find(m, NODE(9, 8), &l), 0);
	assert_int_equal(l.arg[0], 1002);
	assert_int_equal(graph_map_find(m, NODE(9, 9), &l), 0);
	assert_int_equal(l.arg[0], 2002);
	assert_int_equal(graph_map_find(m, NODE(9, 2), &l), -ENOENT);
	assert_int_equal(graph_map_kernels(m, 9), 12);
	assert_int_equal(graph_map_kernels(m, 77), 0);
}

static void copies_outlive_their_template(void **state)
{
	struct graph_map *m = *state;
	struct launch l[8];
	void *handle[8];

	capture(m, 5, 3);
	assert_int_equal(graph_map_list(m, 5, l, handle, 8), 6);
	assert_ptr_equal(handle[5], m);
	instantiate(m, 5, 9, 3);
	graph_map_forget(m, 5);
	assert_int_equal(graph_map_list(m, 5, l, NULL, 8), 0);
	assert_int_equal(graph_map_list(m, 9, l, handle, 8), 6);
	assert_int_equal(l[0].arg[0], 1000);
	assert_int_equal(l[3].arg[0], 2001);
	assert_int_equal(l[4].arg[0], 1002);
	assert_null(handle[0]);
	assert_int_equal(graph_map_list(m, 9, l, NULL, 2), 2);
}

static void stages_come_to_copies_made_afterwards(void **state)
{
	struct graph_map *m = *state;
	struct launch l;

	capture(m, 5, 3);
	instantiate(m, 5, 8, 3);
	graph_map_set_stage(m, NODE(5, 4), 0x7000);
	graph_map_set_stage(m, NODE(77, 4), 0x8000);
	instantiate(m, 5, 9, 3);
	assert_int_equal(graph_map_find(m, NODE(9, 4), &l), 0);
	assert_int_equal(l.stage, 0x7000);
	assert_int_equal(graph_map_find(m, NODE(8, 4), &l), 0);
	assert_int_equal(l.stage, 0);
	assert_int_equal(graph_map_find(m, NODE(9, 8), &l), 0);
	assert_int_equal(l.stage, 0);
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
		graph_map_created(m, NODE(g, 0), m, NULL);
	graph_map_count(m, &c);
	assert_int_equal(c.overflow, 16 + 3);
}

static void
a_graph_of_which_copies_are_not_told_is_like_its_template(void **state)
{
	struct graph_map *m = *state;
	struct launch l[8];

	capture(m, 5, 3);
	graph_map_copied(m, 5, 9);
	graph_map_forget(m, 5);
	assert_int_equal(graph_map_list(m, 9, l, NULL, 8), 6);
	assert_int_equal(l[2].arg[0], 1001);
	assert_int_equal(l[5].arg[0], 2002);
	assert_int_equal(graph_map_find(m, NODE(9, 4), l), 0);
	assert_int_equal(graph_map_kernels(m, 9), 12);
	graph_map_copied(m, 77, 10); /* nothing is known of that one */
	assert_false(graph_map_knows(m, 10));
	capture(m, 6, 1);
	graph_map_copied(m, 6, 9); /* its nodes are known already */
	assert_int_equal(graph_map_kernels(m, 9), 12);
}

static void what_is_known_of_a_graph_is_known_whole_or_not(void **state)
{
	struct graph_map *m = *state;

	assert_false(graph_map_knows(m, 5));
	capture(m, 5, 3);
	instantiate(m, 5, 9, 3);
	assert_true(graph_map_knows(m, 5));
	assert_true(graph_map_knows(m, 9));
	graph_map_forget(m, 9);
	assert_false(graph_map_knows(m, 9));
	capture(m, 6, 40); /* more nodes than there is room for */
	assert_false(graph_map_knows(m, 6));
	assert_true(graph_map_knows(m, 5));
}

static void exec_slots_are_found_again(void **state)
{
	struct graph_map *m = *state;
	uint32_t a = graph_exec_get(m, (void *)0x1000);
	uint32_t b = graph_exec_get(m, (void *)0x2000);

	assert_int_not_equal(a, b);
	assert_int_equal(graph_exec_get(m, (void *)0x1000), a);
	assert_int_equal(graph_exec_find(m, (void *)0x2000), b);
	assert_int_equal(graph_exec_find(m, (void *)0x3000), UINT32_MAX);
	assert_int_equal(graph_exec_get(m, NULL), UINT32_MAX);
	assert_int_equal(graph_exec_of_id(m, 7), UINT32_MAX);
	graph_exec_at(m, b)->id = 7;
	assert_int_equal(graph_exec_of_id(m, 7), UINT32_MAX);
	graph_exec_at(m, b)->alive = true;
	assert_int_equal(graph_exec_of_id(m, 7), b);
}

static void a_destroyed_exec_leaves_its_slot_to_others(void **state)
{
	struct graph_map *m = *state;
	uint32_t a = graph_exec_get(m, (void *)0x1000), changes;
	struct graph_exec *e = graph_exec_at(m, a);

	e->id = e->group = e->rows = e->anchors = 7;
	e->alive = true;
	changes = e->changes;
	graph_exec_end(m, a);
	assert_false(e->alive);
	assert_int_equal(graph_exec_find(m, (void *)0x1000), UINT32_MAX);
	assert_int_equal(graph_exec_of_id(m, 7), UINT32_MAX);
	assert_int_equal(graph_exec_get(m, (void *)0x1000), a); /* a new one */
	assert_int_equal(e->id | e->group | e->rows | e->anchors, 0);
	assert_int_equal(e->changes, changes + 1);
}

static void execs_that_come_and_go_never_use_up_the_slots(void **state)
{
	struct graph_map *m = *state;
	struct graph_map_counts c;

	for (uintptr_t i = 1; i <= 10 * GRAPH_EXECS_MAX; i++) {
		uint32_t slot = graph_exec_get(m, (void *)(i * 16));

		assert_true(slot < GRAPH_EXECS_MAX);
		graph_exec_end(m, slot);
	}
	graph_map_count(m, &c);
	assert_int_equal(c.execs_lost, 0);
}

static void more_execs_than_slots_are_counted(void **state)
{
	struct graph_map *m = *state;
	struct graph_map_counts c;
	uint32_t lost = 0;

	for (uintptr_t i = 1; i <= GRAPH_EXECS_MAX + 1; i++)
		lost += graph_exec_get(m, (void *)(i * 16)) == UINT32_MAX;
	graph_map_count(m, &c);
	assert_in_range(lost, 1, GRAPH_EXECS_MAX / 8);
	assert_int_equal(c.execs_lost, lost);
}

#define TURNS 20000

static struct graph_map *common;

/* Execs of one thread: each slot is its own while the graph lives. */
static void *come_and_go(void *arg)
{
	uintptr_t base = (uintptr_t)arg << 32;
	uint32_t held[16] = { 0 };
	uintptr_t wrong = 0;

	for (uintptr_t i = 0; i < TURNS; i++) {
		uint32_t *slot = &held[i % 16];
		void *handle = (void *)(base + i % 997 * 64 + 64);
		struct graph_exec *e;

		if (i >= 16) {
			e = graph_exec_at(common, *slot);
			wrong += e->id != (uint32_t)(base >> 32) ||
				 e->rows != i - 16;
			graph_exec_end(common, *slot);
		}
		*slot = graph_exec_get(common, handle);
		e = graph_exec_at(common, *slot);
		wrong += e->handle != (uintptr_t)handle || e->id;
		atomic_store(&e->id, (uint32_t)(base >> 32));
		atomic_store(&e->rows, (uint32_t)i);
	}
	return (void *)wrong;
}

static void threads_never_share_a_slot(void **state)
{
	pthread_t thread[3];
	struct graph_map_counts c;
	uintptr_t wrong = 0;

	common = *state;
	for (uintptr_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, come_and_go,
						(void *)(i + 1)),
				 0);
	for (int i = 0; i < 3; i++) {
		void *of_thread = NULL;

		pthread_join(thread[i], &of_thread);
		wrong += (uintptr_t)of_thread;
	}
	assert_int_equal(wrong, 0);
	graph_map_count(common, &c);
	assert_int_equal(c.execs_lost, 0);
}

/* ---- any sequence, against a list ----------------------------------------------- */

#define NODES 64u
#define GRAPHS 8u
#define IDS 12u /* graph ids in play */
#define STEPS 20000

struct naive_node {
	uint32_t graph, low;
	uint64_t arg;
};
static struct {
	struct naive_node node[NODES]; /* in order of creation */
	uint32_t held, overflow;
	uint32_t kernels[IDS];
	bool there[IDS], lossy[IDS];
} naive;

static uint32_t random_below(uint32_t n)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32) % n;
}

static bool naive_graph(uint32_t g)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < IDS; i++)
		n += naive.there[i];
	if (!naive.there[g] && n == GRAPHS) {
		naive.overflow++;
		return false;
	}
	naive.there[g] = true;
	return true;
}

static const struct naive_node *naive_find(uint32_t g, uint32_t low)
{
	for (uint32_t i = 0; i < naive.held; i++)
		if (naive.node[i].graph == g && naive.node[i].low == low)
			return &naive.node[i];
	return NULL;
}

static void naive_add(uint32_t g, uint32_t low, uint64_t arg)
{
	if (naive.held == NODES) {
		naive.overflow++;
		naive.lossy[g] = true;
		return;
	}
	naive.node[naive.held++] = (struct naive_node){ g, low, arg };
}

static void naive_forget(uint32_t g)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < naive.held; i++)
		if (naive.node[i].graph != g)
			naive.node[kept++] = naive.node[i];
	naive.held = kept;
	naive.there[g] = naive.lossy[g] = false;
	naive.kernels[g] = 0;
}

static void do_create(struct graph_map *m, uint32_t g, uint32_t low)
{
	struct launch l = { .args = 1, .arg = { random_below(1u << 30) } };
	bool routing = random_below(3);

	graph_map_created(m, NODE(g, low), m, routing ? &l : NULL);
	if (!naive_graph(g))
		return;
	naive.kernels[g]++;
	if (routing && !naive_find(g, low))
		naive_add(g, low, l.arg[0]);
}

static void do_clone(struct graph_map *m, uint32_t from, uint32_t to,
		     uint32_t low)
{
	const struct naive_node *n;

	graph_map_cloned(m, NODE(to, low), NODE(from, low));
	if (!naive_graph(to))
		return;
	naive.kernels[to]++;
	n = naive_find(from, low);
	if (n && !naive_find(to, low))
		naive_add(to, low, n->arg);
}

static void do_copy(struct graph_map *m, uint32_t from, uint32_t to)
{
	uint32_t held = naive.held;

	graph_map_copied(m, from, to);
	if (!naive.there[from] || from == to || !naive_graph(to) ||
	    naive.kernels[to])
		return;
	naive.kernels[to] = naive.kernels[from];
	naive.lossy[to] = naive.lossy[from];
	for (uint32_t i = 0; i < held; i++)
		if (naive.node[i].graph == from)
			naive_add(to, naive.node[i].low, naive.node[i].arg);
}

static void compare_graph(struct graph_map *m, uint32_t g)
{
	struct launch l[NODES], found;
	size_t n = graph_map_list(m, g, l, NULL, NODES), at = 0;

	for (uint32_t i = 0; i < naive.held; i++) {
		const struct naive_node *x = &naive.node[i];

		if (x->graph != g)
			continue;
		assert_int_equal(graph_map_find(m, NODE(g, x->low), &found), 0);
		assert_true(at < n);
		assert_int_equal(l[at].arg[0], x->arg);
		assert_int_equal(found.arg[0], x->arg);
		at++;
	}
	assert_int_equal(at, n);
	assert_int_equal(graph_map_kernels(m, g), naive.kernels[g]);
	assert_int_equal(graph_map_knows(m, g),
			 naive.there[g] && naive.kernels[g] && !naive.lossy[g]);
}

static void any_sequence_is_as_a_list_would_have_it(void **state)
{
	struct graph_map *m = *state;
	struct graph_map_counts c;

	memset(&naive, 0, sizeof(naive));
	for (int step = 0; step < STEPS; step++) {
		uint32_t g = random_below(IDS), h = random_below(IDS);
		uint32_t what = random_below(20), low = random_below(24);

		if (what < 10) {
			do_create(m, g, low);
		} else if (what < 16) {
			do_clone(m, g, h, low);
		} else if (what < 17) {
			do_copy(m, g, h);
		} else {
			graph_map_forget(m, g);
			naive_forget(g);
		}
		compare_graph(m, g);
		compare_graph(m, h);
		graph_map_count(m, &c);
		assert_int_equal(c.routing_nodes, naive.held);
		assert_int_equal(c.overflow, naive.overflow);
	}
	assert_true(naive.overflow > 100); /* both pools were full at times */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(copies_know_the_launch_behind_their_original),
		T(copies_outlive_their_template),
		T(stages_come_to_copies_made_afterwards),
		T(forgotten_graphs_give_their_room_back),
		T(what_finds_no_room_is_counted),
		T(a_graph_of_which_copies_are_not_told_is_like_its_template),
		T(what_is_known_of_a_graph_is_known_whole_or_not),
		T(exec_slots_are_found_again),
		T(a_destroyed_exec_leaves_its_slot_to_others),
		T(execs_that_come_and_go_never_use_up_the_slots),
		T(more_execs_than_slots_are_counted),
		T(threads_never_share_a_slot),
		T(any_sequence_is_as_a_list_would_have_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
