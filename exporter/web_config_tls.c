#include "exporter/web_config_parts.h"

#include <errno.h>
#include <string.h>

static int take_cert_file(struct web_parser *p, const char *name,
			  const yaml_node_t *v)
{
	return web_path(p, v, name, &p->out->tls.cert_file);
}

static int take_key_file(struct web_parser *p, const char *name,
			 const yaml_node_t *v)
{
	return web_path(p, v, name, &p->out->tls.key_file);
}

static int take_ca_file(struct web_parser *p, const char *name,
			const yaml_node_t *v)
{
	return web_path(p, v, name, &p->out->tls.client_ca_file);
}

static int take_cert(struct web_parser *p, const char *name,
		     const yaml_node_t *v)
{
	return web_copy(p, v, name, &p->out->tls.cert);
}

static int take_key(struct web_parser *p, const char *name,
		    const yaml_node_t *v)
{
	return web_copy(p, v, name, &p->out->tls.key);
}

static int take_ca(struct web_parser *p, const char *name, const yaml_node_t *v)
{
	return web_copy(p, v, name, &p->out->tls.client_ca);
}

static int take_client_auth(struct web_parser *p, const char *name,
			    const yaml_node_t *v)
{
	static const struct {
		const char *word;
		enum client_auth auth;
	} words[] = {
		{ "NoClientCert", CLIENT_NONE },
		{ "RequestClientCert", CLIENT_REQUEST },
		{ "RequireAnyClientCert", CLIENT_REQUIRE_ANY },
		{ "RequireClientCert", CLIENT_REQUIRE_ANY },
		{ "VerifyClientCertIfGiven", CLIENT_VERIFY_IF_GIVEN },
		{ "RequireAndVerifyClientCert", CLIENT_REQUIRE_AND_VERIFY },
	};
	const char *s = web_word(p, v, name);

	if (!s)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(s, words[i].word) != 0)
			continue;
		p->out->tls.client_auth = words[i].auth;
		return 0;
	}
	return web_refuse(p, v,
			  "%s: '%.60s' is none of NoClientCert, "
			  "RequestClientCert, RequireAnyClientCert, "
			  "VerifyClientCertIfGiven, "
			  "RequireAndVerifyClientCert",
			  name, s);
}

static int read_version(struct web_parser *p, const char *name,
			const yaml_node_t *v, int *to)
{
	static const char *const words[] = { "TLS10", "TLS11", "TLS12",
					     "TLS13" };
	const char *s = web_word(p, v, name);

	if (!s)
		return -EINVAL;
	for (int i = 0; i < 4; i++) {
		if (strcmp(s, words[i]) != 0)
			continue;
		*to = 10 + i;
		return 0;
	}
	return web_refuse(p, v, "%s: '%.60s' is none of TLS10 to TLS13", name,
			  s);
}

static int take_min(struct web_parser *p, const char *name,
		    const yaml_node_t *v)
{
	return read_version(p, name, v, &p->out->tls.min_version);
}

static int take_max(struct web_parser *p, const char *name,
		    const yaml_node_t *v)
{
	return read_version(p, name, v, &p->out->tls.max_version);
}

static int take_san(struct web_parser *p, const char *word,
		    const yaml_node_t *at)
{
	struct web_tls *t = &p->out->tls;

	if (t->n_sans == WEB_SANS_MAX)
		return web_refuse(p, at, "more than %u client_allowed_sans",
				  WEB_SANS_MAX);
	t->sans[t->n_sans] = strdup(word);
	return t->sans[t->n_sans++] ? 0 : -ENOMEM;
}

static int take_sans(struct web_parser *p, const char *name,
		     const yaml_node_t *v)
{
	return web_list(p, v, name, take_san);
}

struct translation {
	const char *word, *gnutls;
};

static int translate(struct web_parser *p, const char *word,
		     const yaml_node_t *at, const struct translation *table,
		     size_t n, const char **to, unsigned *n_to)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(word, table[i].word) != 0)
			continue;
		if (*n_to == WEB_WORDS_MAX)
			return web_refuse(p, at, "the list is too long");
		to[(*n_to)++] = table[i].gnutls;
		return 0;
	}
	return web_refuse(p, at, "'%.60s' is not known here", word);
}

