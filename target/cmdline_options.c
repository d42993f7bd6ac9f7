#include "target/cmdline_parts.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MAX 65536ul
#define ABBREVIATION_MIN 6u
#define LIST_BYTES 512u

enum option_id {
	OPT_SHOW, /* is shown, and means nothing else here */
	OPT_MODEL,
	OPT_SERVED,
	OPT_REVISION,
	OPT_DOWNLOAD_DIR,
	OPT_HF_CONFIG,
	OPT_CONFIG,
	OPT_UDS,
	OPT_GPU,
	OPT_ENGINE,
	OPT_HOST,
	OPT_PORT,
	OPT_TP,
	OPT_PP,
	OPT_DP,
	OPT_EP,
	OPT_DCP,
	OPT_EP_ON,
	OPT_A2A,
	OPT_DP_ATTENTION,
	OPT_DP_RANK,
	OPT_EXTERNAL_LB,
	OPT_NODES,
	OPT_NODE_RANK,
	OPT_HEADLESS,
	OPT_OVERRIDE,
	OPT_KV_TYPE,
	OPT_LOAD_FORMAT,
	OPT_EXECUTOR,
	OPT_RAY,
	OPT_API_SERVERS,
	OPT_TLS,
	OPT_EAGER,
	OPT_EPLB,
	OPT_REDUNDANT,
	OPT_STREAM,
	OPT_DRAFT_TOKENS,
	OPT_CAPTURE,
	OPT_CAPTURE_MAX,
	OPT_GRAPH,
	OPT_SPECULATIVE,
	OPT_TRANSFER,
	OPT_ATTENTION_JSON,
	OPT_IDS
};
_Static_assert(OPT_IDS <= 64, "a bit for each in struct cmdline");

enum form { WORD, FLAG, OFF, LIST };
#define HIDDEN LAUNCH_IDS

/* Options by engine; '_' in a name counts as '-', and a name may be cut where
 * it is that of no other option, as argparse has it. */
