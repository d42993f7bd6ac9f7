/*
 * What the engine says of itself: tier T0.
 *
 * A thread asks once a second (engine_reader.h); what it has learnt lies on a
 * board between the two.  Rates are those between its reports.
 */
#include "core/engine_reader.h"
#include "core/options.h"
#include "core/privileges.h"
#include "core/source.h"
#include "core/worker.h"
#include "wire/clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD_NS (1 * NS_PER_S)
#define STALE_NS (10 * NS_PER_S)
/* Between the reports that its estimates and waits are taken over. */
#define SPAN_NS (5 * NS_PER_S)

/* Shared by the source and its thread. */
struct board {
	pthread_mutex_t lock;
	struct engine_places places;
	struct engine_facts facts;
	struct engine_facts own; /* the thread's alone */
	struct engine_reader *reader;
};

/* What counters said at one report. */
struct mark {
	uint64_t ns; /* 0 none */
	double tokens, flops, bytes, ttft_sum, ttft_count;
};

struct source {
	const struct target *target;
	struct source_context *context;
	struct worker *worker;
	struct board *board;
	struct engine_facts facts;
	uint64_t now_ns;
	struct mark newest, before;  /* of the last two samples */
	struct mark base, next_base; /* SPAN_NS apart or more */
	double tokens_per_s;         /* between newest and before */
	struct sample_engine more;   /* of the last sample */
};

static void board_free(void *arg)
{
	struct board *b = arg;

	engine_reader_free(b->reader);
	pthread_mutex_destroy(&b->lock);
	free(b);
}

/* ---- the thread -------------------------------------------------------- */

static void thread_step(void *arg)
{
	struct engine_places places;
	struct board *b = arg;

	pthread_mutex_lock(&b->lock);
	places = b->places;
	pthread_mutex_unlock(&b->lock);
	engine_reader_step(b->reader, &places, &b->own);
	pthread_mutex_lock(&b->lock);
	b->facts = b->own;
	pthread_mutex_unlock(&b->lock);
	/* they were for the way in, and to see what is not ours */
	if (engine_reader_settled(b->reader))
		(void)privileges_keep(0);
	else if (engine_reader_inside(b->reader))
		(void)privileges_keep(PRIVILEGES_LOOK);
}

static void thread_end(void *arg)
{
	(void)arg;
}

static const struct worker_job job = {
	.privileges = PRIVILEGES_NETWORK | PRIVILEGE(CAP_DAC_READ_SEARCH),
	.step = thread_step,
	.end = thread_end,
	.free = board_free
};

/* ---- rates -------------------------------------------------------------- */

/* The counter that grows while requests run, not only when they end. */
static double tokens_of(const struct scrape *s)
{
	if (!isnan(s->values[ENGINE_DECODED]))
		return s->values[ENGINE_DECODED];
	return strcmp(s->engine, "sglang") != 0 ? s->values[ENGINE_GENERATED]
						: NAN;
}

static struct mark mark_now(const struct source *s)
{
	const struct scrape *e = &s->facts.scrape;

	return (struct mark){
		.ns = s->facts.scraped_ns,
		.tokens = tokens_of(e),
		.flops = e->values[ENGINE_FLOPS],
		.bytes = e->values[ENGINE_READ_BYTES] +
			 e->values[ENGINE_WRITE_BYTES],
		.ttft_sum = e->hists[ENGINE_TTFT].sum,
		.ttft_count = e->hists[ENGINE_TTFT].count,
	};
}

/* Per second; NAN when unknown.  An engine that started again counts from 0. */
static double rate(double now, double then, uint64_t now_ns, uint64_t then_ns)
{
	if (!then_ns || now_ns <= then_ns || !(now >= then))
		return NAN;
	return (now - then) / ((double)(now_ns - then_ns) / 1e9);
}

