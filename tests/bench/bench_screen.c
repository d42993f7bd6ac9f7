/*
 * bench_screen.c - what the screen costs
 *
 * Draws the snapshots of the golden screens, which change every second, and
 * prints for each screen the processor time of a frame (snapshot to bytes) and the bytes
 * that a steady frame sends to the terminal; then the processor time of a
 * screen that is looked at, one snapshot a second.
 *
 *	bench_screen [SECONDS]	of the last part, default 10
 *
 * Fails above the limits that docs/OVERHEAD.md gives.
 */
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <locale.h>

#include "tests/unit/tui/scenes.h"
#include "tui/paint.h"
#include "tui/tui.h"
#include "tui/view.h"

#define COLUMNS 200
#define ROWS 60
#define WARM 310u /* a history of five minutes */
#define FRAMES 300u

#define FRAME_NS_MOST 2e6
#define FRAME_BYTES_MOST 2048.0
#define CPU_MOST 0.01

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct result {
	double ns[FRAMES], bytes[FRAMES];
};

static void frame(struct view *v, struct paint *p, struct grid *shown,
		  const struct snapshot *s, double *ns, double *bytes)
{
	double start = now_ns();

	view_add(v, s);
	view_draw(v);
	paint_diff(p, shown, &v->grid);
	*ns = now_ns() - start;
	*bytes = (double)p->n;
	memcpy(shown->cells, v->grid.cells,
	       sizeof(struct cell) * COLUMNS * ROWS);
}

static void run(struct view *v, unsigned screen, enum scene scene,
		enum color_depth depth, struct result *r)
{
	static struct snapshot s;
	struct grid shown = { 0 };
	struct paint p;
	double ns, bytes;

	paint_init(&p, paint_caps_ansi(depth), depth == DEPTH_TRUE, depth);
	grid_resize(&shown, COLUMNS, ROWS);
	v->screen = screen;
	for (unsigned i = 0; i < WARM + FRAMES; i++) {
		scene_at(&s, scene, i);
		if (i < WARM)
			frame(v, &p, &shown, &s, &ns, &bytes);
		else
			frame(v, &p, &shown, &s, &r->ns[i - WARM],
			      &r->bytes[i - WARM]);
	}
	qsort(r->ns, FRAMES, sizeof(double), ascending);
	qsort(r->bytes, FRAMES, sizeof(double), ascending);
	paint_fini(&p);
	grid_fini(&shown);
}

static double mean(const double *x)
{
	double sum = 0;

	for (unsigned i = 0; i < FRAMES; i++)
		sum += x[i];
	return sum / FRAMES;
}

static int bench(enum scene scene, enum color_depth depth, const char *words)
{
	static struct result r;
	int bad = 0;

	printf("%s, %dx%d, %s\n", scene_names[scene], COLUMNS, ROWS, words);
	for (unsigned i = 0; i < SCREEN_HELP; i++) {
		struct view *v = view_new(false);
		const struct tui_options o = { .color = true };

		if (!v || view_resize(v, COLUMNS, ROWS))
			return 1;
		view_options(v, &o, false);
		run(v, i, scene, depth, &r);
		printf("  %-9s %8.0f ns a frame (99 %%: %.0f)   %6.0f bytes "
		       "(most %.0f)\n",
		       screens[i]->title, r.ns[FRAMES / 2],
		       r.ns[FRAMES * 99 / 100], mean(r.bytes),
		       r.bytes[FRAMES - 1]);
		bad |= r.ns[FRAMES / 2] > FRAME_NS_MOST ||
		       mean(r.bytes) > FRAME_BYTES_MOST;
		view_free(v);
	}
	return bad;
}

/* ---- a screen that is looked at ------------------------------------------ */

static int look(int seconds)
{
	static struct snapshot s;
	const struct tui_options o = { .color = true };
	struct tui *t;

	setenv("TERM", "xterm-256color", 1);
	setenv("COLORTERM", "truecolor", 1);
	if (tui_open(&t, &o))
		return 1;
	for (int i = 0; i < seconds; i++) {
		struct pollfd p = { .fd = tui_fd(t), .events = POLLIN };

		scene_at(&s, SCENE_NEAR, (unsigned)i);
		tui_show(t, &s);
		poll(&p, 1, 1000);
		tui_input(t);
	}
	tui_close(t);
	return 0;
}

static double seconds_of(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int bench_cpu(int seconds)
{
	struct winsize size = { .ws_col = COLUMNS, .ws_row = ROWS };
	struct rusage used;
	char bytes[4096];
	double cpu;
	int terminal, status;
	pid_t pid;

	fflush(stdout);
	pid = forkpty(&terminal, NULL, NULL, &size);
	if (pid < 0)
		return 1;
	if (pid == 0)
		_exit(look(seconds));
	while (read(terminal, bytes, sizeof(bytes)) > 0)
		;
	close(terminal);
	if (wait4(pid, &status, 0, &used) != pid || status)
		return 1;
	cpu = (seconds_of(used.ru_utime) + seconds_of(used.ru_stime)) / seconds;
	printf("one picture a second for %d s: %.2f %% of a core\n", seconds,
	       100 * cpu);
	return cpu > CPU_MOST;
}

int main(int argc, char **argv)
{
	int seconds = argc > 1 ? atoi(argv[1]) : 10, bad = 0;

	setlocale(LC_ALL, "C.UTF-8");
	bad |= bench(SCENE_NEAR, DEPTH_256, "256 colours");
	bad |= bench(SCENE_NEAR, DEPTH_TRUE, "24 bits, theme dark");
	bad |= bench(SCENE_LARGE, DEPTH_256, "256 colours");
	bad |= bench_cpu(seconds > 0 ? seconds : 10);
	printf("%s\n", bad ? "above a limit" : "within the limits");
	return bad;
}
