#include "sim/server/sequence.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 9
#define LINE_BYTES 1024
#define VARIANTS_MAX 64

static const char *const classes[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

static const char *const parts[SEQ_PARTS] = {
	[SEQ_START] = "start", [SEQ_ATTENTION] = "attention",
	[SEQ_DENSE] = "dense", [SEQ_MOE] = "moe",
	[SEQ_END] = "end",     [SEQ_AFTER] = "after",
	[SEQ_DRAFT] = "draft", [SEQ_DRAFT_END] = "draft_end",
};

static const char *const roles[SEQ_ROLES] = {
	[SEQ_PLAIN] = "-",     [SEQ_EMBED] = "embed", [SEQ_TOPK] = "topk",
	[SEQ_ROUTE] = "route", [SEQ_FILL] = "fill",   [SEQ_ALIGN] = "align",
	[SEQ_SORT] = "sort",   [SEQ_CLOSE] = "close", [SEQ_FORK] = "fork",
	[SEQ_JOIN] = "join",
};

static const char *const weights[WEIGHTS_KINDS] = {
	[WEIGHTS_QKV] = "qkv",
	[WEIGHTS_OUTPUT] = "output",
	[WEIGHTS_ROUTER] = "router",
	[WEIGHTS_HEAD] = "head",
	[WEIGHTS_MLP_UP] = "mlp_up",
	[WEIGHTS_MLP_DOWN] = "mlp_down",
	[WEIGHTS_SHARED_UP] = "shared_up",
	[WEIGHTS_SHARED_DOWN] = "shared_down",
};

static const char *const shares[EXPERTS_SHARES] = {
	[EXPERTS_FIRST] = "first",
	[EXPERTS_SECOND] = "second",
	[EXPERTS_ALL] = "all",
};

static const char *const units[UNITS] = {
	[UNIT_ONE] = "1",           [UNIT_ROWS] = "rows",
	[UNIT_HIDDEN] = "hidden",   [UNIT_PAIRS] = "pairs",
	[UNIT_ROUTED] = "routed",   [UNIT_INTER] = "inter",
	[UNIT_EXPERTS] = "experts", [UNIT_VOCAB] = "vocab",
	[UNIT_KV] = "kv",           [UNIT_PADDING] = "padding",
	[UNIT_BLOCKS] = "blocks",   [UNIT_COLUMNS] = "columns",
};

static const char *const conditions[] = {
	"shared", "fp8",   "naive", "aligned", "small",
	"large",  "eager", "one",   "more",
};

const char *seq_class_name(enum kernel_class klass)
{
	return classes[klass];
}

/* ---- words --------------------------------------------------------------- */

static int find(const char *word, size_t n, const char *const *list,
		unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (list[i] && strlen(list[i]) == n &&
		    !memcmp(list[i], word, n))
			return (int)i;
	return -EINVAL;
}

static int take(const char *word, const char *const *list, unsigned count,
		unsigned *out)
{
	int i = find(word, strlen(word), list, count);

	if (i < 0)
		return -EINVAL;
	*out = (unsigned)i;
	return 0;
}

static int take_when(struct seq_line *l, char *word)
{
	unsigned i;
	char *save;

	l->when = 0;
	l->variant = -1;
	if (!strcmp(word, "-"))
		return 0;
	for (char *w = strtok_r(word, ",", &save); w;
	     w = strtok_r(NULL, ",", &save)) {
		if (*w == 'v' && isdigit((unsigned char)w[1])) {
			l->variant = atoi(w + 1) % VARIANTS_MAX;
			continue;
		}
		if (take(w, conditions,
			 sizeof(conditions) / sizeof(conditions[0]), &i))
			return -EINVAL;
		l->when |= 1u << i;
	}
	return 0;
}

static int take_grid(struct seq_line *l, char *word)
{
	char *slash = strchr(word, '/');
	unsigned unit;

	l->grid_div = 1;
	if (slash) {
		*slash++ = 0;
		l->grid_div = (unsigned)strtoul(slash, &slash, 10);
		if (*slash || !l->grid_div)
			return -EINVAL;
	}
	if (take(word, units, UNITS, &unit))
		return -EINVAL;
	l->grid = (enum seq_unit)unit;
	return 0;
}

/* T0, or T0:FACTOR*UNIT. */
static int take_elements(struct seq_line *l, const char *word)
{
	char *end;

	l->cost = COST_ELEMENTS;
	l->what = UNIT_ONE;
	l->factor = 0;
	l->t0_ns = strtoull(word, &end, 10);
	if (end == word || (*end && *end != ':'))
		return -EINVAL;
	if (!*end)
		return 0;
	l->factor = strtod(end + 1, &end);
	return *end == '*' ? take(end + 1, units, UNITS, &l->what) : -EINVAL;
}

static int take_cost(struct seq_line *l, const char *word)
{
	char *end;

	if (!strncmp(word, "weights:", 8)) {
		l->cost = COST_WEIGHTS;
		return take(word + 8, weights, WEIGHTS_KINDS, &l->what);
	}
	if (!strncmp(word, "kv:", 3)) {
		l->cost = COST_KV;
		l->t0_ns = strtoull(word + 3, &end, 10);
		return *end ? -EINVAL : 0;
	}
	if (!strncmp(word, "experts:", 8)) {
		l->cost = COST_EXPERTS;
		l->t0_ns = strtoull(word + 8, &end, 10);
		return *end == ':'
			       ? take(end + 1, shares, EXPERTS_SHARES, &l->what)
			       : -EINVAL;
	}
	return take_elements(l, word);
}

/* ---- lines --------------------------------------------------------------- */

static int split(char *text, char **word)
{
	char *save;
	int n = 0;

	text[strcspn(text, "#\r\n")] = 0;
	for (char *w = strtok_r(text, " \t", &save); w;
	     w = strtok_r(NULL, " \t", &save)) {
		if (n == COLUMNS)
			return -EINVAL;
		word[n++] = w;
	}
	return n;
}

static int take_text(char *to, size_t bytes, const char *word)
{
	size_t n = strlen(word);

	if (n >= bytes)
		return -EINVAL;
	memcpy(to, word, n + 1);
	return 0;
}

/* Which argument of a routing kernel is the pointer to the ids. */
static int take_ids(struct seq_line *l)
{
	static const struct {
		const char *layout;
		unsigned ids;
	} at[] = {
		{ "topk", 4 },
		{ "topk_sglang", 3 },
		{ "topk_grouped", 2 },
	};

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		if (!strcmp(at[i].layout, l->layout)) {
			l->ids = at[i].ids;
			return 0;
		}
	return l->role == SEQ_TOPK ? -EINVAL : 0;
}

static int take_layout(struct seq_line *l, const char *word)
{
	if (take_text(l->layout, sizeof(l->layout), word))
		return -EINVAL;
	if (*word == '@')
		return spec_parse(word + 1, &l->spec);
	return take_ids(l);
}

static int take_kernel(struct seq_line *l, char **w)
{
	unsigned klass;

	if (strcmp(w[1], "0") && strcmp(w[1], "1"))
		return -EINVAL;
	l->stream = (unsigned)(*w[1] - '0');
	if (take_cost(l, w[3]) || take_grid(l, w[4]) || take_layout(l, w[5]) ||
	    take_when(l, w[6]) || take(w[7], classes, CLASSES, &klass) ||
	    take_text(l->name, sizeof(l->name), w[8]))
		return -EINVAL;
	l->klass = (enum kernel_class)klass;
	return 0;
}

static int take_draft(struct sequence *s, const char *word)
{
	if (!strcmp(word, "own"))
		s->draft = DRAFT_OWN;
	else if (!strcmp(word, "same"))
		s->draft = DRAFT_SAME;
	else
		return -EINVAL;
	return 0;
}

static int take_line(struct sequence *s, char **w, int n)
{
	struct seq_line l = { .variant = -1 };
	unsigned part, role;

	if (n == 2 && !strcmp(w[0], "draft") && !take_draft(s, w[1]))
		return 0;
	if (s->lines == SEQUENCE_LINES_MAX ||
	    take(w[0], parts, SEQ_PARTS, &part))
		return -EINVAL;
	if (n != 2 && n != COLUMNS)
		return -EINVAL;
	if (take(w[n == 2 ? 1 : 2], roles, SEQ_ROLES, &role))
		return -EINVAL;
	l.part = (enum seq_part)part;
	l.role = (enum seq_role)role;
	if ((n == 2) != (role >= SEQ_FORK))
		return -EINVAL;
	if (n == COLUMNS && take_kernel(&l, w))
		return -EINVAL;
	s->pieces |= l.when & WHEN_EAGER;
	s->pads_late |= l.role == SEQ_FILL;
	if (n == COLUMNS && (unsigned)(l.variant + 1) > s->variants)
		s->variants = (unsigned)(l.variant + 1);
	s->line[s->lines++] = l;
	return 0;
}

/* What every step needs. */
static int check(const struct sequence *s)
{
	unsigned has[SEQ_ROLES] = { 0 };

	for (unsigned i = 0; i < s->lines; i++)
		has[s->line[i].role]++;
	return has[SEQ_EMBED] && (has[SEQ_TOPK] || has[SEQ_ROUTE]) &&
			       has[SEQ_CLOSE] && has[SEQ_FORK] == has[SEQ_JOIN]
		       ? 0
		       : -EINVAL;
}

int sequence_read(const char *path, struct sequence *out, char *why,
		  size_t why_bytes)
{
	FILE *f = fopen(path, "re");
	char text[LINE_BYTES], *word[COLUMNS];
	int line = 0, err = 0;

	if (!f) {
		err = -errno;
		snprintf(why, why_bytes, "%s: %s", path, strerror(-err));
		return err;
	}
	memset(out, 0, sizeof(*out));
	while (!err && fgets(text, sizeof(text), f)) {
		int n = split(text, word);

		line++;
		if (n)
			err = n < 0 ? n : take_line(out, word, n);
	}
	fclose(f);
	if (err)
		snprintf(why, why_bytes, "%s:%d: not a kernel of a sequence",
			 path, line);
	else if ((err = check(out)))
		snprintf(why, why_bytes,
			 "%s: no kernel opens or closes a layer", path);
	return err;
}
