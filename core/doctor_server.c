/*
 * The server from outside: what it is, where its model is described, whether
 * its engine answers, and what its kernel, container and security modules let
 * us do with it.
 */
#include "core/doctor.h"
#include "core/fetch.h"
#include "core/privileges.h"
#include "target/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void doctor_server(struct doctor *d)
{
	const struct target *t = d->target;
	size_t n = 0;
	char ports[96] = "no port", fix[256] = "";

	if (t->n_ports)
		n = (size_t)snprintf(
			ports, sizeof(ports), "port %u%s%s", t->ports[0],
			t->n_ports > 1 ? " and others" : "",
			t->ports_guessed ? " (not listening yet)" : "");
	if (t->unfollowed)
		snprintf(ports + n, sizeof(ports) - n,
			 "%s%u more listeners of it are not followed",
			 n ? "; " : "", t->unfollowed);
	if (t->left_over) {
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "end them, or name a server that serves", "%s",
			   t->note);
		return;
	}
	if (t->denied)
		doctor_grant(d, fix, sizeof(fix));
	doctor_say(d, NULL, t->denied ? DOCTOR_MISSING : DOCTOR_OK, fix,
		   "%s%u process%s, %u with CUDA, %s, engine %s",
		   t->denied ? "part of the server's /proc is hidden: " : "",
		   t->n_pids, t->n_pids == 1 ? "" : "es", t->n_ranks, ports,
		   t->engine[0] ? t->engine : "not recognised");
}

void doctor_model(struct doctor *d)
{
	const struct target *t = d->target;
	const char *model = t->model[0] ? t->model : t->arch.name;

	if (t->have_arch)
		doctor_say(d, NULL, DOCTOR_OK, "", "%.64s from %.96s (%.80s)",
			   *model ? model : "a model without a name",
			   t->config_path[0] ? t->config_path : "the engine",
			   t->config_origin[0] ? t->config_origin : "its name");
	else
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "add --model PATH of its config.json",
			   "the model's shape is unknown%s%s",
			   t->arch_error[0] ? ": " : "", t->arch_error);
}

/* ---- the engine's metrics -------------------------------------------------- */

struct question {
	const struct target *target;
	int err;
	bool outside; /* its network could not be entered */
	bool unseen;  /* nor was it to be seen which one it is */
	uint16_t port;
	unsigned families;
};

static unsigned count_families(const char *body, size_t bytes)
{
	const char *end = body + bytes, *p = body;
	unsigned n = 0;

	while (p < end && (p = memmem(p, (size_t)(end - p), "# TYPE ", 7))) {
		n++;
		p += 7;
	}
	return n;
}

/* A thread that may have to enter another network, for good. */
static void *ask(void *arg)
{
	struct question *q = arg;
	struct fetch *f = NULL;
	const char *body;
	size_t bytes;

	q->err = fetch_open(&f, q->target->pid);
	q->outside = q->err == -EPERM;
	q->unseen = q->err == -EACCES;
	if (q->err)
		return NULL;
	(void)privileges_keep(0);
	q->err = -ENOENT;
	for (unsigned i = 0; q->err && i < q->target->n_ports && i < 4; i++) {
		q->port = q->target->ports[i];
		q->err = fetch_metrics(f, q->port, &body, &bytes);
		if (!q->err)
			q->families = count_families(body, bytes);
	}
	fetch_close(f);
	return NULL;
}

void doctor_engine(struct doctor *d)
{
	struct question q = { .target = d->target, .err = -EAGAIN };
	bool sglang = !strcmp(d->target->engine, "sglang");
	pthread_t thread;

	if (!d->target->n_ports) {
		doctor_say(d, NULL, DOCTOR_MISSING, "wait until it serves",
			   "no metrics of the engine: it listens on no port");
		return;
	}
	if (!pthread_create(&thread, NULL, ask, &q))
		pthread_join(thread, NULL);
	if (!q.err && q.families)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "port %u answers /metrics with %u families", q.port,
			   q.families);
	else if (q.outside)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "run as root: entering its network needs "
			   "cap_sys_admin",
			   "no metrics of the engine: it is in another network "
			   "namespace");
	else if (q.unseen)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "run as root, or as the server's user",
			   "no metrics of the engine: which network it is in "
			   "may not be seen");
	else if (q.err == -EACCES)
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "let /metrics be read without a key",
			   "no metrics of the engine: port %u wants a key for "
			   "/metrics",
			   q.port);
	else
		doctor_say(d, NULL, DOCTOR_MISSING,
			   sglang ? "start it with --enable-metrics"
				  : "start it without --disable-log-stats, and "
				    "see curl http://127.0.0.1:PORT/metrics",
			   "no metrics of the engine at port %u: %s", q.port,
			   q.err ? (q.err == -EPROTO
					    ? "it does not answer with "
					      "200"
					    : strerror(-q.err))
				 : "no metric in the answer");
}

