/*
 * tls_sweep.h - the table of plain-text connections, kept short
 */
#ifndef MOETOP_BPF_TLS_SWEEP_H
#define MOETOP_BPF_TLS_SWEEP_H

#include <stdint.h>

#include "bpf/shared.h"

/*
 * Takes out of the map `conns` what is closed; what has no socket and a request
 * with no event for silent_ns, which ends as the client's abort; and, of a table
 * that is half full, what has no socket and no request.  before: how many were
 * left the last time; the number that are now.
 */
unsigned tls_sweep(int conns, struct tracker_shared *shared, unsigned before,
		   uint64_t now_ns, uint64_t silent_ns);

#endif
