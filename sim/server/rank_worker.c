#include "sim/server/rank_worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "sim/server/clock.h"
#include "sim/server/rank.h"
#include "sim/server/rank_wire.h"

#define ARGUMENTS_MAX 256
#define FLUSH_NS NS_PER_S

struct worker {
	int fd;
	struct rank_part part;
	unsigned life; /* workers of this rank before it */
	struct sim_options o;
	struct rank_model model;
	struct sched_item *items;
	struct seq *seqs;
	uint8_t *message; /* RANK_MESSAGE_MAX bytes */
	uint64_t flushed_ns;
};

bool rank_worker_wanted(void)
{
	return getenv(RANK_ENV) != NULL;
}

static int read_environment(struct worker *w)
{
	const char *text = getenv(RANK_ENV);
	unsigned expert;

	if (!text ||
	    sscanf(text, "%d:%u:%u:%u:%u", &w->fd, &w->part.rank,
		   &w->part.ranks, &expert, &w->life) != 5 ||
	    w->part.rank >= w->part.ranks)
		return -EINVAL;
	w->part.expert = expert != 0;
	unsetenv(RANK_ENV);
	return 0;
}

/* The arguments of the front process, which are ours too. */
static int read_arguments(struct worker *w, char *why, size_t why_bytes)
{
	char *argv[ARGUMENTS_MAX];
	size_t bytes = 0;
	int argc = 0;
	int err = rank_receive(w->fd, RANK_ARGUMENTS, w->message,
			       RANK_MESSAGE_MAX - 1, &bytes);

	if (err)
		return err;
	w->message[bytes] = 0;
	for (size_t at = 0; at < bytes && argc < ARGUMENTS_MAX;
	     at += strlen((char *)w->message + at) + 1)
		argv[argc++] = (char *)w->message + at;
	return options_parse(argc, argv, &w->o, why, why_bytes);
}

/* FILE.rank1; of a worker that was started again, FILE.rank1.2. */
static void truth_path(const struct worker *w, char *out, size_t bytes)
{
	out[0] = '\0';
	if (!w->o.truth[0])
		return;
	if (w->life)
		snprintf(out, bytes, "%s.rank%u.%u", w->o.truth, w->part.rank,
			 w->life + 1);
	else
		snprintf(out, bytes, "%s.rank%u", w->o.truth, w->part.rank);
}

static int start(struct worker *w, char *why, size_t why_bytes)
{
	char path[OPTIONS_PATH_BYTES + 32];
	int err = read_arguments(w, why, why_bytes);

	if (err)
		return err;
	w->items = calloc(w->o.max_seqs, sizeof(*w->items));
	w->seqs = calloc(w->o.max_seqs, sizeof(*w->seqs));
	if (!w->items || !w->seqs)
		return -ENOMEM;
	truth_path(w, path, sizeof(path));
	err = rank_model_open(&w->model, &w->o, path, why, why_bytes);
	if (!err)
		err = rank_model_start(&w->model, &w->o, &w->part, why,
				       why_bytes);
	return err;
}

/* ---- steps --------------------------------------------------------------- */

static int unpack(struct worker *w, size_t bytes, struct sched_step *out)
{
	const struct rank_step *s = (const void *)w->message;
	const struct rank_item *it = (const void *)(s + 1);

	if (bytes < sizeof(*s) || s->items > w->o.max_seqs ||
	    bytes != sizeof(*s) + s->items * sizeof(*it))
		return -EPROTO;
	*out = (struct sched_step){ .items = w->items,
				    .items_n = s->items,
				    .tokens = s->tokens,
				    .prefill = s->prefill != 0 };
	for (uint32_t i = 0; i < s->items; i++, it++) {
		w->seqs[i].id = it->id;
		w->items[i] = (struct sched_item){ .seq = &w->seqs[i],
						   .first = it->first,
						   .count = it->count,
						   .samples = it->samples };
	}
	return 0;
}

static int answer(struct worker *w, enum rank_kind kind, int error,
		  const char *why)
{
	struct rank_ready r = { .error = error };

	if (!error)
		r.kv_tokens = runner_kv_tokens(w->model.runner);
	snprintf(r.why, sizeof(r.why), "%s", why);
	return rank_send(w->fd, kind, &r, sizeof(r));
}

/* Wait for a message, and have the truth log written meanwhile. */
static void wait_for_message(struct worker *w)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	while (poll(&p, 1, 1000) == 0 ||
	       clock_ns() >= w->flushed_ns + FLUSH_NS) {
		w->flushed_ns = clock_ns();
		if (truth_flush(w->model.truth))
			fprintf(stderr,
				"moetop-sim: rank %u: the truth log "
				"cannot be written\n",
				w->part.rank);
		if (poll(&p, 1, 0) > 0)
			return;
	}
}

static int serve(struct worker *w)
{
	struct sched_step step;
	size_t bytes;
	int err = 0;

	while (!err) {
		wait_for_message(w);
		err = rank_receive(w->fd, RANK_STEP, w->message,
				   RANK_MESSAGE_MAX, &bytes);
		if (!err)
			err = unpack(w, bytes, &step);
		if (err)
			break;
		err = runner_step(w->model.runner, &step);
		if (answer(w, RANK_DONE, err,
			   err ? runner_error(w->model.runner) : ""))
			break;
	}
	return err == -EPIPE ? 0 : err;
}

/* ---- life ---------------------------------------------------------------- */

/* SIGINT is for the front process, which ends us; SIGTERM may be meant for us. */
static void prepare_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int rank_worker_main(const char *title)
{
	static struct worker w;
	char why[240] = "cannot start";
	int err = read_environment(&w);

	if (err)
		return 2;
	prctl(PR_SET_NAME, title);
	prepare_signals();
	w.message = malloc(RANK_MESSAGE_MAX);
	err = w.message ? start(&w, why, sizeof(why)) : -ENOMEM;
	if (answer(&w, RANK_READY, err, err ? why : "") || err)
		return 1;
	err = serve(&w);
	rank_model_close(&w.model);
	return err ? 1 : 0;
}