static const struct option {
	const char *name;
	unsigned engines;
	enum option_id id;
	enum form form;
	enum launch_id show;
} options[] = {
#define V VLLM
#define S SGLANG
#define T TRTLLM
#define OPTION(...) { __VA_ARGS__ },
#include "target/cmdline.def"
#undef V
#undef S
#undef T
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

void set_text(char *out, size_t room, const char *s)
{
	size_t n = strlen(s);

	if (n >= room)
		n = 0;
	memcpy(out, s, n);
	out[n] = '\0';
}

uint32_t to_number(const char *s, unsigned long max)
{
	char *end;
	unsigned long v;

	if (!isdigit((unsigned char)*s))
		return 0;
	v = strtoul(s, &end, 10);
	return *end || v > max ? 0 : (uint32_t)v;
}

/* ---- names -------------------------------------------------------------- */

/* How much of the name `arg` gives, up to its end or '='; 0 when they differ.
 * *value then stands behind '=', or is NULL. */
static size_t option_match(const char *arg, const char *name,
			   const char **value)
{
	size_t n = 0;

	for (; name[n] && arg[n] && arg[n] != '='; n++)
		if (arg[n] != name[n] && !(name[n] == '-' && arg[n] == '_'))
			return 0;
	if (arg[n] && arg[n] != '=')
		return 0;
	*value = arg[n] ? arg + n + 1 : NULL;
	return n;
}

static const struct option *option_find(const char *arg, unsigned engine,
					const char **value)
{
	const struct option *cut = NULL;
	const char *v = NULL;

	for (size_t i = 0; i < OPTIONS; i++) {
		const struct option *o = &options[i];
		size_t n = o->engines & engine ? option_match(arg, o->name, &v)
					       : 0;

		if (!n)
			continue;
		*value = v;
		if (!o->name[n])
			return o;
		if (n < ABBREVIATION_MIN || strchr(o->name, '.'))
			continue;
		if (cut && (cut->id != o->id || cut->show != o->show))
			return NULL;
		cut = o;
	}
	return cut;
}

/* ---- values ------------------------------------------------------------- */

/* "auto" and what is not known leave it to the checkpoint. */
static double kv_element_bytes(const char *type)
{
	static const struct {
		const char *start;
		double bytes;
	} types[] = {
		{ "fp8", 1 },
		{ "int8", 1 },
		{ "bf16", 2 },
		{ "bfloat16", 2 },
		{ "float16", 2 },
		{ "fp16", 2 },
		{ "half", 2 },
		{ "fp4", 0.5 + 1.0 / 16 },
		{ "nvfp4", 0.5 + 1.0 / 16 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strncmp(type, types[i].start, strlen(types[i].start)) == 0)
			return types[i].bytes;
	return 0;
}

/* Overrides of several options become one object. */
static void add_override(struct cmdline *c, const char *text)
{
	json_t *old =
		json_loads(c->overrides[0] ? c->overrides : "{}", 0, NULL);
	json_t *more = json_loads(text, 0, NULL);
	char *all = NULL;

	if (json_is_object(old) && json_is_object(more) &&
	    json_object_update_recursive(old, more) == 0)
		all = json_dumps(old, JSON_COMPACT | JSON_PRESERVE_ORDER);
	if (all && strlen(all) < sizeof(c->overrides))
		strcpy(c->overrides, all);
	else
		c->overrides_unknown = true;
	free(all);
	json_decref(old);
	json_decref(more);
}

static void set_count(struct cmdline *c, enum option_id id, const char *v)
{
	uint32_t n = to_number(v, COUNT_MAX);
	uint32_t *const counts[OPT_IDS] = {
		[OPT_TP] = &c->tp,
		[OPT_PP] = &c->pp,
		[OPT_DP] = &c->dp,
		[OPT_EP] = &c->ep,
		[OPT_DCP] = &c->dcp,
		[OPT_NODES] = &c->nodes,
		[OPT_NODE_RANK] = &c->node_rank,
		[OPT_DP_RANK] = &c->dp_rank,
		[OPT_API_SERVERS] = &c->api_servers,
		[OPT_STREAM] = &c->launch.stream_interval,
		[OPT_DRAFT_TOKENS] = &c->launch.draft_tokens,
	};

	if (counts[id])
		*counts[id] = n;
	if (id == OPT_DP_RANK)
		c->one_rank_of_dp = true;
	if (id == OPT_PORT) {
		c->port = to_number(v, 65535);
		c->port_given = true;
	}
}

/* Options of which launch keeps more than the text. */
static void set_launch(struct cmdline *c, enum option_id id, const char *v)
{
	struct launch *l = &c->launch;
	char text[64];

	switch (id) {
	case OPT_EAGER:
		l->eager = strcmp(v, "false") != 0;
		break;
	case OPT_EPLB:
		l->eplb = strcmp(v, "false") != 0;
		break;
	case OPT_REDUNDANT:
		launch_set_json(l, LAUNCH_REDUNDANT, v);
		if (isdigit((unsigned char)*v))
			l->redundant_experts = to_number(v, COUNT_MAX);
		break;
	case OPT_CAPTURE:
		launch_set_sizes(l, v);
		break;
	case OPT_CAPTURE_MAX:
		l->capture_max = to_number(v, 1u << 20);
		snprintf(text, sizeof(text), "up to %.40s", v);
		launch_set(l, LAUNCH_CAPTURE, text);
		break;
	case OPT_GRAPH:
		if (v[0] == '{')
			launch_set_json(l, LAUNCH_GRAPH_MODE, v);
		break;
	case OPT_SPECULATIVE:
		launch_set_json(l, LAUNCH_SPECULATIVE, v);
		break;
	case OPT_TRANSFER:
		launch_set_json(l, LAUNCH_DISAGGREGATION, v);
		break;
	case OPT_ATTENTION_JSON:
		launch_set_json(l, LAUNCH_ATTENTION, v);
		break;
	default:
		set_count(c, id, v);
	}
}

static void set_mode(struct cmdline *c, enum option_id id, const char *v)
{
	bool on = strcmp(v, "false") != 0;

	switch (id) {
	case OPT_EP_ON:
		c->expert_parallel = on;
		break;
	case OPT_A2A: /* these spread the experts over all of tp */
		c->expert_parallel |= strcmp(v, "deepep") == 0 ||
				      strcmp(v, "mooncake") == 0 ||
				      strcmp(v, "nixl") == 0 ||
				      strcmp(v, "mori") == 0;
		break;
	case OPT_DP_ATTENTION:
		c->dp_attention = on;
		break;
	case OPT_EXTERNAL_LB:
		c->one_rank_of_dp = on;
		break;
	case OPT_HEADLESS:
		c->role = on ? CMDLINE_WORKERS : CMDLINE_SERVER;
		break;
	case OPT_OVERRIDE:
		add_override(c, v);
		break;
	case OPT_KV_TYPE:
		c->kv_element_bytes = kv_element_bytes(v);
		break;
	case OPT_LOAD_FORMAT:
		c->no_weights = strcmp(v, "dummy") == 0;
		break;
	case OPT_EXECUTOR:
		c->ray |= strcmp(v, "ray") == 0;
		break;
	case OPT_RAY:
		c->ray = on;
		break;
	case OPT_TLS:
		c->tls = true;
		launch_set(&c->launch, LAUNCH_TLS, "on");
		break;
	default:
		set_launch(c, id, v);
	}
}

static void set_option(struct cmdline *c, enum option_id id, const char *v)
{
	static const struct {
		size_t offset, room;
	} texts[OPT_IDS] = {
#define TEXT(name) \
	{ offsetof(struct cmdline, name), sizeof(((struct cmdline *)0)->name) }
		[OPT_MODEL] = TEXT(model),
		[OPT_SERVED] = TEXT(served),
		[OPT_REVISION] = TEXT(revision),
		[OPT_DOWNLOAD_DIR] = TEXT(download_dir),
		[OPT_HF_CONFIG] = TEXT(hf_config_path),
		[OPT_CONFIG] = TEXT(config_file),
		[OPT_UDS] = TEXT(uds),
		[OPT_GPU] = TEXT(gpu),
		[OPT_HOST] = TEXT(host),
#undef TEXT
	};

	if (texts[id].room)
		set_text((char *)c + texts[id].offset, texts[id].room, v);
	else if (id == OPT_ENGINE && engine_bit(v))
		engine_set(c, engine_bit(v));
	else
		set_mode(c, id, v);
}

static void take(struct cmdline *c, const struct option *o, const char *v)
{
	if (o->form == OFF)
		v = strcmp(v, "false") == 0 ? "true" : "false";
	set_option(c, o->id, v);
	if (o->show == LAUNCH_FRONT_END)
		launch_set(&c->launch, o->show,
			   o->name[2] == 'g' ? "gRPC" : "HTTP/2");
	else if (o->show == LAUNCH_A2A_BACKEND && o->form == FLAG)
		launch_set(&c->launch, o->show, "deepep");
	else if (o->show != HIDDEN && o->id != OPT_REDUNDANT)
		launch_set(&c->launch, o->show,
			   strcmp(v, "true") == 0    ? "on"
			   : strcmp(v, "false") == 0 ? "off"
						     : v);
	else if (o->show != HIDDEN && v[0] != '{')
		launch_set(&c->launch, o->show, v);
	c->given |= 1ull << o->id;
}

bool options_set(struct cmdline *c, unsigned engine, const char *name,
		 const char *value, uint64_t stay)
{
	const char *unused;
	const struct option *o = option_find(name, engine, &unused);

	if (!o)
		return false;
	if (value && (o->id == OPT_SHOW ? !launch_find(&c->launch, o->show)
					: !(stay & 1ull << o->id)))
		take(c, o, value);
	return true;
}

/* ---- arguments ---------------------------------------------------------- */

/* Flags that a model name may follow; all others may take a value, or several:
 * of the words behind one that is not known, none is told from a value. */
static bool is_flag(const char *arg)
{
	static const char *const starts[] = { "--enable-", "--disable-",
					      "--no-", "--trust-remote-code",
					      "--enforce-eager" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(arg, starts[i], strlen(starts[i])) == 0)
			return true;
	return strchr(arg, '=') != NULL;
}

/* The words up to the next option, apart by blanks; a list of names counts with
 * its first. */
static const char *take_list(struct args *a, const struct option *o,
			     char text[LIST_BYTES])
{
	size_t n = 0;
	const char *first = a->at + 1 < a->n ? a->v[a->at + 1] : NULL;

	if (!first || first[0] == '-')
		return NULL;
	text[0] = '\0';
	while (a->at + 1 < a->n && a->v[a->at + 1][0] != '-') {
		const char *word = a->v[++a->at];

		if (n + strlen(word) + 2 < LIST_BYTES)
			n += (size_t)sprintf(text + n, "%s ", word);
	}
	return o->id == OPT_SERVED ? first : text;
}

/* "--hf-overrides.text_config.rope_theta=1" is the object that it means. */
static bool take_dotted_override(struct cmdline *c, struct args *a)
{
	static const char prefix[] = "--hf-overrides.";
	const char *arg = a->v[a->at], *value = strchr(arg, '=');
	char path[128], *dot;
	json_t *v, *o;
	char *text;

	if (strncmp(arg, prefix, sizeof(prefix) - 1) != 0)
		return false;
	snprintf(path, sizeof(path), "%.*s",
		 (int)strcspn(arg + sizeof(prefix) - 1, "="),
		 arg + sizeof(prefix) - 1);
	if (!value && a->at + 1 < a->n)
		value = a->v[++a->at];
	else if (value)
		value++;
	v = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
	if (!v && value)
		v = json_string(value);
	while (v && path[0]) {
		dot = strrchr(path, '.');
		o = json_object();
		json_object_set_new(o, dot ? dot + 1 : path, v);
		v = o;
		*(dot ? dot : path) = '\0';
	}
	text = v ? json_dumps(v, JSON_COMPACT) : NULL;
	add_override(c, text ? text : "");
	launch_set(&c->launch, LAUNCH_OVERRIDES, c->overrides);
	free(text);
	json_decref(v);
	return true;
}

/* The value of an option, or NULL when it lacks one; steps over it. */
static const char *value_of(struct args *a, const struct option *o,
			    const char *value, char list[LIST_BYTES])
{
	const char *next = a->at + 1 < a->n ? a->v[a->at + 1] : NULL;

	if (value || o->form == FLAG || o->form == OFF)
		return value ? value : "true";
	if (o->form == LIST)
		return take_list(a, o, list);
	if (!next)
		return NULL;
	/* "-1" is a value, another option is none */
	if (next[0] == '-' && !isdigit((unsigned char)next[1]))
		return NULL;
	a->at++;
	return next;
}

void options_take(struct cmdline *c, struct args *a, unsigned engine,
		  uint64_t stay)
{
	const char *positional = NULL, *value;
	bool may_be_model = !a->options_only;
	char list[LIST_BYTES];

	for (; a->at < a->n; a->at++) {
		const char *arg = a->v[a->at];
		const struct option *o = option_find(arg, engine, &value);

		if (!o && engine == VLLM && take_dotted_override(c, a))
			continue;
		if (!o) {
			if (arg[0] != '-' && may_be_model && !positional)
				positional = arg;
			if (arg[0] == '-')
				may_be_model = !a->options_only && is_flag(arg);
			continue;
		}
		value = value_of(a, o, value, list);
		if (value && !(stay & 1ull << o->id & ~(1ull << OPT_SHOW)))
			take(c, o, value);
		may_be_model = !a->options_only;
	}
	if (positional && !c->model[0] && engine != SIM) {
		set_text(c->model, sizeof(c->model), positional);
		c->given |= 1ull << OPT_MODEL;
	}
}

/* ---- what follows ------------------------------------------------------- */

static uint32_t times(uint32_t a, uint32_t b)
{
	return a && b && a <= COUNT_MAX / b ? a * b : 0;
}

static void settle_ep(struct cmdline *c, bool vllm)
{
	char text[16];

	/* vLLM spreads experts over tp x dp; in SGLang dp lies inside tp */
	if (!c->expert_parallel || (c->given & 1ull << OPT_EP))
		return;
	c->ep = vllm ? times(c->tp, c->dp) : c->tp;
	snprintf(text, sizeof(text), "%u", c->ep);
	launch_set(&c->launch, LAUNCH_EP, c->ep ? text : "unknown");
}

void options_settle(struct cmdline *c)
{
	bool vllm = strcmp(c->engine, "vllm") == 0;

	if (c->uds[0])
		c->port = 0;
	/* other nodes than the first have no HTTP server */
	if ((c->given & 1ull << OPT_NODE_RANK) && c->node_rank > 0) {
		c->port = 0;
		c->role = CMDLINE_WORKERS;
	}
	if (c->role == CMDLINE_WORKERS)
		c->port = 0;
	settle_ep(c, vllm);
	c->gpus = times(c->tp, c->pp);
	if (!c->dp_attention)
		c->gpus = times(c->gpus, c->dp);
}
