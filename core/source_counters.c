/*
 * DRAM bytes every millisecond by PM sampling (--counters=pm), tier C beside
 * what NVML gives: bytes read and written apart, and by MoE layer where an agent
 * says when its kernels ran.
 *
 * All of CUPTI runs in a child (core/counters.h).  A child that ends, or says
 * nothing, is started again after a while, but for lack of the right to it.  The
 * sampler of some releases locks the SM clocks to their base: when they fall
 * after its start, it is stopped for good.
 */
#include "core/counters.h"
#include "core/counters_library.h"
#include "core/layer_bytes.h"
#include "core/pm_totals.h"
#include "core/privileges.h"
#include "core/source.h"
#include "wire/clock.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No divisor of a usual step time: samples must not be locked to the steps. */
#define INTERVAL_NS 1030000u
#define SILENT_NS (5 * NS_PER_S)
#define MESSAGES_MOST 1000      /* of one poll; some ten are usual */
#define OPEN_NS (35 * NS_PER_S) /* the child gives up before */
#define AGAIN_NS (30 * NS_PER_S)
#define FIRST_NS (2 * NS_PER_S) /* so much of the clocks is seen before */
#define CLOCK_FALL 0.05         /* of the SM clock, as the sampler starts */
#define CLOCK_SETTLED_NS (1 * NS_PER_S) /* what NVML says is newer than it */
#define CLOCK_JUDGED_NS (3 * NS_PER_S)
#define AHEAD_NS (1 * NS_PER_S) /* that a reading may be, by its clock */
#define LONGEST_NS (1 * NS_PER_S)
#define TENSOR_MOST 1.1       /* rounding */
#define MOST_BYTES_PER_S 1e14 /* where the peak is not known */

enum counters_state { WAITING, STARTING, RUNNING, FAILED };

struct source {
	const struct target *target;
	struct source_context *context;
	enum counters_state state;
	struct counters child;
	bool over; /* FAILED for good */
	uint64_t since_ns, retry_ns, heard_ns;
	/* highest SM clock seen before the start, and since it */
	double clock_before_hz, clock_since_hz;
	char why[160], fix[192];
	struct pm_info info;
	struct pm_totals now; /* since the last sample */
	uint64_t absurd;      /* readings that cannot be */
};

/* ---- the child --------------------------------------------------------------- */

static void fail(struct source *s, bool over, uint64_t now_ns, const char *why,
		 const char *fix)
{
	counters_end(&s->child);
	s->state = FAILED;
	s->over = over;
	s->retry_ns = now_ns + AGAIN_NS;
	s->clock_before_hz = s->clock_since_hz = 0;
	s->context->spans = false;
	snprintf(s->why, sizeof(s->why), "%s", why);
	snprintf(s->fix, sizeof(s->fix), "%s", fix);
}

static void start(struct source *s, uint64_t now_ns)
{
	char cupti[PATH_MAX], cuda[PATH_MAX];
	struct pm_options o = {
		.library = cupti,
		.device = (unsigned)s->context->gpu_index,
		.interval_ns = INTERVAL_NS,
		.peak_bytes_per_second = s->context->gpu_peak_bw,
	};
	int err;

	if (privileges_elevated()) {
		fail(s, true, now_ns,
		     "PM sampling: not by a moetop with file capabilities",
		     "run moetop as root, or use --counters=gpm");
		return;
	}
	err = counters_library_find(s->target, cupti, cuda);
	if (err) {
		fail(s, false, now_ns, counters_library_why(err),
		     COUNTERS_LIBRARY_FIX);
		return;
	}
	if (cuda[0])
		o.driver = cuda;
	err = counters_start(&s->child, &o);
	if (err) {
		fail(s, false, now_ns,
		     err == -EBUSY ? "PM sampling: its last process hangs in "
				     "the driver"
				   : "PM sampling: no process for it",
		     "see the driver's messages: dmesg | grep NVRM");
		return;
	}
	s->state = STARTING;
	s->since_ns = s->heard_ns = now_ns;
}

/* ---- messages ------------------------------------------------------------------ */

