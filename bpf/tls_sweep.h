/*
 * tls_sweep.h - the table of plain-text connections, kept short
 */
#ifndef MOETOP_BPF_TLS_SWEEP_H
#define MOETOP_BPF_TLS_SWEEP_H

#include <stdint.h>

#include "bpf/shared.h"

#define TLS_SWEEP_SILENT_NS 1000000000ull
#define TLS_SWEEP_MAX 256u /* ended by one sweep */

/*
 * Takes out of the map `conns` what is closed, and, of a table that is half
 * full, what has no socket and no request.  Of objects with a request and no
 * known socket there can be no more than open sockets with no known object: if
 * there are, the longest silent ones, for TLS_SWEEP_SILENT_NS at least, have
 * lost theirs and end as aborts of the client.  before: how many were left the
 * last time; the number that are now.
 */
unsigned tls_sweep(int conns, struct tracker_shared *shared, unsigned before,
		   uint64_t now_ns);

#endif
