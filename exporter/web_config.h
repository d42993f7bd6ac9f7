/*
 * web_config.h - who may read: the file of --web.config.file
 *
 * The format of Prometheus' exporter-toolkit: tls_server_config,
 * http_server_config, basic_auth_users, rate_limit.  An unknown or doubled key,
 * a word that is none of the choices, a hash that is not bcrypt, or of a
 * cost that no scraper waits for: each refuses the whole file.  Paths in it are relative to its folder.
 */
#ifndef MOETOP_EXPORTER_WEB_CONFIG_H
#define MOETOP_EXPORTER_WEB_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#define WEB_USERS_MAX 64u
#define WEB_HEADERS_MAX 8u
#define WEB_SANS_MAX 32u
#define WEB_WORDS_MAX 16u
#define WEB_CONFIG_BYTES_MAX 262144u

enum client_auth {
	CLIENT_NONE,
	CLIENT_REQUEST,     /* ask, take anything */
	CLIENT_REQUIRE_ANY, /* some certificate, whoever's */
	CLIENT_VERIFY_IF_GIVEN,
	CLIENT_REQUIRE_AND_VERIFY
};

struct web_pair {
	char *name, *value;
};

struct web_tls {
	/* files, or the same inline; NULL not given */
	char *cert_file, *key_file, *client_ca_file;
	char *cert, *key, *client_ca;
	enum client_auth client_auth;
	int min_version, max_version; /* 10 .. 13; max 0: none */
	char *sans[WEB_SANS_MAX];     /* one of them must be the client's */
	unsigned n_sans;
	/* GnuTLS' names, translated */
	const char *ciphers[WEB_WORDS_MAX], *curves[WEB_WORDS_MAX];
	unsigned n_ciphers, n_curves;
	bool server_order; /* of the cipher suites */
};

struct web_config {
	bool have_tls;
	struct web_tls tls;
	unsigned n_users;
	struct web_pair users[WEB_USERS_MAX]; /* name, bcrypt hash */
	unsigned n_headers;
	struct web_pair headers[WEB_HEADERS_MAX]; /* for every answer */
	double rate_interval_s; /* one request each, 0: no limit */
	unsigned rate_burst;
};

/*
 * 0 and *out (free with web_config_fini), or -errno with one line in why;
 * -EINVAL for what the text says.  dir is put before relative paths.  The text
 * need not be friendly.
 */
int web_config_parse(struct web_config *out, const char *text, size_t bytes,
		     const char *dir, char *why, size_t why_bytes);
/* The same from a file. */
int web_config_read(struct web_config *out, const char *path, char *why,
		    size_t why_bytes);
void web_config_fini(struct web_config *c);

#endif
