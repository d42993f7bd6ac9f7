#include "core/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int say(int status, const char *format, ...)
{
	char line[1280];
	va_list ap;

	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	/* names that come from others may hold line ends and worse */
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
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
