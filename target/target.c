#include "target/target.h"

#include "target/config.h"
#include "target/describe.h"
#include "target/model_config.h"
#include "target/proc.h"
#include "target/ranks.h"
#include "target/sockets.h"
#include "target/tree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Refreshes between two dear looks: while the server starts, while something
 * is missing that may never come, and when all is known. */
#define START_LOOK_EVERY 2u
#define DEAR_LOOK_EVERY 5u
#define SETTLED_LOOK_EVERY 30u
#define YOUNG_LOOKS 120u /* after a process was born */

static void copy(char *out, size_t room, const char *s)
{
	size_t n = strnlen(s, room - 1);

	memset(out, 0, room);
	memcpy(out, s, n);
}

/* ---- engine and model --------------------------------------------------- */

/* said_by: the page of the server that named the model, "" none. */
static void read_model(struct target *t, const struct cmdline *c,
		       const char *said_by)
{
	struct config_file f;
	struct arch arch;
	int err = config_file_find(t->server, c, &f);

	t->arch_error[0] = '\0';
	if (err == -ENOENT && c->model[0])
		snprintf(t->arch_error, sizeof(t->arch_error),
			 "no config.json found for %.100s", c->model);
	else if (err)
		snprintf(t->arch_error, sizeof(t->arch_error),
			 "cannot look for its config.json: %s", strerror(-err));
	if (err)
		return;
	copy(t->config_path, sizeof(t->config_path), f.path);
	copy(t->config_origin, sizeof(t->config_origin), f.origin);
	if (*said_by)
		snprintf(t->config_origin, sizeof(t->config_origin),
			 "%.80s, named by %.30s", f.origin, said_by);
	if (!model_config_parse(f.json, f.json_bytes, f.quant, f.quant_bytes,
				&arch, t->arch_error, sizeof(t->arch_error))) {
		t->arch = arch;
		t->have_arch = true;
	}
	config_file_free(&f);
}

static void read_server(struct target *t, const struct description *d)
{
	const struct cmdline *c = &d->cmdline;

	copy(t->engine, sizeof(t->engine), c->engine);
	copy(t->engine_version, sizeof(t->engine_version), c->version);
	copy(t->gpu_hint, sizeof(t->gpu_hint), c->gpu);
	if (c->model[0] || !t->model[0])
		cmdline_model_name(c, t->model, sizeof(t->model));
	t->tp = c->tp;
	t->dp = c->dp;
	t->ep = c->ep;
	t->pp = c->pp;
	t->launch = c->launch;
	t->server = d->server;
	t->left_over = d->left_over;
	copy(t->container, sizeof(t->container), d->container);
	copy(t->note, sizeof(t->note), d->note);
}

/* A supervisor has started its server again, and with another model. */
static bool is_another_model(const struct target *t,
			     const struct description *d)
{
	char name[sizeof(t->model)];

	if (!t->server || d->server == t->server || !d->cmdline.model[0] ||
	    strcmp(t->config_origin, "--model") == 0)
		return false;
	cmdline_model_name(&d->cmdline, name, sizeof(name));
	return strcmp(name, t->model) != 0;
}

static void forget_model(struct target *t)
{
	t->have_arch = false;
	t->config_path[0] = t->config_origin[0] = '\0';
	t->arch_error[0] = t->learnt_model[0] = '\0';
}

/* ---- ports -------------------------------------------------------------- */

/* The option's port if it listens; every port when no option can tell. */
static void choose_ports(struct target *t, const struct description *d,
			 const struct sockets *s)
{
	const struct cmdline *c = &d->cmdline;
	bool none = d->group == GROUP_SERVER && !c->port && !c->port_given;
	uint16_t want = (uint16_t)c->port;
	pid_t owner = t->pid;

	memset(t->ports, 0, sizeof(t->ports));
	t->n_ports = t->unfollowed = 0;
	t->ports_guessed = false;
	for (unsigned i = 0; i < s->n && !none; i++) {
		if (want && s->list[i].port != want)
			continue;
		if (t->n_ports == TARGET_PORTS_MAX) {
			t->unfollowed++;
			continue;
		}
		if (t->n_ports == 0)
			owner = s->list[i].pid;
		t->ports[t->n_ports++] = s->list[i].port;
	}
	if (want && t->n_ports == 0) {
		t->ports[t->n_ports++] = want;
		t->ports_guessed = true;
	}
	t->netns = proc_netns(owner);
}