static void update_marks(struct source *s)
{
	struct mark now = mark_now(s);

	if (now.ns == s->newest.ns)
		return;
	s->before = s->newest;
	s->newest = now;
	s->tokens_per_s =
		rate(now.tokens, s->before.tokens, now.ns, s->before.ns);
	if (isnan(s->tokens_per_s))
		s->tokens_per_s = s->facts.scrape.values[ENGINE_THROUGHPUT];
	if (!s->next_base.ns)
		s->base = s->next_base = now;
	if (now.ns >= s->next_base.ns + SPAN_NS) {
		s->base = s->next_base;
		s->next_base = now;
	}
}

/* ---- the source -------------------------------------------------------- */

static void tell_places(struct source *s)
{
	const struct target *t = s->target;
	struct engine_places *p = &s->board->places;

	pthread_mutex_lock(&s->board->lock);
	p->pid = t->pid;
	p->n_pids = t->n_pids;
	memcpy(p->pids, t->pids, sizeof(p->pids));
	p->n_ports = t->n_ports;
	memcpy(p->ports, t->ports, sizeof(p->ports));
	memcpy(p->engine, t->engine, sizeof(p->engine));
	pthread_mutex_unlock(&s->board->lock);
}

static int start(struct source *s, struct board *b)
{
	int err = engine_reader_new(&b->reader);

	if (err)
		return err;
	pthread_mutex_init(&b->lock, NULL);
	tell_places(s);
	err = worker_start(&s->worker, PERIOD_NS, &job, b);
	if (err) {
		pthread_mutex_destroy(&b->lock);
		engine_reader_free(b->reader);
	}
	return err;
}

static int engine_open(struct source **out, const struct target *t,
		       struct source_context *x, char *why, size_t why_bytes,
		       char *fix, size_t fix_bytes)
{
	struct source *s = calloc(1, sizeof(*s));
	struct board *b = calloc(1, sizeof(*b));
	int err = -ENOMEM;

	(void)fix, (void)fix_bytes;
	if (s && b) {
		*s = (struct source){ .target = t,
				      .context = x,
				      .board = b,
				      .tokens_per_s = NAN };
		err = start(s, b);
	}
	if (!err) {
		*out = s;
		return 0;
	}
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

	tell_places(s);
	pthread_mutex_lock(&b->lock);
	s->facts = b->facts;
	pthread_mutex_unlock(&b->lock);
	s->now_ns = now_ns;
	memcpy(s->context->model, s->facts.info.model_path,
	       sizeof(s->context->model));
	return 0;
}

/* A page without numbers takes back those before. */
static bool fresh(const struct source *s)
{
	return s->facts.scraped_ns && s->facts.error != -ENODATA &&
	       s->now_ns < s->facts.scraped_ns + STALE_NS;
}

static bool load_fresh(const struct source *s)
{
	return s->facts.load_ns && s->now_ns < s->facts.load_ns + STALE_NS;
}

/* ---- what it claims ---------------------------------------------------- */

/* The batch size that a step of all running requests is padded to. */
static double padded_batch(const struct source *s, double running)
{
	const struct engine_facts *f = &s->facts;
	const char *sizes = f->info.capture_sizes;
	uint32_t draft = s->target->launch.draft_tokens;

	if (!sizes[0] && f->have_log && !f->log.capture_cut)
		sizes = f->log.capture_sizes;
	if (!(running >= 1) || s->target->dp > 1)
		return NAN;
	return checks_batch(sizes, running * (1 + draft));
}

static struct engine_claims claims_of_metrics(const struct source *s)
{
	const struct mark *a = &s->base, *b = &s->newest;
	double waits = b->ttft_count - a->ttft_count;
	struct engine_claims c = {
		.report = s->facts.scraped_ns,
		.fresh = true,
		.running = s->facts.scrape.running,
		.waiting = s->facts.scrape.waiting,
		.tokens_per_s = s->tokens_per_s,
		.flops_per_s = rate(b->flops, a->flops, b->ns, a->ns),
		.bytes_per_s = rate(b->bytes, a->bytes, b->ns, a->ns),
		.ttft_s = waits > 0 ? (b->ttft_sum - a->ttft_sum) / waits : NAN,
		.batch = padded_batch(s, s->facts.scrape.running),
	};

