/* model_config_test.h - small configs, written with ' for " */
#ifndef MOETOP_TESTS_UNIT_TARGET_MODEL_CONFIG_TEST_H
#define MOETOP_TESTS_UNIT_TARGET_MODEL_CONFIG_TEST_H

#include "target/model_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char why[160];

static inline int parse(const char *json, struct arch *a)
{
	why[0] = '\0';
	return model_config_parse(json, strlen(json), NULL, 0, a, why,
				  sizeof(why));
}

/* Configs are written with ' here. */
static inline char *quoted(const char *json)
{
	char *s = strdup(json);

	for (char *p = s; *p; p++)
		if (*p == '\'')
			*p = '"';
	return s;
}

static inline int parse_quoted(const char *json, struct arch *a)
{
	char *s = quoted(json);
	int err = parse(s, a);

	free(s);
	return err;
}

/* The members that any model has. */
#define GOOD                                            \
	"\"hidden_size\":1024,\"num_hidden_layers\":4," \
	"\"num_attention_heads\":8,\"intermediate_size\":4096"

#endif
