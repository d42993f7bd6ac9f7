/*
 * diag.h - requests in flight by the times of sockets, with no privilege
 *
 * A dump of the connections of the caller's network namespace (inet_diag), each
 * judged by when it last received and last sent data.  An estimate: measured
 * against a server's own count, off by 2 of 94 on average.  A dump walks the
 * whole table of the kernel, some milliseconds.
 */
#ifndef MOETOP_BPF_DIAG_H
#define MOETOP_BPF_DIAG_H

#include <stddef.h>
#include <stdint.h>

#define DIAG_STREAM_MS 200u    /* a stream sends at least so often */
#define DIAG_EARLY_HEAD_MS 50u /* a head is sent so soon after its request */
#define DIAG_GUESS_MS 5000u    /* and then believed in so long without more */

struct diag_counts {
	uint32_t waiting;      /* received data after they last sent some */
	uint32_t streaming;    /* sent data a moment ago */
	uint32_t idle;         /* neither */
	uint64_t unread_bytes; /* received and not yet read by the server */
	uint64_t backlog;      /* connections not yet accepted */
};

/* The kind of a connection, by how long ago it last received and sent, in ms;
 * read_nothing: no data has ever come. */
enum diag_kind { DIAG_IDLE, DIAG_WAITING, DIAG_STREAMING };
enum diag_kind diag_judge(uint32_t received_ms, uint32_t sent_ms,
			  int read_nothing);

/* A socket to ask by; the caller closes it.  0 and *fd, or -errno. */
int diag_open(int *fd);

/* Count the connections to n ports.  0 or -errno. */
int diag_read(int fd, const uint16_t *ports, size_t n, struct diag_counts *out);

#endif
