/*
 * moetop-sim - a mixture-of-experts inference server on a simulated GPU
 *
 * Three threads of its own: this one runs the engine loop and so makes every
 * CUDA call; `http` serves; `control` waits for signals, ends a run that has a
 * duration, and writes the truth log.  With --users a fourth makes the load.
 * With --tp or --ep the GPUs are in worker processes, this program again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sim/gpu/simgpu.h"
#include "sim/server/clock.h"
#include "sim/server/engine.h"
#include "sim/server/http.h"
#include "sim/server/load.h"
#include "sim/server/options.h"
#include "sim/server/rank.h"
#include "sim/server/rank_worker.h"
#include "sim/server/ranks.h"

#define STOP_WITHIN_NS (1800 * 1000000ull)
#define START_NS (20 * 1000000ull) /* how often to see whether we serve yet */

struct sim {
	struct sim_options o;
	int argc;
	char **argv;
	struct rank_model model;
	struct ranks *ranks; /* NULL: the GPU is in this process */
	struct engine *engine;
	struct http *http;
	pthread_t control, load;
	bool loading;
	uint64_t start_ns;
	_Atomic int serving, stopped, load_stop;
};

static int complain(const char *why)
{
	fprintf(stderr, "moetop-sim: %s\n", why);
	return 1;
}

/* ---- control ------------------------------------------------------------- */

static void log_totals(struct sim *s)
{
	struct truth_totals n;

	http_totals(s->http, &n);
	truth_totals(s->model.truth, clock_ns(), &n);
	if (truth_flush(s->model.truth))
		complain("the truth log cannot be written");
}

/* Wait up to a second for a signal to stop; true: one came. */
static bool wait_second(uint64_t until_ns)
{
	uint64_t now = clock_ns(), wait = NS_PER_S;
	struct timespec t;
	sigset_t set;

	if (until_ns && until_ns < now + wait)
		wait = until_ns > now ? until_ns - now : 0;
	t.tv_sec = (time_t)(wait / NS_PER_S);
	t.tv_nsec = (long)(wait % NS_PER_S);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return sigtimedwait(&set, NULL, &t) > 0;
}

static void stop_all(struct sim *s)
{
	uint64_t limit = clock_ns() + STOP_WITHIN_NS;

	atomic_store(&s->load_stop, 1);
	if (s->loading)
		pthread_join(s->load, NULL);
	engine_stop(s->engine);
	/* A step of the device may be longer than we may take. */
	while (!atomic_load(&s->stopped)) {
		const struct timespec tick = { .tv_nsec = 5000000 };

		if (clock_ns() > limit) {
			log_totals(s);
			_exit(0);
		}
		nanosleep(&tick, NULL);
	}
}

static void *control_run(void *arg)
{
	struct sim *s = arg;
	uint64_t end_ns = 0;

	pthread_setname_np(pthread_self(), "control");
	for (;;) {
		bool serving = atomic_load(&s->serving);

		if (serving && s->o.duration_s > 0)
			end_ns =
				s->start_ns + (uint64_t)(s->o.duration_s * 1e9);
		if (wait_second(serving ? end_ns : clock_ns() + START_NS)) {
			if (!atomic_load(&s->serving))
				_exit(0);
			break;
		}
		if (serving)
			log_totals(s);
		if (serving && s->ranks)
			ranks_tick(s->ranks);
		if (end_ns && clock_ns() >= end_ns)
			break;
	}
	stop_all(s);
	return NULL;
}

/* ---- load ---------------------------------------------------------------- */

static void *load_thread(void *arg)
{
	struct sim *s = arg;
	struct load_options o = {
		.address = htonl(INADDR_LOOPBACK),
		.port = http_port(s->http),
		.users = s->o.users,
		.think_s = s->o.think_s,
		.prompt_tokens = s->o.prompt_tokens,
		.output_tokens = s->o.output_tokens,
		.abort_ratio = s->o.abort_ratio,
		.seed = s->o.seed,
		.stop = &s->load_stop,
	};
	struct load_stats stats;

	pthread_setname_np(pthread_self(), "load");
	if (load_run(&o, &stats))
		complain("the built-in load cannot start");
	return NULL;
}

/* ---- start and stop ------------------------------------------------------ */

/* The name to serve under: as asked, the model's own, or the file's. */
static void choose_name(struct sim *s)
{
	const char *file = strrchr(s->o.model, '/');
	const char *known = s->model.shape.arch.name;

	if (s->o.name[0])
		return;
	file = file ? file + 1 : s->o.model;
	snprintf(s->o.name, sizeof(s->o.name), "%.*s",
		 known[0] ? 95 : (int)strcspn(file, "."),
		 known[0] ? known : file);
}

