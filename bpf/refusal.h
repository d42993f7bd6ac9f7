/*
 * refusal.h - why a source's programs did not load, for the user
 */
#ifndef MOETOP_BPF_REFUSAL_H
#define MOETOP_BPF_REFUSAL_H

#include <stddef.h>

#include "bpf/rungs.h"

/*
 * What an error of rung_load or rung_attach means: one line into why, and the
 * error as tracker_open gives it (bpf/tracker.h).
 */
int refusal_of_load(const struct rung *r, int err, char *why, size_t why_bytes);

#endif
