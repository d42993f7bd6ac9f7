/*
 * golden.h - compare a text with a file; UPDATE=1 rewrites the file
 */
#ifndef MOETOP_TESTS_UNIT_EXPORTER_GOLDEN_H
#define MOETOP_TESTS_UNIT_EXPORTER_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line that differs is shown; true when none does. */
static inline bool golden_equal(const char *path, const char *got)
{
	static char want[1 << 20];
	const char *a = got, *b = want;
	size_t n;
	FILE *f;

	if (getenv("UPDATE")) {
		f = fopen(path, "w");
		if (!f)
			return false;
		fputs(got, f);
		return fclose(f) == 0;
	}
	f = fopen(path, "r");
	if (!f) {
		fprintf(stderr, "# %s: missing; UPDATE=1 writes it\n", path);
		return false;
	}
	n = fread(want, 1, sizeof(want) - 1, f);
	fclose(f);
	want[n] = '\0';
	for (unsigned line = 1; *a || *b; line++) {
		size_t x = strcspn(a, "\n"), y = strcspn(b, "\n");

		if (x != y || memcmp(a, b, x) != 0) {
			fprintf(stderr, "# %s:%u: want %.*s\n# got  %.*s\n",
				path, line, (int)y, b, (int)x, a);
			return false;
		}
		a += x + (a[x] == '\n');
		b += y + (b[y] == '\n');
	}
	return strlen(got) == n;
}

#endif
