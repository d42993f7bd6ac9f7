/* The engine loop: every token reaches the server, whatever its pace. */
#include "sim/server/engine.h"
#include "sim/server/runner.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/sim/server_model.h"
#include "tests/unit/sim/server_test.h"

#define REQUESTS 24u
#define TIMEOUT_MS 60000

static struct shape shape;
static struct routing *routing;
static struct runner *runner;
static struct engine *engine;
static const struct sched_limits limits = { .max_seqs = 16, .max_tokens = 64 };
static struct request request[REQUESTS];

static int open_engine(void **state)
{
	const struct routing_options ro = { .kind = ROUTING_UNIFORM };
	struct runner_options o = {
		.shape = &shape,
		.gpu = "H200",
		.limits = limits,
		.graphs = true,
	};
	char why[256];

	(void)state;
	shape = small_shape();
	if (routing_new(&routing, &ro, LAYERS, EXPERTS, TOP_K, why,
			sizeof(why)))
		return -1;
	o.routing = routing;
	return runner_open(&runner, &o, why, sizeof(why));
}

static int close_engine(void **state)
{
	(void)state;
	runner_close(runner);
	routing_free(routing);
	return 0;
}

static int step(void *arg, const struct sched_step *s)
{
	return runner_step(arg, s);
}

/* The GPU belongs to the thread that opened it, so the server's side is the one
 * that gets a thread. */
static void run_against(void *(*server)(void *arg), void *arg)
{
	const struct engine_gpu gpu = { .step = step, .arg = runner };
	pthread_t t;
	void *bad = NULL;

	assert_int_equal(engine_new(&engine, &gpu, &limits), 0);
	assert_int_equal(pthread_create(&t, NULL, server, arg), 0);
	assert_int_equal(engine_run(engine), 0);
	pthread_join(t, &bad);
	if (bad)
		fail_msg("%s", (const char *)bad);
	engine_free(engine);
}

static void submit_all(uint32_t tokens)
{
	memset(request, 0, sizeof(request));
	for (unsigned i = 0; i < REQUESTS; i++) {
		request[i].seq.id = i;
		request[i].seq.prompt_tokens = 1 + i % 5;
		request[i].seq.max_tokens = tokens + i % 3;
		engine_submit(engine, &request[i]);
	}
}

static struct request *wait_outputs(void)
{
	struct pollfd p = { .fd = engine_fd(engine), .events = POLLIN };
	uint64_t n;

	if (poll(&p, 1, TIMEOUT_MS) < 1 || read(p.fd, &n, sizeof(n)) < 0)
		return NULL;
	return engine_take(engine);
}

/* Take outputs until all requests have ended; NULL, or what went wrong. */
static void *collect(long pause_ns)
{
	const struct timespec pause = { .tv_nsec = pause_ns };
	const time_t limit = time(NULL) + TIMEOUT_MS / 1000;
	uint32_t tokens[REQUESTS] = { 0 };
	unsigned ended = 0;
	char *bad = NULL;

	while (ended < REQUESTS && time(NULL) <= limit) {
		struct request *next;

		for (struct request *q = wait_outputs(); q; q = next) {
			next = q->taken;
			tokens[q->seq.id] += q->tokens;
			ended += q->ended;
			/* Let the engine list it again before we go on. */
			if (pause_ns)
				nanosleep(&pause, NULL);
		}
	}
	engine_stop(engine);
	for (unsigned i = 0; i < REQUESTS; i++)
		if (tokens[i] != request[i].seq.max_tokens)
			bad = "tokens of a request were lost or made up";
	return ended == REQUESTS ? bad : "not every request ended";
}

static void *prompt_server(void *arg)
{
	(void)arg;
	submit_all(20);
	return collect(0);
}

static void *slow_server(void *arg)
{
	(void)arg;
	submit_all(40);
	return collect(700000);
}

static void a_prompt_server_gets_every_token(void **state)
{
	(void)state;
	run_against(prompt_server, NULL);
}

static void a_slow_server_gets_every_token(void **state)
{
	(void)state;
	run_against(slow_server, NULL);
}

static void *impatient_server(void *arg)
{
	unsigned ended = 0;
	struct engine_stats s;

	(void)arg;
	submit_all(1000000);
	for (unsigned i = 0; i < REQUESTS; i++)
		engine_abort(engine, &request[i]);
	while (ended < REQUESTS) {
		struct request *q = wait_outputs();

		if (!q)
			continue;
		for (; q; q = q->taken)
			ended += q->ended;
	}
	engine_stats(engine, &s);
	engine_stop(engine);
	if (s.aborted != REQUESTS || s.finished)
		return "aborted requests are not counted as such";
	return NULL;
}

static void aborted_requests_end(void **state)
{
	(void)state;
	run_against(impatient_server, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prompt_server_gets_every_token),
		cmocka_unit_test(a_slow_server_gets_every_token),
		cmocka_unit_test(aborted_requests_end),
	};

	return cmocka_run_group_tests(tests, open_engine, close_engine);
}
