/*
 * session.h - one server watched from the first look to the last
 *
 * Joins target, sources, collector, loop and views, and runs until the user
 * ends it, the count is reached, or the target is gone.
 */
#ifndef MOETOP_CORE_SESSION_H
#define MOETOP_CORE_SESSION_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/settings.h"

struct broker;
struct recorder;

struct session_config {
	const struct settings *settings; /* all borrowed */
	pid_t pid;
	const char *nvml_path;     /* NULL: MOETOP_NVML, or the system's */
	struct recorder *recorder; /* NULL: none */
	/* End after the first snapshot with kernels and requests in it; after
	 * 20 s with whatever there is. */
	bool once;
	/* Whose capabilities the session starts with; NULL: this thread's, which
	 * are given up for good. */
	struct broker *keeper;
};

/* The exit status; errors have been said. */
int session_run(const struct session_config *config);

#endif
