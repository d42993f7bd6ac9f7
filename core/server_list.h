/*
 * server_list.h - which server to watch, when none is named
 *
 * `moetop` without a pid: on a terminal the user picks one of those found,
 * elsewhere the only one is taken, or the list is printed.
 */
#ifndef MOETOP_CORE_SERVER_LIST_H
#define MOETOP_CORE_SERVER_LIST_H

#include <stdio.h>
#include <sys/types.h>

#include "core/settings.h"
#include "model/servers.h"

struct broker;

/* A table with a heading; nothing for no servers. */
void server_list_print(FILE *f, const struct servers *s);

/* Those that serve: neither left over nor of another machine. */
unsigned server_list_serving(const struct servers *s);

/*
 * 0 with *pid; -1 when the command ends here with *status, and all is said: the
 * list was wanted, there is no server, or it is not clear which.
 */
int server_list_choose(const struct settings *settings, pid_t *pid,
		       int *status);

/*
 * The one that was watched without being named has ended: the next one that is
 * the only one, within a minute (a supervisor starts it again).  keeper looks
 * for it; NULL is legal.  0 and *pid, or -1.
 */
int server_list_await(const struct settings *settings, struct broker *keeper,
		      pid_t *pid);

#endif
