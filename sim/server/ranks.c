#include "sim/server/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/server/clock.h"
#include "sim/server/rank_wire.h"

#define END_NS (2 * NS_PER_S)
#define LIVES_MAX 100u /* of one rank; then something is wrong for good */

extern char **environ;

struct member {
	pid_t pid; /* 0: none */
	int fd;
	bool ready;
	unsigned lives;
};

struct ranks {
	struct ranks_options o;
	pthread_mutex_t lock; /* guards all below; a step holds it */
	struct member member[RANKS_MAX];
	uint8_t *message;
	uint64_t kv_tokens, dies_ns;
	char error[256];
};

const char *ranks_error(const struct ranks *r)
{
	return r->error;
}

uint64_t ranks_kv_tokens(const struct ranks *r)
{
	return r->kv_tokens;
}

/* ---- birth --------------------------------------------------------------- */

static void title(const struct ranks *r, unsigned i, char *out, size_t bytes)
{
	const char *base = r->o.flavour == KERNELS_SGLANG ? "sglang::scheduler"
							  : "VLLM::Worker";

	if (r->o.expert)
		snprintf(out, bytes, "%s_TP%u_EP%u", base, i, i);
	else
		snprintf(out, bytes, "%s_TP%u", base, i);
}

/* Which GPU: counted from the one that the front process may use. */
static unsigned device(unsigned i)
{
	const char *first = getenv("CUDA_VISIBLE_DEVICES");

	return (first ? (unsigned)strtoul(first, NULL, 10) : 0) + i;
}

static bool replaced(const char *variable)
{
	return !strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21) ||
	       !strncmp(variable, RANK_ENV "=", sizeof(RANK_ENV));
}

/* Ours, with two variables of the worker's own (borrowed) in place of those of
 * the same names.  NULL: no memory. */
static char **make_environment(char *visible, char *rank)
{
	size_t n = 0, out = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 3, sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!replaced(environ[i]))
			env[out++] = environ[i];
	env[out++] = visible;
	env[out] = rank;
	return env;
}

/* In the child of a process with threads: system calls only. */
__attribute__((noreturn)) static void become(int fd, char **argv, char **env)
{
	const int kept = STDERR_FILENO + 1; /* of all our descriptors */

	if (fd == kept ? !fcntl(fd, F_SETFD, 0) : dup2(fd, kept) >= 0) {
		close_range((unsigned)kept + 1, ~0u, 0);
		execve("/proc/self/exe", argv, env);
	}
	_exit(127);
}

static int send_arguments(const struct ranks *r, int fd)
{
	size_t n = 0;

	for (int i = 0; i < r->o.argc; i++) {
		size_t bytes = strlen(r->o.argv[i]) + 1;

		if (n + bytes > RANK_MESSAGE_MAX)
			return -E2BIG;
		memcpy(r->message + n, r->o.argv[i], bytes);
		n += bytes;
	}
	return rank_send(fd, RANK_ARGUMENTS, r->message, n);
}

static int launch(const struct ranks *r, unsigned i, int fd, pid_t *pid)
{
	char name[64], visible[48], rank[64];
	char *argv[] = { name, NULL }, **env;

	title(r, i, name, sizeof(name));
	snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=%u",
		 device(i));
	snprintf(rank, sizeof(rank), RANK_ENV "=%d:%u:%u:%d:%u",
		 STDERR_FILENO + 1, i, r->o.n, r->o.expert, r->member[i].lives);
	env = make_environment(visible, rank);
	if (!env)
		return -ENOMEM;
	*pid = fork();
	if (*pid == 0)
		become(fd, argv, env);
	free(env);
	return *pid < 0 ? -errno : 0;
}

static int give_birth(struct ranks *r, unsigned i)
{
	struct member *m = &r->member[i];
	pid_t pid = 0;
	int pair[2], err;

	if (m->lives >= LIVES_MAX)
		return -ELOOP;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	err = launch(r, i, pair[1], &pid);
	close(pair[1]);
	if (!err)
		err = send_arguments(r, pair[0]);
	if (err) {
		close(pair[0]);
		return err;
	}
	m->pid = pid;
	m->fd = pair[0];
	m->ready = false;
	m->lives++;
	return 0;
}

/* ---- life and death ------------------------------------------------------ */

static void bury(struct member *m)
{
	if (!m->pid)
		return;
	kill(m->pid, SIGKILL);
	waitpid(m->pid, NULL, 0);
	close(m->fd);
	m->pid = 0;
	m->ready = false;
}

/* What a worker says after its start or a step.  -EPIPE: it has died. */
static int hear(struct ranks *r, unsigned i, enum rank_kind kind)
{
	struct rank_ready a;
	size_t bytes;
	int err = rank_receive(r->member[i].fd, kind, &a, sizeof(a), &bytes);

	if (err)
		return err;
	if (bytes != sizeof(a))
		return -EPROTO;
	a.why[sizeof(a.why) - 1] = '\0';
	if (a.error)
		snprintf(r->error, sizeof(r->error), "rank %u: %.230s", i,
			 a.why);
	else
		r->kv_tokens = a.kv_tokens;
	return a.error ? -EIO : 0;
}

