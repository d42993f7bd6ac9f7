#include "tui/term.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include "tui/guard.h"
#include "tui/screen.h"

#define ESCAPE_DELAY_MS 25

struct terminal {
	SCREEN *screen;
	int epoll_fd;
	int colors;        /* 0: attributes only */
	struct grid shown; /* what the terminal shows */
	bool repaint;      /* it shows something else */
	attr_t look[STYLES];
	short pair[STYLES];
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

static void prepare_sequences(struct guard_sequences *s)
{
	gather_to = s->enter;
	gather_used = 0;
	gather_capability("smcup");
	gather_capability("smkx");
	gather_capability("civis");
	if (has_mouse())
		gather_text("\033[?1000h");
	s->enter_bytes = gather_used;
	gather_to = s->leave;
	gather_used = 0;
	if (has_mouse())
		gather_text("\033[?1006l\033[?1000l");
	gather_capability("sgr0");
	gather_capability("op");
	gather_capability("rmkx");
	gather_capability("cnorm");
	gather_capability("rmcup");
	s->leave_bytes = gather_used;
}

/* ---- open and close ------------------------------------------------------ */

static attr_t curses_attributes(unsigned look)
{
	return (look & LOOK_BOLD ? A_BOLD : 0) | (look & LOOK_DIM ? A_DIM : 0) |
	       (look & LOOK_REVERSE ? A_REVERSE : 0) |
	       (look & LOOK_UNDERLINE ? A_UNDERLINE : 0);
}

static void prepare_looks(struct terminal *t, bool color)
{
	short pairs = 0;

	if (color && has_colors() && start_color() == OK) {
		use_default_colors();
		t->colors = COLORS;
	}
	for (int s = 0; s < STYLES; s++) {
		struct look l = theme_look((enum style)s, t->colors);
		t->look[s] = curses_attributes(l.attributes);
		if (l.fg < 0 && l.bg < 0)
			continue;
		init_pair(++pairs, l.fg, l.bg);
		t->pair[s] = pairs;
	}
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
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_DELAY_MS);
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED |
			  BUTTON5_PRESSED,
		  NULL);
	mouseinterval(0);
	return 0;
}

int term_open(struct terminal **out, bool color)
{
	struct guard_sequences sequences;
	struct terminal *t;
	int err;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -ENOTTY;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->epoll_fd = -1;
	t->repaint = true;
	setlocale(LC_CTYPE, "");
	err = open_fds(t);
	if (!err)
		err = start_curses(t);
	if (err) {
		close_fds(t);
		free(t);
		return err;
	}
	prepare_looks(t, color);
	prepare_sequences(&sequences);
	refresh();
	guard_arm(&sequences);
	*out = t;
	return 0;
}

void term_close(struct terminal *t)
{
	if (!t)
		return;
	if (guard_armed())
		endwin();
	guard_disarm();
	delscreen(t->screen);
	close_fds(t);
	grid_fini(&t->shown);
	free(t);
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

	*w = COLS;
	*h = LINES;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ||
	    !size.ws_row)
		return;
	*w = size.ws_col;
	*h = size.ws_row;
	if (*w != COLS || *h != LINES) {
		resizeterm(*h, *w);
		t->repaint = true;
	}
}

/* ---- copying ------------------------------------------------------------- */

static bool same_cell(const struct cell *a, const struct cell *b)
{
	return a->glyph == b->glyph && a->style == b->style &&
	       a->marks[0] == b->marks[0] && a->marks[1] == b->marks[1];
}

static void put_cell(const struct terminal *t, int x, int y,
		     const struct cell *c)
{
	wchar_t text[2 + CELL_MARKS] = { (wchar_t)c->glyph };
	cchar_t out;

	for (unsigned i = 0; i < CELL_MARKS; i++)
		text[1 + i] = (wchar_t)c->marks[i];
	setcchar(&out, text, t->look[c->style], t->pair[c->style], NULL);
	mvadd_wchnstr(y, x, &out, 1);
}

static void copy_row(const struct terminal *t, const struct grid *g, int y)
{
	for (int x = 0; x < g->w; x++) {
		const struct cell *c = grid_cell(g, x, y);
		if (!c->glyph)
			continue;
		if (t->repaint || !same_cell(c, grid_cell(&t->shown, x, y)))
			put_cell(t, x, y, c);
	}
}

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
	if (t->shown.w != g->w || t->shown.h != g->h)
		t->repaint = true;
	if (t->repaint) {
		erase();
		clearok(curscr, TRUE);
	}
	for (int y = 0; y < g->h; y++)
		copy_row(t, g, y);
	refresh();
	remember(t, g);
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

/* The wheel is the arrow keys. */
static struct term_event mouse(void)
{
	struct term_event e = { .kind = TERM_KEY };
	MEVENT m;

	if (getmouse(&m) != OK)
		return e;
	if (m.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)) {
		e.kind = TERM_CLICK;
		e.x = m.x;
		e.y = m.y;
	} else if (m.bstate & BUTTON4_PRESSED) {
		e.key = INPUT_UP;
	} else if (m.bstate & BUTTON5_PRESSED) {
		e.key = INPUT_DOWN;
	}
	return e;
}

struct term_event term_next(struct terminal *t)
{
	wint_t key;
	int kind;

	if (guard_resumed()) {
		t->repaint = true;
		return (struct term_event){ .kind = TERM_CHANGED };
	}
	kind = get_wch(&key);
	if (kind == ERR)
		return (struct term_event){
			.kind = terminal_lost() ? TERM_LOST : TERM_NONE,
		};
	if (kind == OK)
		return (struct term_event){ .kind = TERM_KEY, .key = (int)key };
	if (key == KEY_MOUSE)
		return mouse();
	if (key == KEY_RESIZE)
		return (struct term_event){ .kind = TERM_CHANGED };
	return (struct term_event){ .kind = TERM_KEY, .key = input_of(key) };
}
