#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/explain.h"
#include "tui/tables.h"

/* ---- endpoints ------------------------------------------------------------ */

enum endpoint_column {
	ENDPOINT_NAME,
	ENDPOINT_WAITING,
	ENDPOINT_STREAMING,
	ENDPOINT_STARTED,
	ENDPOINT_OK,
	ENDPOINT_4XX,
	ENDPOINT_5XX,
	ENDPOINT_CLIENT,
	ENDPOINT_SERVER,
	ENDPOINT_EVENTS,
	ENDPOINT_GUESSED,
	ENDPOINT_COLUMNS
};

static const struct table_column endpoint_columns[ENDPOINT_COLUMNS] = {
	[ENDPOINT_NAME] = { .title = "endpoint", .w = 15, .left = true },
	[ENDPOINT_WAITING] = { .title = "waiting", .w = 7 },
	[ENDPOINT_STREAMING] = { .title = "streaming", .w = 9 },
	[ENDPOINT_STARTED] = { .title = "started", .w = 8, .rank = 3 },
	[ENDPOINT_OK] = { .title = "done ok", .w = 8, .rank = 2 },
	[ENDPOINT_4XX] = { .title = "4xx", .w = 6, .rank = 1 },
	[ENDPOINT_5XX] = { .title = "5xx", .w = 6, .rank = 1 },
	[ENDPOINT_CLIENT] = { .title = "client left", .w = 11, .rank = 4 },
	[ENDPOINT_SERVER] = { .title = "server cut", .w = 10, .rank = 4 },
	[ENDPOINT_EVENTS] = { .title = "events", .w = 8, .rank = 5 },
	[ENDPOINT_GUESSED] = { .title = "from before", .w = 11, .rank = 6 },
};

/* In the order of what they are to the load. */
static const struct {
	unsigned endpoint; /* enum endpoint of wire/requests.h */
	const char *name;
} endpoints[SNAPSHOT_ENDPOINTS] = {
	{ 1, "generation" },
	{ 2, "pooling" },
	{ 0, "other" },
	{ 3, "health, models" },
};

static bool used(const uint64_t counts[REQUEST_COUNTS])
{
	for (unsigned i = 0; i < REQUEST_COUNTS; i++)
		if (counts[i])
			return true;
	return false;
}

/* Completed with no error. */
static uint64_t well(const uint64_t counts[REQUEST_COUNTS])
{
	uint64_t failed =
		counts[REQUESTS_FAILED_4XX] + counts[REQUESTS_FAILED_5XX];

	return counts[REQUESTS_COMPLETED] > failed
		       ? counts[REQUESTS_COMPLETED] - failed
		       : 0;
}

static void count_cell(struct table_cell *out, uint64_t n, enum style some)
{
	cell_value(out, value_make((double)n, SOURCE_MEASURED), NUMBER_COUNT);
	out->style = n ? some : STYLE_DIM;
}

static void endpoint_cell(const void *context, int row, unsigned column,
			  struct table_cell *out)
{
	static const int counts[ENDPOINT_COLUMNS] = {
		[ENDPOINT_WAITING] = REQUESTS_WAITING,
		[ENDPOINT_STREAMING] = REQUESTS_STREAMING,
		[ENDPOINT_STARTED] = REQUESTS_STARTED,
		[ENDPOINT_4XX] = REQUESTS_FAILED_4XX,
		[ENDPOINT_5XX] = REQUESTS_FAILED_5XX,
		[ENDPOINT_CLIENT] = REQUESTS_CLIENT_ABORTED,
		[ENDPOINT_SERVER] = REQUESTS_SERVER_ABORTED,
		[ENDPOINT_EVENTS] = REQUESTS_EVENTS,
		[ENDPOINT_GUESSED] = REQUESTS_GUESSED,
	};
	const struct endpoint_order *o = context;
	unsigned which = o->row[row];
	const uint64_t *c = o->s->requests.counts[endpoints[which].endpoint];
	bool bad = column == ENDPOINT_5XX || column == ENDPOINT_SERVER;

	if (column == ENDPOINT_NAME)
		snprintf(out->text, sizeof(out->text), "%s",
			 endpoints[which].name);
	else if (column == ENDPOINT_OK)
		count_cell(out, well(c), STYLE_NORMAL);
	else
		count_cell(out, c[counts[column]],
			   bad ? STYLE_BAD : STYLE_NORMAL);
}

void endpoint_table(const struct snapshot *s, struct endpoint_order *o,
		    struct table *t)
{
	*o = (struct endpoint_order){ .s = s };
	for (unsigned i = 0; i < SNAPSHOT_ENDPOINTS; i++)
		if (i == 0 || used(s->requests.counts[endpoints[i].endpoint]))
			o->row[o->n++] = (unsigned char)i;
	*t = (struct table){
		.columns = endpoint_columns,
		.n_columns = ENDPOINT_COLUMNS,
		.rows = (int)o->n,
		.sorted = -1,
		.cell = endpoint_cell,
		.context = o,
	};
}

/* ---- latencies ------------------------------------------------------------ */

static const struct latency {
	const char *name;
	enum histogram_id id;
	const char *help;
} latencies[] = {
	{ "TTFT", HISTOGRAM_TTFT, "head complete to first body byte" },
	{ "gap", HISTOGRAM_EVENT_GAP, "between two events of a stream" },
	{ "duration", HISTOGRAM_DURATION, "head complete to end of response" },
};
#define LATENCIES ((int)(sizeof(latencies) / sizeof(*latencies)))

enum latency_column { NAME, COUNT, MEAN, P50, P90, P99, HELP, LATENCY_COLUMNS };