/* A worker that can take a step, however often it dies meanwhile. */
static int revive(struct ranks *r, unsigned i)
{
	struct member *m = &r->member[i];
	int err = -EPIPE;

	while (err == -EPIPE && !m->ready) {
		err = m->pid ? 0 : give_birth(r, i);
		if (!err)
			err = hear(r, i, RANK_READY);
		if (!err)
			m->ready = true;
		else
			bury(m);
	}
	return m->ready ? 0 : err;
}

static void kill_by_fault(struct ranks *r)
{
	struct member *m = &r->member[r->o.n - 1];

	if (!r->dies_ns || clock_ns() < r->dies_ns || !m->pid)
		return;
	r->dies_ns = 0;
	kill(m->pid, SIGKILL);
}

void ranks_tick(struct ranks *r)
{
	if (pthread_mutex_trylock(&r->lock))
		return; /* a step is under way and looks after them itself */
	kill_by_fault(r);
	for (unsigned i = 0; i < r->o.n; i++) {
		struct member *m = &r->member[i];

		if (m->pid && waitpid(m->pid, NULL, WNOHANG) == m->pid) {
			close(m->fd);
			m->pid = 0;
			m->ready = false;
		}
		if (!m->pid)
			(void)give_birth(r, i); /* a step will say it */
	}
	pthread_mutex_unlock(&r->lock);
}

/* ---- steps --------------------------------------------------------------- */

static size_t pack(const struct ranks *r, const struct sched_step *step)
{
	struct rank_step *s = (void *)r->message;
	struct rank_item *it = (void *)(s + 1);

	*s = (struct rank_step){ .items = step->items_n,
				 .tokens = step->tokens,
				 .prefill = step->prefill };
	for (unsigned i = 0; i < step->items_n; i++, it++)
		*it = (struct rank_item){
			.id = step->items[i].seq->id,
			.first = step->items[i].first,
			.count = step->items[i].count,
			.samples = step->items[i].samples,
		};
	return sizeof(*s) + step->items_n * sizeof(*it);
}

/* A step on one rank to its end; the worker may have to be started again. */
static int finish(struct ranks *r, unsigned i, const struct sched_step *step,
		  bool sent)
{
	int err = sent ? hear(r, i, RANK_DONE) : -EPIPE;

	while (err == -EPIPE) {
		bury(&r->member[i]);
		err = revive(r, i);
		if (!err) /* give_birth has used the buffer */
			err = rank_send(r->member[i].fd, RANK_STEP, r->message,
					pack(r, step));
		if (!err)
			err = hear(r, i, RANK_DONE);
	}
	return err;
}

static int step_all(struct ranks *r, const struct sched_step *step)
{
	bool sent[RANKS_MAX] = { false };
	int err = 0;

	for (unsigned i = 0; !err && i < r->o.n; i++)
		err = revive(r, i);
	for (unsigned i = 0; !err && i < r->o.n; i++)
		sent[i] = !rank_send(r->member[i].fd, RANK_STEP, r->message,
				     pack(r, step));
	kill_by_fault(r);
	for (unsigned i = 0; !err && i < r->o.n; i++)
		err = finish(r, i, step, sent[i]);
	return err;
}

int ranks_step(struct ranks *r, const struct sched_step *step)
{
	int err;

	pthread_mutex_lock(&r->lock);
	err = step_all(r, step);
	if (err && !r->error[0])
		snprintf(r->error, sizeof(r->error), "a worker: %s",
			 strerror(-err));
	pthread_mutex_unlock(&r->lock);
	return err ? -EIO : 0;
}

/* ---- start and end ------------------------------------------------------- */

int ranks_open(struct ranks **out, const struct ranks_options *o, char *why,
	       size_t why_bytes)
{
	struct ranks *r = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return -ENOMEM;
	r->o = *o;
	r->message = malloc(RANK_MESSAGE_MAX);
	pthread_mutex_init(&r->lock, NULL);
	if (!r->message || o->n > RANKS_MAX)
		err = -ENOMEM;
	for (unsigned i = 0; !err && i < o->n; i++)
		err = give_birth(r, i);
	for (unsigned i = 0; !err && i < o->n; i++) {
		err = hear(r, i, RANK_READY);
		r->member[i].ready = !err;
	}
	if (err) {
		snprintf(why, why_bytes, "%s",
			 r->error[0] ? r->error : "a worker does not start");
		ranks_close(r);
		return err;
	}
	if (o->dies_s > 0)
		r->dies_ns = clock_ns() + (uint64_t)(o->dies_s * 1e9);
	*out = r;
	return 0;
}

void ranks_close(struct ranks *r)
{
	uint64_t limit = clock_ns() + END_NS;

	if (!r)
		return;
	for (unsigned i = 0; i < r->o.n && i < RANKS_MAX; i++)
		if (r->member[i].pid)
			shutdown(r->member[i].fd, SHUT_WR);
	for (unsigned i = 0; i < r->o.n && i < RANKS_MAX; i++) {
		struct member *m = &r->member[i];

		while (m->pid && waitpid(m->pid, NULL, WNOHANG) == 0) {
			const struct timespec tick = { .tv_nsec = 2000000 };

			if (clock_ns() > limit)
				kill(m->pid, SIGKILL);
			nanosleep(&tick, NULL);
		}
		if (m->pid)
			close(m->fd);
	}
	pthread_mutex_destroy(&r->lock);
	free(r->message);
	free(r);
}
