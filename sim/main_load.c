/*
 * moetop-load - load on an OpenAI-compatible server on this machine
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "sim/server/load.h"

static const char usage[] =
	"usage: moetop-load --url http://127.0.0.1:PORT [options]\n"
	"  --users SPEC         16, or 1:10,16:10a,512:10 (users:seconds; a: a "
	"fall\n"
	"                       aborts); default 1\n"
	"  --rate R             open loop: requests per second\n"
	"  --think-time S       mean pause of a user\n"
	"  --prompt-tokens N  --output-tokens N   means, default 128 and 128\n"
	"  --abort-ratio P      share given up half way, half FIN, half RST\n"
	"  --large-prompts P  --health-ratio P  --json-ratio P  --chat-ratio "
	"P\n"
	"  --duration S         stop starting requests; 0: never\n"
	"  --drain S            then wait for open ones, default 5\n"
	"  --requests N         stop after N requests\n"
	"  --seed N\n";

static _Atomic int stop;

static void on_signal(int signal)
{
	(void)signal;
	atomic_store(&stop, 1);
}

enum option_id {
	URL = 256,
	USERS,
	RATE,
	THINK,
	PROMPT,
	OUTPUT,
	ABORT,
	LARGE,
	HEALTH,
	JSON,
	CHAT,
	DURATION,
	DRAIN,
	REQUESTS,
	SEED,
	HELP
};

static const struct option options[] = {
	{ "url", required_argument, NULL, URL },
	{ "users", required_argument, NULL, USERS },
	{ "rate", required_argument, NULL, RATE },
	{ "think-time", required_argument, NULL, THINK },
	{ "prompt-tokens", required_argument, NULL, PROMPT },
	{ "output-tokens", required_argument, NULL, OUTPUT },
	{ "abort-ratio", required_argument, NULL, ABORT },
	{ "large-prompts", required_argument, NULL, LARGE },
	{ "health-ratio", required_argument, NULL, HEALTH },
	{ "json-ratio", required_argument, NULL, JSON },
	{ "chat-ratio", required_argument, NULL, CHAT },
	{ "duration", required_argument, NULL, DURATION },
	{ "drain", required_argument, NULL, DRAIN },
	{ "requests", required_argument, NULL, REQUESTS },
	{ "seed", required_argument, NULL, SEED },
	{ "help", no_argument, NULL, HELP },
	{ 0 },
};

static int number(const char *text, double max, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v < 0 || v > max)
		return -EINVAL;
	*out = v;
	return 0;
}

static int count(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	*out = strtoull(text, &end, 10);
	return *end ? -EINVAL : 0;
}

static int take(struct load_options *o, int id)
{
	switch (id) {
	case URL:
		return load_parse_url(optarg, &o->address, &o->port);
	case USERS:
		return users_parse(optarg, &o->users);
	case RATE:
		return number(optarg, 1e6, &o->rate);
	case THINK:
		return number(optarg, 1e6, &o->think_s);
	case PROMPT:
		return number(optarg, 1e6, &o->prompt_tokens);
	case OUTPUT:
		return number(optarg, 1e6, &o->output_tokens);
	case ABORT:
		return number(optarg, 1, &o->abort_ratio);
	case LARGE:
		return number(optarg, 1, &o->large_ratio);
	case HEALTH:
		return number(optarg, 0.99, &o->health_ratio);
	case JSON:
		return number(optarg, 1, &o->json_ratio);
	case CHAT:
		return number(optarg, 1, &o->chat_ratio);
	case DURATION:
		return number(optarg, 1e9, &o->duration_s);
	case DRAIN:
		return number(optarg, 1e9, &o->drain_s);
	case REQUESTS:
		return count(optarg, &o->requests);
	case SEED:
		return count(optarg, &o->seed);
	default:
		return -EINVAL;
	}
}

static void print(const struct load_stats *s)
{
	printf("{\"started\":%llu,\"completed\":%llu,\"aborted\":%llu,"
	       "\"failed\":%llu,\"dropped\":%llu,\"events\":%llu,"
	       "\"health\":%llu,\"ttft_p50_seconds\":%.6f,"
	       "\"ttft_p99_seconds\":%.6f,\"gap_p50_seconds\":%.6f,"
	       "\"gap_p99_seconds\":%.6f}\n",
	       (unsigned long long)s->started, (unsigned long long)s->completed,
	       (unsigned long long)s->aborted, (unsigned long long)s->failed,
	       (unsigned long long)s->dropped, (unsigned long long)s->events,
	       (unsigned long long)s->health,
	       load_quantile_ns(&s->ttft, 0.5) / 1e9,
	       load_quantile_ns(&s->ttft, 0.99) / 1e9,
	       load_quantile_ns(&s->gap, 0.5) / 1e9,
	       load_quantile_ns(&s->gap, 0.99) / 1e9);
}

static void raise_file_limit(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

int main(int argc, char **argv)
{
	struct load_options o = {
		.users = { .phase = { { .users = 1 } }, .phases = 1 },
		.prompt_tokens = 128,
		.output_tokens = 128,
		.drain_s = 5,
		.seed = 1,
		.stop = &stop,
	};
	struct load_stats stats;
	int id, at = 0, err;

	while ((id = getopt_long(argc, argv, "h", options, &at)) != -1) {
		if (id == HELP || id == 'h') {
			fputs(usage, stdout);
			return 0;
		}
		if (id == '?')
			return 2;
		if (take(&o, id)) {
			fprintf(stderr,
				"moetop-load: --%s %s: not valid; see --help\n",
				options[at].name, optarg);
			return 2;
		}
	}
	if (!o.port || optind < argc) {
		fputs(usage, stderr);
		return 2;
	}
	raise_file_limit();
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	err = load_run(&o, &stats);
	if (err) {
		fprintf(stderr, "moetop-load: cannot start: %s\n",
			strerror(-err));
		return 1;
	}
	print(&stats);
	return 0;
}
