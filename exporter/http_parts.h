/*
 * http_parts.h - the parts of the HTTP end; internal to exporter/http*.c
 *
 * Two threads: libmicrohttpd's, on which all requests are answered, and that of
 * http_auth.h, which also ends connections that take too long.
 */
#ifndef MOETOP_EXPORTER_HTTP_PARTS_H
#define MOETOP_EXPORTER_HTTP_PARTS_H

#include <microhttpd.h>
#include <pthread.h>

#include "exporter/exporter.h"
#include "exporter/http_auth.h"
#include "exporter/http_tls.h"
#include "exporter/pages.h"

/* ---- http_listen.c ------------------------------------------------------ */

/* A listening socket, or -errno with one line in why. */
int listen_open(const char *listen, char *why, size_t why_bytes);
uint16_t listen_port(int fd);

/* ---- http_guard.c: connections and their time --------------------------- */

#define HEAD_LIMIT_S 10u   /* from connecting to the end of the head */
#define ANSWER_LIMIT_S 30u /* from there to the end of the answer */
#define IDLE_LIMIT_S 90u   /* from there to the end of the next head */

struct connection {
	struct connection *next, *prev;
	int fd;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	struct tls *tls;      /* held; NULL none */
};

struct guard {
	pthread_mutex_t lock;
	struct connection *first;
	unsigned n;
	unsigned long slow; /* ended for taking too long */
};

void guard_init(struct guard *g);
void guard_fini(struct guard *g);
struct connection *guard_add(struct guard *g, int fd); /* NULL: no memory */
void guard_remove(struct guard *g, struct connection *c);
void guard_allow(struct guard *g, struct connection *c, unsigned seconds);
/* Shuts down those whose time is over. */
void guard_sweep(struct guard *g);

/* ---- http_access.c: the web configuration in force ---------------------- */

struct access;

/* path NULL: open to all.  0, or -errno with one line in why. */
int access_new(struct access **out, const char *path,
	       void (*report)(void *arg, const char *line), void *arg,
	       char *why, size_t why_bytes);
void access_free(struct access *a); /* NULL legal */
/* The configuration as the files are now; NULL: they cannot be used, and
 * nobody may have an answer.  *tls (borrowed) is NULL without TLS. */
const struct web_config *access_now(struct access *a, struct tls **tls);
/* Whether this one more request keeps to the rate limit. */
bool access_rate(struct access *a);

#endif
