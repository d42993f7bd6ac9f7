/* The picker on a terminal, with a loop of its own. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tui/picker.h"
#include "tui/term.h"
#include "tui/tui.h"

#define LOOK_AGAIN_MS 1000

struct pick {
	struct terminal *term;
	struct picker picker;
	int resize_fd;
};

static void draw(struct pick *p)
{
	picker_draw(&p->picker);
	term_copy(p->term, &p->picker.grid);
}

static int fit(struct pick *p)
{
	int w, h;

	term_size(p->term, &w, &h);
	return grid_resize(&p->picker.grid, w, h);
}

static enum picked input(struct pick *p)
{
	enum picked what = PICKED_NOTHING;

	while (what == PICKED_NOTHING) {
		struct term_event e = term_next(p->term);

		if (e.kind == TERM_NONE)
			break;
		if (e.kind == TERM_LOST)
			return PICKED_LEAVE;
		if (e.kind == TERM_CHANGED)
			fit(p);
		if (e.kind == TERM_KEY)
			what = picker_key(&p->picker, e.key);
		if (e.kind == TERM_MOUSE)
			what = picker_mouse(&p->picker, e.mouse, e.x, e.y);
	}
	return what;
}

static enum picked wait_for_choice(struct pick *p, const struct tui_list *list)
{
	struct pollfd fds[2] = { { .fd = term_fd(p->term), .events = POLLIN },
				 { .fd = p->resize_fd, .events = POLLIN } };
	struct signalfd_siginfo info;
	enum picked what;

	do {
		if (list->look(list->arg, &p->picker.servers))
			p->picker.looked = true;
		draw(p);
		poll(fds, 2, LOOK_AGAIN_MS);
		while (read(p->resize_fd, &info, sizeof(info)) > 0)
			fit(p);
		what = input(p);
	} while (what == PICKED_NOTHING);
	return what;
}

static int run(struct pick *p, const struct tui_options *o,
	       const struct tui_list *list)
{
	const struct term_options look = tui_look(o);
	enum picked what;
	int err = term_open(&p->term, &look);

	if (err)
		return err;
	p->picker.grid.ascii = o->ascii || term_ascii(p->term);
	err = fit(p);
	if (!err) {
		what = wait_for_choice(p, list);
		err = what == PICKED_SERVER ? 0 : -ECANCELED;
	}
	term_close(p->term);
	return err;
}

int tui_pick(const struct tui_options *o, const struct tui_list *list,
	     int32_t *pid)
{
	struct pick *p = calloc(1, sizeof(*p));
	sigset_t resize, before;
	int err;

	if (!p)
		return -ENOMEM;
	sigemptyset(&resize);
	sigaddset(&resize, SIGWINCH);
	pthread_sigmask(SIG_BLOCK, &resize, &before);
	p->resize_fd = signalfd(-1, &resize, SFD_CLOEXEC | SFD_NONBLOCK);
	err = p->resize_fd < 0 ? -errno : run(p, o, list);
	if (!err)
		*pid = p->picker.pid;
	if (p->resize_fd >= 0)
		close(p->resize_fd);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	grid_fini(&p->picker.grid);
	free(p);
	return err;
}
