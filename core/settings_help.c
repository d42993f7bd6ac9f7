#include "core/settings_parts.h"

#include <string.h>

#define LEFT_COLUMNS 28

static void help_option(FILE *f, const struct option *o)
{
	char words[SETTINGS_WORDS_BYTES] = "", left[200], extra[64] = "";
	const char *arg = o->arg;

	if (o->type == OPTION_CHOICE) {
		settings_usable_words(o->arg, words, sizeof(words));
		arg = words;
	}
	if (o->letter)
		snprintf(left, sizeof(left), "-%c, --%s%s%s", o->letter,
			 o->name, *arg ? " " : "", arg);
	else
		snprintf(left, sizeof(left), "    --%s%s%s", o->name,
			 *arg ? " " : "", arg);
	if (o->type == OPTION_NUMBER && o->init > 0)
		snprintf(extra, sizeof(extra), " (%g..%g, default %g)", o->min,
			 o->max, o->init);
	if (o->type == OPTION_CHOICE) {
		const char *w = o->arg;

		for (int n = (int)o->init; n > 0; n--)
			w += strcspn(w, "|") + 1;
		snprintf(extra, sizeof(extra), " (default %.*s)",
			 (int)strcspn(w, "|"), w);
	}
	if (strlen(left) > LEFT_COLUMNS)
		fprintf(f, "  %s\n  %-*s %s%s\n", left, LEFT_COLUMNS, "",
			o->help, extra);
	else
		fprintf(f, "  %-*s %s%s\n", LEFT_COLUMNS, left, o->help, extra);
}

void settings_help(FILE *f, enum command c)
{
	fprintf(f, "usage: %s\n       %s\n\n", settings_commands[c].usage,
		settings_commands[c].help);
	if (c == COMMAND_VIEW) {
		for (int i = COMMAND_RUN; i < COMMANDS; i++)
			fprintf(f, "  %-42s %s%s\n", settings_commands[i].usage,
				settings_commands[i].help,
				settings_commands[i].built
					? ""
					: " (not built yet)");
		fprintf(f, "\n");
	}
	fprintf(f, "options:\n");
	for (size_t i = 0; i < settings_n_options; i++)
		if (settings_takes(c, &settings_options[i]))
			help_option(f, &settings_options[i]);
	fprintf(f,
		"\nexit status: 0 ok, 1 failure, 2 usage, 3 target not found "
		"or gone, 4 permission\n");
}
