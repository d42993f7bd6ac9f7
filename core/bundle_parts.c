#include "core/bundle_parts.h"
#include "core/rank_peek.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64u
#define SNAPSHOTS "3"
#define SNAPSHOTS_LIMIT_NS (15 * NS_PER_S)
#define SNAPSHOTS_BYTES_MAX (16u << 20)

/* ---- versions -------------------------------------------------------------- */

void bundle_versions(const struct doctor *d, FILE *f)
{
	const struct target *t = d->target;
	char driver[512];
	struct utsname u;

	fprintf(f, "moetop %s\n", MOETOP_VERSION);
	if (!uname(&u))
		fprintf(f, "kernel %s %s %s\n", u.sysname, u.release,
			u.machine);
	fprintf(f, "libc %s\n", gnu_get_libc_version());
	if (doctor_read(d, "/proc/driver/nvidia/version", driver,
			sizeof(driver)) > 0)
		fprintf(f, "driver %.*s\n", (int)strcspn(driver, "\n"), driver);
	if (t)
		fprintf(f, "engine %s %s\n", t->engine, t->engine_version);
}

/* ---- processes ------------------------------------------------------------- */

static const char *const fields[] = {
	"State:",     "Tgid:",
	"PPid:",      "NSpid:",
	"Threads:",   "VmRSS:",
	"CapInh:",    "CapPrm:",
	"CapEff:",    "CapBnd:",
	"NoNewPrivs", "Seccomp:",
	"Seccomp_",   "Cpus_allowed_list:",
};

static bool is_wanted(const char *line)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strncmp(line, fields[i], strlen(fields[i])))
			return true;
	return false;
}

void bundle_processes(const struct doctor *d, FILE *f)
{
	const struct target *t = d->target;
	char text[8192], *save;

	for (unsigned i = 0; i < t->n_pids && i < PROCESSES_MAX; i++) {
		if (doctor_read_process(d, t->pids[i], "status", text,
					sizeof(text)) <= 0)
			continue;
		fprintf(f, "process %d\n", (int)t->pids[i]);
		for (char *l = strtok_r(text, "\n", &save); l;
		     l = strtok_r(NULL, "\n", &save))
			if (is_wanted(l))
				fprintf(f, "\t%s\n", l);
	}
	if (t->n_pids > PROCESSES_MAX)
		fprintf(f, "and %u more\n", t->n_pids - PROCESSES_MAX);
}

/* ---- kernels --------------------------------------------------------------- */

static const char *const class_names[CLASSES] = {
	[CLASS_OTHER] = "other",
#define KERNEL_CLASS(id, name, group, regex) [CLASS_##id] = name,
#include "wire/kernel_class.def"
#undef KERNEL_CLASS
};

void bundle_kernels(const struct doctor *d, FILE *f)
{
	const struct target *t = d->target;

	for (unsigned i = 0; i < t->n_ranks; i++) {
		const struct target_rank *r = &t->ranks[i];
		struct rank_peek p;

		fprintf(f, "rank %u pid %d\n", r->number, (int)r->pid);
		if (!r->agent_ring[0] || rank_peek(r->agent_ring, &p)) {
			fprintf(f, "\tno kernel times in memory\n");
			continue;
		}
		fprintf(f,
			"\twindows %u cupti %u driver %u graphs %u nodes "
			"%u\n",
			p.windows, p.status.cupti_version,
			p.status.driver_version, p.status.graphs,
			p.status.graph_nodes);
		for (unsigned c = 0; c < CLASSES; c++)
			if (p.class_calls[c] > 0)
				fprintf(f, "\t%-24s %.0f calls %.6f s\n",
					class_names[c], p.class_calls[c],
					p.class_ns[c] / 1e9);
	}
}

/* ---- snapshots ------------------------------------------------------------- */

static int start_moetop(const struct doctor *d, pid_t *pid, int *out)
{
	char number[16], self[] = "/proc/self/exe";
	char *argv[12] = { "moetop",  "-p", number, "--json",     "--count",
			   SNAPSHOTS, "-i", "0.5",  "--no-inject" };
	unsigned n = 9;
	posix_spawn_file_actions_t a;
	int pipe[2], err;

	snprintf(number, sizeof(number), "%d", (int)d->target->pid);
	if (d->settings->no_bpf)
		argv[n++] = "--no-bpf";
	if (pipe2(pipe, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&a);
	posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&a, pipe[1], 1);
	posix_spawn_file_actions_addopen(&a, 2, "/dev/null", O_WRONLY, 0);
	err = posix_spawn(pid, self, &a, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&a);
	close(pipe[1]);
	if (err) {
		close(pipe[0]);
		return -err;
	}
	*out = pipe[0];
	return 0;
}

static void copy_lines(int fd, FILE *f)
{
	uint64_t until_ns = clock_now_ns() + SNAPSHOTS_LIMIT_NS;
	char buf[65536];
	size_t all = 0;

	while (all < SNAPSHOTS_BYTES_MAX) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now_ns = clock_now_ns();
		ssize_t n;

		if (now_ns >= until_ns ||
		    poll(&p, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1) < 1)
			return;
		n = read(fd, buf, sizeof(buf));
		if (n <= 0)
			return;
		fwrite(buf, 1, (size_t)n, f);
		all += (size_t)n;
	}
}

void bundle_snapshots(const struct doctor *d, FILE *f)
{
	pid_t pid = 0;
	int fd = -1;

	if (start_moetop(d, &pid, &fd))
		return;
	copy_lines(fd, f);
	close(fd);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}
