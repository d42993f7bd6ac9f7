/*
 * web_config_parts.h - walking through a YAML document; internal to
 * exporter/web_config*.c
 */
#ifndef MOETOP_EXPORTER_WEB_CONFIG_PARTS_H
#define MOETOP_EXPORTER_WEB_CONFIG_PARTS_H

#include <yaml.h>

#include "exporter/web_config.h"

struct web_parser {
	yaml_document_t *doc;
	struct web_config *out;
	const char *dir;
	char *why;
	size_t why_bytes;
};

/* Says what is wrong at a node; -EINVAL. */
__attribute__((format(printf, 3, 4))) int
web_refuse(struct web_parser *p, const yaml_node_t *n, const char *format, ...);

/* The word of a scalar without a NUL in it; NULL: it is none, and said. */
const char *web_word(struct web_parser *p, const yaml_node_t *n,
		     const char *what);
/* Its copy into *to, which was NULL. */
int web_copy(struct web_parser *p, const yaml_node_t *n, const char *what,
	     char **to);
/* The same, as a path. */
int web_path(struct web_parser *p, const yaml_node_t *n, const char *what,
	     char **to);
int web_bool(struct web_parser *p, const yaml_node_t *n, const char *what,
	     bool *to);

/* One key of a mapping and what takes its value. */
struct web_key {
	const char *name;
	int (*take)(struct web_parser *p, const char *name,
		    const yaml_node_t *value);
};

/* Every key of a mapping: unknown and doubled ones are refused.  An empty
 * value, `key:`, is as good as none. */
int web_mapping(struct web_parser *p, const yaml_node_t *n, const char *what,
		const struct web_key *keys, size_t n_keys);
/* Any keys. */
int web_pairs(struct web_parser *p, const yaml_node_t *n, const char *what,
	      int (*take)(struct web_parser *p, const char *name,
			  const yaml_node_t *value));
/* Every word of a list. */
int web_list(struct web_parser *p, const yaml_node_t *n, const char *what,
	     int (*take)(struct web_parser *p, const char *word,
			 const yaml_node_t *at));

/* tls_server_config */
int web_take_tls(struct web_parser *p, const char *name,
		 const yaml_node_t *value);
int web_check_tls(struct web_parser *p);

#endif
