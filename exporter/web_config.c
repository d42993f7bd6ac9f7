#include "exporter/web_config_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BCRYPT_CHARS 60u
/* Each step doubles the time of a first answer: 14 takes a second or two, which
 * scrapers wait for; 31 would take days. */
#define BCRYPT_COST_MAX 14
#define RATE_BURST_MAX 1000000u

/* ---- users -------------------------------------------------------------- */

/* "$2b$10$" and 53 characters of bcrypt's own base 64. */
static bool is_bcrypt(const char *s)
{
	if (strlen(s) != BCRYPT_CHARS || s[0] != '$' || s[1] != '2' ||
	    !strchr("aby", s[2]) || s[3] != '$' || s[6] != '$' ||
	    !isdigit((unsigned char)s[4]) || !isdigit((unsigned char)s[5]))
		return false;
	for (const char *p = s + 7; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '.' && *p != '/')
			return false;
	return atoi(s + 4) >= 4 && atoi(s + 4) <= 31;
}

static int add_pair(struct web_parser *p, struct web_pair *list, unsigned max,
		    unsigned *n, const char *name, const yaml_node_t *value)
{
	struct web_pair *pair = &list[*n];
	int err;

	if (*n == max)
		return web_refuse(p, value, "more than %u are too many", max);
	pair->name = strdup(name);
	if (!pair->name)
		return -ENOMEM;
	(*n)++;
	err = web_copy(p, value, name, &pair->value);
	return err;
}

static int take_user(struct web_parser *p, const char *name,
		     const yaml_node_t *value)
{
	struct web_config *c = p->out;
	int err =
		add_pair(p, c->users, WEB_USERS_MAX, &c->n_users, name, value);
	const char *hash = err ? NULL : c->users[c->n_users - 1].value;

	if (err)
		return err;
	if (is_bcrypt(hash) && atoi(hash + 4) > BCRYPT_COST_MAX)
		return web_refuse(p, value,
				  "the password of '%.40s' has cost %d: no "
				  "scraper waits for that; make one of at most "
				  "%d with: htpasswd -nBC 10 \"\"",
				  name, atoi(hash + 4), BCRYPT_COST_MAX);
	if (!is_bcrypt(hash))
		return web_refuse(p, value,
				  "the password of '%.40s' is no bcrypt hash; "
				  "make one with: htpasswd -nBC 10 \"\"",
				  name);
	return 0;
}

static int take_users(struct web_parser *p, const char *name,
		      const yaml_node_t *value)
{
	return web_pairs(p, value, name, take_user);
}

/* ---- http --------------------------------------------------------------- */

static int take_header(struct web_parser *p, const char *name,
		       const yaml_node_t *value)
{
	static const char *const allowed[] = {
		"Strict-Transport-Security", "X-Content-Type-Options",
		"X-Frame-Options", "X-XSS-Protection", "Content-Security-Policy"
	};
	struct web_config *c = p->out;
	const char *s = web_word(p, value, name);

	if (!s)
		return -EINVAL;
	for (const char *q = s; *q; q++)
		if ((unsigned char)*q < ' ' || *q == 0x7f)
			return web_refuse(p, value, "%.40s: holds a line end",
					  name);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (!strcmp(name, allowed[i]))
			return add_pair(p, c->headers, WEB_HEADERS_MAX,
					&c->n_headers, name, value);
	return web_refuse(p, value, "'%.40s' is no header that may be set",
			  name);
}

static int take_headers(struct web_parser *p, const char *name,
			const yaml_node_t *value)
{
	return web_pairs(p, value, name, take_header);
}

/* Whatever it says, this server speaks HTTP/1.1, which every client takes. */
static int take_http2(struct web_parser *p, const char *name,
		      const yaml_node_t *value)
{
	bool ignored;

	return web_bool(p, value, name, &ignored);
}

static int take_http(struct web_parser *p, const char *name,
		     const yaml_node_t *value)
{
	static const struct web_key keys[] = {
		{ "http2", take_http2 },
		{ "headers", take_headers },
	};

	return web_mapping(p, value, name, keys,
			   sizeof(keys) / sizeof(keys[0]));
}

/* ---- rate limit --------------------------------------------------------- */

/* Go's durations: "1s", "100ms", "1m30s". */
static bool read_duration(const char *s, double *out)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 },
		      { "s", 1 },     { "m", 60 },    { "h", 3600 } };
	double sum = 0;

	if (!*s)
		return false;
	while (*s) {
		char *end;
		size_t i, n;
		double v;

		if (!isdigit((unsigned char)*s))
			return false;
		v = strtod(s, &end);
		n = strspn(end, "nusmh");
		for (i = 0; i < 6; i++)
			if (strlen(units[i].unit) == n &&
			    !strncmp(end, units[i].unit, n))
				break;
		if (i == 6)
			return false;
		sum += v * units[i].seconds;
		s = end + n;
	}
	*out = sum;
	return isfinite(sum);
}

