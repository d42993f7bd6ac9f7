#include "core/trusted.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

/* Others may write into a folder, and yet not touch what is there and theirs
 * not. */
static bool is_safe(const struct stat *st, bool nearest)
{
	bool sticky = S_ISDIR(st->st_mode) && st->st_mode & S_ISVTX && !nearest;

	return (st->st_uid == 0 || st->st_uid == geteuid()) &&
	       (sticky || !(st->st_mode & (S_IWGRP | S_IWOTH)));
}

static bool is_above(const char *folder, const char *path)
{
	size_t n = strlen(folder);

	return !strncmp(folder, path, n) && path[n] == '/';
}

bool trusted_file(const char *path, char *real)
{
	char at[PATH_MAX], self[PATH_MAX], *slash;
	bool nearest = true;
	struct stat st;

	if (!realpath(path, real) || lstat(real, &st) || !S_ISREG(st.st_mode) ||
	    !is_safe(&st, true))
		return false;
	strcpy(at, real);
	if (!realpath("/proc/self/exe", self))
		self[0] = '\0';
	while ((slash = strrchr(at, '/')) && slash != at) {
		*slash = '\0';
		if (is_above(at, self))
			return true;
		if (lstat(at, &st) || !S_ISDIR(st.st_mode) ||
		    !is_safe(&st, nearest))
			return false;
		nearest = false;
	}
	return !lstat("/", &st) && is_safe(&st, false);
}