	memcpy(c.engine, s->facts.scrape.engine, sizeof(c.engine));
	return c;
}

/* Without metrics: by the load in shared memory. */
static struct engine_claims claims_of_load(const struct source *s)
{
	const struct load_snapshot *l = &s->facts.load;

	return (struct engine_claims){
		.report = s->facts.load_ns,
		.fresh = true,
		.engine = "sglang",
		.running = l->running,
		.waiting = l->waiting,
		.tokens_per_s = l->tokens_per_s,
		.flops_per_s = NAN,
		.bytes_per_s = NAN,
		.ttft_s = NAN,
		.batch = padded_batch(s, l->running),
	};
}

static struct sample_engine more_of(const struct source *s, bool metrics)
{
	const double *v = s->facts.scrape.values;
	const struct load_snapshot *l = &s->facts.load;

	if (!metrics)
		return (struct sample_engine){
			.tokens_per_s = l->tokens_per_s,
			.kv_usage =
				l->capacity_tokens > 0
					? l->used_tokens / l->capacity_tokens
					: NAN,
			.prefix_hits = NAN,
			.preempted = NAN,
			.accepted_per_step = NAN,
		};
	return (struct sample_engine){
		.tokens_per_s = s->tokens_per_s,
		.kv_usage = v[ENGINE_KV_SHARE],
		.prefix_hits = v[ENGINE_CACHE_HIT],
		.preempted = v[ENGINE_PREEMPTED],
		/* SGLang says 0 without speculation */
		.accepted_per_step = v[ENGINE_SPEC_LENGTH] >= 1
					     ? v[ENGINE_SPEC_LENGTH]
					     : NAN,
	};
}

static void engine_sample(struct source *s, struct sample *out)
{
	const struct scrape *e = &s->facts.scrape;
	struct engine_claims *c = &s->context->claims;
	bool metrics = fresh(s);

	c->fresh = false;
	if (!metrics && !load_fresh(s))
		return;
	if (metrics)
		update_marks(s);
	*c = metrics ? claims_of_metrics(s) : claims_of_load(s);
	s->more = more_of(s, metrics);
	out->have_scrape = true;
	out->engine = &s->more;
	out->running = c->running;
	out->queued = c->waiting;
	out->d_generated_tokens = c->tokens_per_s * out->interval_s;
	out->kv_tokens = metrics ? e->kv_tokens : s->facts.load.used_tokens;
	out->kv_capacity_tokens =
		metrics ? e->kv_capacity_tokens : s->facts.load.capacity_tokens;
	/* a report of this very moment may be newer than our clock's look */
	out->scrape_age_s = s->now_ns > c->report
				    ? (double)(s->now_ns - c->report) / 1e9
				    : 0;
}

/* ---- what it is -------------------------------------------------------- */

/* The options given, what the server makes of them, and what only its log
 * says. */
static void describe_options(const struct source *s, struct snapshot *out)
{
	const struct engine_facts *f = &s->facts;
	struct launch all = s->target->launch;
	const struct launch *told = &f->info.launch;

	for (unsigned i = 0; i < told->n; i++)
		launch_set(&all, told->list[i].id, told->list[i].value);
	if (f->scrape.kv_dtype[0] && !launch_find(&all, LAUNCH_KV_TYPE) &&
	    strcmp(f->scrape.kv_dtype, "auto") != 0)
		launch_set(&all, LAUNCH_KV_TYPE, f->scrape.kv_dtype);
	if (f->have_log && f->log.moe_backend[0])
		launch_set(&all, LAUNCH_MOE_BACKEND, f->log.moe_backend);
	if (f->have_log && f->log.capture_sizes[0])
		launch_set_sizes(&all, f->log.capture_sizes);
	options_put(&out->target, &all);
}

