/*
 * launch.h - the options that a server was started with, for people
 *
 * One list for all engines, with one name for what is the same thing
 * ("capture_sizes" of vLLM's --compilation-config and of SGLang's
 * --cuda-graph-bs).  Values are those of the command line, of its environment
 * and of a file of options, cut and shortened to be read; an option that is not
 * given is not in the list.  A value that cannot be told (a shell's variable in
 * a script) is "unknown".
 */
#ifndef MOETOP_TARGET_LAUNCH_H
#define MOETOP_TARGET_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the list: what explains most comes first. */
enum launch_id {
#define LAUNCH(id, name) LAUNCH_##id,
#include "target/launch.def"
	LAUNCH_IDS
};

#define LAUNCH_MAX 40u

struct launch_option {
	enum launch_id id;
	char name[24];
	char value[48];
};

struct launch {
	unsigned n, more; /* in the list; found beyond it */
	struct launch_option list[LAUNCH_MAX];
	/* what a number may be explained by; 0 not given or not known */
	uint32_t stream_interval; /* tokens in one event of a stream */
	uint32_t redundant_experts;
	uint32_t draft_tokens; /* of speculative decoding, per step */
	uint32_t capture_max;  /* the largest batch in a CUDA graph */
	bool eager;            /* no CUDA graphs */
	bool eplb;
};

/* "tp", "quantization", ... */
const char *launch_name(enum launch_id id);

/* Its value in the list, or NULL. */
const char *launch_find(const struct launch *l, enum launch_id id);

/* Add it, or replace its value; what is no printable ASCII becomes '?'. */
void launch_set(struct launch *l, enum launch_id id, const char *value);

/* The same for the words of a JSON value that mean this option: of a
 * compilation config its graph mode and sizes, of a speculative config its
 * method.  Text that is no JSON object is set as it is. */
void launch_set_json(struct launch *l, enum launch_id id, const char *json);

/* Numbers apart by commas or blanks, with or without brackets, as "1..512 (67)";
 * "..." among them: the list is cut, "1..4 and more". */
void launch_set_sizes(struct launch *l, const char *numbers);

#endif
