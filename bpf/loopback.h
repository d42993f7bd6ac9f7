/*
 * loopback.h - HTTP traffic of known content, to test the tracker with
 */
#ifndef MOETOP_BPF_LOOPBACK_H
#define MOETOP_BPF_LOOPBACK_H

#include <stdint.h>

#define LOOPBACK_STARTED 2u
#define LOOPBACK_COMPLETED 1u
#define LOOPBACK_ABORTED 1u
#define LOOPBACK_EVENTS 2u

/*
 * Listen on a free port of 127.0.0.1.  0, *fd and *port (host order), or
 * -errno.  The caller closes *fd.
 */
int loopback_listen(int *fd, uint16_t *port);

/* The same on a UNIX stream socket, and the inode of that. */
int loopback_listen_unix(int *fd, uint64_t *inode);

/*
 * A connection on which a request was asked and read.  0 or -errno; the caller
 * closes both ends.
 */
int loopback_ask(int listen_fd, int *client, int *server);

/* Begin to answer it: the head of a stream and its first event. */
int loopback_stream(int server);

/*
 * Be client and server of one connection: a streamed response whose last
 * events and end leave in one writev of three pieces, then a request that the
 * client abandons.  Takes milliseconds, at most about a second.
 * 0 or -errno.
 */
int loopback_exchange(int listen_fd);

#endif
