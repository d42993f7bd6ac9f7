#include "tui/term.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "tui/guard.h"
#include "tui/output.h"
#include "tui/paint.h"
#include "tui/screen.h"

#define ESCAPE_DELAY_MS 25
#define BACKSPACE 127
#define OUT_MAX (4u << 20)

struct terminal {
	SCREEN *screen;
	WINDOW *input; /* a pad: reading keys from it draws nothing */
	int epoll_fd;
	struct term_options options;
	struct paint paint;
	struct grid shown; /* what the terminal shows */
	bool repaint;      /* it shows something else */
	/* that it has not taken yet: a frame at most, and a few sequences */
	char *out;
	size_t out_bytes, out_sent, out_room;
	bool out_waits; /* epoll tells when there is room */
	bool dropped;   /* a frame since */
	struct escape escape;
	unsigned n_held, first_held;
	struct escape_event held[2]; /* events not yet handed out */
};

/* ---- the sequences for it ------------------------------------------------ */

static char *gather_to;
static size_t gather_used;

static int gather(int c)
{
	if (gather_used < GUARD_BYTES)
		gather_to[gather_used++] = (char)c;
	return c;
}

static void gather_capability(const char *name)
{
	const char *s = tigetstr(name);

	if (s && s != (const char *)-1)
		tputs(s, 1, gather);
}

static void gather_text(const char *s)
{
	while (*s)
		gather((unsigned char)*s++);
}

static const char *capability(const char *name)
{
	const char *s = tigetstr(name);

	return s == (const char *)-1 ? NULL : s;
}

static const char mouse_on[] = "\033[?1002h\033[?1006h";
static const char mouse_off[] = "\033[?1006l\033[?1002l\033[?1000l";

static bool use_mouse(const struct terminal *t)
{
	return t->options.mouse && capability("kmous");
}

static void prepare_sequences(const struct terminal *t,
			      struct guard_sequences *s)
{
	gather_to = s->enter;
	gather_used = 0;
	gather_capability("smcup");
	gather_capability("smkx");
	gather_capability("civis");
	if (use_mouse(t))
		gather_text(mouse_on);
	s->enter_bytes = gather_used;
	gather_to = s->leave;
	gather_used = 0;
	if (capability("kmous"))
		gather_text(mouse_off);
	gather_capability("sgr0");
	gather_capability("op");
	gather_capability("rmkx");
	gather_capability("cnorm");
	gather_capability("rmcup");
	s->leave_bytes = gather_used;
}

/* ---- what is on its way ---------------------------------------------------- */

static void forget_out(struct terminal *t)
{
	t->out_bytes = t->out_sent = 0;
}

/* Wakes whoever waits for keys when there is room again. */
static void wait_for_room(struct terminal *t, bool wait)
{
	struct epoll_event e = { .events = EPOLLOUT, .data.fd = guard_out() };

	if (wait != t->out_waits)
		epoll_ctl(t->epoll_fd, wait ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
			  guard_out(), &e);
	t->out_waits = wait;
}

/* true: all of it has gone. */
static bool flush_out(struct terminal *t)
{
	ssize_t n;

	if (!t->out_bytes && !t->out_waits)
		return true;
	n = output_some(guard_out(), t->out + t->out_sent,
			t->out_bytes - t->out_sent);
	if (n < 0 || t->out_sent + (size_t)n == t->out_bytes)
		forget_out(t); /* it may have gone away: keys tell */
	else
		t->out_sent += (size_t)n;
	wait_for_room(t, t->out_bytes > 0);
	return !t->out_bytes;
}

static bool put(struct terminal *t, const char *bytes, size_t n)
{
	size_t need = t->out_bytes + n;

	if (need > t->out_room) {
		char *p = need > OUT_MAX ? NULL : realloc(t->out, need);

		if (!p)
			return false;
		t->out = p;
		t->out_room = need;
	}
	memcpy(t->out + t->out_bytes, bytes, n);
	t->out_bytes = need;
	(void)flush_out(t);
	return true;
}

/* ---- open and close ------------------------------------------------------ */

/* What the terminal says of itself; terminfo has seldom heard of 24 bits. */
static enum color_depth own_depth(void)
{
	const char *says = getenv("COLORTERM");
	int colors = tigetnum("colors");

	if (colors < 8)
		return DEPTH_MONO;
	if (tigetflag("RGB") > 0 || tigetflag("Tc") > 0 ||
	    (says && (!strcmp(says, "truecolor") || !strcmp(says, "24bit"))))
		return DEPTH_TRUE;
	return colors < 256 ? DEPTH_8 : DEPTH_256;
}