static const struct table_column latency_columns[LATENCY_COLUMNS] = {
	[NAME] = { .title = "last minute", .w = 15, .left = true },
	[COUNT] = { .title = "count", .w = 8, .rank = 3 },
	[MEAN] = { .title = "mean", .w = 9, .rank = 2 },
	[P50] = { .title = "p50", .w = 9 },
	[P90] = { .title = "p90", .w = 9, .rank = 1 },
	[P99] = { .title = "p99", .w = 9 },
	[HELP] = { .title = "  is the time", .w = 36, .rank = 4, .left = true },
};

static void latency_cell(const void *context, int row, unsigned column,
			 struct table_cell *out)
{
	const struct snapshot *s = context;
	const struct latency *l = &latencies[row];
	const struct snapshot_hist *h = &s->hists[l->id];

	switch ((enum latency_column)column) {
	case NAME:
		snprintf(out->text, sizeof(out->text), "%s", l->name);
		break;
	case COUNT:
		cell_value(out, h->count, NUMBER_COUNT);
		break;
	case MEAN:
		cell_value(out, cell_quotient(h->sum, h->count),
			   NUMBER_SECONDS);
		break;
	case P50:
		cell_value(out, h->p50, NUMBER_SECONDS);
		break;
	case P90:
		cell_value(out, h->p90, NUMBER_SECONDS);
		break;
	case P99:
		cell_value(out, h->p99, NUMBER_SECONDS);
		break;
	case HELP:
		snprintf(out->text, sizeof(out->text), "  %s", l->help);
		out->style = STYLE_DIM;
		break;
	case LATENCY_COLUMNS:
		break;
	}
}

void latency_table(const struct snapshot *s, struct table *t)
{
	*t = (struct table){
		.columns = latency_columns,
		.n_columns = LATENCY_COLUMNS,
		.rows = LATENCIES,
		.sorted = -1,
		.cell = latency_cell,
		.context = s,
	};
}

/* ---- checks --------------------------------------------------------------- */

enum check_column {
	CHECK_NAME,
	CHECK_OURS,
	CHECK_THEIRS,
	CHECK_SIGN,
	CHECK_WHY,
	CHECK_COLUMNS
};

static const struct table_column check_columns[CHECK_COLUMNS] = {
	[CHECK_NAME] = { .title = "checked", .w = 22, .left = true },
	[CHECK_OURS] = { .title = "moetop", .w = 9 },
	[CHECK_THEIRS] = { .title = "engine §", .w = 9 },
	[CHECK_SIGN] = { .title = "  they", .w = 11, .left = true },
	[CHECK_WHY] = { .title = "  because",
			.w = 60,
			.rank = 1,
			.left = true },
};

static void check_sign(const struct snapshot_check *c, struct table_cell *out)
{
	static const struct {
		const char *text;
		enum style style;
	} signs[] = {
		[CHECK_UNKNOWN] = { "  -", STYLE_DIM },
		[CHECK_AGREES] = { "  ✓ agree", STYLE_GOOD },
		[CHECK_DIFFERS] = { "  ≠ differ", STYLE_WARN },
	};
	unsigned state = c->state <= CHECK_DIFFERS ? c->state : CHECK_UNKNOWN;

	snprintf(out->text, sizeof(out->text), "%s", signs[state].text);
	out->style = signs[state].style;
}

/* The unit is the end of the name, as everywhere. */
static enum number_form check_form(const char *name)
{
	size_t n = strlen(name);

	if (n > 6 && !strcmp(name + n - 6, "_ratio"))
		return NUMBER_PERCENT;
	if (n > 8 && !strcmp(name + n - 8, "_seconds"))
		return NUMBER_SECONDS;
	return NUMBER_COUNT;
}

static void check_cell(const void *context, int row, unsigned column,
		       struct table_cell *out)
{
	const struct snapshot *s = context;
	const struct snapshot_check *c = &s->checks[row];

	switch ((enum check_column)column) {
	case CHECK_NAME:
		snprintf(out->text, sizeof(out->text), "%s", c->name);
		break;
	case CHECK_OURS:
		cell_value(out, value_make(c->ours, c->source),
			   check_form(c->name));
		break;
	case CHECK_THEIRS:
		cell_value(out, value_make(c->theirs, SOURCE_MEASURED),
			   check_form(c->name));
		break;
	case CHECK_SIGN:
		check_sign(c, out);
		break;
	case CHECK_WHY:
		snprintf(out->text, sizeof(out->text), "  %.60s", c->why);
		out->style = STYLE_DIM;
		break;
	case CHECK_COLUMNS:
		break;
	}
}

static unsigned checks_of(const struct snapshot *s)
{
	return s->n_checks < SNAPSHOT_CHECKS_MAX ? s->n_checks
						 : SNAPSHOT_CHECKS_MAX;
}

void check_table(const struct snapshot *s, struct table *t)
{
	*t = (struct table){
		.columns = check_columns,
		.n_columns = CHECK_COLUMNS,
		.rows = (int)checks_of(s),
		.sorted = -1,
		.cell = check_cell,
		.context = s,
	};
}

bool check_differs(const struct snapshot *s, const char *name)
{
	for (unsigned i = 0; i < checks_of(s); i++)
		if (s->checks[i].state == CHECK_DIFFERS &&
		    !strcmp(s->checks[i].name, name))
			return true;
	return false;
}

void check_field(struct fields *fs, unsigned rank, const struct snapshot *s)
{
	char text[96] = "";
	size_t n = 0;

	for (unsigned i = 0; i < checks_of(s) && n < sizeof(text); i++)
		if (s->checks[i].state == CHECK_DIFFERS)
			n += (size_t)snprintf(text + n, sizeof(text) - n,
					      "%s%s", n ? ", " : "",
					      s->checks[i].name);
	if (text[0])
		fields_add(fs, rank, STYLE_WARN, "", "≠ engine: %s", text);
}
