#include "tui/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tui/output.h"

static struct {
	volatile sig_atomic_t active;  /* the screen is ours */
	volatile sig_atomic_t resumed; /* it was not, for a while */
	struct termios before, ours;
	struct guard_sequences sequences;
	pid_t owner; /* a forked child must leave the terminal alone */
	int wake[2]; /* pipe: a handler ran */
	int out;     /* for sequences and all that is drawn */
	bool at_exit;
} saved = { .wake = { -1, -1 }, .out = -1 };

/* Async-signal-safe. */
static void give_back(void)
{
	if (!saved.active || getpid() != saved.owner)
		return;
	saved.active = 0;
	output_last(saved.out, saved.sequences.leave,
		    saved.sequences.leave_bytes);
	tcsetattr(STDIN_FILENO, TCSANOW, &saved.before);
}

static const int fatal[] = {
	SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGABRT,   SIGTERM, SIGINT,
	SIGHUP,  SIGQUIT, SIGTRAP, SIGSYS,  SIGXCPU,   SIGXFSZ, SIGPIPE,
	SIGALRM, SIGUSR1, SIGUSR2, SIGPROF, SIGVTALRM,
};
#define FATALS (sizeof(fatal) / sizeof(*fatal))
#define ALWAYS 9u /* the first of them; the rest unless somebody uses them */
static struct sigaction fatal_before[FATALS], stop_before, continue_before;

static void on_fatal(int sig)
{
	int err = errno;

	give_back();
	for (size_t i = 0; i < FATALS; i++)
		if (fatal[i] == sig)
			sigaction(sig, &fatal_before[i], NULL);
	/* Blocked until we return; then what was there before acts. */
	raise(sig);
	errno = err;
}

static void wake(void)
{
	if (write(saved.wake[1], "", 1) < 0)
		return; /* full: awake already */
}

static void on_stop(int sig)
{
	int err = errno;
	struct sigaction now, was;
	sigset_t set;

	give_back();
	memset(&now, 0, sizeof(now));
	now.sa_handler = SIG_DFL;
	sigaction(sig, &now, &was);
	raise(sig);
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* stops here */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	sigaction(sig, &was, NULL);
	saved.resumed = 1;
	wake();
	errno = err;
}

static void on_continue(int sig)
{
	int err = errno;

	(void)sig;
	saved.resumed = 1;
	wake();
	errno = err;
}

static void handle(int sig, void (*handler)(int), struct sigaction *before)
{
	struct sigaction a;

	memset(&a, 0, sizeof(a));
	a.sa_handler = handler;
	a.sa_flags = SA_RESTART | SA_ONSTACK;
	sigfillset(&a.sa_mask);
	sigaction(sig, NULL, before);
	/* A signal that is ignored stays ignored (nohup). */
	if (before->sa_handler != SIG_IGN)
		sigaction(sig, &a, NULL);
}

static bool in_use(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) || now.sa_handler != SIG_DFL;
}

/* So that the handlers run when it was the stack that overflowed. */
static void use_own_stack(void)
{
	static char room[64 * 1024];
	stack_t own = { .ss_sp = room, .ss_size = sizeof(room) }, before;

	if (!sigaltstack(NULL, &before) && (before.ss_flags & SS_DISABLE))
		sigaltstack(&own, NULL);
}

static void handle_signals(void)
{
	sigset_t set;

	for (size_t i = 0; i < FATALS; i++) {
		sigaction(fatal[i], NULL, &fatal_before[i]);
		if (i < ALWAYS || !in_use(fatal[i]))
			handle(fatal[i], on_fatal, &fatal_before[i]);
	}
	handle(SIGTSTP, on_stop, &stop_before);
	handle(SIGCONT, on_continue, &continue_before);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void restore_signals(void)
{
	for (size_t i = 0; i < FATALS; i++)
		sigaction(fatal[i], &fatal_before[i], NULL);
	sigaction(SIGTSTP, &stop_before, NULL);
	sigaction(SIGCONT, &continue_before, NULL);
}

/* ---- for tui/term.c ------------------------------------------------------ */

int guard_open(void)
{
	if (tcgetattr(STDIN_FILENO, &saved.before))
		return -errno;
	saved.out = output_open(STDOUT_FILENO);
	if (saved.out < 0)
		return saved.out;
	return pipe2(saved.wake, O_CLOEXEC | O_NONBLOCK) ? -errno : 0;
}

void guard_close(void)
{
	for (int i = 0; i < 2; i++) {
		if (saved.wake[i] >= 0)
			close(saved.wake[i]);
		saved.wake[i] = -1;
	}
	if (saved.out >= 0)
		close(saved.out);
	saved.out = -1;
}

void guard_arm(const struct guard_sequences *s)
{
	saved.sequences = *s;
	tcgetattr(STDIN_FILENO, &saved.ours);
	saved.owner = getpid();
	saved.resumed = 0;
	saved.active = 1;
	use_own_stack();
	handle_signals();
	if (!saved.at_exit)
		saved.at_exit = !atexit(give_back);
}

void guard_change(const struct guard_sequences *s)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	saved.sequences = *s;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void guard_disarm(void)
{
	give_back();
	restore_signals();
}

bool guard_armed(void)
{
	return saved.active;
}

int guard_out(void)
{
	return saved.out;
}

int guard_fd(void)
{
	return saved.wake[0];
}

bool guard_resumed(void)
{
	char drain[16];

	while (read(saved.wake[0], drain, sizeof(drain)) > 0)
		;
	if (!saved.resumed)
		return false;
	saved.resumed = 0;
	saved.active = 1;
	tcsetattr(STDIN_FILENO, TCSANOW, &saved.ours);
	output_last(saved.out, saved.sequences.enter,
		    saved.sequences.enter_bytes);
	return true;
}
