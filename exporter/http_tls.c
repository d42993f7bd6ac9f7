#include "exporter/http_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEM_BYTES_MAX (1u << 20)
#define PRIORITY_BYTES_MAX 1024u
#define SAN_BYTES_MAX 256u
#define SAN_INDEX_MAX 64u

struct tls {
	unsigned references;
	gnutls_certificate_credentials_t cred;
	gnutls_priority_t priority;
	enum client_auth auth;
	char *sans[WEB_SANS_MAX];
	unsigned n_sans;
};

/* ---- what a client must be ---------------------------------------------- */

static bool listed(const struct tls *t, const char *name, size_t bytes)
{
	for (unsigned i = 0; i < t->n_sans; i++)
		if (strlen(t->sans[i]) == bytes &&
		    !memcmp(t->sans[i], name, bytes))
			return true;
	return false;
}

/* Addresses are compared as text. */
static bool san_allowed(const struct tls *t, int type, const char *san,
			size_t bytes)
{
	char text[INET6_ADDRSTRLEN];

	if (type != GNUTLS_SAN_IPADDRESS)
		return (type == GNUTLS_SAN_DNSNAME ||
			type == GNUTLS_SAN_RFC822NAME ||
			type == GNUTLS_SAN_URI) &&
		       listed(t, san, bytes);
	if (!inet_ntop(bytes == 4 ? AF_INET : AF_INET6, san, text,
		       sizeof(text)) ||
	    (bytes != 4 && bytes != 16))
		return false;
	return listed(t, text, strlen(text));
}

static bool any_san_allowed(const struct tls *t, gnutls_x509_crt_t crt)
{
	char san[SAN_BYTES_MAX];

	for (unsigned i = 0; i < SAN_INDEX_MAX; i++) {
		size_t n = sizeof(san);
		int type = gnutls_x509_crt_get_subject_alt_name(crt, i, san, &n,
								NULL);

		if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			return false;
		if (type >= 0 && san_allowed(t, type, san, n))
			return true;
	}
	return false;
}

static int check_san(const struct tls *t, const gnutls_datum_t *first)
{
	gnutls_x509_crt_t crt;
	bool ok;

	if (!t->n_sans)
		return 0;
	if (gnutls_x509_crt_init(&crt))
		return GNUTLS_E_MEMORY_ERROR;
	ok = !gnutls_x509_crt_import(crt, first, GNUTLS_X509_FMT_DER) &&
	     any_san_allowed(t, crt);
	gnutls_x509_crt_deinit(crt);
	return ok ? 0 : GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

/* GnuTLS calls it at the end of a handshake; not 0 ends the connection. */
static int verify(gnutls_session_t session)
{
	const struct tls *t = gnutls_session_get_ptr(session);
	gnutls_typed_vdata_st purpose = {
		.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT,
	};
	const gnutls_datum_t *chain;
	unsigned n = 0, status = 0;

	if (!t)
		return GNUTLS_E_CERTIFICATE_ERROR;
	chain = gnutls_certificate_get_peers(session, &n);
	if (!chain || !n)
		return t->auth == CLIENT_REQUIRE_ANY ||
				       t->auth == CLIENT_REQUIRE_AND_VERIFY ||
				       t->n_sans
			       ? GNUTLS_E_CERTIFICATE_REQUIRED
			       : 0;
	if (t->auth >= CLIENT_VERIFY_IF_GIVEN &&
	    (gnutls_certificate_verify_peers(session, &purpose, 1, &status) ||
	     status))
		return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
	return check_san(t, &chain[0]);
}

static int refuse(gnutls_session_t session)
{
	(void)session;
	return GNUTLS_E_CERTIFICATE_ERROR;
}

void tls_refuse(gnutls_session_t session)
{
	/* without credentials there is nothing to agree on */
	gnutls_credentials_clear(session);
	gnutls_session_set_verify_function(session, refuse);
}

int tls_begin(struct tls *t, gnutls_session_t session)
{
	gnutls_certificate_request_t want = GNUTLS_CERT_IGNORE;
	int err = gnutls_priority_set(session, t->priority);

	if (!err)
		err = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE,
					     t->cred);
	if (err)
		return err;
	if (t->auth == CLIENT_REQUIRE_ANY ||
	    t->auth == CLIENT_REQUIRE_AND_VERIFY)
		want = GNUTLS_CERT_REQUIRE;
	else if (t->auth != CLIENT_NONE || t->n_sans)
		want = GNUTLS_CERT_REQUEST;
	gnutls_certificate_server_set_request(session, want);
	gnutls_session_set_ptr(session, t);
	gnutls_session_set_verify_function(session, verify);
	return 0;
}

/* ---- from files --------------------------------------------------------- */

static int read_pem(const char *path, const char *inlined, gnutls_datum_t *out)
{
	FILE *f;
	size_t n;
	int err = 0;

	out->data = malloc(PEM_BYTES_MAX + 1);
	if (!out->data)
		return -ENOMEM;
	if (inlined) {
		n = strlen(inlined);
		if (n <= PEM_BYTES_MAX)
			memcpy(out->data, inlined, n);
	} else {
		f = fopen(path, "re");
		if (!f)
			return -errno;
		n = fread(out->data, 1, PEM_BYTES_MAX + 1, f);
		if (ferror(f))
			err = -EIO;
		fclose(f);
	}
	if (!err && n > PEM_BYTES_MAX)
		err = -EFBIG;
	out->size = (unsigned)n;
	return err;
}

