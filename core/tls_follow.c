#include "core/tls_follow.h"

#include "bpf/tracker.h"
#include "model/snapshot.h"
#include "target/tls_library.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

_Static_assert(TRACKER_TLS_FUNCTIONS == TLS_FUNCTIONS, "functions of OpenSSL");

static int attach(struct tracker *t, pid_t pid, const struct tls_library *l)
{
	struct tracker_tls to = { .pid = pid,
				  .base = l->base,
				  .native = l->native };

	snprintf(to.path, sizeof(to.path), "%s", l->path);
	memcpy(to.entry, l->entry, sizeof(to.entry));
	memcpy(to.inside, l->inside, sizeof(to.inside));
	return tracker_tls_attach(t, &to);
}

void tls_follow_process(struct tls_follow *f, struct tracker *t, pid_t pid)
{
	struct tls_library found[TLS_LIBRARIES_MAX];
	int n = tls_libraries_find(pid, found, TLS_LIBRARIES_MAX), err;

	if (n == 0)
		f->without++;
	if (n < 0 && n != -ESRCH)
		f->err = n;
	if (n > 0 && !tls_process_harmless(pid)) {
		f->err = -EBUSY;
		return;
	}
	for (int i = 0; i < n; i++) {
		err = attach(t, pid, &found[i]);
		f->libraries++;
		if (err && err != -ESRCH)
			f->err = err;
	}
}

void tls_follow(struct tls_follow *f, struct tracker *t, const pid_t *pids,
		unsigned n, const uint16_t *ports, unsigned n_ports,
		uint64_t now_ns)
{
	struct tls_listening listening;

	if (!n)
		return;
	*f = (struct tls_follow){ .looked_ns = now_ns ? now_ns : 1 };
	tracker_tls_keep(t, pids, n);
	tls_listening_read(&listening, pids[0], ports, n_ports);
	for (unsigned i = 0; i < n; i++)
		if (tls_listens(&listening, pids[i]))
			tls_follow_process(f, t, pids[i]);
}

const char *tls_follow_why(const struct tls_follow *f)
{
	switch (f->err) {
	case 0:
		return f->libraries || !f->without
			       ? ""
			       : "no libssl: another TLS library, or linked in";
	case -EOPNOTSUPP:
		return "not by packets";
	case -EPERM:
	case -EACCES:
		return "no CAP_SYS_ADMIN: start moetop as root, "
		       "while TLS is in use";
	case -EBUSY:
		return "seccomp filters, which Linux 6.11 to 6.13 does not "
		       "spare such probes";
	case -ENOSPC:
		return "too many libraries";
	}
	return strerror(-f->err);
}

void tls_follow_say(const struct tls_follow *f, uint64_t connections,
		    uint64_t inferred, char *out, size_t bytes)
{
	const char *why = tls_follow_why(f);

	snprintf(out, bytes, "%s", "");
	if (inferred)
		snprintf(out, bytes,
			 "; " REQUESTS_TLS_INFERRED ": %llu connections%s%s",
			 (unsigned long long)inferred, *why ? ", " : "", why);
	else if (connections)
		snprintf(out, bytes, "; TLS in plain text by libssl");
}
