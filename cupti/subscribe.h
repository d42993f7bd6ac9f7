/*
 * subscribe.h - becoming a client of CUPTI, alone or beside others
 *
 * Before CUPTI 13.3 a process has room for one client; cuptiSubscribe answers 39
 * to the second.  From 13.3 on, clients that all use the subscriber's own calls
 * (V2) live side by side, each with its own kinds and buffers; where one client
 * uses the older calls (V1), the later of the two gets 39 as before.
 *
 * One client per process: the calls of a V2 subscriber need its handle, which is
 * kept here, so that all users of struct cupti_api read the same either way.
 */
#ifndef MOETOP_CUPTI_SUBSCRIBE_H
#define MOETOP_CUPTI_SUBSCRIBE_H

#include <stdbool.h>

#include "cupti/library.h"

/*
 * Subscribe, as one of several if `share` (cupti_is_shareable), else or where
 * CUPTI refuses that, as the only one.  The record calls of *api act for this
 * subscriber until the next call of this function; beside others a flush is
 * never forced, since it would cut their records short.
 *
 * CUPTI_OK, and *subscriber and *shared are written; or a CUptiResult,
 * CUPTI_E_MULTIPLE_SUBSCRIBERS when another client is in the way.  `other`
 * receives that client's name where CUPTI tells it, else "".
 */
int cupti_subscribe(struct cupti_api *api, bool share, cupti_callback callback,
		    void *userdata, void **subscriber, bool *shared,
		    char other[CUPTI_NAME_BYTES]);

#endif
