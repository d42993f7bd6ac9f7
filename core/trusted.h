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
 * owns that one owns us already.  path may have links; what was looked at, and is
 * to be opened, is real, of PATH_MAX bytes.
 */
bool trusted_file(const char *path, char *real);

#endif
