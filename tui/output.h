/*
 * output.h - bytes for a terminal that may not take them
 *
 * A terminal whose other end is not read (a stopped ssh, a frozen window) takes
 * some kilobytes and then no more; whoever writes to it waits, and with it
 * everything else that a loop does.  So we write by a descriptor of our own that
 * does not block, without changing that of the shell.  Async-signal-safe, but
 * for output_open.
 */
#ifndef MOETOP_TUI_OUTPUT_H
#define MOETOP_TUI_OUTPUT_H

#include <stddef.h>
#include <sys/types.h>

/*
 * A descriptor for the same terminal, to be closed.  Where it cannot be opened
 * again (it is another user's) it is a copy of fd, and a write may block where
 * there is room for a part of it only.  -errno.
 */
int output_open(int fd);

/* What it takes at once: the number of bytes, 0 none, -errno. */
ssize_t output_some(int out, const char *bytes, size_t n);

/*
 * Before leaving: all of it, within a fraction of a second.  If there is no room
 * what it has not shown yet is thrown away, and if that makes none, these too.
 */
void output_last(int out, const char *bytes, size_t n);

#endif