static void prepare_paint(struct terminal *t)
{
	struct paint_caps caps = {
		.at = capability("cup"),
		.clear = capability("clear"),
		.normal = capability("sgr0"),
		.bold = capability("bold"),
		.dim = capability("dim"),
		.reverse = capability("rev"),
		.underline = capability("smul"),
		.fg = capability("setaf"),
		.bg = capability("setab"),
		.delete_cell = capability("dch1"),
		.insert_cell = capability("ich1"),
		.scrolls = tigetflag("am") > 0 && tigetflag("xenl") <= 0,
	};
	enum color_depth depth = own_depth();

	/* What is asked for may be less, or more than a terminal admits. */
	if (t->options.depth >= 0 && depth != DEPTH_MONO)
		depth = (enum color_depth)t->options.depth;
	if (t->options.depth == DEPTH_MONO)
		depth = DEPTH_MONO;
	if (depth == DEPTH_256 && tigetnum("colors") < 256) {
		caps.fg = paint_caps_ansi(depth)->fg;
		caps.bg = paint_caps_ansi(depth)->bg;
	}
	paint_fini(&t->paint);
	paint_init(&t->paint, &caps, t->options.theme, depth);
	t->repaint = true;
}

static int add_fd(int epoll_fd, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int open_fds(struct terminal *t)
{
	int err = guard_open();

	if (err)
		return err;
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0)
		return -errno;
	err = add_fd(t->epoll_fd, STDIN_FILENO);
	return err ? err : add_fd(t->epoll_fd, guard_fd());
}

static void close_fds(struct terminal *t)
{
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	guard_close();
}

/* A Ctrl-S would hold our next write, and with it whatever else the loop does;
 * here it is a key. */
static int ignore_flow_control(void)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t))
		return -errno;
	t.c_iflag &= ~(tcflag_t)IXON;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &t))
		return -errno;
	def_prog_mode();
	return 0;
}

/* Curses leaves signal handlers behind that we have to see through. */
static int start_curses(struct terminal *t)
{
	struct sigaction tstp, intr, term;

	sigaction(SIGTSTP, NULL, &tstp);
	sigaction(SIGINT, NULL, &intr);
	sigaction(SIGTERM, NULL, &term);
	t->screen = newterm(NULL, stdout, stdin);
	sigaction(SIGTSTP, &tstp, NULL);
	sigaction(SIGINT, &intr, NULL);
	sigaction(SIGTERM, &term, NULL);
	if (!t->screen)
		return -ENOTSUP;
	set_term(t->screen);
	if (!capability("cup") || !capability("clear"))
		return -ENOTSUP;
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_DELAY_MS);
	curs_set(0);
	/* its reports are read by tui/escape.c */
	define_key(NULL, KEY_MOUSE);
	t->input = newpad(1, 1);
	if (!t->input)
		return -ENOMEM;
	keypad(t->input, TRUE);
	nodelay(t->input, TRUE);
	return ignore_flow_control();
}

int term_open(struct terminal **out, const struct term_options *o)
{
	struct guard_sequences sequences = { 0 };
	struct terminal *t;
	int err;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -ENOTTY;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->epoll_fd = -1;
	t->options = *o;
	setlocale(LC_CTYPE, "");
	err = open_fds(t);
	if (!err)
		err = start_curses(t);
	if (err) {
		if (t->input)
			delwin(t->input);
		if (t->screen) {
			endwin();
			delscreen(t->screen);
		}
		close_fds(t);
		free(t);
		return err;
	}
	prepare_paint(t);
	prepare_sequences(t, &sequences);
	refresh();
	if (use_mouse(t))
		(void)put(t, mouse_on, strlen(mouse_on));
	guard_arm(&sequences);
	*out = t;
	return 0;
}

/* Curses writes, too, by the descriptor that blocks: what the terminal has not
 * taken by now it need not show, and what curses says the guard says again. */
static void leave_curses(struct terminal *t)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL);

	if (!guard_armed())
		return;
	if (t->out_bytes)
		tcflush(STDOUT_FILENO, TCOFLUSH);
	if (flags >= 0)
		fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
	endwin();
	if (flags >= 0)
		fcntl(STDOUT_FILENO, F_SETFL, flags);
}

void term_close(struct terminal *t)
{
	if (!t)
		return;
	leave_curses(t);
	guard_disarm();
	delwin(t->input);
	delscreen(t->screen);
	close_fds(t);
	grid_fini(&t->shown);
	paint_fini(&t->paint);
	free(t->out);
	free(t);
}

