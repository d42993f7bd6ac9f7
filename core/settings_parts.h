/*
 * settings_parts.h - the table of options, for the parser and for help
 *
 * Internal to core/settings*.c.
 */
#ifndef MOETOP_CORE_SETTINGS_PARTS_H
#define MOETOP_CORE_SETTINGS_PARTS_H

#include "core/settings.h"

enum option_type {
	OPTION_FLAG,
	OPTION_NUMBER,
	OPTION_INTEGER,
	OPTION_TEXT,
	OPTION_LIST,
	OPTION_CHOICE
};

struct option {
	const char *name, *arg, *help;
	size_t offset; /* of the member in struct settings */
	double init, min, max;
	enum option_type type;
	unsigned commands;
	char letter;
};

struct settings_command {
	const char *name, *usage, *help;
	bool built;
};

extern const struct option settings_options[];
extern const size_t settings_n_options;
extern const struct settings_command settings_commands[COMMANDS];

/* The words of a choice that this version has: "off|sampled". */
void settings_usable_words(const char *words, char *out, size_t bytes);

#endif
