/*
 * server_log.h - the log that a server writes, if it goes to a file
 *
 * Its standard output or error, as /proc/PID/fd has it: a regular file is read
 * (its beginning and its end, a few hundred KiB), a pipe or a terminal is left
 * alone.
 */
#ifndef MOETOP_TARGET_SERVER_LOG_H
#define MOETOP_TARGET_SERVER_LOG_H

#include <sys/types.h>

#include "target/cmdline.h"
#include "target/log_line.h"

/* What the lines say, the later ones last.  0, -ENOENT there is no such file,
 * -EACCES, -errno; *out is unchanged on error. */
int server_log_read(pid_t pid, struct log_facts *out);

/* Add to what the command line said; marked as the log's: "marlin (log)". */
void server_log_add(const struct log_facts *f, struct cmdline *c);

#endif
