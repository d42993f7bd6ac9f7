/*
 * Requests in flight, from the kernel: tier T1.
 *
 * The tracker counts by port; the ports are those of the target, looked up
 * again whenever the target was refreshed.  MOETOP_TRACKER in the environment
 * names the one data source to use, for tests: K, F, P, C, S or diag.
 */
#include "bpf/tracker.h"
#include "core/source.h"
#include "core/tls_follow.h"
#include "core/window_hist.h"
#include "target/tls_library.h"
#include "wire/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(ENDPOINTS == SNAPSHOT_ENDPOINTS, "classes of paths");

struct source {
	struct tracker *tracker;
	const struct target *target;
	struct source_context *context;
	uint16_t ports[TARGET_PORTS_MAX];
	unsigned n_ports, n_unix;
	uint64_t unix_inodes[TARGET_UNIX_MAX];
	uint32_t netns;
	struct request_gauges gauges;
	struct request_counters counters, sampled; /* now; last sample */
	uint64_t failed_4xx[ENDPOINTS];            /* as told */
	uint64_t now_ns;
	struct window_hist hists[3]; /* by enum tracker_histogram */
	uint64_t queues_ns;          /* when the queues were looked at */
	bool have_queues;
	uint64_t unread_bytes, backlog;
	struct tls_follow tls;
	bool tls_wanted;
	uint64_t tls_before; /* inferred until its libraries were followed */
	unsigned tls_grown;  /* of the target, when TLS was looked for */
};

#define QUEUES_PERIOD_NS 1000000000ull

static unsigned unix_inodes(const struct target *t,
			    uint64_t out[TARGET_UNIX_MAX])
{
	for (unsigned i = 0; i < t->n_unix; i++)
		out[i] = t->unix_sockets[i].inode;
	return t->n_unix;
}

static void remember_ports(struct source *s)
{
	s->n_ports = s->target->n_ports;
	memcpy(s->ports, s->target->ports, sizeof(s->ports));
	s->n_unix = unix_inodes(s->target, s->unix_inodes);
}

static bool unix_changed(const struct source *s)
{
	uint64_t now[TARGET_UNIX_MAX];

	return unix_inodes(s->target, now) != s->n_unix ||
	       memcmp(now, s->unix_inodes, s->n_unix * sizeof(now[0])) != 0;
}

static bool ports_changed(const struct source *s)
{
	return s->n_ports != s->target->n_ports ||
	       memcmp(s->ports, s->target->ports,
		      s->n_ports * sizeof(s->ports[0]));
}

static void remedy(int err, char *fix, size_t bytes)
{
	switch (err) {
	case -EPERM:
		snprintf(fix, bytes,
			 "run as root, or: setcap cap_bpf,cap_perfmon+ep "
			 "$(command -v moetop)");
		break;
	case -EACCES:
		snprintf(fix, bytes,
			 "forbidden by a user namespace, lockdown, seccomp or "
			 "SELinux: try it outside the container");
		break;
	case -EOPNOTSUPP:
		snprintf(fix, bytes, "needs Linux 5.15 or later with BTF");
		break;
	default:
		snprintf(fix, bytes, "see moetop doctor");
		break;
	}
}

static const char *wanted_rung(void)
{
	const char *rung = getenv("MOETOP_TRACKER");

	return rung && *rung ? rung : NULL;
}