static void describe_names(const struct source *s, struct snapshot_target *t)
{
	const struct engine_facts *f = &s->facts;
	const char *version = f->info.version;

	if (!t->engine[0] && fresh(s))
		snprintf(t->engine, sizeof(t->engine), "%s", f->scrape.engine);
	if (!t->engine[0])
		snprintf(t->engine, sizeof(t->engine), "%s", f->info.engine);
	if (!version[0] && f->have_log)
		version = f->log.version;
	if (!t->engine_version[0])
		snprintf(t->engine_version, sizeof(t->engine_version), "%s",
			 version);
	if (!t->model[0])
		snprintf(t->model, sizeof(t->model), "%s",
			 f->info.model[0] ? f->info.model : f->scrape.model);
	if (f->port)
		t->port = f->port;
}

/* By its own words it will never use CUDA. */
static void describe_cpu(const struct source *s, struct snapshot *out)
{
	const struct engine_facts *f = &s->facts;

	if (out->target.n_ranks ||
	    !(strstr(out->target.engine_version, "cpu") ||
	      (f->have_log && !strcmp(f->log.device, "cpu"))))
		return;
	for (enum tier t = TIER_T2; t <= TIER_T3; t++)
		source_tier(out, t, TIER_MISSING,
			    "the server runs on the CPU: no process of it uses "
			    "CUDA",
			    "start it on a GPU for kernels, layers and rows");
}

/* In words: why there are no metrics, and what would bring them. */
static void describe_missing(const struct source *s, struct snapshot *out)
{
	const struct engine_facts *f = &s->facts;
	const char *engine = out->target.engine;
	char what[160];

	if (f->error == -EACCES && f->port)
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; the engine's metrics want a "
			    "key",
			    "let /metrics be read without a key");
	else if (load_fresh(s))
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model, SGLang's load from shared "
			    "memory; no engine metrics",
			    "start SGLang with --enable-metrics");
	else if (f->network == -EPERM)
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; no engine metrics: the "
			    "server is in another network",
			    "run as root: entering it needs cap_sys_admin and "
			    "cap_sys_ptrace");
	else if (f->network == -EACCES)
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; no engine metrics: which "
			    "network the server is in may not be seen",
			    "run as root, or as the server's user");
	else if (!strcmp(engine, "sglang"))
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; no engine metrics",
			    "start SGLang with --enable-metrics");
	else if (launch_find(&s->target->launch, LAUNCH_TLS))
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; the server speaks TLS, its "
			    "metrics are not read",
			    "");
	else if (launch_find(&s->target->launch, LAUNCH_UDS))
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, model; the server listens on a Unix "
			    "socket, its metrics are not read",
			    "");
	else if (f->error == -ENODATA && f->port) {
		snprintf(what, sizeof(what),
			 "process tree, model; /metrics of port %u is empty or "
			 "no engine's",
			 f->port);
		source_tier(out, TIER_T0, TIER_OK, what, "");
	}
}

static void engine_describe(struct source *s, struct snapshot *out)
{
	const char *what = "process tree, model, engine metrics";

	describe_names(s, &out->target);
	describe_options(s, out);
	describe_cpu(s, out);
	/* what is missing of the process tree and the model comes first */
	if (out->health.tiers[TIER_T0].remedy[0])
		return;
	if (!fresh(s)) {
		describe_missing(s, out);
		return;
	}
	if (!s->facts.scrape.known)
		what = "process tree, model; the engine's metrics are there "
		       "and have no numbers yet";
	else if (s->facts.locked)
		what = "process tree, model, engine metrics; pages of its "
		       "configuration want its API key";
	source_tier(out, TIER_T0, TIER_OK, what, "");
}

static void engine_close(struct source *s)
{
	if (!s)
		return;
	worker_stop(s->worker);
	s->context->claims.fresh = false;
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
