/*
 * options.h - the options of a server, into the snapshot
 */
#ifndef MOETOP_CORE_OPTIONS_H
#define MOETOP_CORE_OPTIONS_H

#include "model/snapshot.h"
#include "target/launch.h"

/* As many as there is room for, the first ones, instead of those there. */
void options_put(struct snapshot_target *to, const struct launch *l);

#endif
