/*
 * agents_fixture.h - the agent source between rings that a test writes
 */
#ifndef MOETOP_TESTS_AGENTS_FIXTURE_H
#define MOETOP_TESTS_AGENTS_FIXTURE_H

#include "core/source.h"
#include "wire/clock.h"
#include "wire/kernel_class.h"
#include "wire/ring.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 2

static struct ring_writer rings[RANKS];
static struct target target;
static struct source_context context;
static struct source *source;
static struct sample sample;
static struct snapshot snapshot;
static uint64_t now_ns;

static inline int setup(void **state)
{
	(void)state;
	now_ns = clock_now_ns();
	target = (struct target){ .pid = getpid(), .n_ranks = RANKS };
	context =
		(struct source_context){ .budget_ppm = 10000, .rows_mode = 1 };
	snapshot = (struct snapshot){ 0 };
	source = NULL;
	for (int i = 0; i < RANKS; i++) {
		if (ring_create(&rings[i], 1024))
			return -1;
		target.ranks[i].pid = 100 + i;
		snprintf(target.ranks[i].agent_ring,
			 sizeof(target.ranks[i].agent_ring), "/proc/self/fd/%d",
			 rings[i].fd);
		snapshot.target.ranks[i].pid = 100 + i;
	}
	snapshot.target.n_ranks = RANKS;
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	source_agent.close(source);
	for (int i = 0; i < RANKS; i++)
		if (rings[i].h)
			ring_destroy(&rings[i]);
	return 0;
}

static inline int open_source(void)
{
	char why[96] = "", fix[160] = "";
	int err = source_agent.open(&source, &target, &context, why,
				    sizeof(why), fix, sizeof(fix));

	if (err)
		assert_true(why[0] && fix[0]);
	return err;
}

static inline void give(int ring, struct record r)
{
	if (!r.time_ns)
		r.time_ns = now_ns;
	assert_int_equal(ring_write(&rings[ring], &r), 0);
}

static inline void give_window(int ring, uint32_t number, uint64_t steps)
{
	give(ring, (struct record){ .type = REC_LAYER,
				    .layer = { .window = number,
					       .klass = CLASS_GEMM_GROUPED_TRI,
					       .steps = (uint32_t)steps,
					       .calls = steps,
					       .sum_ns = steps * 100,
					       .union_ns = steps * 100 } });
	give(ring,
	     (struct record){ .type = REC_WINDOW,
			      .window = { .window = number,
					  .phase_steps = { (uint32_t)steps },
					  .start_ns = now_ns - NS_PER_S,
					  .end_ns = now_ns,
					  .step_ns = { steps * 1000 } } });
}

static inline void give_tick(int ring, uint64_t time_ns, uint64_t steps)
{
	give(ring, (struct record){ .type = REC_TICK,
				    .time_ns = time_ns,
				    .tick = { .decode_steps = steps,
					      .padded_tokens = steps * 16,
					      .overhead_ppm = 2500 } });
}

static inline void poll_and_sample(void)
{
	assert_int_equal(source_agent.poll(source, now_ns), 0);
	sample = (struct sample){ .interval_s = 1, .now_ns = (double)now_ns };
	source_agent.sample(source, &sample);
}

static inline struct ring_control *control(int ring)
{
	return &rings[ring].h->control;
}

#endif
