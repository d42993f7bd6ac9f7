#include "target/ranks.h"

#include "target/cmdline.h"
#include "target/title.h"

#include <stdlib.h>
#include <string.h>

#define TITLE_BYTES 256u

/* What the maps say. */
enum { MAPS_CUDA = 1, MAPS_SIMULATED = 2 };
static const char *const needles[] = { "/libcuda.so", "/moetop-sim-gpu", NULL };

/* ---- numbers ------------------------------------------------------------ */

int ranks_title_number(const char *title, uint32_t pp, uint32_t tp)
{
	int d = title_part(title, "DP"), p = title_part(title, "PP");
	int t = title_part(title, "TP");
	long n;

	if (d < 0 && p < 0 && t < 0)
		return -1;
	n = d > 0 ? d : 0;
	n = n * (long)(pp ? pp : 1) + (p > 0 ? p : 0);
	n = n * (long)(tp ? tp : 1) + (t > 0 ? t : 0);
	return n < 1 << 20 ? (int)n : -1;
}

/* The number by which a rank is known: its title's, else its place. */
static void number(struct target *t)
{
	char title[TITLE_BYTES];

	for (unsigned i = 0; i < t->n_ranks; i++) {
		struct target_rank *r = &t->ranks[i];
		ssize_t n = proc_read(r->pid, "cmdline", title, sizeof(title));
		int own = -1;

		if (n > 0 && cmdline_worker(title, (size_t)n))
			own = ranks_title_number(title, t->pp, t->tp);
		r->number = own >= 0 ? (uint32_t)own : i;
	}
}

static int by_number(const void *a, const void *b)
{
	const struct target_rank *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* ---- owners ------------------------------------------------------------- */

static const struct target_rank *known(const struct target *t, pid_t pid)
{
	for (unsigned i = 0; i < t->n_ranks; i++)
		if (t->ranks[i].pid == pid)
			return &t->ranks[i];
	return NULL;
}

/* One process; false: it has no CUDA. */
static bool look_at(const struct target_rank *old, pid_t pid,
		    const struct proc_fds *fds, struct target_rank *out)
{
	bool sure = old && old->owns_gpu && (fds->nvidia || fds->ring[0]);
	struct proc_stat s = { 0 };
	int maps = MAPS_CUDA;

	if (!sure || (old->agent_ring[0] && !fds->ring[0]))
		maps = proc_maps_scan(pid, needles);
	else if (old->simulated)
		maps |= MAPS_SIMULATED;
	if (maps < 0 || !(maps & MAPS_CUDA) || proc_stat_read(pid, &s))
		return false;
	memset(out, 0, sizeof(*out)); /* compared as memory */
	out->pid = pid;
	out->start_ticks = s.start_ticks;
	out->has_cuda = true;
	out->simulated = (maps & MAPS_SIMULATED) != 0;
	out->owns_gpu = fds->nvidia || out->simulated;
	memcpy(out->agent_ring, fds->ring, sizeof(out->agent_ring));
	return true;
}

static void find(struct target *t, const struct proc_fds *fds, bool only_known)
{
	struct target_rank found[TARGET_PIDS_MAX], *to = found;
	bool any_owner = false;
	unsigned n = 0;

	for (unsigned i = 0; i < t->n_pids; i++) {
		const struct target_rank *old = known(t, t->pids[i]);

		if ((only_known && !old) ||
		    !look_at(old, t->pids[i], &fds[i], to))
			continue;
		any_owner |= to->owns_gpu;
		to++;
	}
	memset(t->ranks, 0, sizeof(t->ranks));
	for (const struct target_rank *r = found; r < to; r++)
		if ((r->owns_gpu || !any_owner) && n < TARGET_RANKS_MAX)
			t->ranks[n++] = *r;
	t->n_ranks = n;
	number(t);
	qsort(t->ranks, n, sizeof(t->ranks[0]), by_number);
}

void ranks_find(struct target *t, const struct proc_fds *fds)
{
	find(t, fds, false);
}

void ranks_refresh(struct target *t, const struct proc_fds *fds)
{
	find(t, fds, true);
}