/* Forgets what it held: a key may have been in it. */
static void free_pem(gnutls_datum_t *d)
{
	if (d->data)
		explicit_bzero(d->data, d->size);
	free(d->data);
}

static int load_key(struct tls *t, const struct web_tls *c, char *why,
		    size_t why_bytes)
{
	const char *cert_name = c->cert_file ? c->cert_file : "cert";
	const char *key_name = c->key_file ? c->key_file : "key";
	gnutls_datum_t cert = { 0 }, key = { 0 };
	int err = read_pem(c->cert_file, c->cert, &cert), gerr = 0;

	if (err) {
		snprintf(why, why_bytes, "%s: %s", cert_name, strerror(-err));
	} else {
		err = read_pem(c->key_file, c->key, &key);
		if (err)
			snprintf(why, why_bytes, "%s: %s", key_name,
				 strerror(-err));
	}
	if (!err)
		gerr = gnutls_certificate_set_x509_key_mem(t->cred, &cert, &key,
							   GNUTLS_X509_FMT_PEM);
	if (gerr < 0) {
		snprintf(why, why_bytes, "%s and %s: %s", cert_name, key_name,
			 gnutls_strerror(gerr));
		err = -EINVAL;
	}
	free_pem(&cert);
	free_pem(&key);
	return err;
}

static int load_trust(struct tls *t, const struct web_tls *c, char *why,
		      size_t why_bytes)
{
	const char *name = c->client_ca_file ? c->client_ca_file : "client_ca";
	gnutls_datum_t ca = { 0 };
	int err;

	if (c->client_auth < CLIENT_VERIFY_IF_GIVEN)
		return 0;
	if (!c->client_ca_file && !c->client_ca) {
		gnutls_certificate_set_x509_system_trust(t->cred);
		return 0;
	}
	err = read_pem(c->client_ca_file, c->client_ca, &ca);
	if (err)
		snprintf(why, why_bytes, "%s: %s", name, strerror(-err));
	else if (gnutls_certificate_set_x509_trust_mem(
			 t->cred, &ca, GNUTLS_X509_FMT_PEM) < 1) {
		snprintf(why, why_bytes, "%s: no certificate in it", name);
		err = -EINVAL;
	}
	free_pem(&ca);
	return err;
}

static void add(char *s, const char *more)
{
	size_t n = strlen(s);

	snprintf(s + n, PRIORITY_BYTES_MAX - n, "%s", more);
}

/* GnuTLS' language of priorities. */
static void describe(const struct web_tls *c, char *s)
{
	static const char *const versions[] = { "TLS1.0", "TLS1.1", "TLS1.2",
						"TLS1.3" };

	*s = '\0';
	add(s, "NORMAL:-VERS-ALL");
	for (int v = 3; v >= 0; v--) {
		if (10 + v < c->min_version ||
		    (c->max_version && 10 + v > c->max_version))
			continue;
		add(s, ":+VERS-");
		add(s, versions[v]);
	}
	/* renegotiation where it is safe only, no static RSA */
	add(s, ":-RSA:%SAFE_RENEGOTIATION");
	if (c->n_ciphers)
		add(s, ":-CIPHER-ALL:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA");
	for (unsigned i = 0; i < c->n_ciphers; i++) {
		add(s, ":+");
		add(s, c->ciphers[i]);
	}
	if (c->n_curves)
		add(s, ":-GROUP-ALL");
	for (unsigned i = 0; i < c->n_curves; i++) {
		add(s, ":+");
		add(s, c->curves[i]);
	}
	if (c->server_order)
		add(s, ":%SERVER_PRECEDENCE");
}

static int load_all(struct tls *t, const struct web_tls *c, char *why,
		    size_t why_bytes)
{
	char priority[PRIORITY_BYTES_MAX];
	const char *at = "";
	int err;

	if (gnutls_certificate_allocate_credentials(&t->cred)) {
		snprintf(why, why_bytes, "no memory");
		return -ENOMEM;
	}
	err = load_key(t, c, why, why_bytes);
	if (!err)
		err = load_trust(t, c, why, why_bytes);
	if (err)
		return err;
	describe(c, priority);
	if (gnutls_priority_init(&t->priority, priority, &at)) {
		snprintf(why, why_bytes,
			 "cipher_suites, curve_preferences and versions leave "
			 "nothing to agree on: %.60s",
			 at);
		return -EINVAL;
	}
	return 0;
}

int tls_new(struct tls **out, const struct web_tls *config, char *why,
	    size_t why_bytes)
{
	struct tls *t = calloc(1, sizeof(*t));
	int err = 0;

	if (!t) {
		snprintf(why, why_bytes, "no memory");
		return -ENOMEM;
	}
	t->references = 1;
	t->auth = config->client_auth;
	for (; t->n_sans < config->n_sans && !err; t->n_sans++) {
		t->sans[t->n_sans] = strdup(config->sans[t->n_sans]);
		if (!t->sans[t->n_sans])
			err = -ENOMEM;
	}
	if (!err)
		err = load_all(t, config, why, why_bytes);
	if (err) {
		tls_release(t);
		return err;
	}
	*out = t;
	return 0;
}

struct tls *tls_hold(struct tls *t)
{
	t->references++;
	return t;
}

void tls_release(struct tls *t)
{
	if (!t || --t->references)
		return;
	if (t->cred)
		gnutls_certificate_free_credentials(t->cred);
	if (t->priority)
		gnutls_priority_deinit(t->priority);
	for (unsigned i = 0; i < t->n_sans; i++)
		free(t->sans[i]);
	free(t);
}
