/*
 * fetch.h - HTTP GETs of what an engine tells, bounded in time and size
 *
 * Only ever a GET, only ever from where the server itself listens, no redirects
 * followed, no key sent.  Blocking; for a worker's thread only.
 */
#ifndef MOETOP_CORE_FETCH_H
#define MOETOP_CORE_FETCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FETCH_BYTES_MAX (4u << 20)
#define FETCH_TIMEOUT_MS 500

struct fetch;

/*
 * pid: whose network to be in; when it is not this process's own, the calling
 * thread enters it for good (needs CAP_SYS_ADMIN and CAP_SYS_PTRACE).  0 and
 * *out, -EPERM it may not be entered, -EACCES which one it is may not be seen,
 * -ENOMEM, -errno.
 */
int fetch_open(struct fetch **out, pid_t pid);

/*
 * GET http://127.0.0.1:PORT/PATH, else the same at [::1], else at the address
 * that the server has bound the port to.  0 and the body, borrowed until the next call; -EFBIG, -ETIMEDOUT, -ECONNREFUSED, -EACCES (401
 * or 403: it wants a key), -ENOENT (404), -EPROTO (any other status, or no
 * HTTP).
 */
int fetch_get(struct fetch *f, uint16_t port, const char *path,
	      const char **body, size_t *bytes);

/* /metrics, or /metrics/ where the server sends us there. */
int fetch_metrics(struct fetch *f, uint16_t port, const char **body,
		  size_t *bytes);

void fetch_close(struct fetch *f); /* NULL is legal */

#endif
