/* The watched server, and the regime that it is in. */
#include "exporter/json_write.h"

static void put_gpu(struct text *t, int32_t index, const char *name)
{
	jput_begin(t, '{');
	if (index >= 0)
		jput_count(t, "index", (uint64_t)index);
	else
		jput_string(t, "index", NULL);
	jput_string(t, "name", name);
	jput_end(t, '}');
}

/* Did a rank before this one name the same GPU? */
static bool gpu_seen(const struct snapshot_target *g, unsigned rank)
{
	for (unsigned i = 0; i < rank; i++)
		if (g->ranks[i].gpu_index == g->ranks[rank].gpu_index)
			return true;
	return false;
}

static void put_gpus(struct text *t, const struct snapshot_target *g)
{
	unsigned shown = 0;

	jput_key(t, "gpus");
	jput_begin(t, '[');
	for (unsigned i = 0; i < g->n_ranks && i < SNAPSHOT_RANKS_MAX; i++) {
		const struct snapshot_rank *r = &g->ranks[i];

		if (r->gpu_index < 0 || gpu_seen(g, i))
			continue;
		put_gpu(t, r->gpu_index, r->gpu[0] ? r->gpu : g->gpu);
		shown++;
	}
	for (unsigned i = 0; !shown && g->gpu[0] && i < g->n_gpus; i++)
		put_gpu(t, -1, g->gpu);
	jput_end(t, ']');
}

/* What the injection did, for a rank that this moetop has attached to. */
static void put_attach(struct text *t, const struct snapshot_rank *r)
{
	if (!r->attached) {
		jput_string(t, "attach", NULL);
		return;
	}
	jput_key(t, "attach");
	jput_begin(t, '{');
	jput_count(t, "thread", (uint64_t)r->attach_thread);
	jput_count(t, "call", (uint64_t)r->attach_call);
	jput_count(t, "stops", r->attach_stops);
	jput_double(t, "pause_us", (double)r->attach_pause_ns / 1e3);
	jput_double(t, "load_ms", (double)r->attach_load_ns / 1e6);
	jput_end(t, '}');
}

static void put_rank(struct text *t, const struct snapshot_rank *r)
{
	jput_begin(t, '{');
	jput_pid(t, r->pid);
	jput_count(t, "rank", r->rank);
	jput_string(t, "agent", r->agent);
	jput_string(t, "reason", r->reason);
	put_attach(t, r);
	jput_end(t, '}');
}

static void put_options(struct text *t, const struct snapshot_target *g)
{
	jput_key(t, "options");
	jput_begin(t, '{');
	for (unsigned i = 0; i < g->n_options && i < SNAPSHOT_OPTIONS_MAX; i++)
		jput_string(t, g->options[i].name, g->options[i].value);
	jput_end(t, '}');
}

void json_put_target(struct text *t, const struct snapshot *s)
{
	const struct snapshot_target *g = &s->target;

	jput_key(t, "target");
	jput_begin(t, '{');
	jput_pid(t, g->pid);
	jput_string(t, "engine", g->engine);
	jput_string(t, "engine_version", g->engine_version);
	jput_string(t, "model", g->model);
	jput_known(t, "experts", g->experts);
	jput_known(t, "top_k", g->top_k);
	jput_known(t, "moe_layers", g->moe_layers);
	put_gpus(t, g);
	jput_key(t, "ranks");
	jput_begin(t, '[');
	for (unsigned i = 0; i < g->n_ranks && i < SNAPSHOT_RANKS_MAX; i++)
		put_rank(t, &g->ranks[i]);
	jput_end(t, ']');
	jput_known(t, "port", g->port);
	jput_string(t, "compute_type", s->compute_type);
	jput_string(t, "server", g->server);
	jput_string(t, "pod", g->pod);
	jput_string(t, "namespace", g->pod_namespace);
	jput_string(t, "container", g->container);
	jput_string(t, "config_origin", g->config_origin);
	put_options(t, g);
	jput_end(t, '}');
}

static void put_flags(struct text *t, unsigned flags)
{
	jput_key(t, "flags");
	jput_begin(t, '[');
	for (unsigned i = 0; i < REGIME_FLAGS; i++)
		if (flags & 1u << i)
			jput_name(t, regime_flag_name(1u << i));
	jput_end(t, ']');
}

void json_put_regime(struct text *t, const struct snapshot *s)
{
	const char *name = regime_name(s->regime);

	jput_key(t, "regime");
	jput_begin(t, '{');
	jput_string(t, "value", name);
	jput_string(t, "side", name ? side_name(s->side) : NULL);
	jput_string(t, "source",
		    name ? value_source_name(s->regime_source) : NULL);
	put_flags(t, s->flags);
	jput_end(t, '}');
}
