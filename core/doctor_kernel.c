/*
 * The kernel, and what stands between it and moetop: versions, BTF, lockdown,
 * yama, namespaces, capabilities.
 */
#include "core/doctor.h"
#include "core/privileges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define INIT_PIDNS "pid:[4026531836]"   /* their inodes are fixed, */
#define INIT_USERNS "user:[4026531837]" /* include/linux/proc_ns.h */

static bool has(const struct doctor *d, unsigned cap)
{
	return d->facts.capabilities >> cap & 1;
}

/* One number of a file, or `none` when there is no such file. */
static int read_number(const struct doctor *d, const char *path, int none)
{
	char text[32];

	return doctor_read(d, path, text, sizeof(text)) > 0 ? atoi(text) : none;
}

static void cut_line(char *text)
{
	text[strcspn(text, "\n")] = '\0';
}

/* ---- the kernel ----------------------------------------------------------- */

void doctor_kernel(struct doctor *d)
{
	char release[128];
	struct utsname u;
	unsigned major = 0, minor = 0;

	if (uname(&u))
		u.machine[0] = '\0';
	if (doctor_read(d, "/proc/sys/kernel/osrelease", release,
			sizeof(release)) <= 0) {
		doctor_say(d, NULL, DOCTOR_UNKNOWN, "mount -t proc proc /proc",
			   "the kernel's version cannot be read from /proc");
		return;
	}
	cut_line(release);
	if (sscanf(release, "%u.%u", &major, &minor) == 2 &&
	    (major < 5 || (major == 5 && minor < 12)))
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "boot Linux 5.15 or later; until then requests are "
			   "estimated",
			   "Linux %.100s: requests are counted from 5.12 on",
			   release);
	else
		doctor_say(d, NULL, DOCTOR_OK, "", "Linux %.100s, %s", release,
			   u.machine);
}

void doctor_btf(struct doctor *d)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/sys/kernel/btf/vmlinux", d->root);
	if (!stat(path, &st))
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "/sys/kernel/btf/vmlinux, %.1f MB",
			   (double)st.st_size / 1e6);
	else if (!doctor_exists(d, "/sys/kernel"))
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "mount -t sysfs sysfs /sys (container: -v "
			   "/sys:/sys:ro)",
			   "no /sys/kernel/btf/vmlinux: /sys is not mounted");
	else
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y "
			   "(those of distributions are since 2021)",
			   "no /sys/kernel/btf/vmlinux: the kernel does not "
			   "describe its types");
}

void doctor_bpf(struct doctor *d)
{
	int off =
		read_number(d, "/proc/sys/kernel/unprivileged_bpf_disabled", 0);
	int paranoid =
		read_number(d, "/proc/sys/kernel/perf_event_paranoid", 2);
	bool may = has(d, CAP_SYS_ADMIN) ||
		   (has(d, CAP_BPF) && has(d, CAP_PERFMON));
	char fix[256] = "";

	if (!may)
		doctor_grant(d, fix, sizeof(fix));
	doctor_say(d, NULL, may ? DOCTOR_OK : DOCTOR_MISSING, fix,
		   "BPF is %s (unprivileged_bpf_disabled %d, "
		   "perf_event_paranoid %d)",
		   may ? "allowed"
		       : "not allowed without CAP_BPF and "
			 "CAP_PERFMON",
		   off, paranoid);
}

/* "none [integrity] confidentiality": the one in brackets. */
void doctor_lockdown(struct doctor *d)
{
	char text[128], *at, *end;

	if (doctor_read(d, "/sys/kernel/security/lockdown", text,
			sizeof(text)) <= 0) {
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "the kernel shows no lockdown");
		return;
	}
	at = strchr(text, '[');
	end = at ? strchr(at, ']') : NULL;
	if (!end) {
		doctor_say(d, NULL, DOCTOR_UNKNOWN,
			   "see cat /sys/kernel/security/lockdown",
			   "the state of the lockdown makes no sense");
		return;
	}
	*end = '\0';
	if (!strcmp(at + 1, "confidentiality"))
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "boot with lockdown=integrity (or without Secure "
			   "Boot); until then packets are counted, which needs "
			   "cap_net_admin",
			   "lockdown is confidentiality: no program may read "
			   "the kernel's memory");
	else
		doctor_say(d, NULL, DOCTOR_OK, "", "lockdown is %.32s", at + 1);
}

/* ---- namespaces ----------------------------------------------------------- */

static const char *container_of(const struct doctor *d)
{
	static const char *const signs[][2] = {
		{ "docker", "Docker" }, { "kubepods", "Kubernetes" },
		{ "libpod", "Podman" }, { "containerd", "containerd" },
		{ "lxc", "LXC" },
	};
	char text[4096];

	if (doctor_read(d, "/proc/self/cgroup", text, sizeof(text)) > 0)
		for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
			if (strstr(text, signs[i][0]))
				return signs[i][1];
	if (doctor_exists(d, "/.dockerenv"))
		return "Docker";
	if (doctor_exists(d, "/run/.containerenv"))
		return "Podman";
	return NULL;
}

