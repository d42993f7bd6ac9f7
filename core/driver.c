#include "core/driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE " \t"

/* "NVRM version: ... Kernel Module  570.86.10  Fri ...": the first word that
 * begins with a digit and has a dot. */
unsigned driver_version(const char *text, char *out, size_t bytes)
{
	size_t n = strcspn(text, "\n");
	const char *end = text + n;

	if (bytes)
		out[0] = '\0';
	for (const char *w = text; w < end; w += n) {
		w += strspn(w, SPACE);
		n = strcspn(w, SPACE "\n");
		if (!isdigit((unsigned char)*w) || !memchr(w, '.', n))
			continue;
		snprintf(out, bytes, "%.*s", (int)n, w);
		return (unsigned)strtoul(w, NULL, 10);
	}
	return 0;
}

bool driver_restricts(const char *text)
{
	static const char name[] = "RmProfilingAdminOnly:";
	const char *p = strstr(text, name);

	return p && strtol(p + sizeof(name) - 1, NULL, 10) == 1;
}
