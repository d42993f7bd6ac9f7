/*
 * http_tls.h - certificates of one web configuration, for GnuTLS
 *
 * A session keeps what it began with by a reference.  All calls come from one
 * thread.
 */
#ifndef MOETOP_EXPORTER_HTTP_TLS_H
#define MOETOP_EXPORTER_HTTP_TLS_H

#include <gnutls/gnutls.h>

#include "exporter/web_config.h"

struct tls;

/* 0 and *out, or -errno with one line in why; -EINVAL for bad files. */
int tls_new(struct tls **out, const struct web_tls *config, char *why,
	    size_t why_bytes);
struct tls *tls_hold(struct tls *t);
void tls_release(struct tls *t); /* NULL legal */

/* Before its handshake: this session is served by t.  A client certificate that
 * is not as configured ends the handshake.  0, or a GnuTLS error. */
int tls_begin(struct tls *t, gnutls_session_t session);

/* Lets no handshake of this session succeed. */
void tls_refuse(gnutls_session_t session);

#endif
