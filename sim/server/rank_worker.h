/*
 * rank_worker.h - the worker process of one rank
 */
#ifndef MOETOP_SIM_SERVER_RANK_WORKER_H
#define MOETOP_SIM_SERVER_RANK_WORKER_H

#include <stdbool.h>

/* Was this process started as a worker? */
bool rank_worker_wanted(void);

/* Be one, named so, until the front process ends or says so.  The exit
 * status. */
int rank_worker_main(const char *title);

#endif
