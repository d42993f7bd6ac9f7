/*
 * The agent: is it there, can it be loaded, and is the CUPTI that it needs.
 */
#include "core/doctor.h"
#include "core/paths.h"
#include "core/privileges.h"
#include "core/rank.h"
#include "core/rank_peek.h"
#include "target/inject.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENVIRON_BYTES (256u << 10)
#define KNOWN_ENOUGH 0.9 /* of the kernel time */

void doctor_agent_file(struct doctor *d)
{
	char path[PATH_MAX], fix[256];
	int err = path_agent(d->settings->agent, path, sizeof(path));
	struct stat st;

	if (err)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "make install, or name it with --agent PATH",
			   "%.200s is not beside this program", path);
	else if (privileges_elevated() && !stat(path, &st) &&
		 !privileges_trust(&st)) {
		snprintf(fix, sizeof(fix),
			 "sudo chown root %.100s && sudo chmod 644 %.100s",
			 path, path);
		doctor_say(d, NULL, DOCTOR_BROKEN, fix,
			   "%.200s could be changed by others, so a moetop "
			   "with file capabilities does not load it",
			   path);
	} else {
		doctor_say(d, NULL, DOCTOR_OK, "", "%.200s", path);
	}
}

/* ---- ranks ----------------------------------------------------------------- */

/* A line of one rank, "rank.0". */
static void say_rank(struct doctor *d, const struct target_rank *r,
		     enum doctor_state state, const char *fix, const char *what)
{
	char part[16];

	snprintf(part, sizeof(part), "%u", r->number);
	doctor_say(d, part, state, fix, "pid %d: %s", (int)r->pid, what);
}

static void look_at_ring(struct doctor *d, const struct target_rank *r)
{
	struct rank_view v;
	char what[160];
	int err = rank_look(r->agent_ring, clock_now_ns(), &v);

	if (err) {
		snprintf(what, sizeof(what), "its agent cannot be read: %s",
			 err == -EPROTONOSUPPORT ? "another version"
						 : strerror(-err));
		say_rank(d, r, DOCTOR_BROKEN,
			 err == -EACCES ? "run as root, or as its user"
					: "restart the server",
			 what);
		return;
	}
	d->facts.early += !v.late;
	d->facts.present++;
	if (v.read) {
		snprintf(what, sizeof(what),
			 "another moetop (pid %d) reads its agent",
			 (int)v.reader);
		say_rank(d, r, DOCTOR_BROKEN,
			 "end that one, or look at its screen", what);
		return;
	}
	d->facts.ready++;
	snprintf(what, sizeof(what), "the agent is there, %s%s",
		 rank_state_name(v.state),
		 v.late ? "" : ", since before CUDA started");
	say_rank(d, r, DOCTOR_OK, "", what);
}

static void look_at_process(struct doctor *d, const struct target_rank *r)
{
	struct inject_report report = { 0 };
	char what[256];

	if (!inject_check(r->pid, &report)) {
		d->facts.ready++;
		say_rank(d, r, DOCTOR_OK, "",
			 "no agent yet; it can be loaded into it");
		return;
	}
	snprintf(what, sizeof(what), "the agent cannot be loaded: %s",
		 report.why[0] ? report.why
			       : inject_refusal_name(report.refusal));
	say_rank(d, r, DOCTOR_BROKEN,
		 report.fix[0] ? report.fix
			       : "start the server with: moetop run -- CMD",
		 what);
}

void doctor_ranks(struct doctor *d)
{
	const struct target *t = d->target;

	for (unsigned i = 0; i < t->n_ranks; i++) {
		const struct target_rank *r = &t->ranks[i];

		if (r->agent_ring[0])
			look_at_ring(d, r);
		else if (d->settings->no_inject)
			say_rank(d, r, DOCTOR_MISSING,
				 "leave out --no-inject, or start it with: "
				 "moetop run -- CMD",
				 "it has no agent");
		else
			look_at_process(d, r);
	}
	if (t->n_ranks)
		return;
	if (t->denied) {
		char fix[256];

		doctor_grant(d, fix, sizeof(fix));
		doctor_say(d, NULL, DOCTOR_MISSING, fix,
			   "the server's descriptors are hidden");
	} else {
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "wait until it has started, or give another pid",
			   "no process of the server uses CUDA");
	}
}

/* ---- libraries in the target ----------------------------------------------- */