/* ---- boundaries ------------------------------------------------------------ */

static bool same_namespace(const struct doctor *d, pid_t pid, const char *name)
{
	char path[64], own[64], theirs[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	if (doctor_link(d, path, theirs, sizeof(theirs)) <= 0) {
		ssize_t n = readlink(path, theirs, sizeof(theirs) - 1);

		if (n <= 0) /* true where it cannot be told */
			return strcmp(name, "net") != 0 ||
			       proc_same_network(pid) != 0;
		theirs[n] = '\0';
	}
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (doctor_link(d, path, own, sizeof(own)) <= 0)
		return true;
	return !strcmp(own, theirs);
}

/* The last part of its control group that names something: an id, a pod. */
static void container_id(const char *cgroup, char *out, size_t bytes)
{
	static const char *const signs[] = { "docker", "kubepods", "libpod",
					     "containerd", "lxc" };
	const char *end, *slash, *sign = NULL;

	out[0] = '\0';
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && !sign; i++)
		sign = strstr(cgroup, signs[i]);
	if (!sign)
		return;
	end = sign + strcspn(sign, "\n");
	slash = memrchr(sign, '/', (size_t)(end - sign));
	slash = slash ? slash + 1 : sign;
	snprintf(out, bytes, "%.*s", (int)(end - slash), slash);
}

void doctor_boundaries(struct doctor *d)
{
	static const char *const names[] = { "pid", "mnt", "net", "user" };
	pid_t pid = doctor_first(d);
	char cgroup[4096], id[80] = "", others[64] = "";
	size_t n = 0;

	if (doctor_read_process(d, pid, "cgroup", cgroup, sizeof(cgroup)) > 0)
		container_id(cgroup, id, sizeof(id));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!same_namespace(d, pid, names[i]))
			n += (size_t)snprintf(others + n, sizeof(others) - n,
					      "%s%s", n ? ", " : "", names[i]);
	if (!id[0] && !n)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "the server runs beside moetop, in no container");
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "the server runs in a container %.79s, with its own "
			   "namespaces: %s",
			   id, n ? others : "none");
}

/* A field of a status file, "" without it. */
static void status_field(const char *text, const char *name, char *out,
			 size_t bytes)
{
	const char *p = strstr(text, name);

	out[0] = '\0';
	if (!p)
		return;
	p += strlen(name);
	p += strspn(p, " \t");
	snprintf(out, bytes, "%.*s", (int)strcspn(p, "\n"), p);
}

void doctor_seccomp(struct doctor *d)
{
	char text[8192], mode[16], filters[16], sealed[16];
	pid_t pid = doctor_first(d);
	bool admin = d->facts.capabilities >> CAP_SYS_ADMIN & 1;

	if (doctor_read_process(d, pid, "status", text, sizeof(text)) <= 0) {
		doctor_say(d, NULL, DOCTOR_UNKNOWN,
			   "run as root, or as its user",
			   "the status of process %d is hidden", (int)pid);
		return;
	}
	status_field(text, "\nSeccomp:", mode, sizeof(mode));
	status_field(text, "\nSeccomp_filters:", filters, sizeof(filters));
	status_field(text, "\nNoNewPrivs:", sealed, sizeof(sealed));
	if (!strcmp(mode, "1")) {
		d->facts.attachable = false;
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "start the server without strict seccomp",
			   "process %d is under strict seccomp: it may only "
			   "read, write and exit",
			   (int)pid);
	} else if (!strcmp(mode, "2") && !admin) {
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "run as root (cap_sys_admin reads the filters), or "
			   "start it with: docker run --security-opt "
			   "seccomp=unconfined, or moetop run -- CMD",
			   "process %d has %s seccomp filters, and moetop may "
			   "not see what they forbid",
			   (int)pid, filters[0] ? filters : "some");
	} else {
		doctor_say(d, NULL, DOCTOR_OK, "", "process %d: %s%s%s%s",
			   (int)pid, !strcmp(mode, "2") ? filters : "no",
			   " seccomp filters",
			   !strcmp(mode, "2") ? ", which are asked before it "
						"is attached to"
					      : "",
			   !strcmp(sealed, "1") ? "; no_new_privs" : "");
	}
}

