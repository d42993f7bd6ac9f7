/*
 * paths.h - the files that belong to this program, from where it was started
 *
 * In the build folder everything lies beside the program; an installation has
 * PREFIX/bin/moetop and the rest in PREFIX/lib/moetop.
 */
#ifndef MOETOP_CORE_PATHS_H
#define MOETOP_CORE_PATHS_H

#include <stddef.h>

/* The absolute path of the agent: `given` if not NULL, else the one that
 * belongs to this program.  0, or -ENOENT and out holds what was looked for. */
int path_agent(const char *given, char *out, size_t bytes);

/* A file of the simulated server: "moetop-sim", "lib/libnvidia-ml.so.1",
 * "models/qwen3-30b.json" (in the source folder, when built there).  0 or
 * -ENOENT. */
int path_sim(const char *name, char *out, size_t bytes);

#endif
