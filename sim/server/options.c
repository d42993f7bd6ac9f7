#include "sim/server/options.h"
#include "sim/server/rank_wire.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCENARIO_WORDS 128
#define SCENARIO_BYTES 16384

const char options_usage[] =
	"usage: moetop-sim --model CONFIG.json [options]\n"
	"  --gpu H100|H200|B200|A100          default H200\n"
	"  --engine vllm|sglang               default vllm\n"
	"  --backend NAME|FILE                kernels of sim/sequences/, "
	"default the engine's\n"
	"                                     Triton path\n"
	"  --graphs | --eager                 default --graphs\n"
	"  --host ADDR  --port N              default 127.0.0.1 8000; 0: any\n"
	"  --served-model-name NAME\n"
	"  --max-num-seqs N                   default 1024\n"
	"  --max-num-batched-tokens N         default 8192\n"
	"  --max-model-len N                  default: the model's\n"
	"  --stream-interval N                tokens per event, default 1\n"
	"  --routing uniform|zipf:A|popularity[:FILE]\n"
	"  --persistence P                    a sequence keeps its taste, "
	"0..1\n"
	"  --tp N | --ep N                    a process per GPU, each with a "
	"part of every\n"
	"                                     matrix | with E/N whole experts\n"
	"  --users SPEC                       built-in load: 16, or "
	"1:10,16:10a,512:10\n"
	"  --prompt-tokens N  --output-tokens N  --think-time S  "
	"--abort-ratio P\n"
	"  --scenario NAME|FILE               options from a file: sweep, "
	"steady-16,\n"
	"                                     three-users-512, burst-aborts, "
	"prefill,\n"
	"                                     long-context\n"
	"  --truth FILE                       log what really happened; what "
	"worker I did\n"
	"                                     goes to FILE.rankI, after its "
	"restart to\n"
	"                                     FILE.rankI.2\n"
	"  --duration S                       stop by itself\n"
	"  --seed N\n";

/* ---- values -------------------------------------------------------------- */

static int take_text(char *out, size_t bytes, const char *v)
{
	size_t n = strlen(v);

	if (!n || n >= bytes)
		return -EINVAL;
	memcpy(out, v, n + 1);
	return 0;
}

static int take_number(double *out, const char *v, double min, double max)
{
	char *end;
	double n = strtod(v, &end);

	if (end == v || *end || !(n >= min && n <= max))
		return -EINVAL;
	*out = n;
	return 0;
}

static int take_count(unsigned *out, const char *v, unsigned min, unsigned max)
{
	double n;

	if (take_number(&n, v, min, max) || n != floor(n))
		return -EINVAL;
	*out = (unsigned)n;
	return 0;
}

static int set_model(struct sim_options *o, const char *v)
{
	return options_find(v, "models", ".json", o->model, sizeof(o->model));
}

static int set_gpu(struct sim_options *o, const char *v)
{
	return take_text(o->gpu, sizeof(o->gpu), v);
}

static int set_engine(struct sim_options *o, const char *v)
{
	if (!strcmp(v, "vllm"))
		o->flavour = KERNELS_VLLM;
	else if (!strcmp(v, "sglang"))
		o->flavour = KERNELS_SGLANG;
	else
		return -EINVAL;
	return 0;
}

static int set_backend(struct sim_options *o, const char *v)
{
	return options_find(v, "sequences", ".seq", o->backend,
			    sizeof(o->backend));
}

static int set_graphs(struct sim_options *o, const char *v)
{
	(void)v;
	o->graphs = true;
	return 0;
}

static int set_eager(struct sim_options *o, const char *v)
{
	(void)v;
	o->graphs = false;
	return 0;
}

static int set_host(struct sim_options *o, const char *v)
{
	return take_text(o->host, sizeof(o->host), v);
}

static int set_port(struct sim_options *o, const char *v)
{
	unsigned n;

	if (take_count(&n, v, 0, 65535))
		return -EINVAL;
	o->port = (uint16_t)n;
	return 0;
}

static int set_name(struct sim_options *o, const char *v)
{
	return take_text(o->name, sizeof(o->name), v);
}

static int set_max_seqs(struct sim_options *o, const char *v)
{
	return take_count(&o->max_seqs, v, 1, 8192);
}

static int set_max_tokens(struct sim_options *o, const char *v)
{
	return take_count(&o->max_tokens, v, 1, 65536);
}

static int set_max_model_len(struct sim_options *o, const char *v)
{
	return take_count(&o->max_model_len, v, 2, 1u << 22);
}

static int set_stream_interval(struct sim_options *o, const char *v)
{
	return take_count(&o->stream_interval, v, 1, 1000);
}

static int set_routing(struct sim_options *o, const char *v)
{
	if (take_text(o->routing_text, sizeof(o->routing_text), v))
		return -EINVAL;
	return routing_parse(o->routing_text, &o->routing);
}

