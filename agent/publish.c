#include "agent/publish.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/state.h"

static void put(struct record *r, enum record_type type)
{
	r->type = type;
	r->time_ns = agent_now_ns();
	ring_write(&agent.ring, r);
}

void publish_text(enum text_level level, const char *format, ...)
{
	struct record r = { 0 };
	va_list ap;

	r.text.level = level;
	va_start(ap, format);
	vsnprintf(r.text.text, sizeof(r.text.text), format, ap);
	va_end(ap);
	put(&r, REC_TEXT);
}

static bool has_doubled(uint64_t now, uint64_t before)
{
	return now > before && now >= 2 * before;
}

static struct {
	uint64_t launches;
	uint32_t functions, nodes;
} said;

void publish_reset(void)
{
	memset(&said, 0, sizeof(said));
}

/* What found no room so far.  Seldom: a full table may lose with each launch. */
static void publish_losses(const struct graph_map_counts *c)
{
	uint32_t overflow = atomic_load(&agent.functions->overflow);
	uint64_t launches = agent.log->lost + c->execs_lost;

	if (!has_doubled(launches, said.launches) &&
	    !has_doubled(overflow, said.functions) &&
	    !has_doubled(c->overflow, said.nodes))
		return;
	said.launches = launches;
	said.functions = overflow;
	said.nodes = c->overflow;
	publish_text(TEXT_WARNING,
		     "lost so far: %" PRIu64 " launches, %u of kernels "
		     "beyond the table, %u graph nodes",
		     said.launches, said.functions, said.nodes);
}

void publish_status(void)
{
	struct record r = { 0 };
	struct graph_map_counts c = { 0 };

	if (agent.map)
		graph_map_count(agent.map, &c);
	r.status = (struct rec_status){
		.state = agent.state,
		.reason = agent.reason,
		.detail = agent.detail,
		.cupti_version = agent.cupti_version,
		.driver_version = agent.driver_version,
		.device = agent.device,
		.graphs = c.execs,
		.graph_nodes = c.kernel_nodes,
		.late = atomic_load(&agent.late),
		.experts = agent.experts,
		.top_k = agent.top_k,
		.moe_layers = agent.moe_layers,
	};
	memcpy(r.status.device_name, agent.device_name,
	       sizeof(r.status.device_name));
	put(&r, REC_STATUS);
	if (agent.log && agent.functions && agent.map)
		publish_losses(&c);
}

void publish_tick(void)
{
	struct record r = { .tick = agent.tick };

	put(&r, REC_TICK);
}

/* ---- windows --------------------------------------------------------------- */

static void put_layer(uint32_t number, unsigned phase, unsigned layer,
		      const struct reduce_result *w)
{
	for (unsigned part = PART_BLOCK; part <= PART_BEFORE; part++) {
		for (unsigned k = 0; k < CLASSES; k++) {
			const struct reduce_sum *s =
				&w->sum[phase][layer][part][k];
			struct record r = { 0 };

			if (!s->calls)
				continue;
			r.layer = (struct rec_layer){
				.window = number,
				.phase = (uint16_t)phase,
				.layer = layer == LAYERS_MAX ? LAYER_NONE
							     : (uint16_t)layer,
				.klass = (uint16_t)k,
				.part = (uint16_t)part,
				.steps = w->phase_steps[phase],
				.calls = s->calls,
				.sum_ns = s->sum_ns,
				.union_ns = s->union_ns,
			};
			put(&r, REC_LAYER);
		}
	}
}

static void put_phase(uint32_t number, unsigned phase,
		      const struct reduce_result *w)
{
	struct record r = { 0 };

	r.steps = (struct rec_steps){
		.window = number,
		.phase = (uint16_t)phase,
		.steps = w->phase_steps[phase],
		.kernels = w->kernels[phase],
		.launches = w->launches[phase],
		.span_ns = w->span_ns[phase],
		.busy_ns = w->busy_ns[phase],
		.step_ns = w->step_ns[phase],
	};
	put(&r, REC_STEPS);
}

static void put_experts(uint32_t number, unsigned phase, unsigned layer,
			const uint32_t *rows, uint32_t experts)
{
	for (uint32_t e = 0; e < experts; e += EXPERTS_PER_RECORD) {
		struct record r = { 0 };
		uint32_t n = experts - e;

		n = n < EXPERTS_PER_RECORD ? n : EXPERTS_PER_RECORD;
		r.experts = (struct rec_experts){
			.window = number,
			.phase = (uint16_t)phase,
			.layer = (uint16_t)layer,
			.first = (uint16_t)e,
			.count = (uint16_t)n,
		};
		memcpy(r.experts.rows, rows + e, n * sizeof(*rows));
		put(&r, REC_EXPERTS);
	}
}

