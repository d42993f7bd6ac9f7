/*
 * plan_request.h - what `moetop plan` is asked for, read and checked
 */
#ifndef MOETOP_CORE_PLAN_REQUEST_H
#define MOETOP_CORE_PLAN_REQUEST_H

#include "core/settings.h"
#include "exporter/plan_text.h"
#include "model/plan.h"

_Static_assert(SETTINGS_LIST_MAX + 1 <= PLAN_COMPARE_MAX,
	       "every --compare has a place");

struct plan_request {
	unsigned n; /* plans: the first, and one for each --compare */
	struct plan_input in[PLAN_COMPARE_MAX];
	struct popularity *popularity[PLAN_COMPARE_MAX]; /* owned, or NULL */
	char path[PLAN_COMPARE_MAX][4096];               /* of the model */
	unsigned n_batches;
	double batches[PLAN_POINTS_MAX];
};

/*
 * Read the files that the settings name.  A status; on success *r is complete,
 * and in any case it is to be freed with plan_request_done.  What is wrong has
 * been said.
 */
int plan_request_read(const struct settings *s, struct plan_request *r);
void plan_request_done(struct plan_request *r);

#endif
