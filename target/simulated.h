/*
 * simulated.h - where moetop-sim finds what its command line names
 *
 * It takes models and scenarios by name, from sim/models/NAME.json and
 * sim/scenarios/NAME.options beside the program, in the source tree above it
 * or in its working directory.
 */
#ifndef MOETOP_TARGET_SIMULATED_H
#define MOETOP_TARGET_SIMULATED_H

#include <sys/types.h>

#include "target/cmdline.h"

/* Add the options of its scenario and its default GPU, and make c->model a path;
 * what cannot be found stays as it is.  For c->simulated only. */
void simulated_settle(pid_t pid, struct cmdline *c);

#endif
