/*
 * The screen on a real pseudo-terminal: frames are small, the terminal is given
 * back as it was, and an odd terminal is refused.
 */
#include "tests/unit/tui/scenes.h"
#include "tui/tui.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define FRAMES 50
#define STEADY_FRAME_BYTES 2048
#define PATIENCE_MS 120000
#define TOO_MANY 30u

/* A child on a terminal of its own.  It may write a byte to `ready`, and goes
 * on when one comes back through `go`. */
struct child {
	pid_t pid;
	int terminal;
	int ready, go;
	struct termios before;
};

static void child_start(struct child *c, int (*run)(int ready, int go),
			unsigned short w, unsigned short h)
{
	struct winsize size = { .ws_col = w, .ws_row = h };
	int up[2], down[2];
	char start = 0;

	assert_int_equal(pipe(up), 0);
	assert_int_equal(pipe(down), 0);
	fflush(stdout);
	c->pid = forkpty(&c->terminal, NULL, NULL, &size);
	assert_true(c->pid >= 0);
	if (c->pid == 0) {
		close(up[0]);
		close(down[1]);
		/* Not before the parent has seen the modes. */
		_exit(read(down[0], &start, 1) == 1 ? run(up[1], down[0]) : 4);
	}
	close(up[1]);
	close(down[0]);
	c->ready = up[0];
	c->go = down[1];
	assert_int_equal(tcgetattr(c->terminal, &c->before), 0);
	assert_int_equal(write(c->go, &start, 1), 1);
}

/* Read what the child draws until it says ready; the bytes drawn. */
static size_t child_wait(struct child *c)
{
	struct pollfd p[2] = { { .fd = c->terminal, .events = POLLIN },
			       { .fd = c->ready, .events = POLLIN } };
	char bytes[4096];
	size_t drawn = 0;

	for (;;) {
		assert_true(poll(p, 2, PATIENCE_MS) > 0);
		if (p[0].revents & POLLIN) {
			ssize_t n = read(c->terminal, bytes, sizeof(bytes));
			assert_true(n > 0);
			drawn += (size_t)n;
		} else if (p[1].revents) {
			ssize_t n = read(c->ready, bytes, 1);
			assert_true(n >= 0);
			return drawn;
		}
	}
}

static void child_go(struct child *c)
{
	assert_int_equal(write(c->go, "", 1), 1);
}

static int child_end(struct child *c)
{
	int status;

	close(c->ready);
	close(c->go);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	close(c->terminal);
	return status;
}

static void check_modes(struct child *c)
{
	struct termios now;

	assert_int_equal(tcgetattr(c->terminal, &now), 0);
	assert_int_equal(now.c_lflag, c->before.c_lflag);
	assert_int_equal(now.c_iflag, c->before.c_iflag);
	assert_int_equal(now.c_oflag, c->before.c_oflag);
	assert_int_equal(now.c_cflag, c->before.c_cflag);
}

/* ---- in the child -------------------------------------------------------- */

static bool pass(int ready, int go)
{
	char c;

	return write(ready, "", 1) == 1 && read(go, &c, 1) == 1;
}

/* Until the terminal has taken all of the last frame. */
static void wait_shown(struct tui *t)
{
	struct pollfd work = { .fd = tui_fd(t), .events = POLLIN };

	while (!tui_shown(t) && poll(&work, 1, PATIENCE_MS) > 0)
		tui_input(t);
}

static int run_frames(int ready, int go)
{
	const struct tui_options o = { .color = true };
	struct snapshot *s = calloc(1, sizeof(*s));
	struct tui *t;

	setenv("TERM", "xterm-256color", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	if (!s || tui_open(&t, &o))
		return 1;
	for (unsigned i = 0; i <= FRAMES; i++) {
		scene_at(s, SCENE_NEAR, i);
		tui_show(t, s);
		wait_shown(t);
		if (!pass(ready, go))
			return 2;
	}
	tui_close(t);
	free(s);
	return pass(ready, go) ? 0 : 2;
}

/* Far more than a terminal takes that nobody reads. */
static struct tui *show_too_much(struct snapshot *s)
{
	const struct tui_options o = { .color = true };
	struct tui *t;

	setenv("TERM", "xterm-256color", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	if (!s || tui_open(&t, &o))
		return NULL;
	for (unsigned i = 0; i < TOO_MANY; i++) {
		scene_at(s, i % 2 ? SCENE_NEAR : SCENE_SOLO, i);
		tui_show(t, s);
		tui_change(t, &o); /* the next one is a whole one */
	}
	return t;
}

static int run_stuck(int ready, int go)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct tui *t = show_too_much(s);

	if (!t || !pass(ready, go))
		return 1;
	/* somebody reads again: it is drawn to the end, and what comes after is
	 * small again */
	wait_shown(t);
	if (!pass(ready, go))
		return 2;
	tui_show(t, s);
	wait_shown(t);
	if (!pass(ready, go))
		return 3;
	tui_close(t);
	free(s);
	return pass(ready, go) ? 0 : 4;
}

static int run_stuck_to_the_end(int ready, int go)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct tui *t = show_too_much(s);

	if (!t || !pass(ready, go))
		return 1;
	tui_close(t);
	free(s);
	return pass(ready, go) ? 0 : 2;
}

