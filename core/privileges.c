#include "core/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

extern char **environ;

const struct privilege privileges[] = {
	{ CAP_BPF, "cap_bpf", "load the programs that count requests" },
	{ CAP_PERFMON, "cap_perfmon", "attach them to the kernel" },
	{ CAP_NET_ADMIN, "cap_net_admin",
	  "count by packets where tracing is forbidden" },
	{ CAP_SYS_RESOURCE, "cap_sys_resource",
	  "lock memory for them before Linux 5.11" },
	{ CAP_SYS_PTRACE, "cap_sys_ptrace",
	  "see other users' processes and bring the agent in" },
	{ CAP_DAC_READ_SEARCH, "cap_dac_read_search",
	  "find other users' ports, descriptors and model files" },
	{ CAP_SYS_ADMIN, "cap_sys_admin",
	  "read seccomp filters and enter a container's network" },
	{ CAP_SYS_NICE, "cap_sys_nice", "keep the pause of an attach short" },
};
const unsigned n_privileges = sizeof(privileges) / sizeof(privileges[0]);

static _Atomic uint64_t forbidden;

/* ---- sets of the calling thread ----------------------------------------- */

static int read_data(struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};

	return syscall(SYS_capget, &head, data) ? -errno : 0;
}

static int write_sets(uint64_t effective, uint64_t permitted)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2] = {
		{ .effective = (uint32_t)effective,
		  .permitted = (uint32_t)permitted },
		{ .effective = (uint32_t)(effective >> 32),
		  .permitted = (uint32_t)(permitted >> 32) },
	};

	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

int privileges_read(struct privilege_sets *out)
{
	struct __user_cap_data_struct data[2] = { 0 };
	int err = read_data(data);

	if (err)
		return err;
	out->effective = data[0].effective | (uint64_t)data[1].effective << 32;
	out->permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
	return 0;
}

uint64_t privileges_effective(void)
{
	struct privilege_sets s;

	return privileges_read(&s) ? 0 : s.effective;
}

int privileges_raise(void)
{
	struct privilege_sets s;
	int err = privileges_read(&s);

	return err ? err : write_sets(s.permitted, s.permitted);
}

int privileges_keep(uint64_t mask)
{
	struct privilege_sets s;
	uint64_t keep;
	int err = privileges_read(&s);

	if (err)
		return err;
	keep = s.permitted & mask & ~atomic_load(&forbidden);
	if (keep == s.permitted && keep == s.effective)
		return 0;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return write_sets(keep, keep);
}

int privileges_pass_on(uint64_t mask)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[2] = { 0 };
	int err = read_data(data);

	if (err)
		return err;
	for (unsigned i = 0; i < 2; i++)
		data[i].inheritable =
			data[i].permitted & (uint32_t)(mask >> (32 * i));
	if (syscall(SYS_capset, &head, data))
		return -errno;
	for (unsigned cap = 0; cap < 64; cap++)
		if (data[cap / 32].inheritable >> (cap % 32) & 1 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0))
			return -errno;
	return 0;
}

void privileges_forbid(uint64_t mask)
{
	atomic_fetch_or(&forbidden, mask);
}

void privileges_permit(void)
{
	atomic_store(&forbidden, 0);
}

uint64_t privileges_for_port(const char *listen)
{
	const char *colon = listen ? strrchr(listen, ':') : NULL;
	long port = listen ? strtol(colon ? colon + 1 : listen, NULL, 10) : 0;

	return port > 0 && port < 1024 ? PRIVILEGE(CAP_NET_BIND_SERVICE) : 0;
}