static int set_persistence(struct sim_options *o, const char *v)
{
	return take_number(&o->routing.persistence, v, 0, 1);
}

static int set_tp(struct sim_options *o, const char *v)
{
	return take_count(&o->tp, v, 1, RANKS_MAX);
}

static int set_ep(struct sim_options *o, const char *v)
{
	return take_count(&o->ep, v, 1, RANKS_MAX);
}

static int set_users(struct sim_options *o, const char *v)
{
	return users_parse(v, &o->users);
}

static int set_prompt_tokens(struct sim_options *o, const char *v)
{
	return take_number(&o->prompt_tokens, v, 1, 1e6);
}

static int set_output_tokens(struct sim_options *o, const char *v)
{
	return take_number(&o->output_tokens, v, 1, 1e6);
}

static int set_think(struct sim_options *o, const char *v)
{
	return take_number(&o->think_s, v, 0, 1e6);
}

static int set_abort_ratio(struct sim_options *o, const char *v)
{
	return take_number(&o->abort_ratio, v, 0, 1);
}

static int set_truth(struct sim_options *o, const char *v)
{
	return take_text(o->truth, sizeof(o->truth), v);
}

static int set_duration(struct sim_options *o, const char *v)
{
	return take_number(&o->duration_s, v, 0, 1e9);
}

static int set_seed(struct sim_options *o, const char *v)
{
	char *end;

	if (*v < '0' || *v > '9')
		return -EINVAL;
	o->seed = strtoull(v, &end, 0);
	return *end ? -EINVAL : 0;
}

static int set_help(struct sim_options *o, const char *v)
{
	(void)v;
	o->help = true;
	return 0;
}

static const struct option_row {
	const char *name;
	bool flag; /* takes no value */
	int (*set)(struct sim_options *o, const char *v);
	const char *bad; /* what a refused value is told */
} rows[] = {
	{ "model", false, set_model, "no such file; name a config.json" },
	{ "gpu", false, set_gpu, "use H100, H200, B200 or A100" },
	{ "engine", false, set_engine, "use vllm or sglang" },
	{ "backend", false, set_backend,
	  "no such file; name one of sim/sequences" },
	{ "graphs", true, set_graphs, NULL },
	{ "eager", true, set_eager, NULL },
	{ "host", false, set_host, "too long" },
	{ "port", false, set_port, "use 0 to 65535" },
	{ "served-model-name", false, set_name, "use up to 95 characters" },
	{ "max-num-seqs", false, set_max_seqs, "use 1 to 8192" },
	{ "max-num-batched-tokens", false, set_max_tokens, "use 1 to 65536" },
	{ "max-model-len", false, set_max_model_len, "use 2 to 4194304" },
	{ "stream-interval", false, set_stream_interval, "use 1 to 1000" },
	{ "routing", false, set_routing,
	  "use uniform, zipf:EXPONENT or popularity[:FILE]" },
	{ "persistence", false, set_persistence, "use 0 to 1" },
	{ "tp", false, set_tp, "use 1 to 16" },
	{ "ep", false, set_ep, "use 1 to 16" },
	{ "users", false, set_users, "use N or USERS:SECONDS[a],..." },
	{ "prompt-tokens", false, set_prompt_tokens, "use 1 to 1000000" },
	{ "output-tokens", false, set_output_tokens, "use 1 to 1000000" },
	{ "think-time", false, set_think, "use seconds" },
	{ "abort-ratio", false, set_abort_ratio, "use 0 to 1" },
	{ "truth", false, set_truth, "the path is too long" },
	{ "duration", false, set_duration, "use seconds" },
	{ "seed", false, set_seed, "use a number" },
	{ "help", true, set_help, NULL },
};

/* ---- files --------------------------------------------------------------- */

static bool try_path(char *path, size_t bytes, const char *folder_of,
		     const char *folder, const char *name, const char *suffix)
{
	int n = snprintf(path, bytes, "%s%s%s%s%s", folder_of, folder,
			 *folder ? "/" : "", name, suffix);

	return n > 0 && (size_t)n < bytes && !access(path, R_OK);
}

int options_find(const char *name, const char *folder, const char *suffix,
		 char *path, size_t path_bytes)
{
	static const char *const above[] = { "", "../../sim/",
					     "../../../sim/" };
	char self[OPTIONS_PATH_BYTES], base[OPTIONS_PATH_BYTES + 16];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (try_path(path, path_bytes, "", "", name, ""))
		return 0;
	self[n > 0 ? n : 0] = 0;
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(above) / sizeof(*above); i++) {
		slash[1] = 0;
		snprintf(base, sizeof(base), "%s%s", self, above[i]);
		if (try_path(path, path_bytes, base, folder, name, "") ||
		    try_path(path, path_bytes, base, folder, name, suffix))
			return 0;
	}
	if (try_path(path, path_bytes, "sim/", folder, name, "") ||
	    try_path(path, path_bytes, "sim/", folder, name, suffix))
		return 0;
	return -ENOENT;
}

