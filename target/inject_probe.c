#include "target/inject_probe.h"

#include "target/inject_maps.h"
#include "target/inject_symbols.h"
#include "target/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TEXT_CHUNK 65536u
#define ENDING_MS 100 /* from the end of the memory to that of the process */
#define GADGET_OVERLAP 16u /* longer than any of them */
#define LOCK_STEP_NS 5000000
#define LOCK_STEPS 400 /* 2 s */
#define TEXT_MAX ((uint64_t)64 << 20)

static const struct {
	const char *name;
	int err;
} refusals[INJECT_REFUSALS] = {
	[INJECT_OK] = { "ok", 0 },
	[INJECT_NO_PROCESS] = { "no-process", ESRCH },
	[INJECT_DENIED] = { "denied", EPERM },
	[INJECT_TRACED] = { "traced", EBUSY },
	[INJECT_STOPPED] = { "stopped", EAGAIN },
	[INJECT_STATIC] = { "static", ENOEXEC },
	[INJECT_LIBC] = { "libc", ENOEXEC },
	[INJECT_MACHINE] = { "machine", ENOEXEC },
	[INJECT_SECCOMP] = { "seccomp", EACCES },
	[INJECT_SHADOW_STACK] = { "shadow-stack", ENOTSUP },
	[INJECT_BUSY] = { "busy", EAGAIN },
	[INJECT_LOAD] = { "load", ELIBACC },
	[INJECT_PRESENT] = { "present", EEXIST },
	[INJECT_TIMEOUT] = { "timeout", ETIMEDOUT },
	[INJECT_IMAGE] = { "image", EINVAL },
};

const char *inject_refusal_name(enum inject_refusal r)
{
	return (unsigned)r < INJECT_REFUSALS ? refusals[r].name : "unknown";
}

int probe_error(enum inject_refusal r)
{
	return (unsigned)r < INJECT_REFUSALS ? -refusals[r].err : -EINVAL;
}

int probe_refuse(struct inject_report *r, enum inject_refusal refusal,
		 const char *fix, const char *why, ...)
{
	va_list ap;

	r->refusal = refusal;
	va_start(ap, why);
	vsnprintf(r->why, sizeof(r->why), why, ap);
	va_end(ap);
	snprintf(r->fix, sizeof(r->fix), "%s", fix ? fix : "");
	return probe_error(refusal);
}

/* ---- what the kernel says ---------------------------------------------- */

static long field(const char *text, const char *name, int base)
{
	const char *p = strstr(text, name);

	return p ? strtol(p + strlen(name), NULL, base) : -1;
}

void probe_parse_status(const char *text, struct probe_status *out)
{
	const char *p = strstr(text, "\nState:\t");
	const char *end;
	struct probe_status s = { 0 };
	long n;

	s.state = p ? p[8] : '\0';
	n = field(text, "\nThreads:\t", 10);
	s.threads = n > 0 ? (unsigned)n : 0;
	n = field(text, "\nTracerPid:\t", 10);
	s.tracer = n > 0 ? (pid_t)n : 0;
	n = field(text, "\nSeccomp:\t", 10);
	s.seccomp = n > 0 ? (int)n : 0;
	n = field(text, "\nSeccomp_filters:\t", 10);
	s.filters = n > 0 ? (unsigned)n : 0;
	n = field(text, "\nUid:\t", 10);
	s.uid = n >= 0 ? (uid_t)n : 0;
	n = field(text, "\nGid:\t", 10);
	s.gid = n >= 0 ? (gid_t)n : 0;
	p = strstr(text, "\nx86_Thread_features:\t");
	end = p ? strchr(p + 1, '\n') : NULL;
	if (end)
		s.shadow_stack = memmem(p, (size_t)(end - p), "shstk", 5);
	*out = s;
}

static int yama_scope(void)
{
	FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%d", &scope) != 1)
		scope = 0;
	fclose(f);
	return scope;
}

int probe_denied(struct inject_report *r, pid_t pid, int err)
{
	char text[4096];
	struct probe_status s = { 0 };
	int scope = yama_scope();

	if (err == -ESRCH)
		return probe_refuse(r, INJECT_NO_PROCESS, NULL,
				    "process %d has ended", (int)pid);
	if (proc_read(pid, "status", text, sizeof(text)) > 0)
		probe_parse_status(text, &s);
	if (s.tracer)
		return probe_refuse(r, INJECT_TRACED, "end the other tracer",
				    "process %d is traced by process %d",
				    (int)pid, (int)s.tracer);
	if (scope > 2)
		return probe_refuse(r, INJECT_DENIED,
				    "start the server with: moetop run -- CMD",
				    "kernel.yama.ptrace_scope is 3: nobody may "
				    "attach until the next boot");
	if (scope > 0)
		return probe_refuse(r, INJECT_DENIED, "run moetop as root",
				    "kernel.yama.ptrace_scope is %d", scope);
	return probe_refuse(r, INJECT_DENIED,
			    geteuid() ? "run moetop as root, or as the user of "
					"the server"
				      : "give moetop CAP_SYS_PTRACE in the "
					"server's user namespace; look for "
					"an AppArmor or SELinux denial in the "
					"kernel log",
			    "the kernel does not let us trace process %d: %s",
			    (int)pid, strerror(-err));
}

