/*
 * discover.h - all LLM servers of the machine
 */
#ifndef MOETOP_TARGET_DISCOVER_H
#define MOETOP_TARGET_DISCOVER_H

#include "model/servers.h"

/*
 * Look through all processes, once: a tenth of a second at 2000 of them.  One
 * entry for each server, however many processes it has; a supervisor of several
 * is none itself.  In flight is left unknown.  0 or -errno; *out is unchanged
 * on error.
 */
int discover_servers(struct servers *out);

#endif
