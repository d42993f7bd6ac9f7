#include "core/server_list.h"

#include "core/broker.h"
#include "core/privileges.h"
#include "core/say.h"
#include "core/server_flight.h"
#include "core/server_pick.h"
#include "core/views.h"
#include "target/discover.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS 9u
#define CELL_BYTES 168u
#define MODEL_WIDTH 44u
#define AWAIT_LOOKS 60u /* one a second */

struct row {
	char cell[COLUMNS][CELL_BYTES];
};

static const char *const headings[COLUMNS] = { "PID",    "ENGINE", "VERSION",
					       "MODEL",  "GPUS",   "PORT",
					       "FLIGHT", "AGE",    "" };

static void put_age(char out[CELL_BYTES], double s)
{
	if (!(s > 0))
		snprintf(out, CELL_BYTES, "-");
	else if (s < 3600)
		snprintf(out, CELL_BYTES, "%.0fm%02.0fs", floor(s / 60),
			 floor(fmod(s, 60)));
	else if (s < 86400)
		snprintf(out, CELL_BYTES, "%.0fh%02.0fm", floor(s / 3600),
			 floor(fmod(s, 3600) / 60));
	else
		snprintf(out, CELL_BYTES, "%.0fd%02.0fh", floor(s / 86400),
			 floor(fmod(s, 86400) / 3600));
}

static void put_text(char out[CELL_BYTES], const char *s)
{
	snprintf(out, CELL_BYTES, "%s", *s ? s : "-");
}

/* The end of a long name says more than its beginning. */
static void put_model(char out[CELL_BYTES], const char *s)
{
	size_t n = strlen(s);

	if (n > MODEL_WIDTH)
		snprintf(out, CELL_BYTES, "..%s", s + n - (MODEL_WIDTH - 2));
	else
		put_text(out, s);
}

static void make_row(const struct server *s, struct row *r)
{
	bool both = s->container[0] && s->note[0];

	snprintf(r->cell[0], CELL_BYTES, "%d", (int)s->pid);
	put_text(r->cell[1], s->engine);
	put_text(r->cell[2], s->engine_version);
	put_model(r->cell[3], s->model);
	put_text(r->cell[4], s->gpus);
	if (s->port)
		snprintf(r->cell[5], CELL_BYTES, "%u", s->port);
	else
		put_text(r->cell[5], "");
	if (isnan(s->in_flight))
		put_text(r->cell[6], "");
	else
		snprintf(r->cell[6], CELL_BYTES, "%.0f", s->in_flight);
	put_age(r->cell[7], s->age_s);
	snprintf(r->cell[8], CELL_BYTES, "%s%s%s", s->container,
		 both ? ": " : "", s->note);
}

void server_list_print(FILE *f, const struct servers *s)
{
	struct row *rows = calloc(s->n + 1, sizeof(*rows));
	size_t width[COLUMNS] = { 0 };

	if (!rows || !s->n) {
		free(rows);
		return;
	}
	for (unsigned c = 0; c < COLUMNS; c++)
		put_text(rows[0].cell[c], headings[c]);
	rows[0].cell[COLUMNS - 1][0] = '\0';
	for (unsigned i = 0; i < s->n; i++)
		make_row(&s->list[i], &rows[i + 1]);
	for (unsigned i = 0; i <= s->n; i++)
		for (unsigned c = 0; c < COLUMNS - 1; c++)
			if (strlen(rows[i].cell[c]) > width[c])
				width[c] = strlen(rows[i].cell[c]);
	for (unsigned i = 0; i <= s->n; i++) {
		for (unsigned c = 0; c < COLUMNS - 1; c++)
			fprintf(f, "%s%-*s", c ? "  " : "", (int)width[c],
				rows[i].cell[c]);
		fprintf(f, rows[i].cell[COLUMNS - 1][0] ? "  %s\n" : "\n",
			rows[i].cell[COLUMNS - 1]);
	}
	if (s->more)
		fprintf(f, "and %u more\n", s->more);
	free(rows);
}

unsigned server_list_serving(const struct servers *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += !s->list[i].left_over;
	return n + s->more;
}

static pid_t only_one(const struct servers *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!s->list[i].left_over)
			return s->list[i].pid;
	return 0;
}

static int end(int *status, int with)
{
	*status = with;
	return -1;
}

/* No screen: to guess would be to watch the wrong one. */
static int choose_alone(const struct settings *settings,
			const struct servers *found, pid_t *pid, int *status)
{
	unsigned n = server_list_serving(found);

	if (n == 0) {
		server_list_print(stderr, found);
		return end(status,
			   say(STATUS_TARGET,
			       "no LLM server found on this machine; start "
			       "one, name its process with -p PID, or try "
			       "moetop demo"));
	}
	if (views_want_screen(settings)) { /* but there is no terminal */
		server_list_print(stdout, found);
		return end(status, STATUS_OK);
	}
	if (n == 1) {
		*pid = only_one(found);
		return 0;
	}
	server_list_print(stderr, found);
	return end(status, say(STATUS_TARGET,
			       "%u servers found: not clear which; name one "
			       "with -p PID",
			       n));
}

/* On a terminal; the only one is taken, and that is said. */
static int choose_on_screen(const struct settings *settings,
			    const struct servers *found, pid_t *pid,
			    int *status)
{
	if (server_list_serving(found) != 1)
		return server_pick(settings, found, pid, status);
	*pid = only_one(found);
	say(STATUS_OK, "pid %d: the only server found; watching it", (int)*pid);
	return 0;
}

struct search {
	struct servers *found;
	bool show; /* to people */
	int err;
};

static void search(void *arg)
{
	struct search *s = arg;

	s->err = discover_servers(s->found);
	if (!s->err && s->show)
		server_flight_read(s->found);
}

int server_list_await(const struct settings *settings, struct broker *keeper,
		      pid_t *pid)
{
	struct servers *found = calloc(1, sizeof(*found));
	struct search s = { .found = found };
	pid_t ended = *pid;
	int err = found && !views_want_screen(settings) ? 0 : -ENOMEM;

	for (unsigned i = 0; !err && i < AWAIT_LOOKS && *pid == ended; i++) {
		sleep(1);
		if (keeper)
			broker_call(keeper, search, &s);
		else
			err = broker_once(PRIVILEGES_LOOK, search, &s);
		if (!err && !s.err && server_list_serving(found) == 1 &&
		    only_one(found) != ended)
			*pid = only_one(found);
	}
	free(found);
	return *pid == ended ? -1 : 0;
}

int server_list_choose(const struct settings *settings, pid_t *pid, int *status)
{
	struct servers *found = calloc(1, sizeof(*found));
	struct search s = { .found = found,
			    .show = views_want_screen(settings) };
	int err = found ? broker_once(PRIVILEGES_LOOK | PRIVILEGES_NETWORK,
				      search, &s)
			: -ENOMEM;
	int done;

	if (!err)
		err = s.err;
	if (err) {
		free(found);
		return end(status, say(status_of(err),
				       "look for servers: %s; name one with -p "
				       "PID",
				       strerror(-err)));
	}
	if (views_want_screen(settings) && isatty(STDIN_FILENO) &&
	    isatty(STDOUT_FILENO))
		done = choose_on_screen(settings, found, pid, status);
	else
		done = choose_alone(settings, found, pid, status);
	free(found);
	return done;
}
