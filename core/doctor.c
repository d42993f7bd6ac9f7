#include "core/doctor.h"
#include "core/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *const tier_names[SNAPSHOT_TIERS] = { "T0", "T1", "T2", "T3",
							"C" };

static const struct {
	const char *id;
	enum tier tier;
	bool server; /* only with -p */
	void (*run)(struct doctor *d);
} checks[] = {
	{ "kernel", TIER_T1, false, doctor_kernel },
	{ "kernel.btf", TIER_T1, false, doctor_btf },
	{ "kernel.lockdown", TIER_T1, false, doctor_lockdown },
	{ "container", TIER_T0, false, doctor_container },
	{ "userns", TIER_T1, false, doctor_userns },
	{ "privileges", TIER_T1, false, doctor_privileges },
	{ "kernel.bpf", TIER_T1, false, doctor_bpf },
	{ "rung", TIER_T1, false, doctor_rungs },
	{ "yama", TIER_T2, false, doctor_yama },
	{ "agent", TIER_T2, false, doctor_agent_file },
	{ "driver", TIER_T0, false, doctor_driver },
	{ "gpu", TIER_T0, false, doctor_gpus },
	{ "counters", TIER_C, false, doctor_counters },
	{ "server", TIER_T0, true, doctor_server },
	{ "server.model", TIER_T0, true, doctor_model },
	{ "server.metrics", TIER_T0, true, doctor_engine },
	{ "server.container", TIER_T0, true, doctor_boundaries },
	{ "server.seccomp", TIER_T2, true, doctor_seccomp },
	{ "server.lsm", TIER_T2, true, doctor_lsm },
	{ "server.ptrace", TIER_T2, true, doctor_ptrace },
	{ "rank", TIER_T2, true, doctor_ranks },
	{ "cupti", TIER_T2, true, doctor_cupti },
	{ "cupti.client", TIER_T2, true, doctor_profiler },
	{ "kernels", TIER_T2, true, doctor_kernels },
	{ "counters.holder", TIER_C, false, doctor_holders },
	{ "counters.pm", TIER_C, false, doctor_sampling },
	{ "terminal", TIER_T0, false, doctor_terminal },
	{ "listen", TIER_T0, false, doctor_listen },
	{ NULL, TIER_T0, false, doctor_tier_lines },
};

const char *doctor_state_name(enum doctor_state s)
{
	static const char *const names[DOCTOR_STATES] = { "ok", "missing",
							  "broken", "unknown" };

	return names[s];
}

const char *doctor_tier_name(enum tier t)
{
	return tier_names[t];
}

/* ---- lines ---------------------------------------------------------------- */

/* Names that come from others may hold line ends and worse. */
static void make_plain(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
		/* U+0080 to U+009F, which steer terminals, too */
		if (text[0] == '\xc2' && (text[1] & 0xe0) == 0x80)
			text[0] = text[1] = ' ';
	}
}

void doctor_say(struct doctor *d, const char *part, enum doctor_state state,
		const char *remedy, const char *format, ...)
{
	struct doctor_line *l;
	va_list ap;

	if (d->n == DOCTOR_LINES_MAX)
		return;
	l = &d->lines[d->n++];
	l->tier = d->tier;
	l->state = state;
	if (d->id)
		snprintf(l->id, sizeof(l->id), "%s%s%s", d->id, part ? "." : "",
			 part ? part : "");
	else
		snprintf(l->id, sizeof(l->id), "%s", tier_names[d->tier]);
	va_start(ap, format);
	vsnprintf(l->what, sizeof(l->what), format, ap);
	va_end(ap);
	snprintf(l->remedy, sizeof(l->remedy), "%s", remedy);
	make_plain(l->what);
	make_plain(l->remedy);
}

const struct doctor_line *doctor_obstacle(const struct doctor *d,
					  const char *prefix)
{
	for (unsigned i = 0; i < d->n; i++)
		if (!strncmp(d->lines[i].id, prefix, strlen(prefix)) &&
		    (d->lines[i].state == DOCTOR_MISSING ||
		     d->lines[i].state == DOCTOR_BROKEN))
			return &d->lines[i];
	return NULL;
}

