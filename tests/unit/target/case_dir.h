/*
 * case_dir.h - where the cases of a kind lie
 */
#ifndef MOETOP_TESTS_UNIT_TARGET_CASE_DIR_H
#define MOETOP_TESTS_UNIT_TARGET_CASE_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* The folder `kind` of MOETOP_CASES, or that itself where it has none; without
 * the variable, tests/data/KIND.  In buf. */
static inline const char *case_dir(const char *kind, char *buf, size_t room)
{
	const char *dir = getenv("MOETOP_CASES");
	DIR *d;

	snprintf(buf, room, "%s/%s", dir ? dir : "tests/data", kind);
	d = opendir(buf);
	if (d)
		closedir(d);
	else if (dir)
		snprintf(buf, room, "%s", dir);
	return buf;
}

#endif
