/*
 * driver.c - the screen on made-up snapshots, for the terminal tests
 *
 *	driver [-i MS] [-n FRAMES] SCENE
 *
 * Shows SCENE (near, solo, ...) with a new snapshot every MS milliseconds until
 * `q`, or for so many frames.  What the screen wishes for appears in its
 * message bar.  Signals are left to the screen but for SIGWINCH.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tests/unit/tui/scenes.h"
#include "tui/tui.h"

struct run {
	enum scene scene;
	int interval_ms;
	unsigned frames; /* 0: no end */
	unsigned frame;
	char message[64];
};

static int usage(void)
{
	fprintf(stderr, "usage: driver [-i MS] [-n FRAMES] SCENE\n");
	return 2;
}

static int parse(int argc, char **argv, struct run *r)
{
	int c;

	while ((c = getopt(argc, argv, "i:n:")) != -1) {
		if (c == 'i')
			r->interval_ms = atoi(optarg);
		else if (c == 'n')
			r->frames = (unsigned)atoi(optarg);
		else
			return -EINVAL;
	}
	if (optind + 1 != argc)
		return -EINVAL;
	for (unsigned i = 0; i < SCENES; i++)
		if (!strcmp(argv[optind], scene_names[i])) {
			r->scene = (enum scene)i;
			return 0;
		}
	return -EINVAL;
}

static void show(struct tui *t, struct run *r)
{
	static struct snapshot s;

	scene_at(&s, r->scene, r->frame++);
	snprintf(s.health.message, sizeof(s.health.message), "%s", r->message);
	tui_show(t, &s);
}

static void obey(struct run *r, unsigned wish)
{
	if (wish & TUI_FASTER)
		r->interval_ms /= 2;
	if (wish & TUI_SLOWER)
		r->interval_ms *= 2;
	if (wish & (TUI_FASTER | TUI_SLOWER))
		snprintf(r->message, sizeof(r->message), "interval %d ms",
			 r->interval_ms);
	if (wish & TUI_WINDOW)
		snprintf(r->message, sizeof(r->message), "kernel window");
}

static int resize_fd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGWINCH);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void loop(struct tui *t, struct run *r)
{
	struct pollfd p[2] = { { .fd = tui_fd(t), .events = POLLIN },
			       { .fd = resize_fd(), .events = POLLIN } };
	struct signalfd_siginfo info;
	unsigned wish = TUI_NONE;

	while (!(wish & TUI_QUIT) && (!r->frames || r->frame < r->frames)) {
		show(t, r);
		poll(p, 2, r->interval_ms);
		if (read(p[1].fd, &info, sizeof(info)) == sizeof(info))
			tui_resized(t);
		wish = tui_input(t);
		obey(r, wish);
	}
	close(p[1].fd);
}

int main(int argc, char **argv)
{
	struct run r = { .interval_ms = 1000 };
	const char *no_color = getenv("NO_COLOR");
	const struct tui_options o = { .color = !(no_color && *no_color) };
	struct tui *t;
	int err;

	if (parse(argc, argv, &r))
		return usage();
	err = tui_open(&t, &o);
	if (err) {
		fprintf(stderr, "driver: %s\n", strerror(-err));
		return 1;
	}
	loop(t, &r);
	tui_close(t);
	return 0;
}