static uint32_t saturate(uint64_t n)
{
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void put_rows(uint32_t number, unsigned phase, unsigned layer,
		     const struct layer_rows *l)
{
	struct record r = { 0 };

	r.rows = (struct rec_rows){
		.window = number,
		.phase = (uint16_t)phase,
		.layer = (uint16_t)layer,
		.cells = l->cells,
		.experts = l->experts,
		.rows = l->rows,
		.active = l->active,
		.single = l->single,
		.twice = l->twice,
		.sum_squares = l->sum_squares,
		.max_rows = l->max_rows,
		.tokens = l->tokens,
		.padded_rows = l->padded_rows,
		.exact_cells = l->exact_cells,
		.direct_cells = l->direct_cells,
		.blocks = l->blocks,
		.placed_cells = l->placed_cells,
		.placed_experts = (uint16_t)l->placed_experts,
		.placed_rows = saturate(l->placed_rows),
		.placed_active = saturate(l->placed_active),
		.dropped = (uint16_t)(l->tokens ? l->dropped / l->tokens : 0),
	};
	put(&r, REC_ROWS);
}

static void put_steps(uint32_t number, int64_t offset_ns,
		      const struct reduce_result *w,
		      const struct rows_result *rows)
{
	for (uint32_t i = 0; i < w->steps; i++) {
		const struct step_rows *s = &rows->step[i];
		struct record r = { 0 };

		if (!s->cells)
			continue;
		r.step_rows = (struct rec_step_rows){
			.window = number,
			.phase = w->step[i].phase,
			.cells = (uint16_t)s->cells,
			.start_ns = w->step[i].start + (uint64_t)offset_ns,
			.layer_mask = { s->mask[0], s->mask[1] },
			.rows = s->rows,
			.active = s->active,
			.single = s->single,
		};
		put(&r, REC_STEP_ROWS);
	}
}

/* Eight at a time, and no further apart than their fields can say. */
static void put_spans(uint32_t number, int64_t offset_ns,
		      const struct reduce_result *w)
{
	struct record r = { 0 };
	uint64_t base = 0;

	for (uint32_t i = 0; i < w->spans; i++) {
		const struct reduce_span *s = &w->span[i];
		struct rec_spans *out = &r.spans;

		if (out->count && (out->count == SPANS_PER_RECORD ||
				   s->start - base > UINT32_MAX)) {
			put(&r, REC_SPANS);
			r = (struct record){ 0 };
		}
		if (!out->count) {
			base = s->start;
			out->window = number;
			out->base_ns = base + (uint64_t)offset_ns;
		}
		out->span[out->count].start_ns = (uint32_t)(s->start - base);
		out->span[out->count].length_ns = s->length;
		out->span[out->count].layer = s->layer;
		out->span[out->count++].group = s->group;
	}
	if (r.spans.count)
		put(&r, REC_SPANS);
}

/* Runs of buckets that hold something; the first carries the sum. */
static void put_hist(uint32_t number, enum hist_what what, uint64_t sum,
		     const uint32_t *buckets, uint32_t n)
{
	for (uint32_t b = 0; b < n;) {
		struct record r = { 0 };
		uint32_t count =
			n - b < HIST_PER_RECORD ? n - b : HIST_PER_RECORD;

		if (!buckets[b]) {
			b++;
			continue;
		}
		r.hist = (struct rec_hist){ .window = number,
					    .what = (uint16_t)what,
					    .first = (uint16_t)b,
					    .count = (uint16_t)count,
					    .sum = sum };
		memcpy(r.hist.buckets, buckets + b, count * sizeof(*buckets));
		put(&r, REC_HIST);
		sum = 0;
		b += count;
	}
}

static void put_window(uint32_t number, uint64_t start_ns, uint64_t end_ns,
		       uint32_t kernels, const struct reduce_result *w,
		       const struct rows_result *rows)
{
	struct record r = { 0 };

	r.window = (struct rec_window){
		.window = number,
		.layers_seen = w->layers,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.cells_rejected = rows ? rows->rejected : 0,
		.cells_lost = rows ? rows->lost : 0,
		.bad_steps = w->bad_steps + w->lost,
		.kernels = kernels,
		.draft_layers = w->draft_layers,
		.bad_kernels = w->bad_kernels,
		.edge_kernels = w->edge_kernels,
		.edge_steps = w->edge_steps,
	};
	memcpy(r.window.phase_steps, w->phase_steps, sizeof(w->phase_steps));
	memcpy(r.window.step_ns, w->step_ns, sizeof(w->step_ns));
	memcpy(r.window.busy_ns, w->busy_ns, sizeof(w->busy_ns));
	memcpy(r.window.tokens, w->tokens, sizeof(w->tokens));
	put(&r, REC_WINDOW);
}

void publish_window(uint32_t number, uint64_t start_ns, uint64_t end_ns,
		    const int64_t *offset_ns, uint32_t kernels,
		    const struct reduce_result *w,
		    const struct rows_result *rows)
{
	for (unsigned phase = 0; phase < PHASES; phase++) {
		if (w->phase_steps[phase])
			put_phase(number, phase, w);
		for (unsigned l = 0; l <= LAYERS_MAX; l++)
			if (w->phase_steps[phase])
				put_layer(number, phase, l, w);
		for (unsigned l = 0; rows && l < LAYERS_MAX; l++) {
			const struct layer_rows *n = &rows->layer[phase][l];

			if (!n->cells)
				continue;
			put_rows(number, phase, l, n);
			put_experts(number, phase, l, rows->expert[phase][l],
				    n->experts);
		}
	}
	put_hist(number, HIST_STEP_NS, w->step_hist_ns, w->step_hist,
		 HIST_BUCKETS);
	if (rows) {
		put_hist(number, HIST_ROWS, rows->rows_hist_rows,
			 rows->rows_hist, ROWS_BUCKETS);
		if (offset_ns)
			put_steps(number, *offset_ns, w, rows);
	}
	if (offset_ns)
		put_spans(number, *offset_ns, w);
	put_window(number, start_ns, end_ns, kernels, w, rows);
}

void publish_lost_window(uint32_t number, uint64_t start_ns, uint64_t end_ns,
			 uint32_t kernels, uint32_t steps)
{
	struct record r = { 0 };

	r.window = (struct rec_window){ .window = number,
					.start_ns = start_ns,
					.end_ns = end_ns,
					.bad_steps = steps,
					.kernels = kernels,
					.bad_kernels = kernels };
	put(&r, REC_WINDOW);
}
