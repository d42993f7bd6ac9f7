#include "exporter/web_config_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int web_refuse(struct web_parser *p, const yaml_node_t *n, const char *format,
	       ...)
{
	char detail[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(detail, sizeof(detail), format, ap);
	va_end(ap);
	/* words of the file may hold line ends and escapes */
	for (char *c = detail; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	snprintf(p->why, p->why_bytes, "line %zu: %s",
		 n ? n->start_mark.line + 1 : 1, detail);
	return -EINVAL;
}

static bool is_empty(const yaml_node_t *n)
{
	return n->type == YAML_SCALAR_NODE && n->data.scalar.length == 0 &&
	       n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

const char *web_word(struct web_parser *p, const yaml_node_t *n,
		     const char *what)
{
	if (n->type != YAML_SCALAR_NODE) {
		web_refuse(p, n, "%.60s: not a single value", what);
		return NULL;
	}
	if (memchr(n->data.scalar.value, 0, n->data.scalar.length)) {
		web_refuse(p, n, "%.60s: holds a NUL", what);
		return NULL;
	}
	return (const char *)n->data.scalar.value;
}

int web_copy(struct web_parser *p, const yaml_node_t *n, const char *what,
	     char **to)
{
	const char *s = web_word(p, n, what);

	if (!s)
		return -EINVAL;
	*to = strdup(s);
	return *to ? 0 : -ENOMEM;
}

int web_path(struct web_parser *p, const yaml_node_t *n, const char *what,
	     char **to)
{
	const char *s = web_word(p, n, what);

	if (!s)
		return -EINVAL;
	if (!*s)
		return web_refuse(p, n, "%.60s: empty", what);
	if (*s == '/' || !*p->dir)
		*to = strdup(s);
	else if (asprintf(to, "%s/%s", p->dir, s) < 0)
		*to = NULL;
	return *to ? 0 : -ENOMEM;
}

int web_bool(struct web_parser *p, const yaml_node_t *n, const char *what,
	     bool *to)
{
	const char *s = web_word(p, n, what);

	if (!s)
		return -EINVAL;
	if (strcmp(s, "true") != 0 && strcmp(s, "false") != 0)
		return web_refuse(p, n, "%.60s: neither true nor false", what);
	*to = *s == 't';
	return 0;
}

/* Was this key there before? */
static bool doubled(struct web_parser *p, const yaml_node_t *n,
		    const yaml_node_pair_t *at, const char *name)
{
	for (const yaml_node_pair_t *q = n->data.mapping.pairs.start; q < at;
	     q++) {
		const yaml_node_t *k = yaml_document_get_node(p->doc, q->key);

		if (k && k->type == YAML_SCALAR_NODE &&
		    !strcmp((const char *)k->data.scalar.value, name))
			return true;
	}
	return false;
}

static int
each_pair(struct web_parser *p, const yaml_node_t *n, const char *what,
	  int (*take)(struct web_parser *p, void *arg, const yaml_node_t *key,
		      const char *name, const yaml_node_t *value),
	  void *arg)
{
	if (is_empty(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return web_refuse(p, n, "%.60s: not a mapping", what);
	for (const yaml_node_pair_t *q = n->data.mapping.pairs.start;
	     q < n->data.mapping.pairs.top; q++) {
		const yaml_node_t *k = yaml_document_get_node(p->doc, q->key);
		const yaml_node_t *v = yaml_document_get_node(p->doc, q->value);
		const char *name = k && v ? web_word(p, k, what) : NULL;
		int err;

		if (!name)
			return -EINVAL;
		if (doubled(p, n, q, name))
			return web_refuse(p, k, "'%.60s' is there twice", name);
		err = take(p, arg, k, name, v);
		if (err)
			return err;
	}
	return 0;
}

/* ---- known keys --------------------------------------------------------- */

struct known {
	const char *what;
	const struct web_key *keys;
	size_t n;
};

static int take_known(struct web_parser *p, void *arg, const yaml_node_t *key,
		      const char *name, const yaml_node_t *value)
{
	const struct known *known = arg;

	for (size_t i = 0; i < known->n; i++) {
		if (strcmp(known->keys[i].name, name) != 0)
			continue;
		return is_empty(value) ? 0
				       : known->keys[i].take(p, name, value);
	}
	return web_refuse(p, key, "'%.60s' is no key of %s", name, known->what);
}

int web_mapping(struct web_parser *p, const yaml_node_t *n, const char *what,
		const struct web_key *keys, size_t n_keys)
{
	struct known known = { what, keys, n_keys };

	return each_pair(p, n, what, take_known, &known);
}

/* ---- any keys ----------------------------------------------------------- */

struct anything {
	int (*take)(struct web_parser *p, const char *name,
		    const yaml_node_t *value);
};

static int take_any(struct web_parser *p, void *arg, const yaml_node_t *key,
		    const char *name, const yaml_node_t *value)
{
	const struct anything *any = arg;

	(void)key;
	return any->take(p, name, value);
}

int web_pairs(struct web_parser *p, const yaml_node_t *n, const char *what,
	      int (*take)(struct web_parser *p, const char *name,
			  const yaml_node_t *value))
{
	struct anything any = { take };

	return each_pair(p, n, what, take_any, &any);
}

/* ---- lists -------------------------------------------------------------- */

int web_list(struct web_parser *p, const yaml_node_t *n, const char *what,
	     int (*take)(struct web_parser *p, const char *word,
			 const yaml_node_t *at))
{
	if (is_empty(n))
		return 0;
	if (n->type != YAML_SEQUENCE_NODE)
		return web_refuse(p, n, "%.60s: not a list", what);
	for (const yaml_node_item_t *i = n->data.sequence.items.start;
	     i < n->data.sequence.items.top; i++) {
		const yaml_node_t *item = yaml_document_get_node(p->doc, *i);
		const char *word = item ? web_word(p, item, what) : NULL;
		int err = word ? take(p, word, item) : -EINVAL;

		if (err)
			return err;
	}
	return 0;
}
