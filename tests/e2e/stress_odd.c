/*
 * stress_odd.c - processes that are hard to attach to
 *
 *	stress_odd KIND [N]
 *
 *	idle		one thread in poll
 *	threads		N threads in poll, besides the first
 *	short		ends after N milliseconds; two threads in poll
 *	vfork		the one thread waits for its vfork child
 *	vfork_poll	the same, and a thread in poll
 *	seccomp_errno	a filter answers memfd_create with EPERM
 *	seccomp_kill	a filter kills the process for memfd_create
 *	seccomp_mmap	a filter refuses mmap of executable memory
 *	seccomp_strict	one thread in strict mode, another in poll
 *	seccomp_thread	one thread, in poll, has a filter that kills the process
 *	busy		N threads that never enter the kernel
 *	locks		N threads wait in a futex, none elsewhere
 *	trap		counts SIGTRAP; a line of input makes it raise one
 *	small_stack	a thread in poll on 16 KiB of stack
 *	fiber		a thread in poll on a stack in the middle of an array
 *	execs		becomes itself again every 20 ms, N times; then as threads
 *	registers	a thread holds a value in each register over its poll
 *	forks		a line of input makes it fork a child, in poll like itself
 *
 * "ready" on standard output; ends when standard input does, or after 60 s.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/e2e/stress_regs.h"

#define LIFE_S 60

static unsigned number;
static _Atomic int traps;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void *in_poll(void *arg)
{
	for (;;)
		poll(NULL, 0, -1);
	return arg;
}

static void start(void *(*body)(void *), unsigned n, size_t stack)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	while (n--)
		if (pthread_create(&t, &attr, body, NULL)) {
			perror("stress_odd: thread");
			exit(2);
		}
	pthread_attr_destroy(&attr);
}

static void on_alarm(int signal)
{
	(void)signal;
	_exit(0);
}

/* Wait in poll, the only call of this thread, for the end of input. */
static void until_end(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[64];
	int n;

	signal(SIGALRM, on_alarm);
	alarm(LIFE_S);
	ready();
	while ((n = poll(&in, 1, -1)) > 0 || errno == EINTR) {
		if (n < 0)
			continue;
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		raise(SIGTRAP);
		printf("traps %d\n", atomic_load(&traps));
		fflush(stdout);
	}
}

static void on_trap(int signal)
{
	(void)signal;
	atomic_fetch_add(&traps, 1);
}

static void kind_idle(void)
{
	signal(SIGTRAP, SIG_IGN);
	until_end();
}

static void kind_threads(void)
{
	start(in_poll, number, 0);
	until_end();
}

static void kind_trap(void)
{
	struct sigaction action = { .sa_handler = on_trap };

	sigaction(SIGTRAP, &action, NULL);
	until_end();
}

static void kind_short(void)
{
	start(in_poll, 2, 0);
	ready();
	poll(NULL, 0, (int)number);
}

static void kind_vfork(void)
{
	pid_t child;

	ready();
	child = vfork();
	if (child == 0) {
		syscall(SYS_poll, NULL, 0, (int)number);
		_exit(0);
	}
	until_end();
}

static void kind_vfork_poll(void)
{
	start(in_poll, 1, 0);
	kind_vfork();
}

static void filter(const struct sock_filter *code, unsigned short n)
{
	struct sock_fprog p = { .len = n,
				.filter =
					(struct sock_filter *)(uintptr_t)code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) {
		perror("stress_odd: seccomp");
		exit(2);
	}
}

static void deny_memfd(unsigned action)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, 4);
}

static void kind_seccomp_errno(void)
{
	deny_memfd(SECCOMP_RET_ERRNO | EPERM);
	start(in_poll, 1, 0);
	until_end();
}

static void kind_seccomp_kill(void)
{
	deny_memfd(SECCOMP_RET_KILL_PROCESS);
	start(in_poll, 1, 0);
	until_end();
}

static void kind_seccomp_mmap(void)
{
	const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, 6);
	start(in_poll, 1, 0);
	until_end();
}

