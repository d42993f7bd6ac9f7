#include "target/discover.h"

#include "target/describe.h"
#include "target/target.h"
#include "wire/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond it, installations (which may lie on a slow disk) are no longer looked
 * at. */
#define QUICK_AFTER_NS 100000000ull

/* Names come from others, and go to a terminal. */
static void set(char *out, size_t room, const char *s)
{
	size_t n = 0;

	for (; n < room - 1 && s[n]; n++)
		out[n] = s[n] < ' ' || s[n] > '~' ? '?' : s[n];
	out[n] = '\0';
}

static void fill(const struct processes *p, int root,
		 const struct description *d, struct server *out)
{
	const struct cmdline *c = &d->cmdline;

	*out = (struct server){ .pid = p->all[root].pid,
				.port = d->port,
				.in_flight = NAN,
				.age_s = proc_age_s(p->all[root].start_ticks),
				.left_over = d->left_over };
	set(out->engine, sizeof(out->engine), c->engine);
	set(out->engine_version, sizeof(out->engine_version), c->version);
	cmdline_model_name(c, out->model, sizeof(out->model));
	describe_gpus(d->gpus, out->gpus, sizeof(out->gpus));
	if (!out->gpus[0] && c->gpu[0] && c->gpus)
		snprintf(out->gpus, sizeof(out->gpus), "%u x %.30s", c->gpus,
			 c->gpu);
	set(out->container, sizeof(out->container), d->container);
	set(out->note, sizeof(out->note), d->note);
}

static void look_at(const struct processes *p, int root, struct namespaces *ns,
		    bool all, struct server *out)
{
	pid_t pids[TARGET_PIDS_MAX];
	struct proc_fds fds[TARGET_PIDS_MAX] = { 0 };
	struct sockets s = { 0 };
	struct description d;
	unsigned n = processes_members(p, root, pids, TARGET_PIDS_MAX);

	sockets_read_with(ns, pids, n, &s, fds);
	describe(p, root, pids, n, &s, fds, all, &d);
	fill(p, root, &d, out);
}

int discover_servers(struct servers *out)
{
	uint64_t start = clock_now_ns();
	struct processes p = { 0 };
	struct servers *found = calloc(1, sizeof(*found));
	struct namespaces *ns = namespaces_new();
	int err = found && ns ? processes_read(&p) : -ENOMEM;

	if (!err)
		processes_group(&p, &describe_ask);
	for (unsigned i = 0; !err && i < p.n; i++) {
		if (p.all[i].root != (int)i)
			continue;
		if (found->n == SERVERS_MAX) {
			found->more++;
			continue;
		}
		look_at(&p, (int)i, ns, clock_now_ns() - start < QUICK_AFTER_NS,
			&found->list[found->n++]);
	}
	if (!err)
		*out = *found;
	processes_free(&p);
	namespaces_free(ns);
	free(found);
	return err;
}