static int run_stuck_until_killed(int ready, int go)
{
	struct snapshot *s = calloc(1, sizeof(*s));

	if (show_too_much(s))
		pass(ready, go);
	return 2;
}

static int run_until_killed(int ready, int go)
{
	struct tui *t;

	setenv("TERM", "xterm-256color", 1);
	if (tui_open(&t, NULL))
		return 1;
	pass(ready, go);
	return 2;
}

static int run_exit(int ready, int go)
{
	struct tui *t;

	setenv("TERM", "xterm-256color", 1);
	if (tui_open(&t, NULL) || !pass(ready, go))
		return 1;
	exit(0);
}

static int run_odd_terminal(int ready, int go)
{
	struct tui *t = NULL;
	int err;

	setenv("TERM", "no-such-terminal", 1);
	err = tui_open(&t, NULL);
	return pass(ready, go) && err == -ENOTSUP && !t ? 0 : 1;
}

static int run_hangup(int ready, int go)
{
	struct tui *t;

	signal(SIGHUP, SIG_IGN);
	setenv("TERM", "xterm-256color", 1);
	if (tui_open(&t, NULL) || !pass(ready, go))
		return 1;
	return tui_input(t) & TUI_QUIT ? 0 : 3;
}

static int fall(int depth)
{
	volatile char room[4096];

	room[0] = (char)depth;
	return depth < 0 ? 0 : fall(depth + 1) + room[0];
}

static int run_overflow(int ready, int go)
{
	struct tui *t;

	setenv("TERM", "xterm-256color", 1);
	if (tui_open(&t, NULL) || !pass(ready, go))
		return 0;
	return fall(0);
}

/* A child of the program ends; the screen stays. */
static int run_fork(int ready, int go)
{
	struct tui *t;
	int status;

	setenv("TERM", "xterm-256color", 1);
	if (tui_open(&t, NULL))
		return 1;
	pid_t pid = fork();
	if (pid == 0)
		exit(0);
	if (waitpid(pid, &status, 0) != pid || !pass(ready, go))
		return 2;
	tui_close(t);
	return 0;
}

/* ---- tests --------------------------------------------------------------- */

static void test_steady_frames_are_small(void **state)
{
	struct child c;
	size_t most = 0, sum = 0;

	(void)state;
	child_start(&c, run_frames, 200, 60);
	size_t first = child_wait(&c);
	for (int i = 0; i < FRAMES; i++) {
		child_go(&c);
		size_t bytes = child_wait(&c);
		most = bytes > most ? bytes : most;
		sum += bytes;
	}
	child_go(&c);
	child_wait(&c);
	check_modes(&c);
	child_go(&c);
	assert_int_equal(child_end(&c), 0);
	printf("# first frame %zu bytes, then %zu on average, %zu at most\n",
	       first, sum / FRAMES, most);
	assert_true(most <= STEADY_FRAME_BYTES);
}

/* It says ready, or ends, and nobody has read what it draws. */
static void child_wait_unread(struct child *c)
{
	struct pollfd p = { .fd = c->ready, .events = POLLIN };
	char byte;

	assert_true(poll(&p, 1, PATIENCE_MS) > 0);
	assert_true(read(c->ready, &byte, 1) >= 0);
}

static void test_a_terminal_that_is_not_read_holds_nothing(void **state)
{
	size_t behind, small;
	struct child c;

	(void)state;
	child_start(&c, run_stuck, 200, 60);
	child_wait_unread(&c);
	child_go(&c);
	behind = child_wait(&c);
	child_go(&c);
	small = child_wait(&c);
	child_go(&c);
	child_wait(&c);
	check_modes(&c);
	child_go(&c);
	assert_int_equal(child_end(&c), 0);
	printf("# %zu bytes behind, then %zu\n", behind, small);
	/* not all of its frames, and the last one whole */
	assert_true(behind < 400000 && behind > 10000 && small < 4000);
}

