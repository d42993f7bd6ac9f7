/*
 * watch.h - one watched server: its target, its sources, its collector
 *
 * Nothing here is shared with another one, so that several may run beside each
 * other and fail alone.  One thread.
 */
#ifndef MOETOP_CORE_WATCH_H
#define MOETOP_CORE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/settings.h"
#include "model/snapshot.h"

struct source_context;
struct target;
struct target_model;
struct watch;

struct watch_config {
	const struct settings *settings;  /* borrowed */
	const struct target_model *model; /* borrowed for the call; NULL none */
	pid_t pid;
	const char *nvml_path; /* NULL: MOETOP_NVML, or the system's */
};

/*
 * 0 and *out (free with watch_free), or -errno with one line in why; -ESRCH no
 * such process, -EACCES one that is hidden.
 */
int watch_new(struct watch **out, const struct watch_config *config, char *why,
	      size_t why_bytes);
void watch_free(struct watch *w); /* NULL is legal */

/* Ten times a second.  false: the server has just ended, or has before. */
bool watch_tick(struct watch *w);

/* It is known by other means that the server has ended. */
void watch_end(struct watch *w);

/* The interval ends: a new snapshot, the last one where the server has ended;
 * borrowed until the next call. */
const struct snapshot *watch_snapshot(struct watch *w);

/* Another server has the same name: from now on this one's ends with its
 * pid. */
void watch_distinguish(struct watch *w);

pid_t watch_pid(const struct watch *w);
const struct target *watch_target(const struct watch *w);
/* To make wishes in. */
struct source_context *watch_context(struct watch *w);
/* Seconds since it has ended, CLOCK_MONOTONIC; negative while it runs. */
double watch_gone_s(const struct watch *w);

#endif
