/*
 * Requests: each source of them is loaded, attached and tested on a loopback
 * connection of our own, then closed again.
 */
#include "bpf/tracker.h"
#include "core/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const letters[] = { "K", "F", "P", "C", "S", "diag" };
#define LETTERS (sizeof(letters) / sizeof(letters[0]))

static void remedy(const struct doctor *d, const char *letter, int err,
		   char *fix, size_t bytes)
{
	switch (err) {
	case -EPERM:
		if (d->facts.in_userns)
			snprintf(fix, bytes, "run moetop on the host");
		else if (*letter == 'C')
			snprintf(fix, bytes,
				 "run as root (it needs cap_net_admin, too)");
		else
			doctor_grant(d, fix, bytes);
		break;
	case -EACCES:
		snprintf(fix, bytes,
			 "forbidden by lockdown, seccomp, SELinux or the "
			 "kernel's vendor: try it on the host; the next one "
			 "that works is taken");
		break;
	case -EOPNOTSUPP:
		snprintf(fix, bytes,
			 "boot a newer kernel; the next one that works is "
			 "taken");
		break;
	default:
		snprintf(fix, bytes,
			 "report this, with moetop doctor "
			 "--bundle FILE.tar");
		break;
	}
}

static void found(struct doctor *d, const struct tracker *t)
{
	if (tracker_estimates(t)) {
		d->facts.estimates = true;
		return;
	}
	if (d->facts.requests)
		return; /* a better one was found before */
	d->facts.requests = true;
	snprintf(d->facts.requests_what, sizeof(d->facts.requests_what), "%s",
		 tracker_rung(t));
}

static void try_rung(struct doctor *d, const char *letter)
{
	uint16_t port = 9; /* any: the self-test has its own */
	const struct tracker_config config = { .ports = &port,
					       .n_ports = 1,
					       .rung = letter };
	const char *needs = tracker_needs(letter);
	char why[TRACKER_REFUSED_BYTES] = "", fix[256] = "";
	struct tracker *t = NULL;
	int err = tracker_open(&t, &config, why, sizeof(why));

	if (!err) {
		bool first = !d->facts.requests && !tracker_estimates(t);

		found(d, t);
		doctor_say(d, letter, DOCTOR_OK, "", "%s works",
			   tracker_rung(t));
		if (first)
			doctor_tls(d, t);
		tracker_close(t);
		return;
	}
	remedy(d, letter, err, fix, sizeof(fix));
	if (!d->facts.requests_remedy[0])
		snprintf(d->facts.requests_remedy,
			 sizeof(d->facts.requests_remedy), "%s", fix);
	doctor_say(d, letter,
		   err == -EPROTO || err == -EACCES ? DOCTOR_BROKEN
						    : DOCTOR_MISSING,
		   fix, "%s%s%s", why[0] ? why : strerror(-err),
		   *needs && !strstr(why, "needs ") ? "; needs " : "",
		   strstr(why, "needs ") ? "" : needs);
}

void doctor_rungs(struct doctor *d)
{
	const char *only = getenv("MOETOP_TRACKER");

	if (d->settings->no_bpf) {
		snprintf(d->facts.requests_remedy,
			 sizeof(d->facts.requests_remedy),
			 "leave out --no-bpf");
		return;
	}
	for (size_t i = 0; i < LETTERS; i++)
		if (!only || !*only || !strcmp(only, letters[i]))
			try_rung(d, letters[i]);
}
