/*
 * moetop doctor: what works here, what does not, and what would fix it.
 */
#include "core/bundle.h"
#include "core/commands.h"
#include "core/doctor.h"
#include "core/given_model.h"
#include "core/privileges.h"
#include "core/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int open_server(struct target *t, const struct settings *s,
		       const struct target_model *model)
{
	char why[256] = "";
	int err = target_open(t, (pid_t)s->pid, model, why, sizeof(why));

	if (err == -ESRCH)
		return say(STATUS_TARGET,
			   "pid %ld: no such process; give the pid of a "
			   "running server",
			   s->pid);
	if (err)
		return say(status_of(err),
			   "pid %ld: %s; try it as root, or as its user",
			   s->pid, strerror(-err));
	return STATUS_OK;
}

static int print(const struct doctor *d, unsigned asked)
{
	if (!d->settings->json)
		doctor_print(d, stdout);
	else if (doctor_print_json(d, asked, stdout))
		return say(STATUS_RUNTIME, "doctor: no memory; free some");
	return doctor_works(d, asked) ? STATUS_OK : STATUS_RUNTIME;
}

static int examine(struct doctor *d, const struct settings *s, unsigned asked)
{
	struct target *t = s->pid ? calloc(1, sizeof(*t)) : NULL;
	const char *root = getenv("MOETOP_SYSROOT");
	struct bundle *bundle = NULL;
	struct target_model model;
	/* by the rights of the user, before ours are raised */
	int status = given_model_read(s, &model);

	if (!status && s->bundle)
		status = bundle_open(&bundle, s->bundle);
	(void)privileges_raise();
	if (!status && s->pid)
		status =
			t ? open_server(t, s, &model)
			  : say(STATUS_RUNTIME, "doctor: no memory; free some");
	if (!status) {
		doctor_run(d, s, root ? root : "", t);
		status = print(d, asked);
		if (bundle)
			status = bundle_write(bundle, d, asked, status);
	}
	bundle_close(bundle);
	free(t);
	return status;
}

int cmd_doctor(const struct settings *s)
{
	unsigned asked = s->pid ? 1u << TIER_T1 | 1u << TIER_T2 : 1u << TIER_T0;
	struct doctor *d;
	int status;

	if (s->tier && !(asked = doctor_tiers(s->tier)))
		return say(STATUS_USAGE,
			   "--tier: '%.60s' is no tier; give T0, T1, T2, T3 or "
			   "C, or several with commas",
			   s->tier);
	d = calloc(1, sizeof(*d));
	if (!d)
		return say(STATUS_RUNTIME, "doctor: no memory; free some");
	status = examine(d, s, asked);
	free(d);
	return status;
}
