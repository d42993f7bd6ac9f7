/*
 * cmdline_parts.h - what the files of cmdline share
 *
 * cmdline.c knows how servers are started, cmdline_options.c their options,
 * cmdline_yaml.c files of options and the environment.
 */
#ifndef MOETOP_TARGET_CMDLINE_PARTS_H
#define MOETOP_TARGET_CMDLINE_PARTS_H

#include "target/cmdline.h"

enum {
	VLLM = 1,
	SGLANG = 2,
	TRTLLM = 4,
	SIM = 8,
	ALL = VLLM | SGLANG | TRTLLM | SIM
};

/* Arguments, split. */
#define ARGS_MAX 1024u
struct args {
	const char *v[ARGS_MAX];
	unsigned n, at;
	bool options_only; /* a word that is no option is no model */
	char *copy;        /* owned: args_free */
};

struct args *args_new(const char *text, size_t bytes); /* NULL: no memory */
void args_free(struct args *a);

/* The engine of that name, as one of the bits, 0 none.  Also sets *c's name and
 * its default port, if no other is given. */
unsigned engine_bit(const char *name);
void engine_set(struct cmdline *c, unsigned bit);

/* From a->at to the end.  What an option in `stay`, bits by enum option_id, has
 * said stays.  The first word that is no option, and surely no value of one, may
 * be the model. */
void options_take(struct cmdline *c, struct args *a, unsigned engine,
		  uint64_t stay);

/* One option by its name, "--name" or of a YAML file; false: not known.  value
 * NULL: none. */
bool options_set(struct cmdline *c, unsigned engine, const char *name,
		 const char *value, uint64_t stay);

/* When all options are known: what follows from several of them. */
void options_settle(struct cmdline *c);

/* s, or nothing where there is no room: half a path would be a wrong one. */
void set_text(char *out, size_t room, const char *s);

/* 0 when it is no number of 0..max. */
uint32_t to_number(const char *s, unsigned long max);

#endif