/* A suite of TLS 1.2 is a cipher with its key exchange; 1.3 has its own. */
static int take_cipher(struct web_parser *p, const char *word,
		       const yaml_node_t *at)
{
	static const struct translation table[] = {
		{ "TLS_AES_128_GCM_SHA256", "AES-128-GCM" },
		{ "TLS_AES_256_GCM_SHA384", "AES-256-GCM" },
		{ "TLS_CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305" },
		{ "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		  "AES-128-GCM:+ECDHE-ECDSA" },
		{ "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		  "AES-256-GCM:+ECDHE-ECDSA" },
		{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
		  "CHACHA20-POLY1305:+ECDHE-ECDSA" },
		{ "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		  "CHACHA20-POLY1305:+ECDHE-ECDSA" },
		{ "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		  "AES-128-GCM:+ECDHE-RSA" },
		{ "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		  "AES-256-GCM:+ECDHE-RSA" },
		{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
		  "CHACHA20-POLY1305:+ECDHE-RSA" },
		{ "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		  "CHACHA20-POLY1305:+ECDHE-RSA" },
	};
	struct web_tls *t = &p->out->tls;

	return translate(p, word, at, table, sizeof(table) / sizeof(table[0]),
			 t->ciphers, &t->n_ciphers);
}

static int take_ciphers(struct web_parser *p, const char *name,
			const yaml_node_t *v)
{
	return web_list(p, v, name, take_cipher);
}

static int take_curve(struct web_parser *p, const char *word,
		      const yaml_node_t *at)
{
	static const struct translation table[] = {
		{ "CurveP256", "GROUP-SECP256R1" },
		{ "CurveP384", "GROUP-SECP384R1" },
		{ "CurveP521", "GROUP-SECP521R1" },
		{ "X25519", "GROUP-X25519" },
	};
	struct web_tls *t = &p->out->tls;

	return translate(p, word, at, table, sizeof(table) / sizeof(table[0]),
			 t->curves, &t->n_curves);
}

static int take_curves(struct web_parser *p, const char *name,
		       const yaml_node_t *v)
{
	return web_list(p, v, name, take_curve);
}

static int take_order(struct web_parser *p, const char *name,
		      const yaml_node_t *v)
{
	return web_bool(p, v, name, &p->out->tls.server_order);
}

int web_take_tls(struct web_parser *p, const char *name,
		 const yaml_node_t *value)
{
	static const struct web_key keys[] = {
		{ "cert_file", take_cert_file },
		{ "key_file", take_key_file },
		{ "client_ca_file", take_ca_file },
		{ "cert", take_cert },
		{ "key", take_key },
		{ "client_ca", take_ca },
		{ "client_auth_type", take_client_auth },
		{ "client_allowed_sans", take_sans },
		{ "min_version", take_min },
		{ "max_version", take_max },
		{ "cipher_suites", take_ciphers },
		{ "curve_preferences", take_curves },
		{ "prefer_server_cipher_suites", take_order },
	};

	p->out->have_tls = true;
	return web_mapping(p, value, name, keys,
			   sizeof(keys) / sizeof(keys[0]));
}

int web_check_tls(struct web_parser *p)
{
	const struct web_tls *t = &p->out->tls;
	bool ca = t->client_ca_file || t->client_ca;

	if (!p->out->have_tls)
		return 0;
	if (!t->cert_file == !t->cert)
		return web_refuse(p, NULL,
				  "tls_server_config needs one of "
				  "cert_file and cert");
	if (!t->key_file == !t->key)
		return web_refuse(p, NULL,
				  "tls_server_config needs one of "
				  "key_file and key");
	if (t->client_ca_file && t->client_ca)
		return web_refuse(p, NULL,
				  "tls_server_config has both "
				  "client_ca_file and client_ca");
	if (ca && t->client_auth == CLIENT_NONE)
		return web_refuse(p, NULL,
				  "client_ca_file without a "
				  "client_auth_type that asks for one");
	if (t->max_version && t->max_version < t->min_version)
		return web_refuse(p, NULL, "max_version is below min_version");
	return 0;
}