/* For the source that counts packets. */
static void say_cgroup2(struct doctor *d)
{
	char mounts[65536];
	bool there = doctor_read(d, "/proc/self/mounts", mounts,
				 sizeof(mounts)) > 0 &&
		     strstr(mounts, " cgroup2 ");

	doctor_say(d, "cgroup2", there ? DOCTOR_OK : DOCTOR_MISSING,
		   there ? ""
			 : "mount -t cgroup2 none /sys/fs/cgroup, if no "
			   "other source of requests works",
		   "control groups of version 2 are %smounted",
		   there ? "" : "not ");
}

void doctor_container(struct doctor *d)
{
	const char *name = container_of(d);
	char ns[64];

	d->facts.own_pidns =
		doctor_link(d, "/proc/self/ns/pid", ns, sizeof(ns)) > 0 &&
		strcmp(ns, INIT_PIDNS) != 0;
	d->facts.in_container = name != NULL;
	if (d->facts.own_pidns)
		doctor_say(
			d, NULL, DOCTOR_MISSING,
			"docker run --pid=host (Kubernetes: hostPID: true), "
			"or run moetop on the host",
			"moetop runs in a container%s%s with a pid namespace "
			"of its own: it sees no server outside",
			name ? " of " : "", name ? name : "");
	else if (name)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "moetop runs in a container of %s and sees the "
			   "host's processes",
			   name);
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "moetop runs on the host itself");
	say_cgroup2(d);
}

void doctor_userns(struct doctor *d)
{
	char ns[64];

	d->facts.in_userns =
		doctor_link(d, "/proc/self/ns/user", ns, sizeof(ns)) > 0 &&
		strcmp(ns, INIT_USERNS) != 0;
	if (d->facts.in_userns)
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "run moetop on the host, or its container with "
			   "--userns=host (rootless: use sudo podman)",
			   "moetop runs in a user namespace, where no "
			   "capability lets it load BPF");
	else
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "no user namespace around moetop");
}

/* ---- who may trace, and who may what -------------------------------------- */

void doctor_yama(struct doctor *d)
{
	int scope = read_number(d, "/proc/sys/kernel/yama/ptrace_scope", -1);

	d->facts.yama = scope > 0 ? scope : 0;
	if (scope < 0)
		doctor_say(d, NULL, DOCTOR_OK, "", "no yama in this kernel");
	else if (scope == 0)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "kernel.yama.ptrace_scope is 0");
	else if (scope > 2)
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   "start the server with: moetop run -- CMD (it can "
			   "only be changed by a boot: kernel.yama."
			   "ptrace_scope=1 in /etc/sysctl.d)",
			   "kernel.yama.ptrace_scope is 3: nobody may attach");
	else if (has(d, CAP_SYS_PTRACE))
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "kernel.yama.ptrace_scope is %d, and moetop has "
			   "CAP_SYS_PTRACE",
			   scope);
	else
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   scope == 1 ? "sudo sysctl kernel.yama.ptrace_scope=0"
					", or run as root"
				      : "run as root",
			   "kernel.yama.ptrace_scope is %d: only with "
			   "CAP_SYS_PTRACE may a running server be attached to",
			   scope);
	if (scope > 2 || (scope > 0 && !has(d, CAP_SYS_PTRACE)))
		d->facts.attachable = false;
}

static void say_capability(struct doctor *d, const char *part, enum tier tier,
			   uint64_t need, const char *use)
{
	uint64_t lacks = need & ~d->facts.capabilities;
	char names[128], fix[256];

	d->tier = tier;
	privileges_names(need, names, sizeof(names));
	doctor_grant(d, fix, sizeof(fix));
	doctor_say(d, part, lacks ? DOCTOR_MISSING : DOCTOR_OK,
		   lacks ? fix : "", "%s%s, to %s", lacks ? "no " : "", names,
		   use);
}

void doctor_privileges(struct doctor *d)
{
	struct privilege_sets s = { 0 };
	char have[192];
	bool all;

	(void)privileges_read(&s);
	all = (s.effective & PRIVILEGES_ALL) == PRIVILEGES_ALL;
	privileges_names(s.effective & PRIVILEGES_ALL, have, sizeof(have));
	doctor_say(d, NULL, DOCTOR_OK, "",
		   "moetop runs as uid %u%s; of what it can use it has: %s",
		   (unsigned)getuid(),
		   privileges_elevated() ? " with file capabilities" : "",
		   all ? "all" : (have[0] ? have : "nothing"));
	say_capability(d, "requests", TIER_T1, PRIVILEGES_BPF,
		       "count requests in the kernel");
	say_capability(d, "attach", TIER_T2, PRIVILEGE(CAP_SYS_PTRACE),
		       "attach to servers of other users");
	say_capability(d, "read", TIER_T0, PRIVILEGE(CAP_DAC_READ_SEARCH),
		       "find ports and models of other users' servers");
}