static int check_status(struct inject_target *t, struct inject_report *r)
{
	char text[4096], wchan[64];
	struct probe_status s;

	if (proc_read(t->pid, "status", text, sizeof(text)) <= 0)
		return probe_refuse(r, INJECT_NO_PROCESS, NULL,
				    "there is no process %d", (int)t->pid);
	probe_parse_status(text, &s);
	if (s.state == 'X' || (s.state == 'Z' && s.threads < 2))
		return probe_refuse(r, INJECT_NO_PROCESS, NULL,
				    "process %d has ended", (int)t->pid);
	if (s.tracer)
		return probe_denied(r, t->pid, -EPERM);
	if (proc_read(t->pid, "wchan", wchan, sizeof(wchan)) <= 0)
		wchan[0] = '\0';
	if (s.state == 'T' || s.state == 't' || strstr(wchan, "freez"))
		return probe_refuse(r, INJECT_STOPPED,
				    "continue it first: kill -CONT",
				    "process %d is stopped", (int)t->pid);
	if (s.seccomp == 1)
		return probe_refuse(r, INJECT_SECCOMP, NULL,
				    "process %d is under strict seccomp: it "
				    "may only read, write and exit",
				    (int)t->pid);
	if (s.shadow_stack)
		return probe_refuse(r, INJECT_SHADOW_STACK,
				    "start the server with: moetop run -- CMD",
				    "process %d runs with a shadow stack",
				    (int)t->pid);
	t->uid = s.uid;
	t->gid = s.gid;
	return 0;
}

/* They are the children of kthreadd, which is process 2. */
static bool is_kernel_thread(pid_t pid)
{
	struct proc_stat s;

	return pid == 2 || (!proc_stat_read(pid, &s) && s.ppid == 2);
}

static int check_machine(const struct inject_target *t, struct inject_report *r)
{
	Elf64_Ehdr e = { 0 };
	char path[64];
	int fd, err;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)t->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = -errno;
	if (fd < 0 && err == -ENOENT && !is_kernel_thread(t->pid))
		err = -ESRCH;
	if (fd < 0 && err == -ENOENT)
		return probe_refuse(r, INJECT_STATIC, NULL,
				    "%d is a thread of the kernel",
				    (int)t->pid);
	if (fd < 0)
		return probe_denied(r, t->pid, err);
	n = read(fd, &e, sizeof(e));
	close(fd);
	if (n < (ssize_t)sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != CPU_ELF_MACHINE)
		return probe_refuse(
			r, INJECT_MACHINE, NULL,
			"process %d is a %s program of ELF machine %u; the "
			"agent is built for 64-bit machine %u",
			(int)t->pid,
			e.e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "64-bit",
			e.e_machine, CPU_ELF_MACHINE);
	return 0;
}

static int check_present(const struct inject_target *t, struct inject_report *r)
{
	struct proc_fds fds;
	int err = proc_fds_read(t->pid, &fds, NULL, NULL);

	if (err)
		return probe_denied(r, t->pid, err);
	if (fds.ring[0])
		return probe_refuse(r, INJECT_PRESENT, NULL,
				    "process %d has an agent already",
				    (int)t->pid);
	return 0;
}

/* ---- its C library ------------------------------------------------------ */

struct libraries {
	uint64_t libc, libpthread, libdl; /* ELF headers; 0 not mapped */
	bool loader, musl;
	struct maps maps;
};

static bool is_glibc_name(const struct map *m)
{
	const char *name;
	size_t n = map_name(m, &name);

	return (n == 9 && !memcmp(name, "libc.so.6", 9)) ||
	       (n > 7 && !memcmp(name, "libc-2.", 7));
}

/* Code of the C library in the wide sense: where its system calls are made. */
static bool is_c_code(const struct map *m)
{
	return is_glibc_name(m) || map_is(m, "libpthread") ||
	       map_is(m, "[vdso]");
}

