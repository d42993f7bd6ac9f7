/*
 * bundle.h - a tar for a bug report, without what is private
 *
 * Holds what moetop doctor says, a few snapshots, the classes of kernels that
 * ran, versions, and chosen fields of the server's processes; docs/DOCTOR.md
 * lists the files and the rules of core/scrub.h that every line goes through.
 * No environment, no command line and no request is in it.
 */
#ifndef MOETOP_CORE_BUNDLE_H
#define MOETOP_CORE_BUNDLE_H

#include "core/doctor.h"

struct bundle;

/* Make the file, mode 0600; one that exists is refused.  The status; errors
 * have been said. */
int bundle_open(struct bundle **out, const char *path);

/*
 * Collect and write, then close the file.  asked: as for doctor_print_json.
 * Takes 2 s with a server (three snapshots).  Returns `status`, or that of an
 * error, which has been said.
 */
int bundle_write(struct bundle *b, const struct doctor *d, unsigned asked,
		 int status);

/* A file that was not written whole is removed.  NULL is legal. */
void bundle_close(struct bundle *b);

#endif
