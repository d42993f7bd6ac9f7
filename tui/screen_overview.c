#include <string.h>

#include "tui/overview.h"
#include "tui/tables.h"
#include "tui/widgets.h"

/* ---- verdict ------------------------------------------------------------- */

/* What to say when the model has no words of its own. */
static const char *regime_words(const struct snapshot *s)
{
	switch (s->regime) {
	case REGIME_IDLE:
		return "IDLE.  No kernels are running.";
	case REGIME_PREFILL:
		return "PREFILL.  Most of the time goes into reading prompts.";
	case REGIME_COMPUTE:
		return "COMPUTE-BOUND.  Arithmetic limits the step.";
	case REGIME_KV:
		return "KV-BOUND.  Reading the KV cache limits the step.";
	case REGIME_SOLO:
		return "SOLO.  One request at a time reads the experts.";
	case REGIME_VALLEY:
		return s->side == SIDE_NEAR  ? "IN THE VALLEY, near side."
		       : s->side == SIDE_FAR ? "IN THE VALLEY, far side."
					     : "IN THE VALLEY.";
	case REGIME_SHARED:
		return "SHARED.  Requests share the experts that they read.";
	case REGIME_UNKNOWN:
	case REGIMES:
		break;
	}
	return "NO VERDICT YET.  There is not enough evidence.";
}

static const char *verdict_line(const struct snapshot *s, unsigned i)
{
	bool wordless =
		!s->verdict[0][0] && !s->verdict[1][0] && !s->verdict[2][0];

	return wordless && i == 0 ? regime_words(s) : s->verdict[i];
}

static int verdict_rows(const struct view *v)
{
	int w = layout_verdict_width(v->grid.w), rows = 0;

	for (unsigned i = 0; i < 3; i++)
		rows += wrap_rows(&v->grid, verdict_line(&v->shot, i), w);
	return rows;
}

/* Bytes up to and with the first full stop that ends a sentence. */
static size_t first_sentence(const char *s)
{
	for (size_t i = 0; s[i]; i++)
		if (s[i] == '.' && (s[i + 1] == ' ' || !s[i + 1]))
			return i + 1;
	return strlen(s);
}

static void draw_verdict(struct view *v, struct rect r, bool boxed)
{
	static const char *const evidence[SOURCES] = {
		" measured ", " inferred ~ ", " modelled ≈ ", " scraped § "
	};
	struct rect text = { r.x + 2, r.y, r.w - 4, r.h };
	unsigned source = v->shot.regime_source;
	int y = 0;

	if (boxed) {
		grid_box(&v->grid, r, STYLE_FRAME);
		grid_text(&v->grid, r, 2, 0, STYLE_TITLE, " verdict ");
		if (v->shot.regime != REGIME_UNKNOWN && source < SOURCES)
			text_right(&v->grid, r, 2, 0, r.w - 4, STYLE_DIM,
				   evidence[source]);
		text.y++;
		text.h -= 2;
	}
	for (unsigned i = 0; i < 3; i++) {
		const char *line = verdict_line(&v->shot, i);
		y += wrap_draw(&v->grid, text, y, line,
			       i == 0 ? first_sentence(line) : 0);
	}
}

/* ---- findings and layers ------------------------------------------------- */

static unsigned n_findings(const struct snapshot *s)
{
	return s->n_findings < SNAPSHOT_FINDINGS_MAX ? s->n_findings
						     : SNAPSHOT_FINDINGS_MAX;
}

static void draw_finding(struct view *v, struct rect r, int y,
			 const struct finding *f)
{
	static const struct {
		const char *sign;
		enum style style;
	} marks[] = {
		[SEVERITY_INFO] = { "·", STYLE_DIM },
		[SEVERITY_NOTICE] = { "•", STYLE_NORMAL },
		[SEVERITY_WARNING] = { "!", STYLE_WARN },
	};
	unsigned severity =
		f->severity <= SEVERITY_WARNING ? f->severity : SEVERITY_INFO;
	char gain[NUMBER_TEXT], text[NUMBER_TEXT + 16] = "";
	int w = 0;

	if (value_known(f->gain)) {
		format_value(gain, f->gain, NUMBER_PERCENT_WHOLE);
		snprintf(text, sizeof(text), "saves ≤ %s", gain);
		w = grid_width(&v->grid, text, strlen(text));
	}
	grid_text(&v->grid, r, 1, y, marks[severity].style,
		  marks[severity].sign);
	text_cut(&v->grid, r, 3, y, r.w - w - 6, STYLE_NORMAL, f->text);
	grid_text(&v->grid, r, r.w - w - 1, y, STYLE_STRONG, text);
}

static void draw_findings(struct view *v, struct rect r)
{
	unsigned n = n_findings(&v->shot);
	char note[32] = "";

	if (r.h < 2)
		return;
	if ((int)n > r.h - 1)
		snprintf(note, sizeof(note), "%d of %u", r.h - 1, n);
	rule_draw(&v->grid, r, "findings", note);
	for (int i = 0; i < (int)n && i < r.h - 1; i++)
		draw_finding(v, r, 1 + i, &v->shot.findings[i]);
}

static struct rect below_rule(struct rect r)
{
	return (struct rect){ r.x + 1, r.y + 1, r.w - 2, r.h - 1 };
}

static void draw_tables(struct view *v, const struct overview_layout *l)
{
	struct rect layers = l->part[PART_LAYERS];
	struct rect classes = l->part[PART_CLASSES];
	struct layer_order lo;
	struct class_order co;
	struct table t;

	if (layers.h > 1 && layers.w > 0) {
		layer_table(&v->shot, true, &lo, &t);
		t.footer = 0;
		rule_draw(&v->grid, layers, "layers", "slowest first");
		table_draw(&v->grid, below_rule(layers), &t);
	}
	if (classes.h > 1 && classes.w > 0) {
		class_table(&v->shot, &co, &t);
		t.footer = 0;
		rule_draw(&v->grid, classes, "kernel classes",
			  "most expensive first");
		table_draw(&v->grid, below_rule(classes), &t);
	}
}

static void overview_draw(struct view *v, struct rect body)
{
	struct overview_layout l;
	struct overview_needs needs = {
		.verdict_rows = verdict_rows(v),
		.findings = (int)n_findings(&v->shot),
		.strips = overview_strip_count(&v->shot),
		.layers = (int)v->shot.n_layers,
		.classes = (int)v->shot.n_classes,
		.graphs = OVERVIEW_GRAPHS,
		.server = overview_has_server(&v->shot),
	};

	layout_overview(body, &needs, &l);
	draw_verdict(v, l.part[PART_VERDICT], l.boxed);
	overview_bars(v, l.part[PART_BARS]);
	overview_step(v, l.part[PART_STEP]);
	overview_requests(v, l.part[PART_REQUESTS]);
	overview_history(v, l.part[PART_HISTORY], &l);
	draw_findings(v, l.part[PART_FINDINGS]);
	overview_strips(v, l.part[PART_STRIPS]);
	draw_tables(v, &l);
}

const struct screen screen_overview = {
	.title = "overview",
	.key = '1',
	.draw = overview_draw,
};
