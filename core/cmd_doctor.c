/*
 * What works here, what does not, and what would fix it.
 *
 * Every need is tried, in the way that the collector would use it, and given
 * up again at once.  Without -p only what does not depend on a server.
 */
#include "core/commands.h"
#include "core/paths.h"
#include "core/say.h"
#include "core/source.h"
#include "cupti/nvml.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECKS_MAX 8u

struct check {
	const char *tier;
	bool ok;
	char what[256], remedy[160];
};

struct checkup {
	unsigned n;
	struct check checks[CHECKS_MAX];
};

static struct check *add(struct checkup *u, const char *tier, bool ok,
			 const char *what, const char *remedy)
{
	struct check *c = &u->checks[u->n++];

	c->tier = tier;
	c->ok = ok;
	snprintf(c->what, sizeof(c->what), "%s", what);
	snprintf(c->remedy, sizeof(c->remedy), "%s", remedy);
	return c;
}

static void try_source(struct checkup *u, const char *tier,
		       const struct source_ops *ops, const struct target *t,
		       const char *good)
{
	struct source_context x = { .rows_mode = 1, .budget_ppm = 10000 };
	char why[256] = "", fix[160] = "";
	struct source *s = NULL;
	int err = ops->open(&s, t, &x, why, sizeof(why), fix, sizeof(fix));

	add(u, tier, !err, err ? (why[0] ? why : strerror(-err)) : good,
	    err ? fix : "");
	if (!err)
		ops->close(s);
}

static void check_target(struct checkup *u, const struct target *t)
{
	const char *model = t->model[0] ? t->model : t->arch.name;
	char what[256];

	if (t->denied) {
		add(u, "T0", false, "part of the server's /proc is hidden",
		    "run as root, or as the user of the server");
	} else if (!t->have_arch) {
		snprintf(what, sizeof(what), "the model's shape is unknown%s%s",
			 t->arch_error[0] ? ": " : "", t->arch_error);
		add(u, "T0", false, what,
		    "add --model PATH of its config.json");
	} else {
		snprintf(what, sizeof(what),
			 "%u process%s, %u with CUDA, model %s", t->n_pids,
			 t->n_pids == 1 ? "" : "es", t->n_ranks,
			 *model ? model : "without a name");
		add(u, "T0", true, what, "");
	}
}

/* The tracker's self-test makes its own connection: any port will do. */
static void check_requests(struct checkup *u, const struct target *t)
{
	struct target own = { .n_ports = 1, .ports = { 9 } };
	struct stat ns;

	if (!stat("/proc/self/ns/net", &ns))
		own.netns = (uint32_t)ns.st_ino;
	try_source(u, "T1", &source_requests, t ? t : &own,
		   "requests can be counted in the kernel");
}

static void check_agent(struct checkup *u)
{
	char path[PATH_MAX], what[256];
	int err = path_agent(NULL, path, sizeof(path));

	snprintf(what, sizeof(what), "agent %.200s%s", path,
		 err ? " not found" : "");
	add(u, "agent", !err, what,
	    err ? "build or install it, or name it with moetop run --agent PATH"
		: "");
}

static void check_gpus(struct checkup *u)
{
	struct nvml *n = NULL;
	char why[160] = "", what[256], peak[32] = "";
	const struct nvml_gpu *g;

	if (nvml_open(&n, getenv("MOETOP_NVML"), why, sizeof(why))) {
		add(u, "gpu", false, why,
		    "install the NVIDIA driver on this machine");
		add(u, "C", false, "no GPU, no counters", "");
		return;
	}
	g = nvml_gpu(n, 0);
	if (isfinite(g->peak_bytes_per_second))
		snprintf(peak, sizeof(peak), ", %.0f GB/s",
			 g->peak_bytes_per_second / 1e9);
	snprintf(what, sizeof(what), "%u GPU%s, %s%s", nvml_count(n),
		 nvml_count(n) == 1 ? "" : "s", g->name, peak);
	add(u, "gpu", true, what, "");
	if (g->gpm)
		add(u, "C", true, "DRAM bytes by GPM", "");
	else
		add(u, "C", false, "this GPU has no GPM counters",
		    "needs Hopper or later, not in MIG mode");
	nvml_close(n);
}

static int print_json(const struct checkup *u)
{
	json_t *list = json_array(), *root;

	for (unsigned i = 0; i < u->n; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:b, s:s, s:s}", "tier",
						u->checks[i].tier, "ok",
						(int)u->checks[i].ok, "what",
						u->checks[i].what, "remedy",
						u->checks[i].remedy));
	root = json_pack("{s:s, s:o}", "version", MOETOP_VERSION, "checks",
			 list);
	if (!root)
		return say(STATUS_RUNTIME, "doctor: no memory; free some");
	json_dumpf(root, stdout, JSON_COMPACT);
	json_decref(root);
	printf("\n");
	return STATUS_OK;
}

static int print_lines(const struct checkup *u)
{
	for (unsigned i = 0; i < u->n; i++) {
		const struct check *c = &u->checks[i];

		printf("%-6s %-8s %s%s%s\n", c->tier, c->ok ? "ok" : "missing",
		       c->what, c->remedy[0] ? "; " : "", c->remedy);
	}
	return STATUS_OK;
}

static int check_server(struct checkup *u, const struct settings *s)
{
	struct target *t = calloc(1, sizeof(*t));
	char why[256] = "";
	int err = t ? target_open(t, (pid_t)s->pid, s->model, why, sizeof(why))
		    : -ENOMEM;

	if (!err) {
		check_target(u, t);
		if (!s->no_bpf)
			check_requests(u, t);
		try_source(u, "T2", &source_agent, t,
			   "the agent in the server can be read");
	}
	free(t);
	if (err == -ESRCH)
		return say(STATUS_TARGET,
			   "pid %ld: no such process; give the pid of a "
			   "running server",
			   s->pid);
	if (err == -EINVAL && s->model)
		return say(STATUS_RUNTIME,
			   "--model: %s: %s; name the model's config.json",
			   s->model, why);
	if (err)
		return say(status_of(err),
			   "pid %ld: %s; try it as root, or as its user",
			   s->pid, strerror(-err));
	return STATUS_OK;
}

int cmd_doctor(const struct settings *s)
{
	struct checkup u = { 0 };
	int status = STATUS_OK;

	if (s->pid)
		status = check_server(&u, s);
	else if (!s->no_bpf)
		check_requests(&u, NULL);
	if (status)
		return status;
	check_agent(&u);
	check_gpus(&u);
	return s->json ? print_json(&u) : print_lines(&u);
}
