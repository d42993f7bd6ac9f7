#include "core/fleet.h"
#include "core/say.h"
#include "core/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GONE_SHOWN_S 300.0
#define REFUSED_MAX 64u

struct fleet {
	const struct settings *settings;
	const struct target_model *model;
	int (*discover)(struct servers *out);
	unsigned n;
	struct watch *watches[FLEET_MAX];
	const struct snapshot *snapshots[FLEET_MAX];
	bool told[FLEET_MAX]; /* that it has ended */
	/* those that could not be opened: said once */
	unsigned n_refused;
	pid_t refused[REFUSED_MAX];
	unsigned left_out;
	struct servers found; /* large */
};

int fleet_new(struct fleet **out, const struct settings *settings,
	      const struct target_model *model,
	      int (*discover)(struct servers *out))
{
	struct fleet *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->settings = settings;
	f->model = model;
	f->discover = discover;
	*out = f;
	return 0;
}

static void drop(struct fleet *f, unsigned i)
{
	watch_free(f->watches[i]);
	f->n--;
	memmove(&f->watches[i], &f->watches[i + 1],
		(f->n - i) * sizeof(f->watches[0]));
	memmove(&f->told[i], &f->told[i + 1], (f->n - i) * sizeof(f->told[0]));
}

void fleet_free(struct fleet *f)
{
	if (!f)
		return;
	while (f->n)
		drop(f, f->n - 1);
	free(f);
}

/* ---- who is there ------------------------------------------------------- */

static bool is_watched(const struct fleet *f, pid_t pid)
{
	for (unsigned i = 0; i < f->n; i++)
		if (watch_pid(f->watches[i]) == pid &&
		    watch_gone_s(f->watches[i]) < 0)
			return true;
	return false;
}

/* The one that ended first makes room. */
static bool make_room(struct fleet *f)
{
	double longest = -1;
	unsigned at = 0;

	if (f->n < FLEET_MAX)
		return true;
	for (unsigned i = 0; i < f->n; i++) {
		double s = watch_gone_s(f->watches[i]);

		if (s <= longest)
			continue;
		longest = s;
		at = i;
	}
	if (longest < 0)
		return false;
	drop(f, at);
	return true;
}

static void say_refused(struct fleet *f, pid_t pid, const char *why)
{
	for (unsigned i = 0; i < f->n_refused; i++)
		if (f->refused[i] == pid)
			return;
	if (f->n_refused == REFUSED_MAX)
		f->n_refused = 0;
	f->refused[f->n_refused++] = pid;
	say(STATUS_OK, "pid %d: %s; run moetop as root, or as its user",
	    (int)pid, why);
}

static void add(struct fleet *f, const struct server *s)
{
	const struct watch_config config = { .settings = f->settings,
					     .model = f->model,
					     .pid = s->pid };
	char why[256] = "";
	struct watch *w;

	if (!make_room(f)) {
		f->left_out++;
		return;
	}
	if (watch_new(&w, &config, why, sizeof(why))) {
		say_refused(f, s->pid, why);
		return;
	}
	f->watches[f->n] = w;
	f->told[f->n++] = false;
	say(STATUS_OK, "pid %d: %s%s%s: watched from now on", (int)s->pid,
	    s->engine[0] ? s->engine : "a server", s->model[0] ? ", " : "",
	    s->model);
}

void fleet_look(struct fleet *f)
{
	unsigned before = f->left_out;
	int err = f->discover(&f->found);

	if (err) {
		say(STATUS_OK,
		    "servers cannot be looked for: %s; see moetop "
		    "doctor",
		    strerror(-err));
		return;
	}
	f->left_out = f->found.more;
	for (unsigned i = 0; i < f->found.n; i++)
		if (!f->found.list[i].left_over &&
		    !is_watched(f, f->found.list[i].pid))
			add(f, &f->found.list[i]);
	if (f->left_out && f->left_out != before)
		say(STATUS_OK,
		    "%u servers are not watched: %u is the most; start "
		    "another moetop with -p for them",
		    f->left_out, FLEET_MAX);
}

unsigned fleet_left_out(const struct fleet *f)
{
	return f->left_out;
}

/* ---- what they do ------------------------------------------------------- */

void fleet_tick(struct fleet *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		if (watch_tick(f->watches[i]) || f->told[i])
			continue;
		f->told[i] = true;
		say(STATUS_OK, "pid %d: the server has ended",
		    (int)watch_pid(f->watches[i]));
	}
}

/* One that has ended gives its name to whoever has it now; of two that run,
 * the later one gets a longer name. */
static void settle_names(struct fleet *f)
{
	for (unsigned i = f->n; i-- > 0;) {
		for (unsigned j = 0; j < i; j++) {
			if (strcmp(f->snapshots[i]->target.server,
				   f->snapshots[j]->target.server) != 0)
				continue;
			if (watch_gone_s(f->watches[j]) < 0) {
				watch_distinguish(f->watches[i]);
				break;
			}
			drop(f, j);
			memmove(&f->snapshots[j], &f->snapshots[j + 1],
				(f->n - j) * sizeof(f->snapshots[0]));
			break;
		}
	}
}

const struct snapshot *const *fleet_snapshots(struct fleet *f, unsigned *n)
{
	for (unsigned i = f->n; i-- > 0;)
		if (watch_gone_s(f->watches[i]) > GONE_SHOWN_S)
			drop(f, i);
	for (unsigned i = 0; i < f->n; i++)
		f->snapshots[i] = watch_snapshot(f->watches[i]);
	settle_names(f);
	*n = f->n;
	return f->snapshots;
}
