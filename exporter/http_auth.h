/*
 * http_auth.h - names and passwords against bcrypt hashes
 *
 * A bcrypt takes a tenth of a second and more on purpose, so it is never done
 * on the thread that serves: auth_check answers from a cache of right and wrong
 * ones, or hands the question to a thread of lowest priority and tells the
 * caller later.  Few questions may wait: beyond that the answer is "busy".  An
 * unknown name costs as much as the first one.
 *
 * The cache holds keyed digests, no passwords.
 */
#ifndef MOETOP_EXPORTER_HTTP_AUTH_H
#define MOETOP_EXPORTER_HTTP_AUTH_H

#include "exporter/web_config.h"

enum verdict { VERDICT_NO, VERDICT_YES, VERDICT_LATER, VERDICT_BUSY };

struct auth;

/* done(arg, right) is called for every VERDICT_LATER, on the other thread;
 * tick(tick_arg) on it about once a second.  -ENOMEM, -errno. */
int auth_new(struct auth **out, void (*done)(void *arg, bool right),
	     void (*tick)(void *arg), void *tick_arg);
/* Answers all that wait, with no, and ends the thread. */
void auth_stop(struct auth *a);
void auth_free(struct auth *a); /* NULL legal */

/* Is this one of the users?  header is the value of Authorization, NULL none.
 * c may change between calls.  With arg NULL nobody is asked: VERDICT_LATER
 * then says that somebody must be. */
enum verdict auth_check(struct auth *a, const struct web_config *c,
			const char *header, void *arg);

/* Name and password of a header of Basic credentials; false: it is none.  The
 * two are in room, which must be as long as the header. */
bool auth_decode(const char *header, char *room, size_t room_bytes,
		 const char **name, const char **password);

#endif
