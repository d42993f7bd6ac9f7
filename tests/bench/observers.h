/*
 * observers.h - what may look on while a server works, each to be attached and
 * detached in turns
 *
 *	K F P C S	moetop's data sources
 *	b		bpftrace, counting the tracepoints of K by socket
 *	w		every write shipped to user space, read ten times a second
 *	W		the same, read at once, as a ring wakes its reader
 *
 * What bpftrace makes of its script is taken over from it, for it cannot detach
 * and attach in a running program.
 */
#ifndef MOETOP_TESTS_BENCH_OBSERVERS_H
#define MOETOP_TESTS_BENCH_OBSERVERS_H

#include "bpf/rungs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/ship.skel.h"
#include "tests/bench/ship_wakes.skel.h"

#define READ_MS 100 /* between two looks into a ring */
#define BPFTRACE_TRIES 200
#define TRACEFS "/sys/kernel/tracing"

struct observer {
	char letter;
	const char *name;
	const struct rung *rung; /* NULL: bpftrace */
	struct rung_programs bpf;
	/* bpftrace: of sending and of receiving */
	int program[2], event[2];
	/* of what ships */
	struct ring_buffer *ring;
	pthread_t reader;
	bool stop;
	uint64_t shipped;
};

static const struct rung observer_ships[] = {
	{ "w", "every write shipped, read every 100 ms", "",
	  ship_bpf__elf_bytes },
	{ "W", "every write shipped, read at once", "",
	  ship_wakes_bpf__elf_bytes },
};

/* ---- what ships ---------------------------------------------------------- */

static int observer_count(void *arg, void *data, size_t bytes)
{
	struct observer *o = arg;

	(void)data;
	(void)bytes;
	o->shipped++;
	return 0;
}

static void *observer_read(void *arg)
{
	struct observer *o = arg;
	const struct timespec t = { .tv_nsec = READ_MS * 1000000l };

	while (!__atomic_load_n(&o->stop, __ATOMIC_RELAXED)) {
		if (o->letter == 'W') {
			ring_buffer__poll(o->ring, READ_MS);
			continue;
		}
		nanosleep(&t, NULL);
		ring_buffer__consume(o->ring);
	}
	return NULL;
}

static int observer_reader(struct observer *o)
{
	o->ring = ring_buffer__new(o->bpf.records, observer_count, o, NULL);
	if (!o->ring)
		return -ENOMEM;
	return -pthread_create(&o->reader, NULL, observer_read, o);
}