static int step_here(void *arg, const struct sched_step *step)
{
	return runner_step(arg, step);
}

static int step_there(void *arg, const struct sched_step *step)
{
	return ranks_step(arg, step);
}

static int start_workers(struct sim *s, unsigned n, char *why, size_t why_bytes)
{
	struct ranks_options o = {
		.n = n,
		.expert = s->o.ep > 1,
		.flavour = s->o.flavour,
		.max_seqs = s->o.max_seqs,
		.argc = s->argc,
		.argv = s->argv,
	};
	uint64_t dies_s = 0;

	if (simgpu_fault("worker_dies", &dies_s))
		o.dies_s = (double)dies_s;
	return ranks_open(&s->ranks, &o, why, why_bytes);
}

static int start_engine(struct sim *s, char *why, size_t why_bytes)
{
	const struct sched_limits limits = { .max_seqs = s->o.max_seqs,
					     .max_tokens = s->o.max_tokens };
	const struct rank_part whole = { .rank = 0, .ranks = 1 };
	unsigned n = s->o.tp > s->o.ep ? s->o.tp : s->o.ep;
	struct engine_gpu gpu = { .step = step_here };
	int err;

	if (n > 1)
		err = start_workers(s, n, why, why_bytes);
	else
		err = rank_model_start(&s->model, &s->o, &whole, why,
				       why_bytes);
	if (err)
		return err;
	gpu.arg = s->model.runner;
	if (s->ranks)
		gpu = (struct engine_gpu){ step_there, s->ranks };
	err = engine_new(&s->engine, &gpu, &limits);
	if (err)
		snprintf(why, why_bytes, "engine: %s", strerror(-err));
	return err;
}

static int start_http(struct sim *s, char *why, size_t why_bytes)
{
	struct http_options o = {
		.host = s->o.host,
		.port = s->o.port,
		.model_name = s->o.name,
		.model_path = s->o.model,
		.max_model_len = s->model.shape.max_model_len,
		.flavour = s->o.flavour,
		.stream_interval = s->o.stream_interval,
		.mean_tokens = s->o.output_tokens,
		.kv_capacity = s->ranks ? ranks_kv_tokens(s->ranks)
					: runner_kv_tokens(s->model.runner),
		.arch = &s->model.shape.arch,
		.tp = s->o.tp > 1 ? s->o.tp : 1,
		.ep = s->o.ep > 1 ? s->o.ep : 1,
		.seed = s->o.seed,
		.engine = s->engine,
		.truth = s->model.truth,
	};
	int err = http_open(&s->http, &o, why, why_bytes);

	if (!err)
		err = http_start(s->http);
	return err;
}

static int start(struct sim *s)
{
	char why[512] = "cannot start";
	int err =
		rank_model_open(&s->model, &s->o, s->o.truth, why, sizeof(why));

	if (!err)
		choose_name(s);
	if (!err)
		err = start_engine(s, why, sizeof(why));
	if (!err)
		err = start_http(s, why, sizeof(why));
	if (err)
		return complain(why);
	s->start_ns = clock_ns();
	if (s->o.users.phases)
		s->loading = !pthread_create(&s->load, NULL, load_thread, s);
	atomic_store(&s->serving, 1);
	printf("moetop-sim: listening on %s:%u\n", s->o.host,
	       http_port(s->http));
	fflush(stdout);
	return 0;
}

static void finish(struct sim *s)
{
	if (s->http) {
		http_stop(s->http);
		log_totals(s);
	}
	http_close(s->http);
	engine_free(s->engine);
	ranks_close(s->ranks);
	if (rank_model_close(&s->model))
		complain("the truth log cannot be written");
}

static int run(struct sim *s)
{
	int failed;

	if (pthread_create(&s->control, NULL, control_run, s))
		return complain("no thread");
	failed = start(s);
	if (failed) {
		/* Nothing to stop: control only waits for signals. */
		finish(s);
		return failed;
	}
	if (engine_run(s->engine)) {
		complain(s->ranks ? ranks_error(s->ranks)
				  : runner_error(s->model.runner));
		_exit(1);
	}
	http_stop(s->http);
	atomic_store(&s->stopped, 1);
	pthread_join(s->control, NULL);
	finish(s);
	return 0;
}

static void prepare_process(void)
{
	struct rlimit r;
	sigset_t set;

	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	static struct sim s;
	char why[640];

	if (rank_worker_wanted())
		return rank_worker_main(argc ? argv[0] : "");
	if (options_parse(argc, argv, &s.o, why, sizeof(why))) {
		complain(why);
		return 2;
	}
	if (s.o.help) {
		fputs(options_usage, stdout);
		return 0;
	}
	s.argc = argc;
	s.argv = argv;
	prepare_process();
	return run(&s);
}
