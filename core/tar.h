/*
 * tar.h - files in memory, written as a POSIX ustar archive
 */
#ifndef MOETOP_CORE_TAR_H
#define MOETOP_CORE_TAR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One regular file, mode 0600, owner 0.  name: at most 99 bytes.  0,
 * -ENAMETOOLONG, or -errno of a failed write. */
int tar_add(FILE *f, const char *name, const void *data, size_t bytes,
	    uint64_t unix_s);

/* The end of the archive.  0 or -errno. */
int tar_end(FILE *f);

#endif