static void *strict(void *arg)
{
	int fd[2];
	char byte;

	if (pipe(fd) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		return arg;
	while (syscall(SYS_read, fd[0], &byte, 1) > 0)
		;
	return arg;
}

static void kind_seccomp_strict(void)
{
	start(strict, 1, 0);
	until_end();
}

static void *in_filtered_poll(void *arg)
{
	deny_memfd(SECCOMP_RET_KILL_PROCESS);
	return in_poll(arg);
}

/* The first thread, which may not be borrowed, waits in read. */
static void until_input_ends(void)
{
	char line[64];

	signal(SIGALRM, on_alarm);
	alarm(LIFE_S);
	ready();
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
}

static void kind_seccomp_thread(void)
{
	start(in_filtered_poll, 1, 0);
	until_input_ends();
}

static void *spin(void *arg)
{
	static volatile uint64_t turns;

	for (;;)
		turns = turns + 1;
	return arg;
}

static void kind_busy(void)
{
	signal(SIGALRM, on_alarm);
	alarm(LIFE_S);
	start(spin, number, 0);
	ready();
	spin(NULL);
}

static void *at_gate(void *arg)
{
	pthread_mutex_lock(&gate);
	return arg;
}

static void kind_locks(void)
{
	signal(SIGALRM, on_alarm);
	alarm(LIFE_S);
	pthread_mutex_lock(&gate);
	start(at_gate, number, 0);
	ready();
	at_gate(NULL);
}

static void kind_small_stack(void)
{
	signal(SIGALRM, on_alarm);
	alarm(LIFE_S);
	start(in_poll, 1, 16384);
	ready();
	pthread_mutex_lock(&gate);
	pthread_mutex_lock(&gate);
}

#define FIBER_BYTES 8192
#define BESIDE 0xa5

static uint8_t array[1 << 20];
static ucontext_t thread_context, fiber_context;

static void fiber(void)
{
	in_poll(NULL);
}

static void *on_fiber(void *arg)
{
	getcontext(&fiber_context);
	fiber_context.uc_stack.ss_sp = array + sizeof(array) / 2;
	fiber_context.uc_stack.ss_size = FIBER_BYTES;
	makecontext(&fiber_context, fiber, 0);
	swapcontext(&thread_context, &fiber_context);
	return arg;
}

static void kind_fiber(void)
{
	memset(array, BESIDE, sizeof(array));
	start(on_fiber, 1, 0);
	until_input_ends();
	for (size_t i = 0; i < sizeof(array) / 2; i++)
		if (array[i] != BESIDE)
			exit(1);
}

static void kind_execs(void)
{
	char left[16];

	start(in_poll, 3, 0);
	if (!number)
		until_end();
	else if (poll(NULL, 0, 20) <= 0) {
		snprintf(left, sizeof(left), "%u", number - 1);
		execl("/proc/self/exe", "stress_odd", "execs", left, NULL);
		_exit(2);
	}
}

static _Atomic unsigned held, changed;

static void *hold_registers(void *arg)
{
	for (;;) {
		atomic_fetch_add(&changed, regs_hold(20, true));
		atomic_fetch_add(&held, 1);
	}
	return arg;
}

static void kind_registers(void)
{
	start(hold_registers, 1, 0);
	until_input_ends();
	printf("changed %u of %u\n", atomic_load(&changed), atomic_load(&held));
	exit(atomic_load(&changed) != 0);
}

static void fork_one(void)
{
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		in_poll(NULL);
	}
	printf("child %d\n", (int)child);
	fflush(stdout);
}

static void kind_forks(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[64];

	signal(SIGALRM, on_alarm);
	alarm(LIFE_S);
	ready();
	while (poll(&in, 1, -1) >= 0 || errno == EINTR) {
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		fork_one();
	}
}

static const struct kind {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{ "idle", kind_idle },
	{ "threads", kind_threads },
	{ "short", kind_short },
	{ "vfork", kind_vfork },
	{ "vfork_poll", kind_vfork_poll },
	{ "seccomp_errno", kind_seccomp_errno },
	{ "seccomp_kill", kind_seccomp_kill },
	{ "seccomp_mmap", kind_seccomp_mmap },
	{ "seccomp_strict", kind_seccomp_strict },
	{ "seccomp_thread", kind_seccomp_thread },
	{ "busy", kind_busy },
	{ "locks", kind_locks },
	{ "trap", kind_trap },
	{ "small_stack", kind_small_stack },
	{ "fiber", kind_fiber },
	{ "execs", kind_execs },
	{ "registers", kind_registers },
	{ "forks", kind_forks },
};

int main(int argc, char **argv)
{
	number = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	for (size_t i = 0; argc > 1 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(argv[1], kinds[i].name)) {
			kinds[i].run();
			return 0;
		}
	fprintf(stderr, "usage: stress_odd KIND [N]\n");
	return 2;
}