/* The path of the first mapping whose file name begins so. */
static bool find_mapping(const struct doctor *d, pid_t pid, const char *name,
			 char *out, size_t bytes)
{
	char path[PATH_MAX], *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/%d/maps", d->root, (int)pid);
	f = fopen(path, "re");
	if (!f && d->root[0]) {
		snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
		f = fopen(path, "re");
	}
	while (f && !found && getline(&line, &room, f) > 0) {
		char *file = strchr(line, '/'), *base;

		if (!file)
			continue;
		file[strcspn(file, "\n")] = '\0';
		base = strrchr(file, '/') + 1;
		found = !strncmp(base, name, strlen(name));
		if (found)
			snprintf(out, bytes, "%s", file);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* What comes after ".so." in the name of a file; maps name the file itself, not
 * a link to it. */
static const char *so_version(const char *path)
{
	const char *so = strstr(strrchr(path, '/'), ".so.");

	return so ? so + 4 : "unknown";
}

static void say_cupti(struct doctor *d, pid_t pid, const char *path,
		      const struct rank_peek *p)
{
	char version[48];

	if (p && p->status.cupti_version)
		snprintf(version, sizeof(version), "API %u",
			 p->status.cupti_version);
	else
		snprintf(version, sizeof(version), "version %.32s",
			 so_version(path));
	doctor_say(d, NULL, DOCTOR_OK, "", "pid %d has %.160s, %s", (int)pid,
		   path, version);
}

void doctor_cupti(struct doctor *d)
{
	const struct target *t = d->target;
	char path[1024], cuda[1024];
	struct rank_peek p;
	pid_t pid = doctor_first(d);
	bool peeked;

	if (!t->n_ranks) {
		doctor_say(d, NULL, DOCTOR_UNKNOWN, "",
			   "no CUDA process to look for libcupti in");
		return;
	}
	peeked = t->ranks[0].agent_ring[0] &&
		 !rank_peek(t->ranks[0].agent_ring, &p) && p.have_status;
	if (find_mapping(d, pid, "libcupti.so", path, sizeof(path)))
		say_cupti(d, pid, path, peeked ? &p : NULL);
	else if (find_mapping(d, pid, "libcudart.so", cuda, sizeof(cuda)) ||
		 find_mapping(d, pid, "libcuda.so", cuda, sizeof(cuda)))
		doctor_say(
			d, NULL, DOCTOR_UNKNOWN,
			"if the agent says no_cupti: pip install "
			"nvidia-cuda-cupti in the server's environment",
			"pid %d has not loaded libcupti; the agent will look "
			"beside %.120s",
			(int)pid, cuda);
	else
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "pip install nvidia-cuda-cupti in the server's "
			   "environment",
			   "pid %d has neither libcupti nor libcuda", (int)pid);
	if (find_mapping(d, pid, "libcuda.so", cuda, sizeof(cuda)))
		doctor_say(d, "driver", DOCTOR_OK, "", "pid %d has %.160s",
			   (int)pid, cuda);
}

/* ---- other clients of CUPTI ------------------------------------------------ */

struct client {
	char name[96]; /* of what was found, "" nothing */
	bool ours;     /* moetop run */
};

/* One variable of its environment. */
static void judge_variable(const char *v, struct client *c)
{
	static const char injection[] = "CUDA_INJECTION64_PATH=";
	const char *base;

	if (!strncmp(v, injection, sizeof(injection) - 1)) {
		base = strrchr(v, '/');
		base = base ? base + 1 : v + sizeof(injection) - 1;
		c->ours = !strncmp(base, "libmoetop-agent", 15);
		if (!c->ours)
			snprintf(c->name, sizeof(c->name),
				 "CUDA_INJECTION64_PATH names %.48s", base);
	} else if (!strncmp(v, "NSYS_", 5) || !strncmp(v, "NV_NSIGHT", 9) ||
		   !strncmp(v, "NV_TPS_LAUNCH", 13)) {
		snprintf(c->name, sizeof(c->name), "%.*s is set",
			 (int)strcspn(v, "=") > 60 ? 60 : (int)strcspn(v, "="),
			 v);
	}
}

void doctor_profiler(struct doctor *d)
{
	char *text = malloc(ENVIRON_BYTES), path[1024];
	pid_t pid = doctor_first(d);
	struct client c = { .ours = false };
	ssize_t n = text ? doctor_read_process(d, pid, "environ", text,
					       ENVIRON_BYTES)
			 : -ENOMEM;

	for (const char *v = text; n > 0 && v < text + n && !c.name[0];
	     v += strlen(v) + 1)
		judge_variable(v, &c);
	free(text);
	if (!c.name[0] &&
	    find_mapping(d, pid, "libToolsInjection", path, sizeof(path)))
		snprintf(c.name, sizeof(c.name), "%.64s is loaded",
			 strrchr(path, '/') + 1);
	if (c.name[0])
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "start the server without nsys, ncu or another "
			   "injected tool",
			   "another client of CUPTI in pid %d: %s", (int)pid,
			   c.name);
	else
		doctor_say(d, NULL, n < 0 ? DOCTOR_UNKNOWN : DOCTOR_OK, "",
			   n < 0    ? "the environment of pid %d is hidden"
			   : c.ours ? "pid %d was started by moetop run"
				    : "no other client of CUPTI is seen in pid "
				      "%d",
			   (int)pid);
}

/* ---- kernels --------------------------------------------------------------- */

void doctor_kernels(struct doctor *d)
{
	const struct target *t = d->target;
	struct rank_peek p = { .windows = 0 };
	double known = NAN;

	for (unsigned i = 0; i < t->n_ranks && !isfinite(known); i++)
		if (t->ranks[i].agent_ring[0] &&
		    !rank_peek(t->ranks[i].agent_ring, &p))
			known = rank_peek_known(&p);
	if (!isfinite(known))
		doctor_say(d, NULL, DOCTOR_UNKNOWN,
			   "watch it for a minute, then ask again",
			   "the agent has left no kernel times in memory");
	else
		doctor_say(d, NULL,
			   known >= KNOWN_ENOUGH ? DOCTOR_OK : DOCTOR_MISSING,
			   known >= KNOWN_ENOUGH
				   ? ""
				   : "report this, with moetop doctor -p PID "
				     "--bundle FILE.tar",
			   "%.1f %% of the kernel time is of a class that "
			   "moetop knows (%u windows)",
			   100 * known, p.windows);
}