void term_change(struct terminal *t, const struct term_options *o)
{
	struct guard_sequences sequences = { 0 };

	t->options = *o;
	prepare_paint(t);
	prepare_sequences(t, &sequences);
	guard_change(&sequences);
	if (!guard_armed() || !capability("kmous"))
		return;
	(void)put(t, mouse_off, strlen(mouse_off));
	if (o->mouse)
		(void)put(t, mouse_on, strlen(mouse_on));
}

enum color_depth term_depth(const struct terminal *t)
{
	return t->paint.depth;
}

int term_fd(const struct terminal *t)
{
	return t->epoll_fd;
}

bool term_ascii(const struct terminal *t)
{
	(void)t;
	return strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
}

void term_size(struct terminal *t, int *w, int *h)
{
	struct winsize size;

	(void)t;
	*w = COLS;
	*h = LINES;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ||
	    !size.ws_row)
		return;
	*w = size.ws_col;
	*h = size.ws_row;
}

/* ---- copying ------------------------------------------------------------- */

static void remember(struct terminal *t, const struct grid *g)
{
	if (t->shown.w != g->w || t->shown.h != g->h)
		if (grid_resize(&t->shown, g->w, g->h)) {
			t->repaint = true;
			return;
		}
	memcpy(t->shown.cells, g->cells,
	       sizeof(*g->cells) * (size_t)g->w * (size_t)g->h);
	t->repaint = false;
}

void term_copy(struct terminal *t, const struct grid *g)
{
	if (!guard_armed())
		return; /* stopped: another program has the screen */
	if (!flush_out(t)) {
		t->dropped = true;
		return;
	}
	if (t->shown.w != g->w || t->shown.h != g->h)
		t->repaint = true;
	if (paint_diff(&t->paint, t->repaint ? NULL : &t->shown, g)) {
		t->repaint = true;
		return;
	}
	if (put(t, t->paint.bytes, t->paint.n))
		remember(t, g);
	else
		t->repaint = true;
}

bool term_shown(const struct terminal *t)
{
	return !t->out_bytes && !t->dropped;
}

void term_repaint(struct terminal *t)
{
	t->repaint = true;
}

/* ---- input --------------------------------------------------------------- */

static int input_of(wint_t key)
{
	switch (key) {
	case KEY_UP:
		return INPUT_UP;
	case KEY_DOWN:
		return INPUT_DOWN;
	case KEY_LEFT:
		return INPUT_LEFT;
	case KEY_RIGHT:
		return INPUT_RIGHT;
	case KEY_PPAGE:
		return INPUT_PAGE_UP;
	case KEY_NPAGE:
		return INPUT_PAGE_DOWN;
	case KEY_HOME:
		return INPUT_HOME;
	case KEY_END:
		return INPUT_END;
	case KEY_BTAB:
		return INPUT_BACK_TAB;
	case KEY_F(1):
		return INPUT_F1;
	case KEY_F(2):
		return INPUT_F2;
	case KEY_F(10):
		return 'q';
	case KEY_DC:
		return INPUT_DELETE;
	case KEY_BACKSPACE:
		return BACKSPACE;
	case KEY_ENTER:
		return '\r';
	default:
		return INPUT_NONE;
	}
}

static bool terminal_lost(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, 0) > 0 &&
	       (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static struct term_event event_of(const struct escape_event *e)
{
	if (e->mouse == MOUSE_NONE)
		return (struct term_event){ .kind = TERM_KEY, .key = e->key };
	return (struct term_event){
		.kind = TERM_MOUSE, .mouse = e->mouse, .x = e->x, .y = e->y
	};
}

static bool hold(struct terminal *t, struct term_event *out)
{
	if (t->first_held == t->n_held)
		return false;
	*out = event_of(&t->held[t->first_held++]);
	return true;
}

struct term_event term_next(struct terminal *t)
{
	struct term_event e = { .kind = TERM_CHANGED };
	wint_t key;

	if (guard_resumed()) {
		forget_out(t);
		t->repaint = true;
		return e;
	}
	if (flush_out(t) && t->dropped) {
		t->dropped = false;
		return e;
	}
	while (!hold(t, &e)) {
		int kind = wget_wch(t->input, &key);

		t->first_held = t->n_held = 0;
		if (kind == OK) {
			t->n_held = escape_feed(&t->escape, (int)key, t->held);
		} else if (kind == KEY_CODE_YES) {
			int code = input_of(key);

			return (struct term_event){ .kind = TERM_KEY,
						    .key = code };
		} else if (escape_flush(&t->escape, t->held)) {
			t->n_held = 1;
		} else {
			return (struct term_event){
				.kind = terminal_lost() ? TERM_LOST : TERM_NONE,
			};
		}
	}
	return e;
}
