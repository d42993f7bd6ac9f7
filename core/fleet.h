/*
 * fleet.h - every LLM server of the machine, as they come and go: --all
 *
 * Looks for servers every few seconds and follows each with a collector of its
 * own, FLEET_MAX at most; what one of them does is no matter to the others.
 * One that has ended is told as gone for a while and then forgotten.
 */
#ifndef MOETOP_CORE_FLEET_H
#define MOETOP_CORE_FLEET_H

#include <stdbool.h>

#include "core/settings.h"
#include "model/servers.h"
#include "model/snapshot.h"

#define FLEET_MAX 16u

struct fleet;
struct target_model;

/* model: of all of them, borrowed; NULL is legal.  discover finds the servers: 0
 * or -errno, *out unchanged on error.  0 or -ENOMEM. */
int fleet_new(struct fleet **out, const struct settings *settings,
	      const struct target_model *model,
	      int (*discover)(struct servers *out));
void fleet_free(struct fleet *f); /* NULL is legal */

/* Looks for servers; says on standard error who came. */
void fleet_look(struct fleet *f);
/* Ten times a second. */
void fleet_tick(struct fleet *f);
/* The interval ends: *n snapshots with different names, borrowed until the next
 * call. */
const struct snapshot *const *fleet_snapshots(struct fleet *f, unsigned *n);
/* Servers that there was no room for, at the last look. */
unsigned fleet_left_out(const struct fleet *f);

/* The whole command: until a signal or the count ends it.  The exit status;
 * errors have been said. */
int fleet_run(const struct settings *settings);

#endif
