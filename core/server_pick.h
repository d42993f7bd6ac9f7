/*
 * server_pick.h - the picker of servers, fed by a thread that looks for them
 */
#ifndef MOETOP_CORE_SERVER_PICK_H
#define MOETOP_CORE_SERVER_PICK_H

#include <sys/types.h>

#include "core/settings.h"
#include "model/servers.h"

/* Let the user pick one on the terminal; `found` is what is shown first.  0
 * with *pid, or -1 with the status to end with, and all is said. */
int server_pick(const struct settings *s, const struct servers *found,
		pid_t *pid, int *status);

#endif
