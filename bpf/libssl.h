/*
 * libssl.h - the programs of tls.bpf.c, attached to processes
 *
 * They come on top of a source, by demand, for they take as long to load as the
 * source itself; a kernel or a user that may not have them loses plain text and
 * nothing else.  Not thread-safe.
 */
#ifndef MOETOP_BPF_LIBSSL_H
#define MOETOP_BPF_LIBSSL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/rungs.h"
#include "bpf/shared.h"
#include "bpf/tracker.h"

struct libssl;

/* rung: loaded, not that of packets; it must outlive this.  0 or -errno. */
int libssl_open(struct libssl **out, struct rung_programs *rung);

/*
 * Probe one library of one process.  Attached already: nothing.  0; -ENOSPC:
 * LIBSSL_FILES_MAX of them are; or -errno with nothing attached.
 */
int libssl_attach(struct libssl *l, const struct tracker_tls *library);

/* Leave all processes but these. */
void libssl_keep(struct libssl *l, const pid_t *pids, size_t n);

/* Processes that are probed. */
unsigned libssl_processes(const struct libssl *l);

/*
 * To be called about once a second: probes the return of SSL_write where one
 * writes to a socket, and drops connections that are over (tls_sweep.h).
 */
void libssl_tend(struct libssl *l, uint64_t now_ns);

void libssl_close(struct libssl *l); /* NULL is legal */

#endif
