/*
 * json_write.h - the pieces of one JSON object; internal to exporter/json*.c
 *
 * A comma comes by itself where one is needed.
 */
#ifndef MOETOP_EXPORTER_JSON_WRITE_H
#define MOETOP_EXPORTER_JSON_WRITE_H

#include "exporter/text.h"

/* A comma, unless a container or a value begins here. */
void jput_separate(struct text *t);
void jput_key(struct text *t, const char *name);
void jput_begin(struct text *t, char bracket); /* '{' or '[' */
void jput_end(struct text *t, char bracket);   /* '}' or ']' */

/* NULL and "" are null: an empty name is an unknown one. */
void jput_string(struct text *t, const char *name, const char *s);
/* What is not finite is null. */
void jput_double(struct text *t, const char *name, double v);
void jput_value(struct text *t, const char *name, struct value x);
void jput_count(struct text *t, const char *name, uint64_t n);
/* A count of which 0 means unknown. */
void jput_known(struct text *t, const char *name, uint64_t n);
void jput_pid(struct text *t, int32_t pid);
/* A name in a list. */
void jput_name(struct text *t, const char *name);

/* The parts, each with its key. */
void json_put_target(struct text *t, const struct snapshot *s);
void json_put_regime(struct text *t, const struct snapshot *s);
void json_put_layers(struct text *t, const char *name,
		     const struct snapshot_layer *layers, unsigned n);
void json_put_step(struct text *t, const struct snapshot *s);
void json_put_bytes(struct text *t, const struct snapshot_bytes *b);
void json_put_classes(struct text *t, const struct snapshot *s);
void json_put_health(struct text *t, const struct snapshot *s);
void json_put_requests(struct text *t, const struct snapshot_requests *r);

#endif
