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
#define SETTINGS_WORDS_BYTES 160u
void settings_usable_words(const char *words, char *out, size_t bytes);

/* One that says how, not what to do: it may be kept, and set up. */
bool settings_kept(const struct option *o);

/* Whether an option is one of that command; `moetop config` has those of the
 * screen. */
static inline bool settings_takes(enum command c, const struct option *o)
{
	if (c == COMMAND_CONFIG)
		c = COMMAND_VIEW;
	return o->commands & (1u << c);
}

void settings_defaults(struct settings *s);

/* NULL when there is none of that name. */
const struct option *settings_find(const char *name, size_t bytes);

static inline size_t settings_index(const struct option *o)
{
	return (size_t)(o - settings_options);
}

/* Give the option the value of a text, which must outlive s where the option
 * is a text.  0, or -EINVAL with one line in why. */
int settings_put(struct settings *s, const struct option *o, const char *text,
		 char *why, size_t bytes);

/* Its value as text, as settings_put reads it; "" for none. */
void settings_get(const struct settings *s, const struct option *o, char *out,
		  size_t bytes);

/* Take the lines of a file for the options of s->command.  0, or -EINVAL with
 * one line in why, which names the line. */
int settings_read(struct settings *s, const char *path,
		  enum settings_origin origin, char *why, size_t bytes);

/* The user's own file, if there is one: lines that are no good are counted in
 * s and left out. */
void settings_read_user(struct settings *s);

/* The text of a file of at most CONFIG_BYTES_MAX, owned by the caller.  0 or
 * -errno; -EFBIG too long, -EINVAL no text. */
#define CONFIG_BYTES_MAX 65536u
int settings_read_text(const char *path, char **text);

/*
 * Write the options with which[index] to a file as `name = value`, in the place
 * of the line that has the name, else at the end; all other lines stay as they
 * are.  The file is replaced as a whole or not at all; a directory that is
 * missing is made.  0 or -errno.
 */
int settings_save(const struct settings *s, const bool *which,
		  const char *path);

/* Fill why and return -EINVAL. */
int settings_refuse(char *why, size_t bytes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
