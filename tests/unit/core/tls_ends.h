/*
 * tls_ends.h - both ends of a TLS connection in one thread, by real OpenSSL
 *
 * The client has its socket in the SSL object.  The server has it there, too, or
 * moves the records itself, through memory, as event loops do.  Sockets do not
 * block.
 */
#ifndef MOETOP_TESTS_UNIT_CORE_TLS_ENDS_H
#define MOETOP_TESTS_UNIT_CORE_TLS_ENDS_H

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "tests/unit/bpf/traffic.h"

struct end {
	int fd;
	SSL *ssl;
	bool memory; /* records go through memory */
};

struct ends {
	struct end client, server;
};

static SSL_CTX *ends_client_context, *ends_server_context;

/* A key and a certificate for whom it may concern. */
static inline bool ends_init(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	SSL_CTX *s = SSL_CTX_new(TLS_server_method());
	bool ok;

	ends_client_context = SSL_CTX_new(TLS_client_method());
	ends_server_context = s;
	if (!key || !cert || !s || !ends_client_context)
		return false;
	X509_gmtime_adj(X509_getm_notBefore(cert), 0);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_set_pubkey(cert, key);
	SSL_CTX_set_options(s, SSL_OP_ALLOW_CLIENT_RENEGOTIATION);
	SSL_CTX_set_mode(s, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	ok = X509_sign(cert, key, EVP_sha256()) &&
	     SSL_CTX_use_certificate(s, cert) == 1 &&
	     SSL_CTX_use_PrivateKey(s, key) == 1;
	X509_free(cert);
	EVP_PKEY_free(key);
	return ok;
}

/* ---- records of a memory BIO --------------------------------------------- */

static inline void end_flush(struct end *e)
{
	char b[4096];
	int n;

	while (e->memory &&
	       (n = BIO_read(SSL_get_wbio(e->ssl), b, sizeof(b))) > 0)
		for (int done = 0; done < n;) {
			ssize_t k = send(e->fd, b + done, (size_t)(n - done),
					 MSG_NOSIGNAL | MSG_DONTWAIT);

			if (k > 0)
				done += (int)k;
			else if (errno != EAGAIN)
				return;
		}
}

static inline void end_feed(struct end *e)
{
	char b[4096];
	ssize_t n;

	if (!e->memory)
		return;
	n = recv(e->fd, b, 1 + traffic_below(sizeof(b) - 1), MSG_DONTWAIT);
	if (n > 0)
		BIO_write(SSL_get_rbio(e->ssl), b, (int)n);
}

/* ---- text ---------------------------------------------------------------- */

/* A record that was read is used at once, as event loops do. */
static inline int end_shake(struct end *e)
{
	int ret;

	end_feed(e);
	ret = SSL_do_handshake(e->ssl);
	end_flush(e);
	return ret == 1;
}

/* By the caller's choice of calls; bytes, 0 for none now. */
static inline size_t end_write(struct end *e, const char *b, size_t n)
{
	size_t done = 0;
	int ret;

	ERR_clear_error();
	if (traffic_below(2)) {
		ret = SSL_write(e->ssl, b, (int)n);
		done = ret > 0 ? (size_t)ret : 0;
	} else if (SSL_write_ex(e->ssl, b, n, &done) != 1) {
		done = 0;
	}
	end_flush(e);
	return done;
}

static inline size_t end_read(struct end *e)
{
	static char b[1 << 15];
	size_t done = 0, most = 1 + traffic_below(sizeof(b) - 1);
	int ret;

	ERR_clear_error();
	end_feed(e);
	if (traffic_below(2)) {
		ret = SSL_read(e->ssl, b, (int)most);
		done = ret > 0 ? (size_t)ret : 0;
	} else if (SSL_read_ex(e->ssl, b, most, &done) != 1) {
		done = 0;
	}
	end_flush(e);
	return done;
}

/* Everything from one end to the other, in pieces of at most `largest`. */
static inline bool ends_move(struct end *from, struct end *to, const char *b,
			     size_t n, unsigned largest)
{
	size_t written = 0, read = 0, now = 0;

	for (unsigned idle = 0; read < n; idle++) {
		size_t k;

		if (!now && written < n) {
			now = 1 + traffic_below(largest);
			now = now < n - written ? now : n - written;
		}
		/* what was refused must be tried again as it was */
		k = now ? end_write(from, b + written, now) : 0;
		written += k;
		now -= k;
		/* the other end is slow, so that buffers fill */
		if (now && k)
			continue;
		if (!now && written < n && traffic_below(4))
			continue;
		k = end_read(to);
		read += k;
		if (k)
			idle = 0;
		if (idle > 1000000)
			return false;
	}
	return true;
}

/* ---- connections --------------------------------------------------------- */

static inline void end_init(struct end *e, SSL_CTX *context, int fd,
			    bool memory, bool few)
{
	int room = 4096;

	*e = (struct end){ fd, SSL_new(context), memory };
	if (few)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (memory)
		SSL_set_bio(e->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	else
		SSL_set_fd(e->ssl, fd);
}

/* version: TLS1_2_VERSION or TLS1_3_VERSION.  small: buffers of the sockets. */
static inline bool ends_open(struct ends *x, int listener, bool memory,
			     int version, bool small)
{
	struct pair p;
	bool client = false, server = false;

	if (!traffic_connect(&p, listener))
		return false;
	end_init(&x->client, ends_client_context, p.client, false, false);
	end_init(&x->server, ends_server_context, p.server, memory, small);
	SSL_set_min_proto_version(x->client.ssl, version);
	SSL_set_max_proto_version(x->client.ssl, version);
	SSL_set_connect_state(x->client.ssl);
	SSL_set_accept_state(x->server.ssl);
	for (int i = 0; i < 100000 && !(client && server); i++) {
		client = client || end_shake(&x->client);
		server = server || end_shake(&x->server);
	}
	return client && server;
}

static inline void end_close(struct end *e)
{
	SSL_free(e->ssl);
	close(e->fd);
}

#endif
