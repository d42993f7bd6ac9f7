#include "agent/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "agent/activity.h"
#include "agent/life.h"
#include "agent/memory.h"
#include "agent/publish.h"
#include "agent/state.h"
#include "cupti/clock.h"
#include "cupti/release.h"

#define FLUSH_NS 50000000ull
#define DRAIN_FLUSH_NS 20000000ull
/* Work of the window may still be queued on the device; a flush by force would
 * take its times away.  The longest silence between two kernels, and in all. */
#define DRAIN_SILENCE_NS 150000000ull
#define DRAIN_MOST_NS 2500000000ull
#define SILENT_LAUNCHES 8 /* so many, and some must have run */
#define LOSS_MOST 1000u   /* one record in so many: sums are right to 0.1 % */
#define SPOILT_MOST 3u    /* CUPTI lives in a row */

int window_init(void)
{
	if (!agent.names)
		agent.names = kernel_names_new();
	if (!agent.decode)
		agent.decode = calloc(1, sizeof(*agent.decode));
	if (!agent.rows)
		agent.rows = rows_new();
	if (agent.names && !agent.reduce)
		agent.reduce = reduce_new(agent.config.events, agent.names);
	if (!agent.reduce || !agent.decode || !agent.rows)
		return -ENOMEM;
	agent.decode->cupti = &agent.cupti;
	agent.decode->names = agent.names;
	agent.decode->reduce = agent.reduce;
	return 0;
}

void window_fini(void)
{
	reduce_free(agent.reduce);
	rows_free(agent.rows);
	free(agent.decode);
	kernel_names_free(agent.names);
	agent.reduce = NULL;
	agent.rows = NULL;
	agent.decode = NULL;
	agent.names = NULL;
	agent.window = (struct window){ 0 };
}

void window_count(void)
{
	uint64_t record = agent.decode->stride
				  ? agent.decode->stride
				  : cupti_kernel_bytes(agent.cupti_version);
	uint64_t bytes = atomic_load(&agent.buffers.discarded_bytes) +
			 agent.decode->cut_bytes;

	agent.tick.kernel_records = agent.decode->kernels;
	agent.tick.bad_stamps = agent.decode->bad_stamps;
	agent.tick.records_dropped =
		agent.decode->bad_stamps + agent.decode->no_room +
		agent.cupti_dropped + agent.late_records + bytes / record +
		atomic_load(&agent.buffers.refused);
}

/* ---- open and close -------------------------------------------------------- */

static void cupti_failed(int err)
{
	if (err == CUPTI_E_MULTIPLE_SUBSCRIBERS)
		agent.displaced = true;
	else
		life_fail(REASON_CUPTI_ERROR, err);
}

/* The copies of the sampler are told apart by the ids of their calls. */
static int enable_copies(bool on)
{
	int err = agent.cupti.enable_callback(on, agent.subscriber,
					      CUPTI_DOMAIN_DRIVER,
					      CBID_MEMCPY_DTOH_ASYNC);

	if (!err)
		err = on ? agent.cupti.enable(CUPTI_KIND_MEMCPY)
			 : agent.cupti.disable(CUPTI_KIND_MEMCPY);
	return err;
}

static bool start_sampler(bool rows)
{
	int err;

	if (!rows || !agent.has_cuda || atomic_load(&agent.sampler.dead) ||
	    !atomic_load(&agent.context))
		return false;
	if (sampler_start()) {
		publish_text(TEXT_WARNING, "rows: no thread could be started");
		return false;
	}
	err = enable_copies(true);
	if (!err)
		return true;
	enable_copies(false);
	publish_text(TEXT_WARNING,
		     "rows: CUPTI error %d; none from this window", err);
	return false;
}

static void close_kinds(void)
{
	struct window *w = &agent.window;
	int err;

	if (w->sampling)
		sampler_pause();
	if (atomic_load(&agent.fatal))
		return;
	err = agent.cupti.disable(CUPTI_KIND_CONCURRENT_KERNEL);
	if (w->sampling && !err)
		err = enable_copies(false);
	if (err)
		cupti_failed(err);
}

/* Launches so far, but for those that only made a node of a graph. */
static int64_t launched(void)
{
	uint64_t launches = atomic_load(&agent.launches), captured, before;

	/* Both of one moment: this thread may lose its processor in between. */
	do {
		before = launches;
		captured = atomic_load(&agent.captured);
		launches = atomic_load(&agent.launches);
	} while (launches != before);
	return (int64_t)(launches - captured);
}

