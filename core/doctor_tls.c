/*
 * TLS that the server ends itself: may the functions of libssl be probed, tried
 * on our own, and do the processes that serve have one?
 */
#include "core/doctor.h"
#include "core/tls_follow.h"
#include "model/snapshot.h"
#include "target/tls_library.h"

#include <errno.h>
#include <unistd.h>

static void say_refused(struct doctor *d, int err, const char *why)
{
	bool may = err == -EPERM || err == -EACCES;

	doctor_say(d, "tls", DOCTOR_MISSING,
		   may ? "run as root, or add cap_sys_admin to the capabilities"
		       : "",
		   "libssl cannot be probed: %.80s; requests over TLS "
		   "are " REQUESTS_TLS_INFERRED,
		   why);
}

static void look_at_server(struct doctor *d)
{
	const struct target *t = d->target;
	struct tls_listening listening;
	struct tls_library found;

	if (!t->n_ports)
		return;
	tls_listening_read(&listening, t->pids[0], t->ports, t->n_ports);
	for (unsigned i = 0; i < t->n_pids; i++) {
		if (!tls_listens(&listening, t->pids[i]))
			continue;
		if (tls_libraries_find(t->pids[i], &found, 1) == 0)
			doctor_say(
				d, "tls.server", DOCTOR_UNKNOWN, "",
				"pid %d serves without a libssl: if it ends "
				"TLS, its requests are " REQUESTS_TLS_INFERRED,
				(int)t->pids[i]);
		else if (!tls_process_harmless(t->pids[i]))
			doctor_say(d, "tls.server", DOCTOR_MISSING,
				   "boot Linux 6.14 or later",
				   "pid %d has seccomp filters, which this "
				   "kernel does not spare probes: its requests "
				   "over TLS are " REQUESTS_TLS_INFERRED,
				   (int)t->pids[i]);
	}
}

void doctor_tls(struct doctor *d, struct tracker *t)
{
	struct tls_follow f = { 0 };

	tls_follow_process(&f, t, getpid());
	if (f.libraries && !f.err)
		doctor_say(d, "tls", DOCTOR_OK, "",
			   "libssl can be probed: TLS is read in plain text");
	else if (f.err)
		say_refused(d, f.err, tls_follow_why(&f));
	else
		doctor_say(d, "tls", DOCTOR_UNKNOWN, "",
			   "moetop itself has no libssl to try it on");
	if (d->target)
		look_at_server(d);
}
