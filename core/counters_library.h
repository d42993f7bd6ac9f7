/*
 * counters_library.h - which libcupti PM sampling loads
 *
 * The server's own is as old as its driver can bear, so it comes first; then one
 * of this machine's; before both, the one that MOETOP_CUPTI names.  Never one
 * that others could have written.
 */
#ifndef MOETOP_CORE_COUNTERS_LIBRARY_H
#define MOETOP_CORE_COUNTERS_LIBRARY_H

#include "target/target.h"

/*
 * t: NULL without a server.  cuda: the libcuda that goes with it, "" the
 * system's.  Both have PATH_MAX bytes.  0, -ENOENT there is none, -EPERM the
 * server's is not to be trusted, -errno.
 */
int counters_library_find(const struct target *t, char *cupti, char *cuda);

/* In words, of the errors above. */
const char *counters_library_why(int err);
#define COUNTERS_LIBRARY_FIX                                              \
	"install the CUDA toolkit, or name a libcupti that you trust in " \
	"MOETOP_CUPTI"

#endif