void privileges_seal(void)
{
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* ---- names -------------------------------------------------------------- */

static const char *name_of(unsigned cap)
{
	for (unsigned i = 0; i < n_privileges; i++)
		if (privileges[i].cap == cap)
			return privileges[i].name;
	return NULL;
}

void privileges_names(uint64_t mask, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	for (unsigned cap = 0; cap < 64 && n < bytes; cap++) {
		const char *name = name_of(cap), *comma = n ? "," : "";

		if (!(mask >> cap & 1))
			continue;
		if (name)
			n += (size_t)snprintf(out + n, bytes - n, "%s%s", comma,
					      name);
		else
			n += (size_t)snprintf(out + n, bytes - n, "%s%u", comma,
					      cap);
	}
}

/* ---- the start ---------------------------------------------------------- */

bool privileges_elevated(void)
{
	return getauxval(AT_SECURE) != 0;
}

/* Names that start so make some library or ourselves read a file, or send
 * something somewhere. */
static bool names_files(const char *variable)
{
	static const char *const prefixes[] = {
		"MOETOP_", "TERMINFO",       "TERMCAP=", "TERMPATH=",
		"CURL_",   "SSLKEYLOGFILE=", "CUDA_",    "NVML_",
		"__NVML",  "LIBBPF_",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static void forget_environment(void)
{
	char **to = environ;

	for (char **at = environ; at && *at; at++)
		if (!names_files(*at))
			*to++ = *at;
	if (to)
		*to = NULL;
}

int privileges_begin(void)
{
	struct privilege_sets s;
	int err;

	if (!privileges_elevated())
		return 0;
	if (getuid() != geteuid() || getgid() != getegid())
		return -EPERM;
	forget_environment();
	err = privileges_read(&s);
	return err ? err : write_sets(0, s.permitted);
}

static int change_user(const struct passwd *p)
{
	/* what is saved from now on belongs in that user's folder */
	if (setenv("HOME", p->pw_dir, 1) ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) ||
	    initgroups(p->pw_name, p->pw_gid) ||
	    setresgid(p->pw_gid, p->pw_gid, p->pw_gid) ||
	    setresuid(p->pw_uid, p->pw_uid, p->pw_uid))
		return -errno;
	return 0;
}

int privileges_become(const char *user, char *why, size_t why_bytes)
{
	const uint64_t keep = PRIVILEGES_ALL | PRIVILEGE(CAP_NET_BIND_SERVICE);
	const struct passwd *p;
	struct privilege_sets s = { 0 };
	int err;

	if (geteuid()) {
		snprintf(why, why_bytes,
			 "--user: only root can become another user; start it "
			 "with sudo, or leave --user out");
		return -EPERM;
	}
	p = getpwnam(user);
	if (!p) {
		snprintf(why, why_bytes,
			 "--user: no user of the name %.64s; see getent passwd",
			 user);
		return -ENOENT;
	}
	err = change_user(p);
	if (!err)
		err = privileges_read(&s);
	if (!err) /* a port below 1024 is still to be opened */
		err = write_sets(s.permitted & PRIVILEGE(CAP_NET_BIND_SERVICE),
				 s.permitted & keep);
	if (err)
		snprintf(why, why_bytes,
			 "--user: cannot become %.64s: %s; give moetop "
			 "cap_setuid and cap_setgid",
			 user, strerror(-err));
	return err;
}

bool privileges_trust(const struct stat *file)
{
	struct stat self;

	if (file->st_mode & (S_IWGRP | S_IWOTH))
		return false;
	return !file->st_uid ||
	       (!stat("/proc/self/exe", &self) && self.st_uid == file->st_uid);
}

/* ---- what is needed ----------------------------------------------------- */

uint64_t privileges_needed(const struct privileges_facts *f)
{
	uint64_t need = PRIVILEGES_ALL;

	if (f->requests)
		need &= ~PRIVILEGE(CAP_SYS_RESOURCE);
	if (f->requests && !f->by_packets)
		need &= ~PRIVILEGE(CAP_NET_ADMIN);
	if (f->agents && !f->filtered && !f->other_network && !f->counters &&
	    !f->tls)
		need &= ~PRIVILEGE(CAP_SYS_ADMIN);
	if (f->model && f->agents && !f->other_user)
		need &= ~PRIVILEGE(CAP_DAC_READ_SEARCH);
	return need;
}
