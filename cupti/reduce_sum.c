#include "cupti/reduce_parts.h"

#define LONG_STEP 1.25 /* times the short ones: it has a prompt */

/* The layers of one step, as event indices. */
struct layout {
	uint32_t begin, end; /* events of the step */
	uint32_t owner;      /* of its anchors: 0, or the replay's index + 1 */
	uint32_t layers;     /* draft layers too */
	uint32_t anchor[LAYERS_MAX];
	uint32_t closing[LAYERS_MAX];  /* last kernel of the block */
	uint32_t reader[LAYERS_MAX];   /* last that surely precedes reuse */
	uint64_t readable[LAYERS_MAX]; /* the ids are final from here on */
	uint64_t gemm_from[LAYERS_MAX], gemm_until[LAYERS_MAX];
	uint64_t last_end; /* of any kernel */
	bool experts;      /* an expert GEMM since the anchor */
	bool left;         /* a kernel outside the block since */
};

/* The ids live until the block's function returns, so what closes the block may
 * read them, unless kernels of the next layer came first: among these may be
 * GEMMs that only look like the experts'. */
static void note_reader(struct layout *s, const struct reduce_event *e,
			uint32_t i)
{
	uint32_t l = s->layers - 1;

	if (is_expert_gemm(e->klass)) {
		if (!s->experts)
			s->gemm_from[l] = e->start;
		s->experts = true;
		if (!s->left)
			s->gemm_until[l] = event_end(e);
	}
	s->left |= s->experts && is_outside(e->klass);
	if (!s->left && kernel_class_closes(e->klass))
		s->reader[l] = i;
}

/* Of the replay that is the step or, in its draft layers, of what follows it.
 * Another stream's kernels may come between, which are of no layer. */
static bool is_of_step(const struct reduce *r, const struct layout *s,
		       uint32_t i)
{
	uint32_t owner = s->layers > r->layers ? 0 : s->owner;

	return r->owner[i] == owner;
}

static void note_kernel(struct layout *s, const struct reduce *r, uint32_t i)
{
	const struct reduce_event *e = &r->ev[i];
	uint32_t l = s->layers - 1;

	if (event_end(e) > s->last_end)
		s->last_end = event_end(e);
	if (!s->layers || !is_of_step(r, s, i))
		return;
	if (kernel_class_closes(e->klass))
		s->closing[l] = i;
	note_reader(s, e, i);
	/* Marks padding in place, or may write the ids once more. */
	if ((e->klass == CLASS_TOPK_PADFILL ||
	     kernel_class_is_anchor(e->klass)) &&
	    event_end(e) > s->readable[l])
		s->readable[l] = event_end(e);
}

/* Is event i the anchor of the next layer? */
static bool is_next(const struct reduce *r, const struct layout *s, uint32_t i)
{
	uint32_t owner = s->layers >= r->layers ? 0 : s->owner;

	return r->ev[i].flags & EVENT_ANCHOR && r->owner[i] == owner;
}

/* False when there are more anchors than layers, or fewer. */
static bool find_layers(const struct reduce *r, struct layout *s)
{
	uint32_t most = r->layers + r->draft;

	for (uint32_t i = s->begin; i < s->end; i++) {
		const struct reduce_event *e = &r->ev[i];

		if (is_next(r, s, i)) {
			if (s->layers == most)
				return false;
			s->experts = s->left = false;
			s->anchor[s->layers] = i;
			s->readable[s->layers++] = event_end(e);
		}
		note_kernel(s, r, i);
	}
	/* A prompt may be read without the draft model. */
	return s->layers == most || (!s->owner && s->layers == r->layers);
}

/* ---- spans ---------------------------------------------------------------- */

static void add_span(struct reduce_result *out, uint64_t start, uint64_t end,
		     uint32_t layer, unsigned group)
{
	if (out->spans == REDUCE_SPANS_MAX || end <= start)
		return;
	out->span[out->spans++] = (struct reduce_span){
		.start = start,
		.length = end - start < UINT32_MAX ? (uint32_t)(end - start)
						   : UINT32_MAX,
		.layer = layer == LAYERS_MAX ? LAYER_NONE : (uint16_t)layer,
		.group = (uint16_t)group,
	};
}

/* What lies between two bounds is no whole decode step. */
static void add_unknown(struct reduce *r, uint32_t begin, uint32_t end)
{
	if (begin < end)
		add_span(&r->result, r->ev[begin].start,
			 end < r->n ? r->ev[end].start
				    : event_end(&r->ev[end - 1]),
			 LAYERS_MAX, SPAN_UNKNOWN);
}

