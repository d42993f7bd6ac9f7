/*
 * What works here, what does not, and what would fix it.
 *
 * Every need is tried, in the way that the collector would use it, and given
 * up again at once.  Without -p only what does not depend on a server.
 */
#include "core/clock.h"
#include "core/commands.h"
#include "core/paths.h"
#include "core/rank.h"
#include "core/say.h"
#include "core/source.h"
#include "cupti/nvml.h"
#include "target/inject.h"

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

/* It opened, and knows best how well. */
static void add_described(struct checkup *u, const char *tier,
			  const struct source_ops *ops, struct source *s)
{
	static struct snapshot shot; /* large */
	struct snapshot_tier t;

	ops->describe(s, &shot);
	t = shot.health.tiers[ops->tier];
	add(u, tier, t.state == TIER_OK, t.what, t.remedy);
	ops->close(s);
}

static void try_source(struct checkup *u, const char *tier,
		       const struct source_ops *ops, const struct target *t,
		       const char *good)
{
	struct source_context x = { .rows_mode = 1, .budget_ppm = 10000 };
	char why[256] = "", fix[160] = "";
	struct source *s = NULL;
	int err = ops->open(&s, t, &x, why, sizeof(why), fix, sizeof(fix));

	if (!err && ops->tier == TIER_T1) {
		add_described(u, tier, ops, s);
		return;
	}
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

/* ---- the agent ---------------------------------------------------------- */

/* One process that owns a GPU. */
struct outlook {
	bool ok;
	bool present; /* the agent is there, and can be read */
	bool early;   /* since before CUDA started */
	char what[256], remedy[160];
};

static void look_at_ring(const struct target_rank *r, struct outlook *o)
{
	struct rank_view v;
	int err = rank_look(r->agent_ring, clock_now_ns(), &v);

	o->ok = o->present = !err && !v.read;
	if (err) {
		snprintf(o->what, sizeof(o->what),
			 "pid %d: its agent cannot be read: %s", (int)r->pid,
			 err == -EPROTONOSUPPORT ? "another version"
						 : strerror(-err));
		snprintf(o->remedy, sizeof(o->remedy), "%s",
			 err == -EACCES ? "run as root, or as its user"
					: "restart the server");
		return;
	}
	o->early = !v.late;
	if (v.read) {
		snprintf(o->what, sizeof(o->what),
			 "pid %d: another moetop (pid %d) reads its agent",
			 (int)r->pid, (int)v.reader);
		snprintf(o->remedy, sizeof(o->remedy),
			 "end that one, or look at its screen");
	}
}

static void look_at_process(const struct target_rank *r, struct outlook *o)
{
	struct inject_report report = { 0 };

	o->ok = !inject_check(r->pid, &report);
	if (o->ok)
		return;
	snprintf(o->what, sizeof(o->what),
		 "pid %d: the agent cannot be loaded: %s", (int)r->pid,
		 report.why[0] ? report.why
			       : inject_refusal_name(report.refusal));
	snprintf(o->remedy, sizeof(o->remedy), "%s",
		 report.fix[0] ? report.fix
			       : "start the server with: moetop run -- CMD");
}

static void look_at_rank(const struct target_rank *r, bool no_inject,
			 struct outlook *o)
{
	*o = (struct outlook){ 0 };
	if (r->agent_ring[0]) {
		look_at_ring(r, o);
	} else if (no_inject) {
		snprintf(o->what, sizeof(o->what), "pid %d has no agent",
			 (int)r->pid);
		snprintf(o->remedy, sizeof(o->remedy),
			 "leave out --no-inject, or start it with: moetop run "
			 "-- CMD");
	} else {
		look_at_process(r, o);
	}
}

/* Nothing is stopped, loaded or woken for this. */
static void check_ranks(struct checkup *u, const struct target *t,
			bool no_inject)
{
	unsigned present = 0, early = 0;
	struct outlook o;
	char what[256];

	if (!t->n_ranks && t->denied)
		add(u, "T2", false, "the server's descriptors are hidden",
		    "run as root, or as the user of the server");
	else if (!t->n_ranks)
		add(u, "T2", false, "no process of the server uses CUDA",
		    "wait until it has started, or give another pid");
	for (unsigned i = 0; i < t->n_ranks; i++) {
		look_at_rank(&t->ranks[i], no_inject, &o);
		if (!o.ok) {
			add(u, "T2", false, o.what, o.remedy);
			return;
		}
		present += o.present;
		early += o.present && o.early;
	}
	if (!t->n_ranks)
		return;
	snprintf(what, sizeof(what),
		 "%u GPU process%s: %u with the agent, %u that it can be "
		 "loaded into",
		 t->n_ranks, t->n_ranks == 1 ? "" : "es", present,
		 t->n_ranks - present);
	add(u, "T2", true, what, "");
	if (early == t->n_ranks)
		add(u, "T3", true, "the agent was there from the start", "");
	else
		add(u, "T3", false,
		    "rows of graphs captured before the agent came are not "
		    "seen; an eager server's are",
		    "start the server with: moetop run -- CMD");
}

static void check_agent(struct checkup *u, const char *given)
{
	char path[PATH_MAX], what[256];
	int err = path_agent(given, path, sizeof(path));

	snprintf(what, sizeof(what), "agent %.200s%s", path,
		 err ? " not found" : "");
	add(u, "agent", !err, what,
	    err ? "build or install it, or name it with --agent PATH" : "");
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
		check_ranks(u, t, s->no_inject);
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
	check_agent(&u, s->agent);
	check_gpus(&u);
	return s->json ? print_json(&u) : print_lines(&u);
}
