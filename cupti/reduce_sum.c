#include "cupti/reduce_parts.h"

/* The layers of one step, as event indices. */
struct layout {
	uint32_t begin, end; /* events of the step */
	uint32_t owner;      /* of its anchors: 0, or the replay's index + 1 */
	uint32_t layers;
	uint32_t anchor[LAYERS_MAX];
	uint32_t closing[LAYERS_MAX];  /* last kernel of the block */
	uint32_t reader[LAYERS_MAX];   /* last that surely precedes reuse */
	uint64_t readable[LAYERS_MAX]; /* the ids are final from here on */
	uint64_t last_end;             /* of any kernel */
	bool experts;                  /* an expert GEMM since the anchor */
	bool left;                     /* a kernel outside the block since */
};

/* What never runs between two kernels of a block's own stream once its expert
 * GEMMs have begun. */
static bool is_outside(unsigned klass)
{
	return klass == CLASS_NORM || klass == CLASS_INDUCTOR ||
	       kernel_class_group(klass) == GROUP_ATTENTION;
}

/* The ids live until the block's function returns, so what closes the block may
 * read them, unless kernels of the next layer came first: among these may be
 * GEMMs that only look like the experts'. */
static void note_reader(struct layout *s, unsigned klass, uint32_t i)
{
	if (kernel_class_group(klass) == GROUP_EXPERT && klass != CLASS_ACT_MOE)
		s->experts = true;
	s->left |= s->experts && is_outside(klass);
	if (!s->left && kernel_class_closes(klass))
		s->reader[s->layers - 1] = i;
}

static void note_kernel(struct layout *s, const struct reduce *r, uint32_t i)
{
	const struct reduce_event *e = &r->ev[i];
	uint32_t l = s->layers - 1;

	if (event_end(e) > s->last_end)
		s->last_end = event_end(e);
	if (!s->layers || r->owner[i] != s->owner)
		return;
	if (kernel_class_closes(e->klass))
		s->closing[l] = i;
	note_reader(s, e->klass, i);
	/* Marks padding in place, or may write the ids once more. */
	if ((e->klass == CLASS_TOPK_PADFILL ||
	     kernel_class_is_anchor(e->klass)) &&
	    event_end(e) > s->readable[l])
		s->readable[l] = event_end(e);
}

/* False when there are more anchors than layers. */
static bool find_layers(const struct reduce *r, struct layout *s)
{
	for (uint32_t i = s->begin; i < s->end; i++) {
		const struct reduce_event *e = &r->ev[i];

		if (e->flags & EVENT_ANCHOR && r->owner[i] == s->owner) {
			if (s->layers == r->layers)
				return false;
			s->experts = s->left = false;
			s->anchor[s->layers] = i;
			s->readable[s->layers++] = event_end(e);
		}
		note_kernel(s, r, i);
	}
	return s->layers == r->layers;
}

/* ---- time ----------------------------------------------------------------- */

static void add_event(struct reduce_sum *sum, const struct reduce_event *e,
		      uint64_t *covered, uint64_t *busy)
{
	uint64_t from = e->start > *covered ? e->start : *covered;
	uint64_t end = event_end(e);

	sum->calls++;
	sum->sum_ns += e->length;
	if (end > from) {
		sum->union_ns += end - from;
		*busy += end - from;
		*covered = end;
	}
}

static void add_times(struct reduce *r, const struct layout *s, unsigned phase)
{
	struct reduce_result *out = &r->result;
	uint64_t covered = 0;
	uint32_t next = 0;

	for (uint32_t i = s->begin; i < s->end; i++) {
		const struct reduce_event *e = &r->ev[i];
		uint32_t layer = LAYERS_MAX;
		enum layer_part part = PART_BLOCK;

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
		add_event(&out->sum[phase][layer][part][e->klass], e, &covered,
			  &out->busy_ns[phase]);
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

static uint32_t add_cells(struct reduce *r, const struct layout *s,
			  const struct reduce_params *p,
			  struct reduce_step *step)
{
	struct reduce_result *out = &r->result;

	for (uint32_t l = 0; l < s->layers; l++) {
		struct reduce_cell *c = &out->cell[out->cells];
		const struct reduce_event *e = &r->ev[s->anchor[l]];

		if (out->cells == CELLS_MAX) {
			out->lost++;
			break;
		}
		*c = (struct reduce_cell){
			.from = s->readable[l],
			.until = cell_until(r, s, l),
			.step = out->steps,
			.layer = (uint16_t)l,
		};
		if (p->find_launch && p->find_launch(p->arg, e, &c->launch))
			c->launch.rows = 0;
		if (!step->tokens)
			step->tokens = c->launch.rows;
		out->cells++;
	}
	return out->cells - step->first_cell;
}

/* ---- steps ---------------------------------------------------------------- */

static enum phase step_phase(bool replay, uint32_t tokens,
			     const struct reduce_params *p)
{
	uint32_t hint = p->decode_hint;

	if (replay)
		return PHASE_DECODE;
	if (!tokens)
		return PHASE_PREFILL;
	if (hint)
		return tokens <= (uint64_t)hint + hint / 8 + 4 ? PHASE_DECODE
							       : PHASE_PREFILL;
	return !p->graphs_used && tokens <= 256 ? PHASE_DECODE : PHASE_PREFILL;
}

static uint64_t step_time(uint64_t start, uint64_t span, uint64_t next)
{
	return next - start <= 3 * span ? next - start : span;
}

static bool sum_step(struct reduce *r, const struct reduce_params *p,
		     const struct bound *b)
{
	struct layout s = { .begin = b->event,
			    .end = b[1].event,
			    .owner = b->replay ? r->owner[b->event] : 0 };
	struct reduce_result *out = &r->result;
	struct reduce_step *step = &out->step[out->steps];
	uint64_t start = r->ev[s.begin].start, time;
	enum phase phase;

	if (!find_layers(r, &s))
		return false;
	*step = (struct reduce_step){ .start = start,
				      .first_cell = out->cells };
	step->cells = add_cells(r, &s, p, step);
	phase = step_phase(b->replay, step->tokens, p);
	step->phase = (uint8_t)phase;
	add_times(r, &s, phase);
	out->steps++;
	out->phase_steps[phase]++;
	out->tokens[phase] += step->tokens;
	time = step_time(start, s.last_end - start, r->ev[s.end].start);
	out->step_ns[phase] += time;
	if (phase == PHASE_DECODE) {
		out->step_hist_ns += time;
		out->step_hist[hist_bucket(time)]++;
	}
	return true;
}

void reduce_sum_steps(struct reduce *r, const struct reduce_params *p)
{
	for (uint32_t i = 0; i + 1 < r->bounds; i++) {
		const struct bound *b = &r->bound[i];

		if (b->good && sum_step(r, p, b))
			continue;
		/* The first replay may be cut by the window's start. */
		if (i > 0 || !b->replay)
			r->result.bad_steps++;
	}
}