/* ---- time ----------------------------------------------------------------- */

/* Time that this event covers first, which ends when it does; 0 none. */
static uint64_t add_event(struct reduce_sum *sum, const struct reduce_event *e,
			  uint64_t *covered)
{
	uint64_t from = e->start > *covered ? e->start : *covered;
	uint64_t end = event_end(e);

	sum->calls++;
	sum->sum_ns += e->length;
	if (end <= from)
		return 0;
	sum->union_ns += end - from;
	*covered = end;
	return end - from;
}

/* Did the host launch this kernel, or the graph that it begins?  replay: the
 * correlation of the replay that was seen last. */
static bool is_launch(const struct reduce_event *e, uint32_t *replay)
{
	if (!e->graph)
		return true;
	if (e->correlation == *replay)
		return false;
	*replay = e->correlation;
	return true;
}

static void add_times(struct reduce *r, const struct layout *s, unsigned phase,
		      bool spans)
{
	struct reduce_result *out = &r->result;
	uint64_t covered = 0, new;
	uint32_t next = 0, replay = 0;

	for (uint32_t i = s->begin; i < s->end; i++) {
		const struct reduce_event *e = &r->ev[i];
		uint32_t layer = LAYERS_MAX;
		enum layer_part part = PART_BLOCK;

		if (is_launch(e, &replay))
			out->launches[phase]++;

		if (next < s->layers && i == s->anchor[next])
			next++;
		if (next &&
		    (i <= s->closing[next - 1] ||
		     e->start < event_end(&r->ev[s->closing[next - 1]]))) {
			layer = next - 1;
		} else if (next < s->layers) {
			layer = next;
			part = PART_BEFORE;
		}
		new = add_event(&out->sum[phase][layer][part][e->klass], e,
				&covered);
		out->busy_ns[phase] += new;
		if (spans)
			add_span(out, event_end(e) - new, event_end(e), layer,
				 kernel_class_group(e->klass));
	}
}

/* ---- cells ---------------------------------------------------------------- */

static uint64_t cell_until(const struct reduce *r, const struct layout *s,
			   uint32_t l)
{
	uint64_t until = event_end(&r->ev[s->reader[l]]);
	uint64_t next;

	if (l + 1 == s->layers)
		return until;
	next = r->ev[s->anchor[l + 1]].start;
	return next < until ? next : until;
}

static void add_cell(const struct reduce *r, const struct layout *s,
		     const struct reduce_params *p, uint32_t l,
		     struct reduce_cell *c)
{
	uint32_t first = s->anchor[l];
	uint32_t end = l + 1 < s->layers ? s->anchor[l + 1] : s->end;
	uint64_t until = cell_until(r, s, l);

	*c = (struct reduce_cell){
		.from = s->readable[l],
		.until = until,
		.gemm_from = s->gemm_from[l],
		.gemm_until =
			s->gemm_until[l] < until ? s->gemm_until[l] : until,
		.step = r->result.steps,
		.layer = (uint16_t)l,
	};
	if (p->find_rows &&
	    p->find_rows(p->arg, &r->ev[first], end - first, &c->at))
		c->at.rows.what = ROWS_NONE;
}

static uint32_t add_cells(struct reduce *r, const struct layout *s,
			  const struct reduce_params *p,
			  struct reduce_step *step)
{
	struct reduce_result *out = &r->result;

	for (uint32_t l = 0; l < s->layers; l++) {
		struct reduce_cell *c = &out->cell[out->cells];

		if (out->cells == CELLS_MAX) {
			out->lost++;
			break;
		}
		add_cell(r, s, p, l, c);
		if (!step->tokens && c->at.rows.what)
			step->tokens = c->at.rows.rows;
		out->cells++;
	}
	return out->cells - step->first_cell;
}

/* ---- steps ---------------------------------------------------------------- */

/* Kernel time between two bounds. */
static uint64_t kernel_ns(const struct reduce *r, uint32_t begin, uint32_t end)
{
	uint64_t ns = 0;

	for (uint32_t i = begin; i < end; i++)
		ns += r->ev[i].length;
	return ns;
}

/*
 * Replays of whole steps are decode steps, and where there are such, all else
 * has prompts, unless it has no more rows than streams are decoded.  Otherwise
 * the rows decide; where they are unknown, most steps are decode steps, and
 * those whose kernels take longer are not.
 */