static void close_window(void)
{
	struct window *w = &agent.window;

	w->stage = WINDOW_DRAINING;
	w->end_ns = agent_now_ns();
	w->flush_ns = w->heard_ns = w->end_ns;
	w->ran = launched() - w->ran;
	agent.window_ns += w->end_ns - w->start_ns;
	close_kinds();
	life_move(LIFE_CLOSE);
}

/* ---- records --------------------------------------------------------------- */

/* How many kernel records came.  forced: buffers that are not full, too. */
static uint64_t flush(bool forced)
{
	uint64_t before = agent.decode->kernels;
	uint8_t *buffer;
	size_t valid, dropped = 0;
	int err;

	if (!atomic_load(&agent.fatal)) {
		err = agent.cupti.flush_all(forced);
		if (err)
			cupti_failed(err);
	}
	while ((buffer = buffers_take(&agent.buffers, &valid))) {
		if (!agent.decode->bad_layout && !atomic_load(&agent.fatal) &&
		    decode_buffer(agent.decode, buffer, valid))
			life_fail(REASON_BAD_RECORDS, 0);
		buffers_give(&agent.buffers, buffer);
	}
	if (!atomic_load(&agent.fatal) &&
	    agent.cupti.dropped(NULL, 0, &dropped) == CUPTI_OK)
		agent.cupti_dropped += dropped;
	window_count();
	agent.cupti_kernels += agent.decode->kernels - before;
	return agent.decode->kernels - before;
}

/*
 * What comes between two windows: of a kernel that outlasted the wait at the end
 * of its window, and beside other clients the whole buffer that it is in.  Of an
 * aborted window nothing is missed.
 */
static void take_late(void)
{
	struct window *w = &agent.window;
	uint64_t late = reduce_events(agent.reduce);

	flush(false);
	late = reduce_events(agent.reduce) - late;
	if (!late || !w->reported)
		return;
	agent.late_records += late;
	window_count();
	publish_text(TEXT_WARNING,
		     "window %u: %" PRIu64 " kernel records came after its "
		     "end; it does without them",
		     w->number, late);
}

void window_open(uint64_t now_ns, bool rows)
{
	struct window *w = &agent.window;
	int err = memory_make_buffers();

	if (err) {
		life_fail(REASON_RESOURCES, err);
		return;
	}
	take_late();
	reduce_begin(agent.reduce);
	decode_begin(agent.decode);
	rows_begin(agent.rows);
	err = agent.cupti.enable(CUPTI_KIND_CONCURRENT_KERNEL);
	if (err) {
		cupti_failed(err);
		return;
	}
	w->ran = launched();
	w->sampling = start_sampler(rows);
	w->stage = WINDOW_OPEN;
	w->reported = false;
	life_move(LIFE_OPEN);
	w->number++;
	w->start_ns = agent_now_ns();
	w->flush_ns = w->start_ns + FLUSH_NS;
	w->kernels_before = agent.decode->kernels;
	w->dropped_before = agent.tick.records_dropped;
	w->stamps_before = agent.decode->bad_stamps;
	w->totals = agent.totals;
	plan_opened(&agent.plan, now_ns);
	if (w->sampling)
		sampler_run();
}

/* ---- results --------------------------------------------------------------- */

static void learn(const struct reduce_result *w)
{
	uint32_t steps = w->phase_steps[PHASE_DECODE];
	uint64_t ns = w->step_ns[PHASE_DECODE];

	activity_set_layers(w->layers);
	if (!steps) {
		steps = w->phase_steps[PHASE_PREFILL];
		ns = w->step_ns[PHASE_PREFILL];
	}
	if (steps && w->layers)
		atomic_store(&agent.sampler.layer_ns, ns / steps / w->layers);
}

static void publish(const struct reduce_result *sums, uint32_t kernels)
{
	struct window *w = &agent.window;
	const struct rows_result *rows = NULL;
	uint64_t error_ns;
	int64_t offset;
	bool known;

	if (w->sampling) {
		rows = rows_end(agent.rows, agent.decode->copy,
				agent.decode->copies, sums, exact_is_proven());
		exact_judge(rows);
	}
	known = !atomic_load(&agent.fatal) &&
		clock_offset(&agent.cupti, &offset, &error_ns) == CUPTI_OK;
	learn(sums);
	publish_window(w->number, w->start_ns, w->end_ns,
		       known ? &offset : NULL, kernels, sums, rows);
}

/*
 * A window that misses records would show layers as faster than they are: it
 * gives no sums.  When the times of most records make no sense, this CUPTI life
 * is used up; when the next ones begin so, there is no use in more.
 */
