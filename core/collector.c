#include "core/collector.h"
#include "core/identity.h"
#include "core/options.h"
#include "model/hw.h"
#include "wire/clock.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY_NS (1 * NS_PER_S)
#define NEWS_EVERY_NS (NS_PER_S / 2)
#define PAUSE_MIN_NS (1 * NS_PER_S)
#define PAUSE_MAX_NS (32 * NS_PER_S)

struct slot {
	const struct source_ops *ops;
	struct source *source; /* NULL: down */
	uint64_t opened_ns, retry_ns, pause_ns;
	char why[96], fix[160]; /* of the last attempt */
};
_Static_assert(sizeof(((struct slot *)0)->why) <=
		       sizeof(((struct snapshot_tier *)0)->what),
	       "a reason is not cut short");

struct collector {
	struct target *target;
	struct source_context *context;
	unsigned n;
	struct slot slots[COLLECTOR_SOURCES_MAX];
	struct model *model;
	uint64_t start_ns, looked_ns, sampled_ns;
	uint64_t listeners; /* of the context, at the last look */
	bool gone;
	char host[48];
	struct identity identity;
	struct checks checks;
	struct snapshot snapshot;
};

void source_tier(struct snapshot *out, enum tier tier, enum tier_state state,
		 const char *what, const char *remedy)
{
	static const char *const names[SNAPSHOT_TIERS] = { "T0", "T1", "T2",
							   "T3", "C" };
	struct snapshot_tier *t = &out->health.tiers[tier];

	snprintf(t->name, sizeof(t->name), "%s", names[tier]);
	snprintf(t->what, sizeof(t->what), "%s", what);
	snprintf(t->remedy, sizeof(t->remedy), "%s", remedy);
	t->state = state;
}

int collector_new(struct collector **out, const struct collector_config *config,
		  uint64_t now_ns)
{
	const struct model_settings settings = { .gpu_price =
							 config->gpu_price };
	struct collector *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->model = model_new(&settings);
	if (!c->model) {
		free(c);
		return -ENOMEM;
	}
	c->target = config->target;
	c->context = config->context;
	c->start_ns = c->sampled_ns = c->looked_ns = now_ns;
	for (; c->n < COLLECTOR_SOURCES_MAX && config->sources[c->n]; c->n++)
		c->slots[c->n] = (struct slot){ .ops = config->sources[c->n],
						.pause_ns = PAUSE_MIN_NS };
	gethostname(c->host, sizeof(c->host) - 1);
	*out = c;
	return 0;
}

static void close_all(struct collector *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		c->slots[i].ops->close(c->slots[i].source);
		c->slots[i].source = NULL;
	}
}

void collector_free(struct collector *c)
{
	if (!c)
		return;
	close_all(c);
	model_free(c->model);
	free(c);
}

/* ---- ticks ------------------------------------------------------------- */

static void pause_slot(struct slot *s, uint64_t now_ns)
{
	s->retry_ns = now_ns + s->pause_ns;
	if (s->pause_ns < PAUSE_MAX_NS)
		s->pause_ns *= 2;
}

static void open_slot(struct collector *c, struct slot *s, uint64_t now_ns)
{
	char why[sizeof(s->why)] = "", fix[sizeof(s->fix)] = "";
	int err;

	if (now_ns < s->retry_ns)
		return;
	err = s->ops->open(&s->source, c->target, c->context, why, sizeof(why),
			   fix, sizeof(fix));
	if (!err) {
		s->why[0] = s->fix[0] = '\0';
		s->opened_ns = now_ns;
		return;
	}
	s->source = NULL;
	if (err != -EAGAIN) {
		memcpy(s->why, why, sizeof(why));
		memcpy(s->fix, fix, sizeof(fix));
	}
	if (err == -EAGAIN || err == -ENOENT)
		/* the server does not have it yet, and asking is cheap */
		s->retry_ns = now_ns + PAUSE_MIN_NS;
	else
		pause_slot(s, now_ns);
}

/* One that opens and breaks at once is tried no more often than one that does
 * not open. */
