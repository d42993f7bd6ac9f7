/*
 * settings.h - what the user asked for
 *
 * The options are the lines of core/settings.def: one member of struct
 * settings for each.  A value comes from the argument, else from the file of
 * --config, else from the user's own file, $XDG_CONFIG_HOME/moetop/config
 * (~/.config when that is not set), else from the default in the table.
 *
 * A file has a line `name = value` for each option, without the dashes; a flag
 * is true or false, or stands alone.  Lines that begin with # are comments.
 */
#ifndef MOETOP_CORE_SETTINGS_H
#define MOETOP_CORE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define MOETOP_VERSION "0.1.0"

enum command {
	COMMAND_VIEW, /* no command word: watch a server */
	COMMAND_RUN,
	COMMAND_DEMO,
	COMMAND_DOCTOR,
	COMMAND_PLAN,
	COMMAND_RECORD,
	COMMAND_REPLAY,
	COMMAND_REPORT,
	COMMAND_CONFIG,
	COMMAND_HELP,
	COMMAND_VERSION,
	COMMANDS
};

/* Words of the options with choices, in the order of the table. */
enum rows_choice { ROWS_OFF, ROWS_SAMPLED, ROWS_EXACT };
enum counters_choice { COUNTERS_OFF, COUNTERS_GPM, COUNTERS_PM, COUNTERS_AUTO };

#define SETTINGS_LIST_MAX 7u
struct settings_list {
	const char *v[SETTINGS_LIST_MAX];
	unsigned n;
};

enum settings_origin {
	ORIGIN_DEFAULT,
	ORIGIN_USER, /* the user's own file */
	ORIGIN_FILE, /* --config */
	ORIGIN_ARGUMENT,
	ORIGIN_CHANGED, /* on the set-up screen, since the start */
};

#define SETTINGS_OPTIONS_MAX 80u
#define SETTINGS_FILES 2u

struct settings {
	enum command command;
	enum command topic; /* of help; COMMAND_VIEW: all */
#define FLAG(id, letter, name, commands, help) bool id;
#define NUMBER(id, letter, name, commands, arg, init, min, max, help) double id;
#define INTEGER(id, letter, name, commands, arg, init, min, max, help) long id;
#define TEXT(id, letter, name, commands, arg, help) const char *id;
#define LIST(id, letter, name, commands, arg, help) struct settings_list id;
#define CHOICE(id, letter, name, commands, words, init, help) int id;
#include "core/settings.def"
	char **rest; /* run: the command, NULL-terminated; replay: the file */
	int n_rest;
	unsigned char origin[SETTINGS_OPTIONS_MAX]; /* enum settings_origin */
	char *file_text[SETTINGS_FILES]; /* owned: values from files */
	unsigned bad_lines;  /* of the user's file, which are left out */
	char first_bad[240]; /* one line about the first of them */
};

/*
 * Read the arguments.  0 and *s complete, to be freed with settings_fini; text
 * members are borrowed from argv.  -EINVAL with one line "what: why; what to
 * do" in why; *s then needs no settings_fini.
 */
int settings_parse(struct settings *s, int argc, char **argv, char *why,
		   size_t why_bytes);
void settings_fini(struct settings *s);

/* The word of a choice: settings_word("theme", s->theme, ...); "" for what is
 * no choice. */
void settings_word(const char *option, int index, char *out, size_t bytes);

/* Path of the user's file, whether it is there or not; -ENOENT: the environment
 * names no home; -ENAMETOOLONG. */
int settings_user_path(char *out, size_t bytes);

/* Call line(arg, text) for each line of a file that is no good.  How many, or
 * -errno when it cannot be read. */
int settings_check_file(const char *path,
			void (*line)(void *arg, const char *text), void *arg);

/* Help on one command, or on all of moetop for COMMAND_VIEW. */
void settings_help(FILE *f, enum command c);

/* "run", "demo", ...; "" for COMMAND_VIEW. */
const char *command_name(enum command c);

#endif
