/*
 * The tiers: one line each, from what the checks have found.
 */
#include "core/doctor.h"

#include <string.h>

static void repeat(struct doctor *d, const struct doctor_line *l)
{
	const struct doctor_line copy = *l;

	doctor_say(d, NULL, copy.state, copy.remedy, "%s", copy.what);
}

static void say_t0(struct doctor *d)
{
	const struct target *t = d->target;
	const struct doctor_line *l;

	d->tier = TIER_T0;
	if (!t) {
		if (doctor_exists(d, "/proc/self"))
			doctor_say(d, NULL, DOCTOR_OK, "",
				   "servers can be looked for; name one with "
				   "-p PID to check it");
		else
			doctor_say(d, NULL, DOCTOR_BROKEN,
				   "mount -t proc proc /proc",
				   "no /proc is mounted");
		return;
	}
	l = doctor_obstacle(d, t->denied || t->left_over ? "server"
							 : "server.model");
	if (l)
		repeat(d, l);
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "%u process%s, %u with CUDA, model %s", t->n_pids,
			   t->n_pids == 1 ? "" : "es", t->n_ranks,
			   t->model[0]       ? t->model
			   : t->arch.name[0] ? t->arch.name
					     : "without a name");
}

static void say_t1(struct doctor *d)
{
	const struct target *t = d->target;

	d->tier = TIER_T1;
	if (!d->facts.requests)
		doctor_say(d, NULL, DOCTOR_MISSING, d->facts.requests_remedy,
			   d->settings->no_bpf ? "requests are not counted"
			   : d->facts.estimates
				   ? "requests can only be estimated"
				   : "requests can neither be counted nor "
				     "estimated");
	else if (t && !t->n_ports)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   t->denied ? "its sockets are hidden: run as root"
				     : "wait until it serves",
			   "the server listens on no port");
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "requests in flight, from the kernel by %s",
			   d->facts.requests_what);
}

static void say_t2(struct doctor *d)
{
	static const char *const ways[] = { "agent",          "rank",
					    "server.seccomp", "server.ptrace",
					    "yama",           "server.lsm",
					    "cupti" };
	const struct target *t = d->target;
	const struct doctor_line *l = NULL;

	d->tier = TIER_T2;
	if (!t) {
		doctor_say(d, NULL, DOCTOR_UNKNOWN, "add -p PID",
			   "depends on the server");
		return;
	}
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && !l; i++) {
		/* nothing needs to be attached to where every agent is there */
		if (i >= 2 && i < 6 && t->n_ranks &&
		    d->facts.present == t->n_ranks)
			continue;
		l = doctor_obstacle(d, ways[i]);
	}
	if (l)
		repeat(d, l);
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "%u GPU process%s: %u with the agent, %u that it "
			   "can be loaded into",
			   t->n_ranks, t->n_ranks == 1 ? "" : "es",
			   d->facts.present, t->n_ranks - d->facts.present);
}

static void say_t3(struct doctor *d)
{
	const struct target *t = d->target;

	d->tier = TIER_T3;
	if (!t)
		doctor_say(d, NULL, DOCTOR_UNKNOWN, "add -p PID",
			   "depends on the server");
	else if (t->n_ranks && d->facts.early == t->n_ranks)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "the agent was there from the start");
	else
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "start the server with: moetop run -- CMD",
			   "rows of graphs captured before the agent came are "
			   "not seen; an eager server's are");
}

/* PM sampling was asked for: what GPM gives is not all of it. */
static void say_c_sampled(struct doctor *d, const struct doctor_line *pm)
{
	if (!pm)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "DRAM bytes by PM sampling, of each MoE layer "
			   "where there is an agent");
	else
		doctor_say(d, NULL, pm->state, pm->remedy, "%s%.200s",
			   d->facts.gpm ? "DRAM bytes by GPM only; " : "",
			   pm->what);
}

static void say_c(struct doctor *d)
{
	const struct doctor_line *gpm, *pm;

	d->tier = TIER_C;
	gpm = d->facts.gpm ? NULL : doctor_obstacle(d, "gpu.gpm");
	pm = doctor_obstacle(d, "counters.pm");
	if (!d->facts.gpus)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "install the NVIDIA driver on this machine",
			   "no GPU, no counters");
	else if (d->settings->counters == COUNTERS_OFF)
		doctor_say(d, NULL, DOCTOR_MISSING, "leave --counters=off out",
			   "DRAM counters are off");
	else if (d->settings->counters == COUNTERS_PM)
		say_c_sampled(d, pm);
	else if (gpm && !pm)
		doctor_say(d, NULL, DOCTOR_MISSING, "add --counters=pm",
			   "no GPU has GPM; PM sampling was not asked for");
	else if (gpm)
		doctor_say(d, NULL, gpm->state, pm->remedy,
			   "no GPU has GPM; %.200s", pm->what);
	else
		doctor_say(d, NULL, DOCTOR_OK, "", "DRAM bytes by GPM%s",
			   pm ? "" : "; by MoE layer with --counters=pm");
}

void doctor_tier_lines(struct doctor *d)
{
	say_t0(d);
	say_t1(d);
	say_t2(d);
	say_t3(d);
	say_c(d);
}