static void break_slot(struct slot *s, uint64_t now_ns, int err)
{
	s->ops->close(s->source);
	s->source = NULL;
	if (now_ns - s->opened_ns >= PAUSE_MAX_NS)
		s->pause_ns = PAUSE_MIN_NS;
	pause_slot(s, now_ns);
	snprintf(s->why, sizeof(s->why), "%s: %s", s->ops->name,
		 strerror(-err));
}

static void poll_slot(struct slot *s, uint64_t now_ns)
{
	int err = s->ops->poll(s->source, now_ns);

	if (err)
		break_slot(s, now_ns, err);
}

/* Some process may listen on something new: on a busy machine any other's. */
static bool look_is_due(struct collector *c, uint64_t now_ns)
{
	bool news = c->context->listeners != c->listeners;

	if (now_ns < c->looked_ns + (news ? NEWS_EVERY_NS : LOOK_EVERY_NS))
		return false;
	c->listeners = c->context->listeners;
	c->target->look_at_sockets |= news;
	return true;
}

int collector_tick(struct collector *c, uint64_t now_ns)
{
	if (c->gone)
		return 0;
	if (look_is_due(c, now_ns)) {
		c->looked_ns = now_ns;
		if (target_refresh(c->target) == -ESRCH)
			return 0;
		target_learn(c->target, c->context->model, "the server");
	}
	for (unsigned i = 0; i < c->n; i++) {
		struct slot *s = &c->slots[i];

		if (!s->source)
			open_slot(c, s, now_ns);
		if (s->source)
			poll_slot(s, now_ns);
	}
	return 1;
}

/* ---- snapshots --------------------------------------------------------- */

static void describe_target(struct collector *c, struct snapshot *out)
{
	struct snapshot_target *to = &out->target;
	const struct target *t = c->target;

	*to = (struct snapshot_target){ .pid = t->pid,
					.tp = t->tp,
					.ep = t->ep,
					.port = t->n_ports ? t->ports[0] : 0 };
	snprintf(to->engine, sizeof(to->engine), "%s", t->engine);
	snprintf(to->engine_version, sizeof(to->engine_version), "%s",
		 t->engine_version);
	snprintf(to->model, sizeof(to->model), "%s", t->model);
	snprintf(to->config_origin, sizeof(to->config_origin), "%s",
		 t->config_origin);
	snprintf(to->host, sizeof(to->host), "%s", c->host);
	options_put(to, &t->launch);
	if (t->have_arch) {
		to->experts = t->arch.experts;
		to->top_k = t->arch.top_k;
		to->moe_layers = t->arch.moe_layers;
		snprintf(to->quant, sizeof(to->quant), "%s", t->arch.quant);
		if (!to->model[0])
			snprintf(to->model, sizeof(to->model), "%s",
				 t->arch.name);
	}
	if (c->identity.pid != t->pid)
		identity_read(&c->identity, t->pid);
	identity_fill(&c->identity, to);
	for (unsigned i = 0; i < t->n_ranks && i < SNAPSHOT_RANKS_MAX; i++)
		to->ranks[to->n_ranks++] =
			(struct snapshot_rank){ .pid = t->ranks[i].pid,
						.rank = t->ranks[i].number,
						.agent = "absent",
						.gpu_index = -1 };
}

static void describe_t0(const struct collector *c, struct snapshot *out)
{
	const struct target *t = c->target;
	char what[sizeof(out->health.tiers[0].what)];

	if (t->left_over) {
		source_tier(out, TIER_T0, TIER_MISSING, t->note,
			    "end them, or name a server that serves");
	} else if (t->several > 1) {
		source_tier(out, TIER_T0, TIER_OK, t->note,
			    "name one of them with -p");
	} else if (t->denied) {
		source_tier(out, TIER_T0, TIER_OK,
			    "process tree, in part; model if named",
			    "run as root, or as the user of the server");
	} else if (!t->have_arch) {
		snprintf(what, sizeof(what), "process tree; %.80s",
			 t->arch_error[0] ? t->arch_error
					  : "the model's shape is unknown");
		source_tier(out, TIER_T0, TIER_OK, what,
			    "add --model PATH of its config.json");
	} else {
		source_tier(out, TIER_T0, TIER_OK, "process tree, model", "");
	}
}