/* Only where no port can be the server's. */
static void choose_unix(struct target *t, const struct description *d,
			const struct sockets *s)
{
	const char *want = d->cmdline.uds;

	memset(t->unix_sockets, 0, sizeof(t->unix_sockets));
	t->n_unix = 0;
	if (!*want && (t->n_ports || d->group == GROUP_SERVER))
		return;
	for (unsigned i = 0; i < s->n_unix; i++) {
		if (!unix_listener_serves(&s->unix_list[i], want))
			continue;
		if (t->n_unix < TARGET_UNIX_MAX)
			t->unix_sockets[t->n_unix++] = s->unix_list[i];
		else
			t->unfollowed++;
	}
	t->unfollowed += s->more;
}

/* ---- ranks -------------------------------------------------------------- */

/* A process takes seconds from its birth to its first call of CUDA; later it
 * is an exception. */
static bool ranks_due(const struct target *t)
{
	return t->looks - t->grown < YOUNG_LOOKS ||
	       t->looks % DEAR_LOOK_EVERY == 0;
}

static bool is_rank(const struct target *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].pid == pid)
			return true;
	return false;
}

/* An agent may come and go at any time; this much is looked at every time. */
static void refresh_ranks(struct target *t)
{
	struct proc_fds fds[TARGET_PIDS_MAX] = { 0 };
	bool all = ranks_due(t);

	for (unsigned i = 0; i < t->n_pids; i++)
		if ((all || is_rank(t, t->pids[i])) &&
		    proc_fds_read(t->pids[i], &fds[i], NULL, NULL) == -EACCES)
			t->denied = true;
	if (all)
		ranks_find(t, fds);
	else
		ranks_refresh(t, fds);
}

/* ---- looking ------------------------------------------------------------ */

/* All of it: the tree, engine, ports, ranks. */
static int look_dear(struct target *t, bool find_model)
{
	struct sockets s = { 0 };
	struct proc_fds fds[TARGET_PIDS_MAX] = { 0 };
	struct description d = { 0 };
	struct processes p = { 0 };
	unsigned several;
	int root, err = tree_read(t, &p, &root, &several);

	if (err) {
		processes_free(&p);
		return err;
	}
	sockets_read(t->pids, t->n_pids, &s, fds);
	if (root >= 0) {
		describe(&p, root, t->pids, t->n_pids, &s, fds, DESCRIBE_ALL,
			 &d);
		if (is_another_model(t, &d)) {
			forget_model(t);
			find_model = true;
		}
		read_server(t, &d);
		if (find_model && d.group != GROUP_LEFT_OVER)
			read_model(t, &d.cmdline, "");
		if (t->have_arch && d.cmdline.kv_element_bytes > 0)
			t->arch.kv_element_bytes = d.cmdline.kv_element_bytes;
	}
	t->several = several;
	if (several > 1)
		snprintf(t->note, sizeof(t->note),
			 "%u servers are below pid %d; this is that of pid %d",
			 several, (int)t->pid, (int)p.all[root].pid);
	t->denied = s.denied;
	choose_ports(t, &d, &s);
	choose_unix(t, &d, &s);
	t->sockets_sum = sockets_sum(&s);
	ranks_find(t, fds);
	processes_free(&p);
	return 0;
}

static bool same(const struct target *a, const struct target *b)
{
	return a->n_pids == b->n_pids && a->n_ports == b->n_ports &&
	       a->n_unix == b->n_unix && a->unfollowed == b->unfollowed &&
	       a->n_ranks == b->n_ranks && a->netns == b->netns &&
	       a->ports_guessed == b->ports_guessed &&
	       a->have_arch == b->have_arch && a->denied == b->denied &&
	       a->tp == b->tp && a->ep == b->ep && a->dp == b->dp &&
	       a->left_over == b->left_over &&
	       !memcmp(a->pids, b->pids, sizeof(a->pids)) &&
	       !memcmp(a->ports, b->ports, sizeof(a->ports)) &&
	       !memcmp(a->unix_sockets, b->unix_sockets,
		       sizeof(a->unix_sockets)) &&
	       !memcmp(a->ranks, b->ranks, sizeof(a->ranks)) &&
	       !strcmp(a->engine, b->engine) && !strcmp(a->model, b->model) &&
	       !strcmp(a->engine_version, b->engine_version) &&
	       !strcmp(a->note, b->note) &&
	       !strcmp(a->config_path, b->config_path) &&
	       !memcmp(&a->launch, &b->launch, sizeof(a->launch));
}

