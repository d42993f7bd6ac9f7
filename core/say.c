#include "core/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int say(int status, const char *format, ...)
{
	char line[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	/* what comes from others may hold line ends: one line it stays */
	for (char *p = line; (p = strpbrk(p, "\r\n"));)
		*p = ' ';
	fprintf(stderr, "moetop: %s\n", line);
	return status;
}

int say_why(int err, const char *why, const char *advice)
{
	const char *line = *why ? why : strerror(-err);
	bool advised = strstr(line, "; ") != NULL;

	return say(status_of(err), "%s%s%s", line, advised ? "" : "; ",
		   advised ? "" : advice);
}

int status_of(int err)
{
	switch (err) {
	case 0:
		return STATUS_OK;
	case -EACCES:
	case -EPERM:
		return STATUS_PERMISSION;
	case -ESRCH:
		return STATUS_TARGET;
	default:
		return STATUS_RUNTIME;
	}
}