static void throw_away(const struct reduce_result *sums, uint32_t kernels,
		       uint64_t lost)
{
	struct window *w = &agent.window;
	uint64_t bad = agent.decode->bad_stamps - w->stamps_before;
	uint32_t steps = sums->bad_steps;

	for (unsigned phase = 0; phase < PHASES; phase++)
		steps += sums->phase_steps[phase];
	publish_text(TEXT_WARNING,
		     "window %u: %" PRIu64 " of %" PRIu64 " kernel records "
		     "are lost (%" PRIu64 " without times); it is not used",
		     w->number, lost, kernels + lost - bad, bad);
	publish_lost_window(w->number, w->start_ns, w->end_ns, kernels, steps);
	if (2 * bad <= kernels)
		return;
	if (agent.cupti_kernels < agent.config.record_cap)
		agent.cupti_kernels = agent.config.record_cap;
	if (++agent.spoilt >= SPOILT_MOST)
		life_fail(REASON_RECORD_CAP, 0);
}

/* Work was launched, and CUPTI said nothing of it. */
static bool is_silent(uint32_t kernels, uint64_t lost)
{
	if (kernels || lost || agent.window.ran < SILENT_LAUNCHES)
		return false;
	publish_text(TEXT_WARNING,
		     "window %u: %" PRId64 " launches, and not one kernel "
		     "record of them came from CUPTI",
		     agent.window.number, agent.window.ran);
	return true;
}

static void report(void)
{
	struct window *w = &agent.window;
	const struct reduce_params p = {
		.layers = 0,
		.decode_hint = atomic_load(&agent.ring.h->control.decode_hint),
		.graphs_used = agent.graphs_used,
		.spans = atomic_load(&agent.ring.h->control.spans) == 1,
		.find_rows = activity_find_rows,
	};
	uint32_t kernels =
		(uint32_t)(agent.decode->kernels - w->kernels_before);
	uint64_t lost = agent.tick.records_dropped - w->dropped_before;
	const struct reduce_result *sums;

	activity_forget_rows();
	sums = reduce_end(agent.reduce, &p);
	agent.tick.windows = w->number;
	if (lost * LOSS_MOST > kernels) {
		throw_away(sums, kernels, lost);
		return;
	}
	if (is_silent(kernels, lost))
		publish_lost_window(w->number, w->start_ns, w->end_ns, 0, 0);
	else
		publish(sums, kernels);
	agent.spoilt = 0;
}

/* What it has cost decides when the next one may come. */
static void settle_costs(void)
{
	struct window *w = &agent.window;
	double slowdown = -1, budget;

	budget = 1e-6 * atomic_load(&agent.ring.h->control.budget_ppm);
	budget_slowdown(&agent.budget, &slowdown);
	plan_closed(&agent.plan, w->start_ns, w->end_ns, slowdown, budget,
		    &w->totals, &agent.totals);
	budget_age(&agent.budget);
}

static void finish(void)
{
	struct window *w = &agent.window;

	w->stage = WINDOW_CLOSED;
	w->reported = true;
	report();
	settle_costs();
	if (w->sampling && atomic_load(&agent.sampler.dead))
		publish_text(TEXT_WARNING,
			     "rows: CUDA error %d in the sampler; no rows from "
			     "now on",
			     atomic_load(&agent.sampler.error));
}

static void poll_open(uint64_t now_ns)
{
	struct window *w = &agent.window;
	uint64_t length = agent.config.window_ms * 1000000ull;

	if (now_ns >= w->flush_ns) {
		flush(false);
		w->flush_ns = now_ns + FLUSH_NS;
	}
	/* The rest of the room is for what comes after the end. */
	if (now_ns - w->start_ns >= length || atomic_load(&agent.fatal) ||
	    reduce_events(agent.reduce) >= agent.config.events / 4 * 3)
		close_window();
}

static void poll_draining(uint64_t now_ns)
{
	struct window *w = &agent.window;

	if (now_ns < w->flush_ns)
		return;
	if (flush(false))
		w->heard_ns = now_ns;
	w->flush_ns = now_ns + DRAIN_FLUSH_NS;
	if (!sampler_is_idle())
		return;
	if (now_ns - w->heard_ns < DRAIN_SILENCE_NS &&
	    now_ns - w->end_ns < DRAIN_MOST_NS)
		return;
	flush(true);
	finish();
}

void window_poll(uint64_t now_ns)
{
	if (agent.window.stage == WINDOW_OPEN)
		poll_open(now_ns);
	else if (agent.window.stage == WINDOW_DRAINING)
		poll_draining(now_ns);
}

void window_abort(void)
{
	struct window *w = &agent.window;

	if (w->stage == WINDOW_CLOSED)
		return;
	if (w->stage == WINDOW_OPEN)
		close_window();
	w->stage = WINDOW_CLOSED;
	settle_costs();
}
