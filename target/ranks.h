/*
 * ranks.h - the processes of a server that own a GPU
 *
 * A rank has libcuda mapped and a GPU open: a descriptor of /dev/nvidiaN, or
 * the memory of a simulated GPU.  A process that only maps libcuda (it imports
 * torch, say) is none, unless there is no owner in the tree at all.
 */
#ifndef MOETOP_TARGET_RANKS_H
#define MOETOP_TARGET_RANKS_H

#include "target/proc.h"
#include "target/target.h"

/*
 * Find the ranks among t->pids; fds has n_pids entries.  Maps are long: they
 * are read for processes that are not yet known to own a GPU, and for those
 * that have lost their agent (they may have become another program).
 */
void ranks_find(struct target *t, const struct proc_fds *fds);

/* Look at the ranks that are known, and no others. */
void ranks_refresh(struct target *t, const struct proc_fds *fds);

/* The number in a worker's title, "VLLM::Worker_DP1_PP0_TP3": counted over data,
 * pipeline and tensor parallel groups of these sizes (0: 1).  -1 without. */
int ranks_title_number(const char *title, uint32_t pp, uint32_t tp);

#endif
