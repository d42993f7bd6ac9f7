/*
 * bound.h - the address that a server has bound a port to
 *
 * For servers that listen on one address of the machine and not on its
 * loopback ("--host 10.0.0.5").
 */
#ifndef MOETOP_TARGET_BOUND_H
#define MOETOP_TARGET_BOUND_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOUND_ADDRESS_MAX 64u

/* One line of /proc/PID/net/tcp or tcp6: 1 and the address, as it stands in a
 * URL ("10.0.0.5", "[fd00::5]"), when it listens on this port; 0 when not. */
int bound_parse(const char *line, uint16_t port, char out[BOUND_ADDRESS_MAX]);

/* In the network of this process.  0, or -ENOENT when nothing listens there or
 * only on every address. */
int bound_find(pid_t pid, uint16_t port, char out[BOUND_ADDRESS_MAX]);

#endif
