/*
 * options.h - the command line of moetop-sim
 *
 * A scenario is a file of such options, read before the command line's own, so
 * that those overrule it.
 */
#ifndef MOETOP_SIM_SERVER_OPTIONS_H
#define MOETOP_SIM_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/kernels.h"
#include "sim/server/routing.h"
#include "sim/server/users.h"

#define OPTIONS_PATH_BYTES 512u

struct sim_options {
	char model[OPTIONS_PATH_BYTES]; /* config.json */
	char gpu[16];
	char host[64];
	char name[96]; /* --served-model-name; empty: the model's own */
	char truth[OPTIONS_PATH_BYTES];
	char routing_text[OPTIONS_PATH_BYTES];
	struct routing_options routing; /* file points into routing_text */
	enum kernel_flavour flavour;
	char backend[OPTIONS_PATH_BYTES]; /* --backend; empty: the engine's */
	bool graphs;
	uint16_t port;
	unsigned tp, ep; /* ranks, each a process; 1: in this one */
	unsigned max_seqs, max_tokens, max_model_len, stream_interval;
	struct users users; /* phases 0: no load of its own */
	double prompt_tokens, output_tokens, think_s, abort_ratio;
	double duration_s; /* 0: until a signal */
	uint64_t seed;
	bool help;
};

extern const char options_usage[];

/*
 * argv[0] is skipped.  0, or -EINVAL and one line in why ("--gpu X: ..."),
 * without a trailing newline.
 */
int options_parse(int argc, char **argv, struct sim_options *out, char *why,
		  size_t why_bytes);

/*
 * Find a file of ours: as named, else in FOLDER ("models", "scenarios") beside
 * the program, in the source tree above a build directory, or in ./sim; with
 * SUFFIX added where the name alone is not found.  0 or -ENOENT.
 */
int options_find(const char *name, const char *folder, const char *suffix,
		 char *path, size_t path_bytes);

#endif