static int alive(const struct target *t)
{
	struct proc_stat s;
	int err = proc_stat_read(t->pid, &s);

	if (err)
		return err;
	if (s.state == 'Z' || s.state == 'X' || s.start_ticks != t->start_ticks)
		return -ESRCH;
	return 0;
}

int target_open(struct target *t, pid_t pid, const struct target_model *given,
		char *why, size_t why_bytes)
{
	bool named = given && given->path;
	struct target *next = calloc(1, sizeof(*next));
	struct proc_stat s;
	int err = next ? 0 : -ENOMEM;

	if (!err) {
		next->pid = proc_tgid(pid);
		err = proc_stat_read(next->pid, &s);
	}
	if (why_bytes)
		why[0] = '\0';
	if (!err && s.state == 'Z')
		err = -ESRCH;
	/* /proc mounted with hidepid shows less than there is */
	if (err == -ESRCH && kill(pid, 0) && errno == EPERM)
		err = -EACCES;
	if (err == -ESRCH)
		snprintf(why, why_bytes, "process %d: not found", (int)pid);
	if (!err) {
		next->start_ticks = s.start_ticks;
		next->tp = next->ep = next->dp = next->pp = 1;
		if (named) {
			next->have_arch = true;
			next->arch = given->arch;
			copy(next->config_path, sizeof(next->config_path),
			     given->path);
			copy(next->config_origin, sizeof(next->config_origin),
			     "--model");
		}
		err = look_dear(next, !named);
	}
	if (!err)
		*t = *next;
	free(next);
	return err;
}

int target_learn(struct target *t, const char *model, const char *page)
{
	struct cmdline c = { 0 };

	if (!model[0] || t->have_arch || t->config_path[0] || !t->server ||
	    strlen(model) >= sizeof(c.model) ||
	    strcmp(model, t->learnt_model) == 0)
		return 0;
	copy(t->learnt_model, sizeof(t->learnt_model), model);
	strcpy(c.model, model);
	if (!t->model[0])
		cmdline_model_name(&c, t->model, sizeof(t->model));
	read_model(t, &c, page);
	return 1;
}

static bool serves(const struct target *t)
{
	return (t->n_ports && !t->ports_guessed) || t->n_unix;
}

/* Do its processes listen on something else now? */
static bool sockets_changed(const struct target *t)
{
	struct sockets s;

	if (!t->look_at_sockets && serves(t) && t->looks % DEAR_LOOK_EVERY)
		return false;
	return !sockets_read(t->pids, t->n_pids, &s, NULL) &&
	       sockets_sum(&s) != t->sockets_sum;
}

/* Time for a look at everything?  `grown`: processes have come or gone. */
static bool look_is_due(const struct target *t, bool grown)
{
	unsigned every = SETTLED_LOOK_EVERY;

	if (!serves(t) && (t->ports_guessed || !t->engine[0]))
		every = START_LOOK_EVERY;
	else if (!serves(t) || !t->n_ranks)
		every = DEAR_LOOK_EVERY;
	return grown || t->looks % every == 0 || sockets_changed(t);
}

int target_refresh(struct target *t)
{
	struct target *next = malloc(sizeof(*next));
	int err = next ? alive(t) : -ENOMEM, grown = 0;
	bool find_model;

	if (!err) {
		*next = *t;
		next->looks++;
		grown = tree_changed(next);
		err = grown < 0 ? grown : 0;
	}
	if (!err) {
		if (grown)
			next->grown = next->looks;
		find_model = !t->have_arch && !t->config_path[0] &&
			     (grown || next->looks % SETTLED_LOOK_EVERY == 0);
		if (look_is_due(next, grown))
			err = look_dear(next, find_model);
		else
			refresh_ranks(next);
		next->look_at_sockets = false;
	}
	if (!err) {
		err = !same(t, next);
		*t = *next;
	}
	free(next);
	return err;
}
