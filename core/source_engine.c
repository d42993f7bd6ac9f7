/*
 * What the engine says of itself, at its /metrics: tier T0.
 *
 * A thread asks once a second, one port after the other until one answers as a
 * known engine; then that port alone, until it fails.
 */
#include "core/clock.h"
#include "core/fetch.h"
#include "core/source.h"
#include "core/worker.h"
#include "target/scrape.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_NS (1 * NS_PER_S)
#define STALE_NS (10 * NS_PER_S)

/* Shared by the source and its thread. */
struct board {
	pthread_mutex_t lock;
	pid_t pid;
	unsigned n_ports;
	uint16_t ports[TARGET_PORTS_MAX];
	struct scrape scrape;
	uint64_t scraped_ns; /* 0 never */
	struct fetch *fetch; /* the thread's alone */
	uint16_t port;       /* that answered; 0 none */
};

struct source {
	const struct target *target;
	struct worker *worker;
	struct board *board;
	struct scrape scrape;
	uint64_t scraped_ns, now_ns;
	double sampled_tokens; /* at the sample before, NAN none */
	uint64_t sampled_ns;   /* when that was scraped */
	double tokens_per_ns;  /* over the last two scrapes sampled */
};

static void board_free(void *arg)
{
	struct board *b = arg;

	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- the thread -------------------------------------------------------- */

static int ask(struct board *b, uint16_t port)
{
	const char *body;
	struct scrape s;
	size_t bytes;
	int err;

	err = fetch_metrics(b->fetch, port, &body, &bytes);
	if (!err)
		err = scrape_parse(body, bytes, &s);
	if (err)
		return err;
	pthread_mutex_lock(&b->lock);
	b->scrape = s;
	b->scraped_ns = clock_now_ns();
	pthread_mutex_unlock(&b->lock);
	return 0;
}

static void thread_step(void *arg)
{
	uint16_t ports[TARGET_PORTS_MAX];
	struct board *b = arg;
	unsigned n;

	if (!b->fetch && fetch_open(&b->fetch, b->pid))
		return;
	if (b->port && !ask(b, b->port))
		return;
	b->port = 0;
	pthread_mutex_lock(&b->lock);
	n = b->n_ports;
	memcpy(ports, b->ports, sizeof(ports));
	pthread_mutex_unlock(&b->lock);
	for (unsigned i = 0; i < n; i++) {
		if (ask(b, ports[i]))
			continue;
		b->port = ports[i];
		return;
	}
}

static void thread_end(void *arg)
{
	struct board *b = arg;

	fetch_close(b->fetch);
}

static const struct worker_job job = { .step = thread_step,
				       .end = thread_end,
				       .free = board_free };

/* ---- the source -------------------------------------------------------- */

static void tell_ports(struct source *s)
{
	struct board *b = s->board;

	pthread_mutex_lock(&b->lock);
	b->n_ports = s->target->n_ports;
	memcpy(b->ports, s->target->ports, sizeof(b->ports));
	pthread_mutex_unlock(&b->lock);
}

static int engine_open(struct source **out, const struct target *t,
		       struct source_context *x, char *why, size_t why_bytes,
		       char *fix, size_t fix_bytes)
{
	struct source *s = calloc(1, sizeof(*s));
	struct board *b = calloc(1, sizeof(*b));
	int err = -ENOMEM;

	(void)x, (void)fix, (void)fix_bytes;
	if (!s || !b)
		goto fail;
	*s = (struct source){ .target = t,
			      .board = b,
			      .sampled_tokens = NAN,
			      .tokens_per_ns = NAN };
	pthread_mutex_init(&b->lock, NULL);
	b->pid = t->pid;
	tell_ports(s);
	err = worker_start(&s->worker, PERIOD_NS, &job, b);
	if (!err) {
		*out = s;
		return 0;
	}
	pthread_mutex_destroy(&b->lock);
fail:
	snprintf(why, why_bytes, "no thread for the engine's metrics");
	free(b);
	free(s);
	return err;
}

static int engine_fd(struct source *s)
{
	(void)s;
	return -1;
}

static int engine_poll(struct source *s, uint64_t now_ns)
{
	struct board *b = s->board;

	tell_ports(s);
	pthread_mutex_lock(&b->lock);
	s->scrape = b->scrape;
	s->scraped_ns = b->scraped_ns;
	pthread_mutex_unlock(&b->lock);
	s->now_ns = now_ns;
	return 0;
}

static bool fresh(const struct source *s)
{
	return s->scraped_ns && s->now_ns < s->scraped_ns + STALE_NS;
}

/* The rate between the scrapes of two samples; an engine that started again
 * counts from 0. */
static void update_rate(struct source *s)
{
	double tokens = s->scrape.generation_tokens_total;

	if (s->scraped_ns == s->sampled_ns)
		return;
	if (tokens >= s->sampled_tokens)
		s->tokens_per_ns = (tokens - s->sampled_tokens) /
				   (double)(s->scraped_ns - s->sampled_ns);
	else
		s->tokens_per_ns = NAN;
	s->sampled_tokens = tokens;
	s->sampled_ns = s->scraped_ns;
}

static void engine_sample(struct source *s, struct sample *out)
{
	if (!fresh(s))
		return;
	update_rate(s);
	out->have_scrape = true;
	out->running = s->scrape.running;
	out->queued = s->scrape.waiting;
	out->kv_tokens = s->scrape.kv_tokens;
	out->kv_capacity_tokens = s->scrape.kv_capacity_tokens;
	out->d_generated_tokens = s->tokens_per_ns * out->interval_s * 1e9;
	out->scrape_age_s = (double)(s->now_ns - s->scraped_ns) / 1e9;
}

static void engine_describe(struct source *s, struct snapshot *out)
{
	struct snapshot_target *t = &out->target;

	if (fresh(s) && !t->engine[0])
		snprintf(t->engine, sizeof(t->engine), "%.15s",
			 s->scrape.engine);
	/* what is missing of the process tree and the model comes first */
	if (out->health.tiers[TIER_T0].remedy[0])
		return;
	if (fresh(s))
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model, engine metrics", "");
	else if (!strcmp(t->engine, "sglang"))
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; no engine metrics",
			    "start SGLang with --enable-metrics");
}

static void engine_close(struct source *s)
{
	if (!s)
		return;
	worker_stop(s->worker);
	free(s);
}

const struct source_ops source_engine = {
	.name = "engine",
	.tier = TIER_T0,
	.open = engine_open,
	.fd = engine_fd,
	.poll = engine_poll,
	.sample = engine_sample,
	.describe = engine_describe,
	.close = engine_close,
};
