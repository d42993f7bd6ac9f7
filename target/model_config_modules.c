/* Which part of the model a module's name means, and what a checkpoint leaves
 * out of its quantisation. */
#include "target/model_config_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool str_has(const char *s, const char *part)
{
	return strstr(s, part) != NULL;
}

static bool ends_with(const char *s, const char *tail)
{
	size_t n = strlen(s), m = strlen(tail);

	return n >= m && strcmp(s + n - m, tail) == 0;
}

/* How much of its part a named projection is: rough shares, of projections
 * that some checkpoints leave in bf16 one by one. */
static double share_of_projection(const char *name)
{
	static const struct {
		const char *word;
		double share;
	} table[] = {
		{ "norm", 0 },           { "indexer", 0 },
		{ "conv1d", 0 },         { "sinks", 0 },
		{ "g_proj", 0 },         { "in_proj_a", 0 },
		{ "in_proj_b", 0 },      { "o_proj", .5 },
		{ "out_proj", .33 },     { "q_a_proj", .06 },
		{ "q_b_proj", .2 },      { "kv_a_proj", .03 },
		{ "kv_b_proj", .1 },     { "qkv_proj", .5 },
		{ "q_proj", .4 },        { "k_proj", .05 },
		{ "v_proj", .05 },       { "in_proj_qkv", .4 },
		{ "in_proj_z", .27 },    { "in_proj", .67 },
		{ "gate_up_proj", .67 }, { "gate_proj", .34 },
		{ "up_proj", .33 },      { "down_proj", .33 },
		{ ".w1", .33 },          { ".w2", .33 },
		{ ".w3", .34 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (str_has(name, table[i].word))
			return table[i].share;
	return 1;
}

static bool names_ffn(const char *name)
{
	return str_has(name, "mlp") || str_has(name, "ffn") ||
	       str_has(name, "feed_forward") || str_has(name, "gate_proj") ||
	       str_has(name, "up_proj") || str_has(name, "down_proj");
}

static bool names_attention(const char *name)
{
	return str_has(name, "attn") || str_has(name, "attention") ||
	       str_has(name, "mixer") || str_has(name, "q_proj") ||
	       str_has(name, "k_proj") || str_has(name, "v_proj") ||
	       str_has(name, "o_proj");
}

enum part module_part(const char *name)
{
	if (strncmp(name, "mtp", 3) == 0 || str_has(name, "vis") ||
	    str_has(name, "audio") || str_has(name, "embed") ||
	    str_has(name, "shared_expert_gate") || str_has(name, "norm"))
		return PARTS;
	if (str_has(name, "lm_head"))
		return PART_HEAD;
	if (str_has(name, "shared_expert") || str_has(name, "shared_mlp"))
		return PART_SHARED;
	if (str_has(name, "expert"))
		return PART_EXPERTS;
	if (str_has(name, "router") || str_has(name, ".gate.") ||
	    ends_with(name, "gate") || ends_with(name, "gate$"))
		return PART_ROUTER;
	if (names_attention(name))
		return PART_ATTENTION;
	return names_ffn(name) ? PART_FFN : PARTS;
}

long module_layer(const char *name, const char **rest)
{
	const char *p = strstr(name, "layers");
	char *end;
	long l;

	*rest = name;
	if (!p)
		return -1;
	p += strlen("layers");
	p += *p == '\\';
	if (*p != '.' || !isdigit((unsigned char)p[1]))
		return -1;
	l = strtol(p + 1, &end, 10);
	*rest = end;
	return l;
}

static double layers_with(const struct layers *ls, enum part p)
{
	switch (p) {
	case PART_HEAD:
		return 1;
	case PART_ATTENTION:
		return ls->n - ls->mixers[MIXER_NONE];
	case PART_FFN:
		return ls->ffns[FFN_DENSE];
	default:
		return ls->ffns[FFN_MOE];
	}
}

static void leave_out(struct quant *q, const struct layers *ls, enum part p,
		      long layer, double share)
{
	double n = layers_with(ls, p);

	if (n > 0)
		q->bf16[p] += layer < 0 ? share : share / n;
}

static void leave_layer_out(struct quant *q, const struct layers *ls, long l)
{
	if (ls->mixer[l] != MIXER_NONE)
		leave_out(q, ls, PART_ATTENTION, l, 1);
	if (ls->ffn[l] == FFN_DENSE)
		leave_out(q, ls, PART_FFN, l, 1);
	if (ls->ffn[l] != FFN_MOE)
		return;
	leave_out(q, ls, PART_EXPERTS, l, 1);
	leave_out(q, ls, PART_SHARED, l, 1);
}

static bool names_one_expert(const char *name)
{
	const char *p = strstr(name, "expert");

	return p && strpbrk(p, "0123456789");
}

/* "mlp", "mlp*", "mlp.*": with all that is inside. */
static bool names_whole_mlp(const char *name)
{
	const char *p = strstr(name, "mlp");

	return p && p[3 + strspn(p + 3, ".*\\$")] == '\0';
}

static void leave_part_out(struct quant *q, const struct layers *ls,
			   enum part p, long layer, const char *rest)
{
	double share = share_of_projection(rest);

	if (p == PART_EXPERTS && names_one_expert(rest) && ls->experts)
		share /= ls->experts;
	if (p == PART_FFN && names_whole_mlp(rest) && !ls->dense_beside &&
	    (layer < 0 || ls->ffn[layer] == FFN_MOE))
		leave_out(q, ls, PART_EXPERTS, layer, 1);
	if (p == PART_FFN) /* gate, up and down of a shared FFN, too */
		leave_out(q, ls, PART_SHARED, layer, share);
	leave_out(q, ls, p, layer, share);
}

void module_leave_out(struct quant *q, const struct layers *ls,
		      const char *name)
{
	enum part p = module_part(name);
	const char *rest;
	long layer = module_layer(name, &rest);

	if (str_has(name, "(?!")) { /* everything but what it names */
		for (p = 0; p < PARTS; p++)
			if (p != PART_EXPERTS || !str_has(name, "expert"))
				q->bf16[p] = 1;
		return;
	}
	if (layer >= (long)ls->n)
		return;
	if (layer >= 0 && rest[strspn(rest, ".*\\$")] == '\0')
		leave_layer_out(q, ls, layer);
	else if (p != PARTS)
		leave_part_out(q, ls, p, layer, rest);
}