static int requests_open(struct source **out, const struct target *t,
			 struct source_context *x, char *why, size_t why_bytes,
			 char *fix, size_t fix_bytes)
{
	uint64_t inodes[TARGET_UNIX_MAX];
	const struct tracker_config config = { .ports = t->ports,
					       .n_ports = t->n_ports,
					       .unix_inodes = inodes,
					       .n_unix = unix_inodes(t, inodes),
					       .netns = t->netns,
					       .rung = wanted_rung() };
	struct source *s;
	int err;

	if (!t->n_ports && !t->n_unix) {
		snprintf(why, why_bytes, "the server listens on no port");
		snprintf(fix, fix_bytes, "%s",
			 t->denied ? "its sockets are hidden: run as root"
				   : "wait until it serves");
		return -ENOENT;
	}
	if (!t->netns) { /* 0 would be our own, and maybe another's port */
		snprintf(why, why_bytes,
			 "which network the server is in may not be seen");
		snprintf(fix, fix_bytes,
			 "run as root, or as the server's user");
		return -EACCES;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->target = t;
	s->context = x;
	s->netns = t->netns;
	remember_ports(s);
	err = tracker_open(&s->tracker, &config, why, why_bytes);
	if (err) {
		remedy(err, fix, fix_bytes);
		free(s);
		return err;
	}
	for (unsigned h = 0; h < 3; h++)
		window_hist_init(&s->hists[h]);
	s->tls_wanted = tls_expected(t->server ? t->server : t->pid);
	tracker_read(s->tracker, &s->gauges, &s->counters);
	s->sampled = s->counters;
	*out = s;
	return 0;
}

static int requests_fd(struct source *s)
{
	(void)s;
	return -1;
}

/*
 * A server that listens on nothing for a moment still has its connections.  One
 * that had no UNIX socket is begun with again: the source was not tested for it.
 */
static int follow_target(struct source *s)
{
	const struct target *t = s->target;
	bool unix_refused = *tracker_unix_refused(s->tracker);
	int err = 0;

	if (t->n_unix && !s->n_unix && !unix_refused)
		return -ESTALE;
	if (t->n_ports && ports_changed(s))
		err = tracker_set_ports(s->tracker, t->ports, t->n_ports);
	if (!err && t->n_unix && !unix_refused && unix_changed(s))
		err = tracker_set_unix(s->tracker, s->unix_inodes,
				       unix_inodes(t, s->unix_inodes));
	if (!err && (t->n_ports || t->n_unix))
		remember_ports(s);
	return err;
}

/*
 * Where a connection is encrypted, or is to be: others are left as they are.
 * Processes that serve may come, and load their libraries late.
 */
static void follow_tls(struct source *s, uint64_t now_ns)
{
	const struct target *t = s->target;
	bool first = !s->tls.looked_ns;

	if (!s->tls_wanted)
		s->tls_wanted = s->counters.tls_connections > 0;
	if (!s->tls_wanted || tracker_estimates(s->tracker) ||
	    (s->tls.looked_ns && t->grown == s->tls_grown &&
	     now_ns - s->tls.looked_ns < TLS_FOLLOW_AGAIN_NS))
		return;
	s->tls_grown = t->grown;
	tls_follow(&s->tls, s->tracker, t->pids, t->n_pids, t->ports,
		   t->n_ports, now_ns);
	if (first && s->tls.libraries && !s->tls.err) {
		tracker_read(s->tracker, &s->gauges, &s->counters);
		s->tls_before = s->counters.tls_inferred;
	}
}

static int requests_poll(struct source *s, uint64_t now_ns)
{
	/* the records make room; what they tell is in the histograms, too */
	int n = tracker_drain(s->tracker, NULL, NULL);
	int err = 0;

	if (n < 0)
		return n;
	if (s->netns != s->target->netns)
		return -ESTALE;
	err = follow_target(s);
	if (err)
		return err;
	s->context->listeners = tracker_listeners(s->tracker);
	tracker_read(s->tracker, &s->gauges, &s->counters);
	follow_tls(s, now_ns);
	s->now_ns = now_ns;
	s->context->decoding =
		!tracker_estimates(s->tracker) &&
				s->gauges.streaming[ENDPOINT_GENERATION] > 0
			? (uint32_t)s->gauges.streaming[ENDPOINT_GENERATION]
			: 0;
	return 0;
}

/* Word by word reading may catch a gauge between two updates. */
static double gauge(int64_t v)
{
	return v > 0 ? (double)v : 0;
}

static const struct sample_hist *last_minute(struct source *s,
					     enum tracker_histogram which)
{
	struct request_histogram now;

	if (tracker_histogram(s->tracker, which, &now))
		return NULL;
	window_hist_update(&s->hists[which], &now, s->now_ns);
	return &s->hists[which].out;
}

static void counts_unknown(struct sample *out)
{
	out->started = out->completed = out->aborted = out->events = NAN;
	out->d_started = out->d_events = NAN;
}

/* All that is known without counting: what is in flight, about. */
static void sample_estimate(struct source *s, struct sample *out)
{
	const unsigned g = ENDPOINT_GENERATION;

	out->have_requests = true;
	out->requests_guessed = true;
	out->waiting = gauge(s->gauges.waiting[g]);
	out->streaming = gauge(s->gauges.streaming[g]);
	counts_unknown(out);
}

/* Connections that are inferred, but for those of the time before. */
static uint64_t tls_inferred(const struct source *s)
{
	uint64_t n = s->counters.tls_inferred;

	return n > s->tls_before ? n - s->tls_before : 0;
}

static void requests_sample(struct source *s, struct sample *out)
{
	const struct request_counters *c = &s->counters;
	const unsigned g = ENDPOINT_GENERATION;

	/* as they are now, and not at the last poll */
	tracker_read(s->tracker, &s->gauges, &s->counters);
	if (tracker_estimates(s->tracker)) {
		sample_estimate(s, out);
		return;
	}
	out->have_requests = true;
	out->requests_guessed = s->gauges.guessed[g] > 0 || tls_inferred(s);
	out->waiting = gauge(s->gauges.waiting[g] + s->gauges.guessed[g]) +
		       gauge(s->gauges.inferred_waiting);
	out->streaming = gauge(s->gauges.streaming[g]) +
			 gauge(s->gauges.inferred_streaming);
	out->started = (double)c->started[g];
	out->completed = (double)c->completed[g];
	out->aborted = (double)(c->client_aborted[g] + c->server_aborted[g]);
	out->events = (double)c->events[g];
	out->d_started = (double)(c->started[g] - s->sampled.started[g]);
	out->d_events = (double)(c->events[g] - s->sampled.events[g]);
	s->sampled = *c;
	if (tls_inferred(s) && !c->started[g]) /* all of it went by unread */
		counts_unknown(out);
	out->ttft = last_minute(s, TRACKER_TTFT);
	out->gap = last_minute(s, TRACKER_GAP);
	out->duration = last_minute(s, TRACKER_DURATION);
	out->ttft_total = out->ttft ? &s->hists[TRACKER_TTFT].all : NULL;
	out->gap_total = out->gap ? &s->hists[TRACKER_GAP].all : NULL;
	out->duration_total =
		out->duration ? &s->hists[TRACKER_DURATION].all : NULL;
}

/* What the server cannot see: not yet read, not yet accepted. */
static void look_at_queues(struct source *s)
{
	if (s->queues_ns && s->now_ns - s->queues_ns < QUEUES_PERIOD_NS)
		return;
	s->queues_ns = s->now_ns ? s->now_ns : 1;
	s->have_queues =
		!tracker_queues(s->tracker, &s->unread_bytes, &s->backlog);
}

static void describe_tier(struct source *s, struct snapshot *out)
{
	const char *refused = tracker_refused(s->tracker);
	const char *rung = tracker_rung(s->tracker);
	bool estimates = tracker_estimates(s->tracker);
	const char *no_unix = tracker_unix_refused(s->tracker);
	char what[sizeof(out->health.tiers[0].what)], queues[64] = "";
	char tls[128], more[64] = "";

	if (s->target->unfollowed)
		snprintf(more, sizeof(more),
			 ", but none by %u more of its listeners",
			 s->target->unfollowed);
	if (s->have_queues && (s->unread_bytes || s->backlog))
		snprintf(queues, sizeof(queues),
			 "; unread %llu bytes, not accepted %llu",
			 (unsigned long long)s->unread_bytes,
			 (unsigned long long)s->backlog);
	tls_follow_say(&s->tls, s->counters.tls_connections, tls_inferred(s),
		       tls, sizeof(tls));
	snprintf(what, sizeof(what), "%s by %s%s%s%s%s%s%s%s%s",
		 estimates ? "requests are estimated"
			   : "requests in flight, from the kernel",
		 rung, *no_unix ? ", but none by its UNIX socket: " : "",
		 no_unix, more, tls, queues, *refused ? " (" : "", refused,
		 *refused ? ")" : "");
	source_tier(out, TIER_T1, estimates ? TIER_MISSING : TIER_OK, what,
		    estimates
			    ? "run as root, or: setcap cap_bpf,cap_perfmon+ep "
			      "$(command -v moetop)"
			    : "");
}

/* Two counters that the kernel goes on with while they are read: a difference
 * may be off by the answers of that moment, but never goes back. */
static uint64_t failed_4xx(struct source *s, unsigned e)
{
	uint64_t all = s->counters.failed[e], worse = s->counters.failed_5xx[e];

	if (all > worse && all - worse > s->failed_4xx[e])
		s->failed_4xx[e] = all - worse;
	return s->failed_4xx[e];
}

static void describe_counts(struct source *s, struct snapshot_requests *out)
{
	const struct request_counters *c = &s->counters;
	uint64_t start_ns;

	out->known = true;
	for (unsigned e = 0; e < ENDPOINTS; e++) {
		uint64_t *n = out->counts[e];

		n[REQUESTS_WAITING] = (uint64_t)gauge(s->gauges.waiting[e]);
		n[REQUESTS_STREAMING] = (uint64_t)gauge(s->gauges.streaming[e]);
		n[REQUESTS_GUESSED] = (uint64_t)gauge(s->gauges.guessed[e]);
		n[REQUESTS_STARTED] = c->started[e];
		n[REQUESTS_COMPLETED] = c->completed[e];
		n[REQUESTS_FAILED_4XX] = failed_4xx(s, e);
		n[REQUESTS_FAILED_5XX] = c->failed_5xx[e];
		n[REQUESTS_CLIENT_ABORTED] = c->client_aborted[e];
		n[REQUESTS_SERVER_ABORTED] = c->server_aborted[e];
		n[REQUESTS_EVENTS] = c->events[e];
	}
	out->tls = c->tls_connections;
	out->tls_followed = c->tls_read;
	out->tls_inferred = tls_inferred(s);
	out->inferred_waiting = (uint64_t)gauge(s->gauges.inferred_waiting);
	out->inferred_streaming = (uint64_t)gauge(s->gauges.inferred_streaming);
	out->have_queues = s->have_queues;
	out->unread_bytes = s->unread_bytes;
	out->not_accepted = s->backlog;
	out->oldest_seconds = NAN;
	if (!tracker_oldest(s->tracker, &start_ns) && start_ns &&
	    start_ns < s->now_ns)
		out->oldest_seconds = (double)(s->now_ns - start_ns) / 1e9;
}

static void requests_describe(struct source *s, struct snapshot *out)
{
	struct snapshot_health *h = &out->health;

	snprintf(h->rung, sizeof(h->rung), "%s", tracker_rung(s->tracker));
	h->lost_requests = s->counters.records_lost;
	h->lost_connections = s->counters.overflows;
	h->lost_calls = tracker_missed(s->tracker);
	h->lost_paths = s->counters.paths_lost;
	h->lost_listeners = s->target->unfollowed;
	h->desyncs = s->counters.desyncs;
	look_at_queues(s);
	describe_tier(s, out);
	if (!tracker_estimates(s->tracker))
		describe_counts(s, &out->requests);
}

static void requests_close(struct source *s)
{
	if (!s)
		return;
	s->context->decoding = 0;
	s->context->listeners = 0;
	tracker_close(s->tracker);
	free(s);
}

const struct source_ops source_requests = {
	.name = "requests",
	.tier = TIER_T1,
	.open = requests_open,
	.fd = requests_fd,
	.poll = requests_poll,
	.sample = requests_sample,
	.describe = requests_describe,
	.close = requests_close,
};