static void take_status(struct source *s, const struct counters_message *m,
			uint64_t now_ns)
{
	if (s->state != STARTING)
		return;
	/* A busy counter may be free later, a right does not come by itself. */
	if (m->status.error) {
		fail(s, m->status.error != -EBUSY && m->status.error != -EIO,
		     now_ns, m->status.why, m->status.fix);
		return;
	}
	s->state = RUNNING;
	s->since_ns = now_ns;
	s->context->spans = true;
	s->context->window_wish++;
	s->now = (struct pm_totals){ 0 };
}

/* Counters glitch now and then, and one absurd sample would outweigh all others
 * for as long as it is remembered. */
static bool is_plausible(const struct source *s, const struct pm_reading *r,
			 uint64_t now_ns)
{
	double peak = s->context->gpu_peak_bw, ns, most;

	if (r->end_ns <= r->start_ns || r->end_ns - r->start_ns > LONGEST_NS ||
	    r->end_ns > now_ns + AHEAD_NS)
		return false;
	ns = (double)(r->end_ns - r->start_ns);
	most = (peak > 0 ? 2 * peak : MOST_BYTES_PER_S) * ns / 1e9;
	return r->read_bytes >= 0 && r->read_bytes <= most &&
	       (isnan(r->write_bytes) ||
		(r->write_bytes >= 0 && r->write_bytes <= most)) &&
	       (isnan(r->tensor_ratio) ||
		(r->tensor_ratio >= 0 && r->tensor_ratio <= TENSOR_MOST));
}

static void take_reading(struct source *s, const struct pm_reading *r,
			 uint64_t now_ns)
{
	double ns = (double)(r->end_ns - r->start_ns);
	bool split = isfinite(r->write_bytes);
	struct bytes_sample sample = {
		.start_ns = r->start_ns,
		.end_ns = r->end_ns,
		.dram_bytes = r->read_bytes + (split ? r->write_bytes : 0),
	};

	if (!is_plausible(s, r, now_ns)) {
		s->absurd++;
		return;
	}
	s->now.split = split;
	s->now.ns += ns;
	s->now.read_bytes += r->read_bytes;
	s->now.write_bytes += split ? r->write_bytes : 0;
	s->now.tensor_ns += r->tensor_ratio * ns;
	if (s->context->layer_bytes)
		layer_bytes_sample(s->context->layer_bytes, &sample);
}

static void take(struct source *s, const struct counters_message *m,
		 uint64_t now_ns)
{
	s->heard_ns = now_ns;
	switch (m->kind) {
	case COUNTERS_STATUS:
		take_status(s, m, now_ns);
		break;
	case COUNTERS_READINGS_ARE:
		for (uint32_t i = 0; i < m->n && s->state == RUNNING; i++)
			take_reading(s, &m->readings[i], now_ns);
		break;
	case COUNTERS_INFO:
		s->info = m->info;
		s->info.chip[sizeof(s->info.chip) - 1] = '\0';
		s->info.metrics[sizeof(s->info.metrics) - 1] = '\0';
		break;
	}
}

static bool has_child(const struct source *s)
{
	return s->state == STARTING || s->state == RUNNING;
}

static void listen_to_child(struct source *s, uint64_t now_ns)
{
	uint64_t patience = s->state == STARTING ? OPEN_NS : SILENT_NS;
	struct counters_message m;
	int got = 1;

	for (int i = 0; i < MESSAGES_MOST && has_child(s) && got > 0; i++) {
		got = counters_next(&s->child, &m);
		if (got > 0)
			take(s, &m, now_ns);
	}
	if (!has_child(s) || (got >= 0 && now_ns < s->heard_ns + patience))
		return;
	if (got >= 0) {
		/* it would not hear of its end, either */
		kill(s->child.pid, SIGKILL);
		fail(s, false, now_ns, "PM sampling does not answer",
		     "use --counters=gpm");
		return;
	}
	fail(s, false, now_ns,
	     got == -EPROTO ? "PM sampling says what is no message"
			    : "PM sampling ended by itself",
	     "use --counters=gpm, and report it with moetop doctor --bundle");
}

/*
 * A lock holds from the start on, while a GPU that works hard moves its clocks up
 * and down: so the highest clock of a while counts, against the highest before.
 */