static void note_library(struct libraries *l, const struct map *m)
{
	const char *name;
	size_t n = map_name(m, &name);

	/* glibc has no library of the name libc.so */
	if ((n > 8 && !memcmp(name, "ld-musl-", 8)) ||
	    (n == 7 && !memcmp(name, "libc.so", 7)))
		l->musl = true;
	if (n > 3 && !memcmp(name, "ld-", 3))
		l->loader = true;
	if (m->offset)
		return;
	if (is_glibc_name(m) && !l->libc)
		l->libc = m->start;
	else if (map_is(m, "libpthread") && !l->libpthread)
		l->libpthread = m->start;
	else if (map_is(m, "libdl") && !l->libdl)
		l->libdl = m->start;
}

static void look_at_maps(struct inject_target *t, struct libraries *l)
{
	uint64_t inode = 0;
	size_t place = 0;
	struct map m;

	while (maps_next(&l->maps, &place, &m)) {
		note_library(l, &m);
		if (m.executable && is_c_code(&m) &&
		    t->n_code < INJECT_CODE_MAX) {
			t->code[t->n_code].start = m.start;
			t->code[t->n_code++].end = m.end;
		}
		if (m.inode != inode &&
		    memmem(m.path, m.path_bytes, "/memfd:" BOOT_NAME,
			   sizeof("/memfd:" BOOT_NAME) - 1))
			t->agents++;
		inode = m.inode;
	}
}

static void find_gadgets(struct inject_target *t)
{
	uint8_t *chunk = malloc(TEXT_CHUNK);
	struct cpu_gadgets *g = &t->gadgets;

	for (unsigned i = 0; chunk && i < t->n_code; i++) {
		uint64_t at = t->code[i].start, end = t->code[i].end;

		if (end - at > TEXT_MAX)
			continue;
		while (at < end && !(g->call && g->sigreturn)) {
			size_t n = end - at < TEXT_CHUNK ? (size_t)(end - at)
							 : TEXT_CHUNK;

			if (!symbols_read_process(&t->pid, at, chunk, n))
				break;
			cpu_find_gadgets(chunk, n, at, g);
			at += n < TEXT_CHUNK ? n : n - GADGET_OVERLAP;
		}
	}
	free(chunk);
}

/* From the first library that has it: 0 none. */
static uint64_t find(const struct symbols *s, unsigned n, const char *name)
{
	uint64_t address = 0;

	for (unsigned i = 0; i < n && !address; i++)
		address = symbols_find(&s[i], name);
	return address;
}

static int find_functions(struct inject_target *t, const struct libraries *l,
			  struct inject_report *r)
{
	const struct symbols_memory memory = { symbols_read_process, &t->pid };
	const uint64_t base[] = { l->libc, l->libpthread, l->libdl };
	struct boot_control *f = &t->functions;
	const struct {
		const char *name;
		uint64_t *to;
	} wanted[] = {
		{ "pthread_attr_init", &f->attr_init },
		{ "pthread_attr_setstacksize", &f->attr_setstacksize },
		{ "pthread_attr_setdetachstate", &f->attr_setdetachstate },
		{ "pthread_create", &f->pthread_create },
		{ "dlopen", &f->dlopen },
		{ "dlsym", &f->dlsym },
		{ "dlerror", &f->dlerror },
		{ "munmap", &f->munmap },
	};
	struct symbols s[3];
	unsigned n = 0;

	for (unsigned i = 0; i < 3; i++) {
		int err = base[i] ? symbols_open(&s[n], &memory, base[i]) : 1;

		if (i == 0 && err == -EFAULT)
			return probe_denied(r, t->pid, -EPERM);
		if (!err)
			n++;
	}
	if (!find(s, n, "gnu_get_libc_version"))
		return probe_refuse(r, INJECT_LIBC, NULL,
				    "the C library of process %d is no glibc",
				    (int)t->pid);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		*wanted[i].to = find(s, n, wanted[i].name);
		if (!*wanted[i].to)
			return probe_refuse(
				r, INJECT_LIBC,
				"start the server with: moetop run -- CMD",
				"the C library of process %d has no %s",
				(int)t->pid, wanted[i].name);
	}
	return 0;
}

