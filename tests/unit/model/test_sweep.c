/* A server under a load that jumps, seen through samples: the regime must not
 * be wrong for longer than four seconds, whatever is measured and how often. */
#include "model/hw.h"
#include "model/sample.h"
#include "model/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/unit/model/popularity.h"

#define TICK_S 0.05
#define WRONG_MAX_S 4.0
#define JOIN_PER_S 400.0 /* streams that get their first token */
#define BATCH_MAX 1024u

/* Qwen3-30B-A3B in bf16 on an H200. */
static const struct arch arch = {
	.experts = 128,
	.top_k = 8,
	.layers = 48,
	.moe_layers = 48,
	.expert_params = 4718592,
	.expert_bytes = 9437184,
	.dense_params = 1.22e9,
	.dense_bytes = 2.44e9,
};

enum sees { SEES_REQUESTS = 1, SEES_AGENT = 2, SEES_WINDOWS = 4 };

struct plan {
	double users, seconds;
	enum regime want;
};

static const struct plan plan[] = {
	{ 0, 6, REGIME_IDLE },      { 1, 33, REGIME_SOLO },
	{ 16, 33, REGIME_VALLEY },  { 512, 33, REGIME_SHARED },
	{ 16, 33, REGIME_VALLEY },  { 2, 20, REGIME_VALLEY },
	{ 512, 15, REGIME_SHARED }, { 1, 30, REGIME_SOLO },
	{ 0, 6, REGIME_IDLE },      { 16, 20, REGIME_VALLEY },
	{ 48, 20, REGIME_VALLEY },  { 400, 20, REGIME_SHARED },
};
#define PHASES_IN_PLAN (sizeof(plan) / sizeof(plan[0]))

/* ---- the server ------------------------------------------------------- */

static struct server {
	double time_s, users, streaming;
	double decode_steps, padded_tokens, eager_steps; /* of the interval */
	struct sample_window window;
} server;

static double active_at[BATCH_MAX], single_at[BATCH_MAX];

static void experts_at(double b, double *active, double *single)
{
	unsigned i = (unsigned)(b + 0.5);

	if (active_at[i] == 0)
		popularity_expected(i, &active_at[i], &single_at[i]);
	*active = active_at[i];
	*single = single_at[i];
}

