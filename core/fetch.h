/*
 * fetch.h - one HTTP GET of the engine's /metrics, bounded in time and size
 *
 * Blocking; for a worker's thread only.
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
 * thread enters it for good (needs CAP_SYS_ADMIN).  0 and *out, -EPERM,
 * -ENOMEM, -errno.
 */
int fetch_open(struct fetch **out, pid_t pid);

/*
 * GET http://127.0.0.1:PORT/metrics, else the same at [::1].  0 and the body,
 * borrowed until the next call; -EFBIG, -ETIMEDOUT, -ECONNREFUSED, -EPROTO
 * (not 200).
 */
int fetch_metrics(struct fetch *f, uint16_t port, const char **body,
		  size_t *bytes);

void fetch_close(struct fetch *f); /* NULL is legal */

#endif
