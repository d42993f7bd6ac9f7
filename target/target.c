#include "target/target.h"

#include "target/cmdline.h"
#include "target/config.h"
#include "target/model_config.h"
#include "target/proc.h"
#include "target/ranks.h"
#include "target/simulated.h"
#include "target/sockets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CMDLINE_BYTES (128u << 10)
#define YAML_BYTES_MAX (1u << 20)
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

/* ---- the tree ----------------------------------------------------------- */

/* How many bytes of arguments, or -errno. */
static ssize_t read_args(pid_t pid, char *buf)
{
	return proc_read(pid, "cmdline", buf, CMDLINE_BYTES);
}

/* The nearest ancestor that starts a server, when pid is a worker of one. */
static pid_t server_of_worker(pid_t pid, char *buf)
{
	ssize_t n = read_args(pid, buf);
	struct proc_stat s;
	struct cmdline c;
	pid_t p = pid;

	if (n <= 0 || !cmdline_worker(buf, (size_t)n))
		return pid;
	while (proc_stat_read(p, &s) == 0 && s.ppid > 1) {
		p = s.ppid;
		n = read_args(p, buf);
		if (n > 0 && cmdline_parse(buf, (size_t)n, &c) == 0)
			return p;
	}
	return pid;
}

static int read_tree(struct target *t, char *buf)
{
	pid_t *pids = t->pids;
	int n = proc_tree(server_of_worker(t->pid, buf), pids, TARGET_PIDS_MAX);

	if (n < 0)
		return n;
	for (int i = 1; i < n; i++) {
		if (pids[i] != t->pid)
			continue;
		memmove(pids + 1, pids, (size_t)i * sizeof(*pids));
		pids[0] = t->pid;
	}
	memset(pids + n, 0, (TARGET_PIDS_MAX - (size_t)n) * sizeof(*pids));
	t->n_pids = (unsigned)n;
	return 0;
}

/* ---- engine and model --------------------------------------------------- */

/* The first process of the tree whose command line starts a server. */
static pid_t find_server(const struct target *t, char *buf, struct cmdline *c)
{
	for (unsigned i = 0; i < t->n_pids; i++) {
		ssize_t n = read_args(t->pids[i], buf);

		if (n > 0 && cmdline_parse(buf, (size_t)n, c) == 0)
			return t->pids[i];
	}
	return 0;
}

static void read_more_options(pid_t server, struct cmdline *c)
{
	char *text;
	size_t bytes;

	if (c->simulated)
		simulated_settle(server, c);
	if (!c->config_file[0] || c->simulated)
		return;
	if (!server_file_load(server, c->config_file, YAML_BYTES_MAX, &text,
			      &bytes)) {
		cmdline_yaml(c, text, bytes);
		free(text);
		return;
	}
	/* what the file may have set is not known */
	if (c->tp == 1)
		c->tp = 0;
	if (c->dp == 1)
		c->dp = 0;
	if (c->ep == 1)
		c->ep = 0;
}

static void read_model(struct target *t, pid_t server, const struct cmdline *c)
{
	struct config_file f;
	struct arch arch;
	int err = config_file_find(server, c, &f);

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
	if (!model_config_parse(f.json, f.json_bytes, f.quant, f.quant_bytes,
				&arch, t->arch_error, sizeof(t->arch_error))) {
		t->arch = arch;
		t->have_arch = true;
	}
	config_file_free(&f);
}

static void read_server(struct target *t, const struct cmdline *c)
{
	copy(t->engine, sizeof(t->engine), c->engine);
	copy(t->engine_version, sizeof(t->engine_version), c->version);
	copy(t->gpu_hint, sizeof(t->gpu_hint), c->gpu);
	cmdline_model_name(c, t->model, sizeof(t->model));
	t->tp = c->tp;
	t->dp = c->dp;
	t->ep = c->ep;
	t->pp = c->pp;
	t->launch = c->launch;
}

/* ---- ports -------------------------------------------------------------- */