static double captured(double b)
{
	static const double sizes[] = { 1, 2, 4, 8, 16, 24, 32, 48, 64, 128 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (b <= sizes[i])
			return sizes[i];
	return ceil(b / 64) * 64;
}

/* Streams join one after the other; while they do, steps carry prompts. */
static void tick(bool window_open)
{
	bool joining = server.streaming + 0.5 < server.users;
	struct sample_window *w = &server.window;
	double b, active, single, step_s, n, cells;

	server.time_s += TICK_S;
	if (joining)
		server.streaming = fmin(server.users,
					server.streaming + JOIN_PER_S * TICK_S);
	else
		server.streaming = server.users;
	if (window_open)
		w->wall_ns += TICK_S * 1e9;
	b = server.streaming;
	if (b < 0.5)
		return;
	experts_at(b, &active, &single);
	step_s = (48 * active * arch.expert_bytes + arch.dense_bytes) /
			 (0.85 * 4.8e12) +
		 1.5e-3;
	n = TICK_S / step_s;
	if (joining) {
		server.eager_steps += n / 3;
	} else {
		server.decode_steps += n;
		server.padded_tokens += n * captured(b);
	}
	if (!window_open)
		return;
	w->busy_ns += 0.9e9 * TICK_S;
	w->steps[joining] += joining ? n / 3 : n;
	w->step_ns[joining] += TICK_S * 1e9;
	w->tokens[joining] += joining ? n / 3 * (b + 800) : n * captured(b);
	if (joining)
		return;
	w->group_ns[0] += TICK_S * 0.75e9;
	w->group_ns[2] += TICK_S * 0.08e9;
	cells = 48 * n / 2;
	w->rows.cells += cells;
	w->rows.rows += cells * b * 8;
	w->rows.active += cells * active;
	w->rows.single += cells * single;
	w->rows.experts += cells * 128;
}

/* ---- moetop ----------------------------------------------------------- */

static void fill(struct sample *in, unsigned sees, double dt, bool closed)
{
	*in = (struct sample){ .time = server.time_s,
			       .now_ns = server.time_s * 1e9 + 1e12,
			       .interval_s = dt,
			       .gpus = 1,
			       .overhead = NAN,
			       .running = NAN,
			       .queued = NAN,
			       .d_generated_tokens = NAN };
	in->have_requests = sees & SEES_REQUESTS;
	in->streaming = floor(server.streaming);
	in->waiting = server.users - in->streaming;
	in->have_agent = sees & SEES_AGENT;
	in->d_decode_steps = server.decode_steps;
	in->d_eager_steps = server.eager_steps;
	in->d_padded_tokens = server.padded_tokens;
	if (closed && (sees & SEES_WINDOWS)) {
		in->have_window = true;
		in->window = &server.window;
		server.window.windows = 1;
		server.window.end_ns = in->now_ns - 0.1e9;
	}
	server.decode_steps = server.eager_steps = server.padded_tokens = 0;
}

struct watch {
	struct model *model;
	struct snapshot snap;
	unsigned sees;
	double dt, window_every, next_sample, next_window;
	bool window_open, window_closed;
};

/* Windows last a second and are handed over with the next sample. */
static void step_windows(struct watch *w)
{
	double t = server.time_s;

	if (!w->window_open && !w->window_closed && t >= w->next_window) {
		server.window = (struct sample_window){ 0 };
		w->window_open = true;
		w->next_window = t + w->window_every;
	} else if (w->window_open && server.window.wall_ns >= 0.999e9) {
		w->window_open = false;
		w->window_closed = true;
	}
}

static void step_samples(struct watch *w)
{
	struct sample in;

	if (server.time_s + 1e-9 < w->next_sample)
		return;
	fill(&in, w->sees, w->dt, w->window_closed);
	w->window_closed = false;
	model_update(w->model, &in, &arch, gpu_find("H200"), &w->snap);
	w->next_sample += w->dt;
}

/* Longest time that a wrong regime was shown. */
static double sweep(unsigned sees, double dt, double window_every)
{
	struct watch w = { .sees = sees,
			   .dt = dt,
			   .window_every = window_every,
			   .next_sample = dt,
			   .next_window = 1.3 };
	double worst = 0;

	w.model = model_new(NULL);
	assert_non_null(w.model);
	server = (struct server){ 0 };
	for (unsigned p = 0; p < PHASES_IN_PLAN; p++) {
		double end = server.time_s + plan[p].seconds, wrong = 0;

		server.users = plan[p].users;
		while (server.time_s < end) {
			tick(w.window_open);
			step_windows(&w);
			step_samples(&w);
			wrong = w.snap.regime == plan[p].want ? 0
							      : wrong + TICK_S;
			if (wrong > worst)
				worst = wrong;
			if (wrong > WRONG_MAX_S + dt &&
			    wrong < WRONG_MAX_S + dt + TICK_S)
				print_error("sees %u, every %g s, windows "
					    "every %g s, %g users: %s\n",
					    sees, dt, window_every,
					    plan[p].users,
					    regime_name(w.snap.regime));
		}
	}
	model_free(w.model);
	return worst;
}

static void test_everything_seen(void **state)
{
	static const double every[] = { 2, 7, 20 };

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_true(sweep(SEES_REQUESTS | SEES_AGENT | SEES_WINDOWS, 1,
				  every[i]) <= WRONG_MAX_S);
}

static void test_other_intervals(void **state)
{
	const unsigned all = SEES_REQUESTS | SEES_AGENT | SEES_WINDOWS;

	(void)state;
	assert_true(sweep(all, 0.2, 20) <= WRONG_MAX_S);
	assert_true(sweep(all, 0.5, 11) <= WRONG_MAX_S);
	assert_true(sweep(all, 2, 20) <= WRONG_MAX_S + 1);
	assert_true(sweep(all, 5, 20) <= WRONG_MAX_S + 5);
}

static void test_requests_alone(void **state)
{
	(void)state;
	assert_true(sweep(SEES_REQUESTS, 1, 20) <= WRONG_MAX_S);
}

static void test_agent_without_requests(void **state)
{
	(void)state;
	assert_true(sweep(SEES_AGENT | SEES_WINDOWS, 1, 7) <= WRONG_MAX_S);
	assert_true(sweep(SEES_AGENT | SEES_WINDOWS, 1, 20) <= WRONG_MAX_S);
}

static void test_requests_and_windows(void **state)
{
	(void)state;
	assert_true(sweep(SEES_REQUESTS | SEES_WINDOWS, 1, 20) <= WRONG_MAX_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_seen),
		cmocka_unit_test(test_other_intervals),
		cmocka_unit_test(test_requests_alone),
		cmocka_unit_test(test_agent_without_requests),
		cmocka_unit_test(test_requests_and_windows),
	};

	return cmocka_run_group_tests(tests, popularity_load, NULL);
}