/* ---- security modules ------------------------------------------------------ */

static bool confined(const char *label)
{
	return label[0] && strncmp(label, "unconfined", 10) &&
	       !strstr(label, ":unconfined_t") && strcmp(label, "kernel");
}

static void read_label(const struct doctor *d, pid_t pid, char *out,
		       size_t bytes)
{
	if (doctor_read_process(d, pid, "attr/current", out, bytes) <= 0)
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

void doctor_lsm(struct doctor *d)
{
	char own[128] = "", theirs[128], enforce[8];
	pid_t pid = doctor_first(d);
	bool selinux = doctor_read(d, "/sys/fs/selinux/enforce", enforce,
				   sizeof(enforce)) > 0;

	if (doctor_read(d, "/proc/self/attr/current", own, sizeof(own)) <= 0)
		own[0] = '\0';
	own[strcspn(own, "\n")] = '\0';
	read_label(d, pid, theirs, sizeof(theirs));
	if (confined(own) && (!selinux || enforce[0] == '1'))
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   selinux ? "run moetop with: --security-opt "
				     "label=disable (host: runcon -t "
				     "unconfined_t moetop)"
				   : "run moetop with: --security-opt "
				     "apparmor=unconfined",
			   "moetop is confined by %s (%.60s), which may forbid "
			   "to trace the server (%.60s)",
			   selinux ? "SELinux" : "AppArmor", own,
			   theirs[0] ? theirs : "unconfined");
	else if (confined(theirs))
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "the server is confined by %s (%.80s), moetop is "
			   "not",
			   selinux ? "SELinux" : "AppArmor", theirs);
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "no security module confines the server");
}

/* ---- ptrace ---------------------------------------------------------------- */

/* Opening its memory asks the kernel what attaching would. */
static int may_trace(const struct doctor *d, pid_t pid)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%d/mem", d->root, (int)pid);
	if (!d->root[0] || access(path, F_OK))
		snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void explain_refusal(struct doctor *d, pid_t pid, int err)
{
	char text[8192], field[64], path[32], fix[256];
	struct stat st = { 0 };
	unsigned uid = 0;

	/* belongs to root when the process is not dumpable */
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	if (doctor_read_process(d, pid, "status", text, sizeof(text)) > 0) {
		status_field(text, "\nUid:", field, sizeof(field));
		uid = (unsigned)strtoul(field, NULL, 10);
	}
	doctor_grant(d, fix, sizeof(fix));
	if (uid == getuid() && !stat(path, &st) && st.st_uid != uid)
		doctor_say(d, NULL, DOCTOR_BROKEN, fix,
			   "process %d does not let its own user trace it "
			   "(PR_SET_DUMPABLE is 0, or it was started with "
			   "file capabilities)",
			   (int)pid);
	else if (uid != getuid())
		doctor_say(d, NULL, DOCTOR_BROKEN, fix,
			   "process %d belongs to uid %u and moetop runs as "
			   "uid %u: %s",
			   (int)pid, uid, (unsigned)getuid(), strerror(-err));
	else
		doctor_say(d, NULL, DOCTOR_BROKEN, fix,
			   "the kernel does not let moetop trace process %d: "
			   "%s",
			   (int)pid, strerror(-err));
}

void doctor_ptrace(struct doctor *d)
{
	const struct target *t = d->target;
	unsigned n = t->n_ranks ? t->n_ranks : 1;

	for (unsigned i = 0; i < n; i++) {
		pid_t pid = t->n_ranks ? t->ranks[i].pid : t->pid;
		int err = may_trace(d, pid);

		if (!err)
			continue;
		d->facts.attachable = false;
		explain_refusal(d, pid, err);
		return;
	}
	doctor_say(d, NULL, DOCTOR_OK, "",
		   "the kernel lets moetop trace %u process%s (asked without "
		   "stopping any)",
		   n, n == 1 ? "" : "es");
}