static void judge_clock(struct source *s, uint64_t now_ns)
{
	double now = s->context->sm_clock_hz, before = s->clock_before_hz;
	char why[128];

	if (s->state != RUNNING) {
		if (now > before)
			s->clock_before_hz = now;
		return;
	}
	if (!(before > 0) || now_ns < s->since_ns + CLOCK_SETTLED_NS)
		return;
	if (now > s->clock_since_hz)
		s->clock_since_hz = now;
	if (now_ns < s->since_ns + CLOCK_JUDGED_NS)
		return;
	s->clock_before_hz = 0; /* it has been judged */
	if (!(s->clock_since_hz > 0) ||
	    s->clock_since_hz >= (1 - CLOCK_FALL) * before)
		return;
	snprintf(why, sizeof(why),
		 "PM sampling made the SM clock fall from %.0f to %.0f MHz; "
		 "it is stopped",
		 before / 1e6, s->clock_since_hz / 1e6);
	fail(s, true, now_ns, why,
	     "use --counters=gpm, or a server with CUPTI 13.4 or later");
}

/* ---- the source ----------------------------------------------------------------- */

static int counters_open(struct source **out, const struct target *t,
			 struct source_context *x, char *why, size_t why_bytes,
			 char *fix, size_t fix_bytes)
{
	struct source *s = calloc(1, sizeof(*s));

	(void)why, (void)why_bytes, (void)fix, (void)fix_bytes;
	if (!s)
		return -ENOMEM;
	s->target = t;
	s->context = x;
	s->since_ns = clock_now_ns();
	*out = s;
	return 0;
}

static int counters_fd(struct source *s)
{
	(void)s;
	return -1;
}

static int counters_poll(struct source *s, uint64_t now_ns)
{
	bool due = s->state == WAITING ? now_ns >= s->since_ns + FIRST_NS
				       : s->state == FAILED && !s->over &&
						 now_ns >= s->retry_ns;

	if (due && s->context->gpu_index >= 0)
		start(s, now_ns);
	listen_to_child(s, now_ns);
	judge_clock(s, now_ns);
	return 0;
}

static void counters_sample(struct source *s, struct sample *out)
{
	if (s->state != RUNNING || !(s->now.ns > 0))
		return;
	pm_totals_give(&s->now, out);
	s->now = (struct pm_totals){ 0 };
}

static void describe_running(const struct source *s, struct snapshot *out)
{
	struct layer_bytes_counts c = { 0 };
	char what[sizeof(out->health.tiers[0].what)];

	if (s->context->layer_bytes)
		layer_bytes_count(s->context->layer_bytes, &c);
	snprintf(what, sizeof(what),
		 "DRAM bytes every %.2f ms by PM sampling of %s%s (%s); %llu "
		 "windows joined, %llu overflows, %llu bad samples",
		 INTERVAL_NS / 1e6, s->info.chip[0] ? s->info.chip : "the GPU",
		 out->target.n_gpus > 1 ? ", one GPU of several" : "",
		 s->info.metrics, (unsigned long long)c.windows,
		 (unsigned long long)s->info.overflows,
		 (unsigned long long)(s->info.bad + s->absurd));
	source_tier(out, TIER_C, TIER_OK, what, "");
}

/* What NVML gives stays; why there is not more is said beside it. */
static void counters_describe(struct source *s, struct snapshot *out)
{
	struct snapshot_tier *t = &out->health.tiers[TIER_C];
	char what[sizeof(t->what)], remedy[sizeof(t->remedy)];
	const char *why = s->state == FAILED ? s->why : "PM sampling starts";

	if (s->state == RUNNING) {
		describe_running(s, out);
		return;
	}
	snprintf(what, sizeof(what), "%.90s; %.160s", t->what, why);
	memcpy(remedy, t->remedy, sizeof(remedy));
	source_tier(out, TIER_C, t->state, what,
		    s->state == FAILED ? s->fix : remedy);
}

static void counters_close(struct source *s)
{
	if (!s)
		return;
	counters_end(&s->child);
	s->context->spans = false;
	free(s);
}

const struct source_ops source_counters = {
	.name = "counters",
	.tier = TIER_C,
	.open = counters_open,
	.fd = counters_fd,
	.poll = counters_poll,
	.sample = counters_sample,
	.describe = counters_describe,
	.close = counters_close,
};
