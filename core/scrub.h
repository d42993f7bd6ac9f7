/*
 * scrub.h - text without what is private
 *
 * For bug reports.  Two kinds of rules: words that were collected (values of
 * environment variables, keys of command lines, names of hosts and users,
 * folders of models), which are replaced wherever they occur, and shapes:
 *
 *	/a/b/c	absolute paths, but for /proc, /sys, /dev and /etc: .../c
 *	1.2.3.4	and IPv6 and MAC addresses, but for loopback: <address>
 *	://host	of a URL: <host>
 *	a@b.c	<mail>
 *	sk-...	and other well-known beginnings of keys: <key>
 *	api_key=..., password: ..., Bearer ...: <key>
 *	hexadecimal of 32 digits or more: <id>
 *	40 characters or more of mixed case with digits: <key>
 */
#ifndef MOETOP_CORE_SCRUB_H
#define MOETOP_CORE_SCRUB_H

#include <stdbool.h>
#include <stddef.h>

#define SCRUB_WORDS_MAX 8192u

struct scrub;

struct scrub *scrub_new(void); /* NULL: no memory */
void scrub_free(struct scrub *s);

/*
 * Replace this word, from now on, by `by` (a static string).  whole: only where
 * no letter or digit is beside it.  Words of fewer than 3 characters (2 whole
 * ones), or beyond the limit, are not taken: false.
 */
bool scrub_word(struct scrub *s, const char *word, const char *by, bool whole);

/* All values of an environment, "NAME=VALUE" separated by NUL: those of 8
 * characters and more, and shorter ones as whole words where the name sounds
 * like a secret.  Those of terminals and languages are left out. */
void scrub_environ(struct scrub *s, const char *data, size_t bytes);

/* What follows --api-key, --hf-token and the like in a command line. */
void scrub_cmdline(struct scrub *s, const char *data, size_t bytes);

/* The text without all that; to be freed.  NULL: no memory. */
char *scrub_text(const struct scrub *s, const char *text);

#endif
