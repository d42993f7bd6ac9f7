/*
 * promtext_json.h - metrics that arrive inside JSON
 *
 * What stands between a server and us may wrap its text: a web framework that
 * returns it as one JSON string, a proxy that puts it into a field, or an API
 * that has taken it apart: {"metric": {"__name__": ...}, "value": ...}, {"name":
 * ..., "labels": ..., "value": ...}, {"name": ..., "metrics": [{"labels": ...,
 * "value": ...}]}, {"name{label=\"value\"}": number}.
 */
#ifndef MOETOP_TARGET_PROMTEXT_JSON_H
#define MOETOP_TARGET_PROMTEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "target/promtext.h"

/* True when the text is a JSON document; its samples have been fed to x. */
bool promtext_json_feed(struct promtext *x, const char *text, size_t bytes);

#endif
