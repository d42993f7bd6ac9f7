#include "target/tree.h"

#include "target/describe.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool has(const pid_t *pids, unsigned n, pid_t pid)
{
	for (unsigned i = 0; i < n; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/* Where the server's processes begin and where others' do. */
static void find_edges(struct target *t, const struct processes *p, int root)
{
	t->n_roots = t->n_apart = 0;
	for (unsigned i = 0; i < t->n_pids; i++) {
		int at = processes_find(p, t->pids[i]);

		if (at >= 0 && p->all[at].root == root &&
		    !has(t->pids, t->n_pids, p->all[at].ppid) &&
		    t->n_roots < TARGET_EDGES_MAX)
			t->roots[t->n_roots++] = t->pids[i];
	}
	for (unsigned i = 0; i < p->n; i++)
		if (p->all[i].root != root &&
		    has(t->pids, t->n_pids, p->all[i].ppid) &&
		    t->n_apart < TARGET_EDGES_MAX)
			t->apart[t->n_apart++] = p->all[i].pid;
}

/* t->pid to the front, though it may lie above the server. */
static void put_first(struct target *t)
{
	unsigned i = 0;

	while (i < t->n_pids && t->pids[i] != t->pid)
		i++;
	if (i == TARGET_PIDS_MAX)
		i--;
	memmove(t->pids + 1, t->pids, i * sizeof(t->pids[0]));
	t->pids[0] = t->pid;
	if (i == t->n_pids)
		t->n_pids++;
}

int tree_read(struct target *t, struct processes *p, int *root,
	      unsigned *several)
{
	int err = processes_read(p), n;

	*root = -1;
	*several = 0;
	if (err)
		return err;
	processes_group(p, &describe_ask);
	*root = processes_server(p, t->pid, several);
	memset(t->pids, 0, sizeof(t->pids));
	if (*root >= 0) {
		t->n_pids =
			processes_members(p, *root, t->pids, TARGET_PIDS_MAX);
		find_edges(t, p, *root);
		put_first(t);
		return 0;
	}
	n = proc_tree(t->pid, t->pids, TARGET_PIDS_MAX);
	if (n < 0)
		return n;
	t->n_pids = (unsigned)n;
	t->n_apart = 0;
	t->n_roots = 1;
	t->roots[0] = t->pid;
	return 0;
}

static int pid_order(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

int tree_changed(const struct target *t)
{
	pid_t now[TARGET_PIDS_MAX], old[TARGET_PIDS_MAX];
	int n = proc_forest(t->roots, t->n_roots, t->apart, t->n_apart, now,
			    TARGET_PIDS_MAX);
	/* what was named may lie above the tree */
	unsigned above = n > 0 && !has(now, (unsigned)n, t->pid);

	if (n < 0)
		return n;
	/* both lists are cut to what there is room for */
	if ((unsigned)n + above > TARGET_PIDS_MAX)
		n = (int)(TARGET_PIDS_MAX - above);
	if ((unsigned)n + above != t->n_pids)
		return 1;
	memcpy(old, t->pids + above, (t->n_pids - above) * sizeof(old[0]));
	qsort(old, (size_t)n, sizeof(old[0]), pid_order);
	qsort(now, (size_t)n, sizeof(now[0]), pid_order);
	return memcmp(old, now, (size_t)n * sizeof(now[0])) != 0;
}
