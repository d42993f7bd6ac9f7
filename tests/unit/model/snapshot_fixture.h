/* snapshot_fixture.h - hand-made samples for model_update */
#ifndef MOETOP_TESTS_UNIT_MODEL_SNAPSHOT_FIXTURE_H
#define MOETOP_TESTS_UNIT_MODEL_SNAPSHOT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/hw.h"
#include "model/sample.h"
#include "model/snapshot.h"
#include "tests/unit/model/qwen.h"

static struct fixture {
	struct model *model;
	struct snapshot snap;
	struct sample in;
	struct sample_window window;
	uint32_t expert_rows[48 * 128];
} * f;

static inline int set_up(void **state)
{
	const struct model_settings settings = { .gpu_price = 3 };

	(void)state;
	f = calloc(1, sizeof(*f));
	f->model = model_new(&settings);
	f->in = (struct sample){ .time = 1000,
				 .now_ns = 5e12,
				 .interval_s = 1,
				 .gpus = 1,
				 .overhead = NAN,
				 .running = NAN,
				 .queued = NAN,
				 .d_generated_tokens = NAN };
	return f->model ? 0 : -1;
}

static inline int tear_down(void **state)
{
	(void)state;
	model_free(f->model);
	free(f);
	return 0;
}

static inline void update(void)
{
	model_update(f->model, &f->in, &qwen, gpu_find("H200"), &f->snap);
	f->window.windows = 0; /* used */
	f->in.time += f->in.interval_s;
	f->in.now_ns += f->in.interval_s * 1e9;
}

static inline struct value metric(enum metric_id id)
{
	return f->snap.metrics[id];
}

static inline void is(enum metric_id id, double want, enum value_state state,
		      enum value_source source)
{
	struct value v = metric(id);

	if (v.state != state || v.source != source ||
	    fabs(v.v - want) > 1e-9 * fabs(want)) {
		print_error("%s: %.12g %s %s, want %.12g %s %s\n",
			    metric_info[id].key, v.v, value_state_name(v.state),
			    value_source_name(v.source), want,
			    value_state_name(state), value_source_name(source));
		fail();
	}
}

static inline void unknown(enum metric_id id)
{
	if (value_known(metric(id))) {
		print_error("%s is %g, should be unknown\n",
			    metric_info[id].key, metric(id).v);
		fail();
	}
}

/* A window of 100 decode steps of 10 ms in 48 layers. */
static inline void give_window(double tokens, double active, double single)
{
	struct sample_window *w = &f->window;
	double cells = 48 * 50; /* half of the steps were sampled */

	*w = (struct sample_window){
		.windows = 1,
		.wall_ns = 1e9,
		.busy_ns = 0.9e9,
		.steps = { 100, 0 },
		.step_ns = { 1e9, 0 },
		.tokens = { 100 * tokens, 0 },
		.group_ns = { 6e8, 0.5e8, 1e8, 1e8, 0, 0.5e8 },
		.rows = { .cells = cells,
			  .rows = cells * tokens * 8,
			  .active = cells * active,
			  .single = cells * single,
			  .experts = cells * 128 },
		.n_layers = 48,
		.end_ns = f->in.now_ns,
	};
	for (unsigned l = 0; l < 48; l++) {
		struct sample_layer *a = &w->layers[l];

		a->steps = 100;
		a->block_ns = 1.2e7 + 1e5 * l;
		a->before_ns = 0.4e7;
		a->group_ns[0] = 1e7;
		a->dram_bytes = NAN;
		a->rows = (struct sample_rows){ .cells = 50,
						.rows = 50 * tokens * 8,
						.active = 50 * active,
						.single = 50 * single,
						.experts = 50 * 128 };
		strcpy(a->backend, "expert.triton");
	}
	w->n_classes = 1;
	w->classes[0] = (struct sample_class){ .name = "expert.triton",
					       .calls = 9600,
					       .sum_ns = 6e8,
					       .union_ns = 6e8 };
	f->in.have_window = true;
	f->in.window = w;
}

static inline void give_requests(double streaming, double waiting)
{
	f->in.have_requests = true;
	f->in.streaming = streaming;
	f->in.waiting = waiting;
}

static inline void give_agent(double steps)
{
	f->in.have_agent = true;
	f->in.d_decode_steps = steps;
	f->in.d_eager_steps = 0;
	f->in.d_padded_tokens = steps * 16;
}

static inline void near(double got, double want, double rel)
{
	if (fabs(got - want) <= rel * fmax(fabs(want), 1e-300))
		return;
	print_error("got %.12g, want %.12g\n", got, want);
	fail();
}

/* So many users, each decoding. */
static inline void load(double users, double steps)
{
	give_requests(users, 0);
	give_agent(steps);
	f->in.d_padded_tokens = steps * users;
}

static inline const struct snapshot_what_if *row(enum what_if_kind kind,
						 double amount)
{
	for (unsigned i = 0; i < f->snap.n_what_if; i++)
		if (f->snap.what_if[i].kind == kind &&
		    f->snap.what_if[i].amount == amount)
			return &f->snap.what_if[i];
	return NULL;
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