static enum phase step_phase(const struct reduce *r, bool replay,
			     uint32_t tokens, const struct layout *s,
			     const struct reduce_params *p)
{
	bool graphs = p->graphs_used || r->graph_layers;
	uint64_t most = p->decode_hint + p->decode_hint / 8 + 4ull;

	if (replay)
		return PHASE_DECODE;
	if (tokens && p->decode_hint)
		return tokens <= most ? PHASE_DECODE : PHASE_PREFILL;
	if (tokens)
		return !graphs && tokens <= 256 ? PHASE_DECODE : PHASE_PREFILL;
	if (graphs)
		return PHASE_PREFILL;
	return (double)kernel_ns(r, s->begin, s->end) <=
			       LONG_STEP * (double)r->short_step_ns
		       ? PHASE_DECODE
		       : PHASE_PREFILL;
}

static uint64_t step_time(uint64_t start, uint64_t span, uint64_t next)
{
	return next - start <= 3 * span ? next - start : span;
}

static void add_step(struct reduce *r, const struct reduce_params *p,
		     const struct bound *b, const struct layout *s)
{
	struct reduce_result *out = &r->result;
	struct reduce_step *step = &out->step[out->steps];
	uint64_t start = r->ev[s->begin].start, span = s->last_end - start;
	uint64_t time = step_time(start, span, r->ev[s->end].start);
	enum phase phase;

	*step = (struct reduce_step){ .start = start,
				      .next = r->ev[s->end].start,
				      .first_cell = out->cells };
	step->cells = add_cells(r, s, p, step);
	phase = step_phase(r, b->replay, step->tokens, s, p);
	step->phase = (uint8_t)phase;
	add_times(r, s, phase, p->spans && phase == PHASE_DECODE);
	if (p->spans && phase != PHASE_DECODE)
		add_unknown(r, s->begin, s->end);
	out->steps++;
	out->phase_steps[phase]++;
	out->tokens[phase] += step->tokens;
	out->kernels[phase] += s->end - s->begin;
	out->span_ns[phase] += span;
	out->step_ns[phase] += time;
	if (phase == PHASE_DECODE) {
		out->step_hist_ns += time;
		out->step_hist[hist_bucket(time)]++;
	}
}

/* The step between two bounds; false: it is not whole. */
static bool sum_step(struct reduce *r, const struct reduce_params *p,
		     const struct bound *b)
{
	struct layout s = { .begin = b->event,
			    .end = b[1].event,
			    .owner = b->replay ? r->owner[b->event] : 0 };

	if (!find_layers(r, &s))
		return false;
	add_step(r, p, b, &s);
	return true;
}

/* The kernel time that a quarter of the eager steps do not reach. */
static uint64_t find_short_step(const struct reduce *r)
{
	uint32_t bucket[HIST_BUCKETS] = { 0 }, steps = 0, below = 0;

	for (uint32_t i = 0; i + 1 < r->bounds; i++) {
		const struct bound *b = &r->bound[i];

		if (b->replay)
			continue;
		bucket[hist_bucket(kernel_ns(r, b->event, b[1].event))]++;
		steps++;
	}
	for (uint32_t b = 0; b < HIST_BUCKETS; b++) {
		below += bucket[b];
		if (below > steps / 4)
			return hist_bucket_low_ns(b + 1);
	}
	return 0;
}

/* What lies before the first step and after the last. */
static void count_edges(struct reduce *r)
{
	struct reduce_result *out = &r->result;
	uint32_t first = r->bounds ? r->bound[0].event : (uint32_t)r->n;
	uint32_t last = r->bounds ? r->bound[r->bounds - 1].event : 0;
	uint32_t after = r->bounds ? (uint32_t)r->n - last : 0;

	out->edge_kernels = first + after;
	out->edge_steps = (first ? 1u : 0) + (after ? 1u : 0);
}

void reduce_sum_steps(struct reduce *r, const struct reduce_params *p)
{
	struct reduce_result *out = &r->result;

	count_edges(r);
	r->short_step_ns = find_short_step(r);
	for (uint32_t i = 0; i + 1 < r->bounds; i++) {
		const struct bound *b = &r->bound[i];
		uint32_t kernels = b[1].event - b->event;

		if (b->good && sum_step(r, p, b))
			continue;
		if (p->spans)
			add_unknown(r, b->event, b[1].event);
		/* The first replay may be cut by the window's start. */
		if (i == 0 && b->replay) {
			out->edge_kernels += kernels;
			out->edge_steps +=
				!out->edge_steps || r->bound[0].event == 0;
			continue;
		}
		out->bad_steps++;
		out->bad_kernels += kernels;
	}
}
