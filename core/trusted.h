/*
 * trusted.h - files whose code may run with our rights
 */
#ifndef MOETOP_CORE_TRUSTED_H
#define MOETOP_CORE_TRUSTED_H

#include <stdbool.h>

/*
 * Can nobody but root and us have written this file, or put another into its
 * place, or beside it?  It and the folders above it belong to root or to our user,
 * and no one else can write them; where our own program lies below a folder, who
 * owns that one owns us already.  path: as in /proc/PID/maps, or one with links,
 * which are followed.
 */
bool trusted_file(const char *path);

#endif