/* CPU time of what reads in user space. */
static uint64_t observer_reader_ns(const struct observer *o)
{
	struct timespec t = { 0 };
	clockid_t clock;

	if (o->ring && !pthread_getcpuclockid(o->reader, &clock))
		clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- bpftrace ------------------------------------------------------------ */

/* A file system of trace events, for us and our children alone. */
static int tracefs_mount(void)
{
	if (!access(TRACEFS "/events/sock", F_OK))
		return 0;
	if (unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tracefs", TRACEFS, "tracefs", 0, NULL))
		return -errno;
	return 0;
}

/* Hold the programs of this process; how many of the two there are. */
static int bpftrace_take(struct observer *o, pid_t pid)
{
	char pattern[64], line[128];
	glob_t g;
	int n = 0;

	snprintf(pattern, sizeof(pattern), "/proc/%d/fdinfo/*", (int)pid);
	if (glob(pattern, 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc && n < 2; i++) {
		FILE *f = fopen(g.gl_pathv[i], "re");
		unsigned id;

		while (f && fgets(line, sizeof(line), f) && n < 2)
			if (sscanf(line, "prog_id: %u", &id) == 1)
				o->program[n++] = bpf_prog_get_fd_by_id(id);
		if (f)
			fclose(f);
	}
	globfree(&g);
	return n;
}

static int bpftrace_load(struct observer *o)
{
	static char script[] = "tracepoint:sock:sock_send_length,"
			       "tracepoint:sock:sock_recv_length "
			       "{ @events[args->sk] = count(); }";
	const struct timespec t = { .tv_nsec = 50000000 };
	int n = 0, null, err = tracefs_mount();
	pid_t pid;

	if (err)
		return err;
	pid = fork();
	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execlp("bpftrace", "bpftrace", "-e", script, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; n < 2 && i < BPFTRACE_TRIES; i++) {
		nanosleep(&t, NULL);
		if (waitpid(pid, NULL, WNOHANG))
			return -ENOENT;
		n = bpftrace_take(o, pid);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return n == 2 ? 0 : -ENOENT;
}

static int bpftrace_attach(struct observer *o)
{
	struct perf_event_attr a = { .type = PERF_TYPE_TRACEPOINT,
				     .size = sizeof(a),
				     .sample_period = 1,
				     .wakeup_events = 1 };

	for (int i = 0; i < 2; i++) {
		struct bpf_prog_info info = { 0 };
		__u32 n = sizeof(info);
		char path[128];
		FILE *f;

		if (bpf_obj_get_info_by_fd(o->program[i], &info, &n))
			return -errno;
		snprintf(path, sizeof(path),
			 TRACEFS "/events/sock/sock_%s_length/id",
			 strstr(info.name, "send") ? "send" : "recv");
		f = fopen(path, "re");
		if (!f || fscanf(f, "%llu", &a.config) != 1)
			return -ENOENT;
		fclose(f);
		o->event[i] = (int)syscall(SYS_perf_event_open, &a, -1, 0, -1,
					   PERF_FLAG_FD_CLOEXEC);
		if (o->event[i] < 0 ||
		    ioctl(o->event[i], PERF_EVENT_IOC_SET_BPF, o->program[i]) ||
		    ioctl(o->event[i], PERF_EVENT_IOC_ENABLE, 0))
			return -errno;
	}
	return 0;
}

/* ---- all ----------------------------------------------------------------- */

/* Load, to watch this port.  0 or -errno; -EINVAL: no such letter. */
static int observer_load(struct observer *o, char letter, uint16_t port)
{
	struct stat st;
	int err;

	*o = (struct observer){ .letter = letter, .event = { -1, -1 } };
	if (letter == 'b') {
		o->name = "bpftrace, counting by socket";
		return bpftrace_load(o);
	}
	for (unsigned i = 0; i < RUNGS; i++)
		if (rungs[i].letter[0] == letter)
			o->rung = &rungs[i];
	for (unsigned i = 0; i < 2; i++)
		if (observer_ships[i].letter[0] == letter)
			o->rung = &observer_ships[i];
	if (!o->rung)
		return -EINVAL;
	o->name = o->rung->name;
	err = stat("/proc/self/ns/net", &st) ? -errno : 0;
	if (!err)
		err = rung_load(o->rung, &o->bpf);
	if (err)
		return err;
	o->bpf.shared->netns_inode = (uint32_t)st.st_ino;
	rung_ports(&o->bpf, &port, 1);
	return letter == 'w' || letter == 'W' ? observer_reader(o) : 0;
}

static int observer_attach(struct observer *o)
{
	return o->rung ? rung_attach(&o->bpf) : bpftrace_attach(o);
}

static void observer_detach(struct observer *o)
{
	if (o->rung)
		rung_detach(&o->bpf);
	for (int i = 0; i < 2; i++) {
		if (o->event[i] >= 0)
			close(o->event[i]);
		o->event[i] = -1;
	}
}

static uint64_t program_run_ns(int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 n = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &n) ? 0 : info.run_time_ns;
}

/* Time in its programs while the kernel measured it (bpf_enable_stats). */
static uint64_t observer_run_ns(const struct observer *o)
{
	struct bpf_program *p;
	uint64_t sum = 0;

	if (!o->rung)
		return program_run_ns(o->program[0]) +
		       program_run_ns(o->program[1]);
	bpf_object__for_each_program(p,
				     o->bpf.object) if (bpf_program__fd(p) >= 0)
		sum += program_run_ns(bpf_program__fd(p));
	return sum;
}

static void observer_close(struct observer *o)
{
	observer_detach(o);
	if (o->ring) {
		__atomic_store_n(&o->stop, true, __ATOMIC_RELAXED);
		pthread_join(o->reader, NULL);
		ring_buffer__free(o->ring);
	}
	if (o->rung)
		rung_close(&o->bpf);
	else
		for (int i = 0; i < 2; i++)
			close(o->program[i]);
}

#endif