static void describe_health(const struct collector *c, struct snapshot *out)
{
	out->health = (struct snapshot_health){ 0 };
	out->requests = (struct snapshot_requests){ 0 };
	describe_t0(c, out);
	source_tier(out, TIER_T1, TIER_OFF, "requests are not counted",
		    "leave out --no-bpf");
	source_tier(out, TIER_T2, TIER_OFF, "no agent is read", "");
	source_tier(out, TIER_T3, TIER_OFF, "no agent is read", "");
	source_tier(out, TIER_C, TIER_OFF, "counters are off", "");
	for (unsigned i = 0; i < c->n; i++) {
		const struct slot *s = &c->slots[i];
		const char *why = s->why[0] ? s->why : "waiting";

		if (s->source || s->ops->tier == TIER_T0)
			continue;
		source_tier(out, s->ops->tier, TIER_MISSING, why, s->fix);
		/* rows come by the way that kernels come */
		if (s->ops->tier == TIER_T2)
			source_tier(out, TIER_T3, TIER_MISSING, why, s->fix);
	}
}

/* The GPU by what is surest: NVML or the driver, else a word of the user. */
static const struct gpu *find_gpu(const struct collector *c,
				  const struct snapshot *s)
{
	const struct gpu *g = NULL;

	if (s->target.gpu[0])
		g = gpu_find(s->target.gpu);
	if (!g && c->target->gpu_hint[0])
		g = gpu_find(c->target->gpu_hint);
	return g;
}

const struct snapshot *collector_snapshot(struct collector *c, uint64_t now_ns,
					  double unix_s)
{
	struct snapshot *out = &c->snapshot;
	struct sample in = { .time = unix_s,
			     .now_ns = (double)now_ns,
			     .overhead = NAN,
			     .running = NAN,
			     .queued = NAN,
			     .d_generated_tokens = NAN,
			     .gpus = 1 };
	const struct gpu *gpu;

	if (c->gone)
		return out;
	in.interval_s = (double)(now_ns - c->sampled_ns) / 1e9;
	if (in.interval_s <= 0)
		in.interval_s = 1e-3;
	c->sampled_ns = now_ns;
	out->time = unix_s;
	out->interval_s = in.interval_s;
	out->uptime_s = (double)(now_ns - c->start_ns) / 1e9;
	out->sequence++;
	describe_target(c, out);
	describe_health(c, out);
	for (unsigned i = 0; i < c->n; i++) {
		struct slot *s = &c->slots[i];

		if (!s->source)
			continue;
		s->ops->sample(s->source, &in);
		s->ops->describe(s->source, out);
	}
	gpu = find_gpu(c, out);
	if (!out->target.gpu[0])
		snprintf(out->target.gpu, sizeof(out->target.gpu), "%s",
			 gpu ? gpu->name : c->target->gpu_hint);
	model_update(c->model, &in,
		     c->target->have_arch ? &c->target->arch : NULL, gpu, out);
	checks_update(&c->checks, &c->context->claims, &in, gpu, out);
	return out;
}

void collector_distinguish(struct collector *c)
{
	c->identity.distinguished = true;
	identity_fill(&c->identity, &c->snapshot.target);
}

static void age(struct value *v)
{
	if (v->state == VALUE_OK)
		v->state = VALUE_STALE;
}

static void age_all(struct snapshot *s)
{
	for (unsigned m = 0; m < METRICS; m++)
		age(&s->metrics[m]);
	for (unsigned h = 0; h < HISTOGRAMS; h++) {
		age(&s->hists[h].count);
		age(&s->hists[h].sum);
		age(&s->hists[h].p50);
		age(&s->hists[h].p90);
		age(&s->hists[h].p99);
	}
}

const struct snapshot *collector_gone(struct collector *c, double unix_s)
{
	struct snapshot *out = &c->snapshot;

	if (c->gone)
		return out;
	c->gone = true;
	close_all(c);
	if (!out->sequence) {
		describe_target(c, out);
		describe_health(c, out);
	}
	age_all(out);
	out->sequence++;
	out->time = unix_s;
	out->health.target_gone = true;
	out->health.target_gone_seconds = unix_s;
	snprintf(out->health.message, sizeof(out->health.message),
		 "the server (pid %d) has ended; this is its last state",
		 (int)c->target->pid);
	return out;
}