/* ---- arguments ----------------------------------------------------------- */

static const struct option_row *find_row(const char *name, size_t n)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n))
			return &rows[i];
	return NULL;
}

static bool is_scenario(const char *name, size_t n)
{
	return n == 8 && !memcmp(name, "scenario", 8);
}

static int refuse(char *why, size_t why_bytes, const char *option,
		  const char *value, const char *text)
{
	snprintf(why, why_bytes, "%s%s%s: %s", option, value ? " " : "",
		 value ? value : "", text);
	return -EINVAL;
}

static int refuse_value(char *why, size_t why_bytes,
			const struct option_row *row, const char *value)
{
	snprintf(why, why_bytes, "--%s %s: %s", row->name, value, row->bad);
	return -EINVAL;
}

/* One pass over words.  o NULL: only look for --scenario and for mistakes of
 * form; scenario NULL: there may be none. */
static int parse_words(int n, char **word, struct sim_options *o,
		       const char **scenario, char *why, size_t why_bytes)
{
	for (int i = 0; i < n; i++) {
		const char *name = word[i] + 2, *value;
		const struct option_row *row;
		size_t length;

		if (strncmp(word[i], "--", 2))
			return refuse(why, why_bytes, word[i], NULL,
				      "not an option; see --help");
		length = strcspn(name, "=");
		row = find_row(name, length);
		if (!row && !(scenario && is_scenario(name, length)))
			return refuse(why, why_bytes, word[i], NULL,
				      "unknown option; see --help");
		value = name[length] ? name + length + 1 : NULL;
		if (!value && !(row && row->flag) && ++i < n)
			value = word[i];
		if (!value && !(row && row->flag))
			return refuse(why, why_bytes, word[i - 1], NULL,
				      "needs a value");
		if (!row)
			*scenario = value;
		else if (o && row->set(o, value))
			return refuse_value(why, why_bytes, row, value);
	}
	return 0;
}

static int split_words(char *text, char **word)
{
	int n = 0;

	for (char *line = text, *next; line; line = next) {
		char *save, *w;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line[strcspn(line, "#")] = 0;
		for (w = strtok_r(line, " \t\r", &save); w;
		     w = strtok_r(NULL, " \t\r", &save)) {
			if (n == SCENARIO_WORDS)
				return -EINVAL;
			word[n++] = w;
		}
	}
	return n;
}

static int read_scenario(const char *name, struct sim_options *o, char *why,
			 size_t why_bytes)
{
	char path[OPTIONS_PATH_BYTES], text[SCENARIO_BYTES];
	char *word[SCENARIO_WORDS];
	size_t bytes;
	FILE *f;
	int n;

	if (options_find(name, "scenarios", ".options", path, sizeof(path)))
		return refuse(why, why_bytes, "--scenario", name,
			      "no such scenario or file");
	f = fopen(path, "re");
	if (!f)
		return refuse(why, why_bytes, "--scenario", path,
			      strerror(errno));
	bytes = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[bytes] = 0;
	n = bytes < sizeof(text) - 1 ? split_words(text, word) : -EINVAL;
	if (n < 0)
		return refuse(why, why_bytes, "--scenario", path, "too long");
	return parse_words(n, word, o, NULL, why, why_bytes);
}

int options_parse(int argc, char **argv, struct sim_options *out, char *why,
		  size_t why_bytes)
{
	struct sim_options *o = calloc(1, sizeof(*o));
	const char *scenario = NULL;
	int err;

	if (!o)
		return refuse(why, why_bytes, "options", NULL, "out of memory");
	*o = (struct sim_options){
		.gpu = "H200",
		.host = "127.0.0.1",
		.routing = { .kind = ROUTING_POPULARITY },
		.graphs = true,
		.port = 8000,
		.tp = 1,
		.ep = 1,
		.max_seqs = 1024,
		.max_tokens = 8192,
		.stream_interval = 1,
		.prompt_tokens = 128,
		.output_tokens = 1024,
		.seed = 1,
	};
	err = parse_words(argc - 1, argv + 1, NULL, &scenario, why, why_bytes);
	if (!err && scenario)
		err = read_scenario(scenario, o, why, why_bytes);
	if (!err)
		err = parse_words(argc - 1, argv + 1, o, &scenario, why,
				  why_bytes);
	if (!err && o->tp > 1 && o->ep > 1 && o->tp != o->ep)
		err = refuse(why, why_bytes, "--ep", NULL,
			     "use 1, or the same number as --tp");
	if (!err && !o->model[0] && !o->help)
		err = refuse(why, why_bytes, "--model", NULL,
			     "missing; name a config.json");
	if (!err) {
		*out = *o;
		/* The file name is inside the struct that moved. */
		if (out->routing.file)
			routing_parse(out->routing_text, &out->routing);
		out->routing.seed = out->seed;
	}
	free(o);
	return err;
}
