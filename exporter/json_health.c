/* What works and what was lost, and what the kernel counted. */
#include "exporter/json_write.h"

static void put_tiers(struct text *t, const struct snapshot_health *h)
{
	jput_key(t, "tiers");
	jput_begin(t, '{');
	for (unsigned i = 0; i < SNAPSHOT_TIERS; i++) {
		const struct snapshot_tier *tier = &h->tiers[i];

		if (!tier->name[0])
			continue;
		jput_key(t, tier->name);
		jput_begin(t, '{');
		jput_string(t, "state", tier_state_name(tier->state));
		jput_string(t, "what", tier->what);
		jput_string(t, "remedy", tier->remedy);
		jput_end(t, '}');
	}
	jput_end(t, '}');
}

/* Does a step have as many MoE layers as the model? */
static void put_period(struct text *t, const struct snapshot *s)
{
	uint32_t seen = s->health.layers_seen, want = s->target.moe_layers;

	jput_key(t, "layers");
	jput_begin(t, '{');
	jput_known(t, "seen", seen);
	jput_known(t, "expected", want);
	jput_count(t, "draft", s->n_draft);
	jput_key(t, "holds");
	text_printf(t, "%s",
		    !seen || !want ? "null"
				   : (seen == want ? "true" : "false"));
	jput_end(t, '}');
}

void json_put_health(struct text *t, const struct snapshot *s)
{
	const struct snapshot_health *h = &s->health;

	jput_key(t, "health");
	jput_begin(t, '{');
	put_tiers(t, h);
	jput_key(t, "lost");
	jput_begin(t, '{');
	jput_count(t, "ring", h->lost_ring);
	jput_count(t, "records", h->lost_records);
	jput_count(t, "requests", h->lost_requests);
	jput_count(t, "desyncs", h->desyncs);
	jput_count(t, "connections", h->lost_connections);
	jput_count(t, "calls", h->lost_calls);
	jput_count(t, "paths", h->lost_paths);
	jput_count(t, "listeners", h->lost_listeners);
	jput_count(t, "bad_steps", h->bad_steps);
	jput_end(t, '}');
	jput_key(t, "agents");
	jput_begin(t, '[');
	for (unsigned i = 0; i < s->target.n_ranks && i < SNAPSHOT_RANKS_MAX;
	     i++) {
		const struct snapshot_rank *r = &s->target.ranks[i];

		jput_begin(t, '{');
		jput_pid(t, r->pid);
		jput_count(t, "rank", r->rank);
		jput_string(t, "state", r->agent);
		jput_string(t, "reason", r->reason);
		jput_end(t, '}');
	}
	jput_end(t, ']');
	jput_key(t, "rows");
	jput_begin(t, '{');
	jput_string(t, "method", h->rows_method);
	jput_count(t, "cells", h->cells_sampled);
	jput_count(t, "rejected", h->cells_rejected);
	jput_count(t, "lost", h->cells_lost);
	jput_count(t, "windows", h->windows);
	jput_end(t, '}');
	put_period(t, s);
	jput_key(t, "target_gone");
	text_printf(t, h->target_gone ? "true" : "false");
	jput_string(t, "message", h->message);
	jput_end(t, '}');
}

static void put_tls(struct text *t, const struct snapshot_requests *r)
{
	const char *source = NULL;

	if (r->tls_followed)
		source = value_source_name(SOURCE_MEASURED);
	if (r->tls_inferred)
		source = REQUESTS_TLS_INFERRED;
	jput_key(t, "tls");
	jput_begin(t, '{');
	jput_count(t, "connections", r->tls);
	jput_count(t, "followed", r->tls_followed);
	jput_count(t, "inferred", r->tls_inferred);
	jput_count(t, "waiting", r->inferred_waiting);
	jput_count(t, "streaming", r->inferred_streaming);
	jput_string(t, "source", source);
	jput_end(t, '}');
}

void json_put_requests(struct text *t, const struct snapshot_requests *r)
{
	static const char *const classes[] = { "other", "generation", "pooling",
					       "ignored" };
	static const char *const names[REQUEST_COUNTS] = {
		"waiting",        "streaming",  "guessed",    "started",
		"completed",      "failed_4xx", "failed_5xx", "client_aborted",
		"server_aborted", "events"
	};

	if (!r->known) {
		jput_string(t, "requests", NULL);
		return;
	}
	jput_key(t, "requests");
	jput_begin(t, '{');
	for (unsigned e = 0; e < SNAPSHOT_ENDPOINTS; e++) {
		jput_key(t, classes[e]);
		jput_begin(t, '{');
		for (unsigned i = 0; i < REQUEST_COUNTS; i++)
			jput_count(t, names[i], r->counts[e][i]);
		jput_end(t, '}');
	}
	jput_double(t, "unread_bytes",
		    r->have_queues ? (double)r->unread_bytes : NAN);
	jput_double(t, "not_accepted",
		    r->have_queues ? (double)r->not_accepted : NAN);
	jput_double(t, "oldest_seconds", r->oldest_seconds);
	put_tls(t, r);
	jput_end(t, '}');
}
