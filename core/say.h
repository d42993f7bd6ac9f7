/*
 * say.h - the one way to tell the user that something failed
 *
 * One line on standard error, `moetop: what: why; what to do`.  The screen
 * must be closed before.
 */
#ifndef MOETOP_CORE_SAY_H
#define MOETOP_CORE_SAY_H

enum exit_code {
	STATUS_OK = 0,
	STATUS_RUNTIME = 1,
	STATUS_USAGE = 2,
	STATUS_TARGET = 3, /* not found, or gone */
	STATUS_PERMISSION = 4,
};

/* Print the line; returns status, so that a command can end with it. */
int say(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for a line that another part made: the error's own text where it is
 * empty, and advice where it has none. */
int say_why(int err, const char *why, const char *advice);

/* The status that an error of a source, a file or a port ends with. */
int status_of(int err);

#endif