static int take_interval(struct web_parser *p, const char *name,
			 const yaml_node_t *value)
{
	const char *s = web_word(p, value, name);

	if (!s)
		return -EINVAL;
	if (!read_duration(s, &p->out->rate_interval_s))
		return web_refuse(p, value, "%s: '%.40s' is no duration", name,
				  s);
	return 0;
}

static int take_burst(struct web_parser *p, const char *name,
		      const yaml_node_t *value)
{
	const char *s = web_word(p, value, name);
	char *end;
	unsigned long v = s ? strtoul(s, &end, 10) : 0;

	if (!s)
		return -EINVAL;
	if (!isdigit((unsigned char)*s) || *end || v > RATE_BURST_MAX)
		return web_refuse(p, value, "%s: '%.40s' is no number", name,
				  s);
	p->out->rate_burst = (unsigned)v;
	return 0;
}

static int take_rate(struct web_parser *p, const char *name,
		     const yaml_node_t *value)
{
	static const struct web_key keys[] = {
		{ "interval", take_interval },
		{ "burst", take_burst },
	};

	return web_mapping(p, value, name, keys,
			   sizeof(keys) / sizeof(keys[0]));
}

/* ---- the whole ---------------------------------------------------------- */

static int take_root(struct web_parser *p)
{
	static const struct web_key keys[] = {
		{ "tls_server_config", web_take_tls },
		{ "http_server_config", take_http },
		{ "basic_auth_users", take_users },
		{ "rate_limit", take_rate },
	};
	const yaml_node_t *root = yaml_document_get_root_node(p->doc);
	int err;

	if (!root) /* an empty file asks for nothing */
		return 0;
	err = web_mapping(p, root, "the file", keys,
			  sizeof(keys) / sizeof(keys[0]));
	return err ? err : web_check_tls(p);
}

/* A second document would be left out, and with it what it forbids. */
static int check_end(struct web_parser *p, yaml_parser_t *y)
{
	yaml_document_t more;
	bool empty;

	if (!yaml_parser_load(y, &more))
		return web_refuse(p, NULL, "what follows is not YAML");
	empty = !yaml_document_get_root_node(&more);
	yaml_document_delete(&more);
	return empty ? 0 : web_refuse(p, NULL, "there is a second document");
}

static void not_yaml(const yaml_parser_t *y, char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "line %zu: not YAML: %s",
		 y->problem_mark.line + 1, y->problem ? y->problem : "?");
}

int web_config_parse(struct web_config *out, const char *text, size_t bytes,
		     const char *dir, char *why, size_t why_bytes)
{
	struct web_parser p = {
		.out = out, .dir = dir, .why = why, .why_bytes = why_bytes
	};
	yaml_document_t doc;
	yaml_parser_t y;
	int err;

	*out = (struct web_config){ .tls.min_version = 12 };
	if (bytes > WEB_CONFIG_BYTES_MAX) {
		snprintf(why, why_bytes, "larger than 256 KiB");
		return -EFBIG;
	}
	if (!yaml_parser_initialize(&y)) {
		snprintf(why, why_bytes, "no memory");
		return -ENOMEM;
	}
	yaml_parser_set_input_string(&y, (const unsigned char *)text, bytes);
	if (!yaml_parser_load(&y, &doc)) {
		not_yaml(&y, why, why_bytes);
		yaml_parser_delete(&y);
		return -EINVAL;
	}
	p.doc = &doc;
	err = take_root(&p);
	if (!err)
		err = check_end(&p, &y);
	yaml_document_delete(&doc);
	yaml_parser_delete(&y);
	if (err == -ENOMEM)
		snprintf(why, why_bytes, "no memory");
	if (err)
		web_config_fini(out);
	return err;
}

int web_config_read(struct web_config *out, const char *path, char *why,
		    size_t why_bytes)
{
	const char *slash = strrchr(path, '/');
	char *text = malloc(WEB_CONFIG_BYTES_MAX + 1), *dir = NULL;
	FILE *f = fopen(path, "re");
	size_t n = 0;
	int err = f ? 0 : -errno;

	if (!err && text) {
		n = fread(text, 1, WEB_CONFIG_BYTES_MAX + 1, f);
		if (ferror(f))
			err = errno ? -errno : -EIO;
		dir = strndup(path,
			      slash ? (size_t)(slash - path) + !(slash - path)
				    : 0);
	}
	if (!err && (!text || !dir))
		err = -ENOMEM;
	if (err)
		snprintf(why, why_bytes, "%s", strerror(-err));
	else
		err = web_config_parse(out, text, n, dir, why, why_bytes);
	if (f)
		fclose(f);
	free(dir);
	free(text);
	return err;
}

static void free_pairs(struct web_pair *pairs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		free(pairs[i].name);
		free(pairs[i].value);
	}
}

void web_config_fini(struct web_config *c)
{
	struct web_tls *t = &c->tls;
	char *all[] = { t->cert_file, t->key_file, t->client_ca_file,
			t->cert,      t->key,      t->client_ca };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	for (unsigned i = 0; i < t->n_sans; i++)
		free(t->sans[i]);
	free_pairs(c->users, c->n_users);
	free_pairs(c->headers, c->n_headers);
	*c = (struct web_config){ 0 };
}