static int check_libc(struct inject_target *t, struct inject_report *r)
{
	struct libraries l = { 0 };
	int err = maps_read(t->pid, &l.maps);

	if (err)
		return probe_denied(r, t->pid, err);
	look_at_maps(t, &l);
	if (l.libc)
		err = find_functions(t, &l, r);
	else if (l.musl)
		err = probe_refuse(r, INJECT_LIBC, NULL,
				   "process %d uses musl; the agent needs "
				   "glibc",
				   (int)t->pid);
	else
		err = probe_refuse(r, l.loader ? INJECT_LIBC : INJECT_STATIC,
				   NULL,
				   l.loader ? "process %d has loaded no glibc"
					    : "process %d is statically linked",
				   (int)t->pid);
	maps_free(&l.maps);
	if (err)
		return err;
	find_gadgets(t);
	if (t->gadgets.call && t->gadgets.sigreturn)
		return 0;
	return probe_refuse(r, INJECT_LIBC,
			    "start the server with: moetop run -- CMD",
			    "the C library of process %d lacks the code that "
			    "returns from signals",
			    (int)t->pid);
}

static bool is_audited(pid_t pid)
{
	static const char name[] = "LD_AUDIT=";
	char text[65536];
	ssize_t n = proc_read(pid, "environ", text, sizeof(text));
	const char *at = text;

	for (; n > 0 && at < text + n; at += strlen(at) + 1)
		if (!strncmp(at, name, sizeof(name) - 1))
			return true;
	return false;
}

static bool sees_proc(pid_t pid)
{
	struct statfs fs;
	char path[64];

	snprintf(path, sizeof(path),
		 "/proc/%d/root"
		 "/proc",
		 (int)pid);
	return !statfs(path, &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

static bool ends_within(const struct inject_target *t, int ms)
{
	struct pollfd p = { .fd = t->pidfd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

bool probe_has_ended(const struct inject_target *t)
{
	return ends_within(t, 0);
}

/* Its memory is gone first, then its descriptors, then the process. */
static bool is_ending(const struct inject_target *t)
{
	char statm[128];

	return proc_read(t->pid, "statm", statm, sizeof(statm)) <= 0 ||
	       !strncmp(statm, "0 ", 2);
}

int probe_blame(const struct inject_target *t, int err, struct inject_report *r)
{
	if (!err || !ends_within(t, is_ending(t) ? ENDING_MS : 0))
		return err;
	return probe_refuse(r, INJECT_NO_PROCESS, NULL, "process %d has ended",
			    (int)t->pid);
}

/*
 * A lock on the process itself: seen in every namespace, and gone with its
 * holder.  Before Linux 6.9 all processes share it, hence the patience.
 */
int probe_lock(const struct inject_target *t, struct inject_report *r)
{
	const struct timespec step = { .tv_nsec = LOCK_STEP_NS };

	for (int i = 0; flock(t->pidfd, LOCK_EX | LOCK_NB); i++) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			break; /* it cannot be locked: do without */
		if (i == LOCK_STEPS)
			return probe_refuse(r, INJECT_TRACED, "try again",
					    "another moetop attaches to "
					    "process %d just now",
					    (int)t->pid);
		nanosleep(&step, NULL);
	}
	return check_present(t, r);
}

static int cannot_open(struct inject_report *r, pid_t pid, int err)
{
	if (err == ENOSYS)
		return probe_refuse(r, INJECT_DENIED,
				    "start the server with: moetop run -- CMD",
				    "this kernel is older than Linux 5.6");
	if (err == ESRCH)
		return probe_refuse(r, INJECT_NO_PROCESS, NULL,
				    "there is no process %d", (int)pid);
	/* EINVAL, since Linux 6.15 ENOENT */
	if (err == EINVAL || err == ENOENT)
		return probe_refuse(r, INJECT_NO_PROCESS,
				    "give the pid of its process",
				    "%d is a thread, not a process", (int)pid);
	return probe_refuse(r, INJECT_DENIED, NULL,
			    "a descriptor of process %d cannot be had: %s",
			    (int)pid, strerror(err));
}

int probe_open(struct inject_target *t, pid_t pid, struct inject_report *r)
{
	struct inject_target n = { .pid = pid, .pidfd = -1 };
	int err;

	if (pid <= 0)
		return probe_refuse(r, INJECT_NO_PROCESS, NULL,
				    "there is no process %d", (int)pid);
	n.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (n.pidfd < 0)
		return cannot_open(r, pid, errno);
	err = check_status(&n, r);
	if (!err)
		err = check_machine(&n, r);
	if (!err)
		err = check_present(&n, r);
	if (!err)
		err = check_libc(&n, r);
	if (err) {
		err = probe_blame(&n, err, r);
		close(n.pidfd);
		return err;
	}
	n.has_proc = sees_proc(pid);
	n.audited = is_audited(pid);
	*t = n;
	return 0;
}

void probe_close(struct inject_target *t)
{
	if (t->pidfd >= 0)
		close(t->pidfd);
	t->pidfd = -1;
}