/* The option's port if it listens; every port when no option can tell. */
static void choose_ports(struct target *t, const struct cmdline *c,
			 const struct sockets *s)
{
	bool none = c && (c->uds[0] || c->node_rank > 0);
	uint16_t want = c && !none ? (uint16_t)c->port : 0;
	pid_t owner = t->pid;

	memset(t->ports, 0, sizeof(t->ports));
	t->n_ports = 0;
	t->ports_guessed = false;
	for (unsigned i = 0; i < s->n && !none; i++) {
		if ((want && s->list[i].port != want) ||
		    t->n_ports == TARGET_PORTS_MAX)
			continue;
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

/* All but the tree: ports, engine, ranks. */
static void look_dear(struct target *t, bool find_model, char *buf)
{
	struct cmdline c;
	struct sockets s = { 0 };
	struct proc_fds fds[TARGET_PIDS_MAX] = { 0 };
	pid_t server = find_server(t, buf, &c);

	if (server) {
		read_more_options(server, &c);
		read_server(t, &c);
		if (find_model)
			read_model(t, server, &c);
		if (t->have_arch && c.kv_element_bytes > 0)
			t->arch.kv_element_bytes = c.kv_element_bytes;
	}
	sockets_read(t->pids, t->n_pids, &s, fds);
	t->denied = s.denied;
	choose_ports(t, server ? &c : NULL, &s);
	ranks_find(t, fds);
}

static bool same(const struct target *a, const struct target *b)
{
	return a->n_pids == b->n_pids && a->n_ports == b->n_ports &&
	       a->n_ranks == b->n_ranks && a->netns == b->netns &&
	       a->ports_guessed == b->ports_guessed &&
	       a->have_arch == b->have_arch && a->denied == b->denied &&
	       a->tp == b->tp && a->ep == b->ep && a->dp == b->dp &&
	       !memcmp(a->pids, b->pids, sizeof(a->pids)) &&
	       !memcmp(a->ports, b->ports, sizeof(a->ports)) &&
	       !memcmp(a->ranks, b->ranks, sizeof(a->ranks)) &&
	       !strcmp(a->engine, b->engine) && !strcmp(a->model, b->model) &&
	       !strcmp(a->config_path, b->config_path);
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

int target_open(struct target *t, pid_t pid, const char *model_path, char *why,
		size_t why_bytes)
{
	struct target *next = calloc(1, sizeof(*next));
	char *buf = malloc(CMDLINE_BYTES);
	struct proc_stat s;
	int err = next && buf ? 0 : -ENOMEM;

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
	if (!err && model_path) {
		err = model_config_read(model_path, &next->arch, why,
					why_bytes);
		err = err ? -EINVAL : 0;
	}
	if (!err) {
		next->start_ticks = s.start_ticks;
		next->tp = next->ep = next->dp = next->pp = 1;
		if (model_path) {
			next->have_arch = true;
			copy(next->config_path, sizeof(next->config_path),
			     model_path);
			copy(next->config_origin, sizeof(next->config_origin),
			     "--model");
		}
		err = read_tree(next, buf);
	}
	if (!err) {
		look_dear(next, !model_path, buf);
		*t = *next;
	}
	free(buf);
	free(next);
	return err;
}

/* Time for a look at everything?  `grown`: processes have come or gone. */
static bool look_is_due(const struct target *t, bool grown)
{
	unsigned every = SETTLED_LOOK_EVERY;

	if (t->ports_guessed || (!t->n_ports && !t->engine[0]))
		every = START_LOOK_EVERY;
	else if (!t->n_ports || !t->n_ranks)
		every = DEAR_LOOK_EVERY;
	return grown || t->looks % every == 0;
}

int target_refresh(struct target *t)
{
	struct target *next = malloc(sizeof(*next));
	char *buf = malloc(CMDLINE_BYTES);
	int err = next && buf ? alive(t) : -ENOMEM;
	bool grown, find_model;

	if (!err) {
		*next = *t;
		next->looks++;
		err = read_tree(next, buf);
	}
	if (!err) {
		grown = memcmp(next->pids, t->pids, sizeof(t->pids)) != 0;
		if (grown)
			next->grown = next->looks;
		find_model = !t->have_arch && !t->config_path[0] &&
			     (grown || next->looks % SETTLED_LOOK_EVERY == 0);
		if (look_is_due(next, grown))
			look_dear(next, find_model, buf);
		else
			refresh_ranks(next);
		err = !same(t, next);
		*t = *next;
	}
	free(buf);
	free(next);
	return err;
}