void doctor_grant(const struct doctor *d, char *out, size_t bytes)
{
	/* not even root has it in there */
	bool withheld = prctl(PR_CAPBSET_READ, CAP_BPF, 0, 0, 0) != 1 ||
			prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE, 0, 0, 0) != 1;

	if (d->facts.in_container && withheld)
		snprintf(out, bytes,
			 "docker run --cap-add BPF --cap-add PERFMON --cap-add "
			 "SYS_PTRACE --pid host (Kubernetes: the same under "
			 "securityContext.capabilities.add)");
	else
		snprintf(out, bytes,
			 "run as root, or: sudo setcap cap_bpf,cap_perfmon,"
			 "cap_sys_ptrace,cap_dac_read_search+ep %.100s",
			 d->program);
}

/* ---- files ---------------------------------------------------------------- */

static ssize_t read_at(const char *root, const char *path, char *buf,
		       size_t room)
{
	char full[PATH_MAX];
	size_t n = 0;
	ssize_t got = 1;
	int fd;

	snprintf(full, sizeof(full), "%s%s", root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	while (got > 0 && n + 1 < room) {
		got = read(fd, buf + n, room - 1 - n);
		if (got > 0)
			n += (size_t)got;
	}
	if (got < 0)
		got = -errno;
	close(fd);
	buf[n] = '\0';
	return got < 0 ? got : (ssize_t)n;
}

ssize_t doctor_read(const struct doctor *d, const char *path, char *buf,
		    size_t room)
{
	return read_at(d->root, path, buf, room);
}

ssize_t doctor_read_process(const struct doctor *d, pid_t pid, const char *name,
			    char *buf, size_t room)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	n = read_at(d->root, path, buf, room);
	if (n == -ENOENT && d->root[0])
		n = read_at("", path, buf, room);
	return n;
}

ssize_t doctor_link(const struct doctor *d, const char *path, char *buf,
		    size_t room)
{
	char full[PATH_MAX];
	ssize_t n;

	snprintf(full, sizeof(full), "%s%s", d->root, path);
	n = readlink(full, buf, room - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

bool doctor_exists(const struct doctor *d, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", d->root, path);
	return !access(full, F_OK);
}

pid_t doctor_first(const struct doctor *d)
{
	return d->target->n_ranks ? d->target->ranks[0].pid : d->target->pid;
}

/* ---- all of them ---------------------------------------------------------- */

void doctor_run(struct doctor *d, const struct settings *s, const char *root,
		const struct target *t)
{
	ssize_t n;

	*d = (struct doctor){ .settings = s, .root = root, .target = t };
	n = readlink("/proc/self/exe", d->program, sizeof(d->program) - 1);
	d->program[n > 0 ? n : 0] = '\0';
	d->facts.capabilities = privileges_effective();
	d->facts.attachable = true;
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (checks[i].server && !t)
			continue;
		d->id = checks[i].id;
		d->tier = checks[i].tier;
		checks[i].run(d);
	}
}

const struct doctor_line *doctor_tier(const struct doctor *d, enum tier tier)
{
	for (unsigned i = 0; i < d->n; i++)
		if (!strcmp(d->lines[i].id, tier_names[tier]))
			return &d->lines[i];
	return NULL;
}

bool doctor_works(const struct doctor *d, unsigned tiers)
{
	for (unsigned t = 0; t < SNAPSHOT_TIERS; t++) {
		const struct doctor_line *l;

		if (!(tiers >> t & 1))
			continue;
		l = doctor_tier(d, (enum tier)t);
		if (!l || l->state != DOCTOR_OK)
			return false;
	}
	return true;
}

static unsigned tier_bit(const char *word, size_t n)
{
	for (unsigned t = 0; t < SNAPSHOT_TIERS; t++)
		if (strlen(tier_names[t]) == n &&
		    !strncasecmp(word, tier_names[t], n))
			return 1u << t;
	return 0;
}

unsigned doctor_tiers(const char *words)
{
	unsigned all = 0;

	for (;;) {
		size_t n = strcspn(words, ",+");
		unsigned bit = tier_bit(words, n);

		if (!bit)
			return 0;
		all |= bit;
		if (!words[n])
			return all;
		words += n + 1;
	}
}