static void test_nor_does_leaving_it(void **state)
{
	struct child c;
	int status;

	(void)state;
	child_start(&c, run_stuck_to_the_end, 200, 60);
	child_wait_unread(&c);
	child_go(&c);
	child_wait_unread(&c);
	check_modes(&c);
	child_go(&c);
	assert_int_equal(child_end(&c), 0);
	child_start(&c, run_stuck_until_killed, 200, 60);
	child_wait_unread(&c);
	assert_int_equal(kill(c.pid, SIGTERM), 0);
	child_wait_unread(&c);
	check_modes(&c);
	status = child_end(&c);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void killed_by(int sig)
{
	struct child c;

	child_start(&c, run_until_killed, 80, 24);
	assert_true(child_wait(&c) > 0);
	assert_int_equal(kill(c.pid, sig), 0);
	assert_true(child_wait(&c) > 0);
	check_modes(&c);
	int status = child_end(&c);
	assert_true(WIFSIGNALED(status) || WIFEXITED(status));
	if (WIFSIGNALED(status))
		assert_int_equal(WTERMSIG(status), sig);
	else
		assert_int_not_equal(WEXITSTATUS(status), 0);
}

static void test_fatal_signals_give_the_terminal_back(void **state)
{
	static const int signals[] = { SIGSEGV, SIGABRT, SIGTERM, SIGHUP };

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		killed_by(signals[i]);
}

static void test_exit_gives_the_terminal_back(void **state)
{
	struct child c;

	(void)state;
	child_start(&c, run_exit, 80, 24);
	child_wait(&c);
	child_go(&c);
	assert_true(child_wait(&c) > 0);
	check_modes(&c);
	assert_int_equal(child_end(&c), 0);
}

static void test_a_stack_overflow_gives_the_terminal_back(void **state)
{
	struct child c;

	(void)state;
	child_start(&c, run_overflow, 80, 24);
	child_wait(&c);
	child_go(&c);
	child_wait(&c);
	check_modes(&c);
	assert_int_not_equal(child_end(&c), 0);
}

static void test_a_forked_child_leaves_the_terminal_alone(void **state)
{
	struct termios now;
	struct child c;

	(void)state;
	child_start(&c, run_fork, 80, 24);
	child_wait(&c);
	assert_int_equal(tcgetattr(c.terminal, &now), 0);
	assert_int_not_equal(now.c_lflag, c.before.c_lflag);
	child_go(&c);
	assert_int_equal(child_end(&c), 0);
}

static void test_an_unknown_terminal_is_refused(void **state)
{
	struct child c;

	(void)state;
	child_start(&c, run_odd_terminal, 80, 24);
	child_wait(&c);
	check_modes(&c);
	child_go(&c);
	assert_int_equal(child_end(&c), 0);
}

static void test_a_terminal_that_hangs_up_means_quit(void **state)
{
	struct child c;

	(void)state;
	child_start(&c, run_hangup, 80, 24);
	child_wait(&c);
	close(c.terminal);
	child_go(&c);
	c.terminal = dup(c.go);
	assert_int_equal(child_end(&c), 0);
}

static void test_no_terminal_is_refused(void **state)
{
	struct tui *t = NULL;
	int in = dup(0), pipes[2];

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_true(dup2(pipes[0], 0) == 0);
	assert_int_equal(tui_open(&t, NULL), -ENOTTY);
	assert_null(t);
	assert_true(dup2(in, 0) == 0);
	close(in);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady_frames_are_small),
		cmocka_unit_test(
			test_a_terminal_that_is_not_read_holds_nothing),
		cmocka_unit_test(test_nor_does_leaving_it),
		cmocka_unit_test(test_fatal_signals_give_the_terminal_back),
		cmocka_unit_test(test_exit_gives_the_terminal_back),
		cmocka_unit_test(test_a_stack_overflow_gives_the_terminal_back),
		cmocka_unit_test(test_a_forked_child_leaves_the_terminal_alone),
		cmocka_unit_test(test_an_unknown_terminal_is_refused),
		cmocka_unit_test(test_a_terminal_that_hangs_up_means_quit),
		cmocka_unit_test(test_no_terminal_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
