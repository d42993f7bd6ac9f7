#include "core/settings_parts.h"
#include "exporter/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct settings_command settings_commands[COMMANDS] = {
	[COMMAND_VIEW] = { "", "moetop [-p PID] [OPTION]...",
			   "watch a running server", true },
	[COMMAND_RUN] = { "run", "moetop run [OPTION]... -- CMD [ARG]...",
			  "start a server with the agent in it", true },
	[COMMAND_DEMO] = { "demo", "moetop demo [OPTION]...",
			   "watch the embedded simulated server", true },
	[COMMAND_DOCTOR] = { "doctor", "moetop doctor [-p PID] [--json]",
			     "what works here, and what would fix the rest",
			     true },
	[COMMAND_PLAN] = { "plan", "moetop plan --model CONFIG.json --gpu NAME",
			   "the batch valley of a model, on paper", true },
	[COMMAND_RECORD] = { "record", "moetop record -p PID -o FILE",
			     "keep the snapshots in a file", true },
	[COMMAND_REPLAY] = { "replay", "moetop replay FILE [OPTION]...",
			     "show a recording in any view", true },
	[COMMAND_REPORT] = { "report", "moetop report FILE",
			     "a summary for people", false },
	[COMMAND_CONFIG] = { "config",
			     "moetop config check [FILE] | show [OPTION]...",
			     "the file of options: is it good, what holds",
			     true },
	[COMMAND_HELP] = { "help", "moetop help [COMMAND]", "print help",
			   true },
	[COMMAND_VERSION] = { "version", "moetop version", "print the version",
			      true },
};

/* ---- arguments --------------------------------------------------------- */

static const struct option *find_letter(char letter)
{
	for (size_t i = 0; i < settings_n_options; i++)
		if (settings_options[i].letter &&
		    settings_options[i].letter == letter)
			return &settings_options[i];
	return NULL;
}

static int check_command(const struct settings *s, const struct option *o,
			 char *why, size_t bytes)
{
	const char *name = command_name(s->command), *gap = *name ? " " : "";

	if (settings_takes(s->command, o))
		return 0;
	return settings_refuse(
		why, bytes,
		"--%s: not an option of `moetop%s%s`; see moetop help%s%s",
		o->name, gap, name, gap, name);
}

/* One option at argv[*i]; moves *i over its value. */
static int take_option(struct settings *s, char **argv, int *i, char *why,
		       size_t bytes)
{
	const char *arg = argv[*i], *value = NULL;
	const struct option *o;
	int err;

	if (arg[1] == '-') {
		size_t len = strcspn(arg + 2, "=");

		o = settings_find(arg + 2, len);
		value = arg[2 + len] ? arg + 3 + len : NULL;
	} else {
		o = find_letter(arg[1]);
		value = arg[1] && arg[2] ? arg + 2 : NULL;
	}
	if (!o)
		return settings_refuse(why, bytes,
				       "%.40s: no such option; see moetop help",
				       arg);
	err = check_command(s, o, why, bytes);
	if (err)
		return err;
	if (o->type == OPTION_FLAG && value)
		return settings_refuse(why, bytes,
				       "%.40s: takes no value; give --%s alone",
				       arg, o->name);
	if (o->type != OPTION_FLAG && !value) {
		value = argv[*i + 1];
		if (!value)
			return settings_refuse(
				why, bytes,
				"--%s: no value; give it as --%s %s", o->name,
				o->name, o->arg);
		++*i;
	}
	err = settings_put(s, o, value ? value : "", why, bytes);
	if (!err)
		s->origin[settings_index(o)] = ORIGIN_ARGUMENT;
	return err;
}

/* `moetop config WORD [FILE]`, and options after them. */
static int take_word(struct settings *s, char **word, char *why, size_t bytes)
{
	if (!s->n_rest)
		s->rest = word;
	else if (word != s->rest + s->n_rest)
		return settings_refuse(why, bytes,
				       "config: %.60s: not understood here; "
				       "see moetop help config",
				       *word);
	s->n_rest++;
	return 0;
}

static int take_arguments(struct settings *s, int argc, char **argv, char *why,
			  size_t bytes)
{
	int i = s->command == COMMAND_VIEW ? 1 : 2;

	for (; i < argc; i++) {
		int err;

		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (argv[i][0] != '-' || !argv[i][1]) {
			if (s->command == COMMAND_CONFIG) {
				err = take_word(s, &argv[i], why, bytes);
				if (err)
					return err;
				continue;
			}
			if (s->command != COMMAND_REPLAY)
				break;
			/* the file may stand before or after the options */
			if (s->n_rest++)
				return settings_refuse(
					why, bytes,
					"%.60s: a second file; give one",
					argv[i]);
			s->rest = &argv[i];
			continue;
		}
		err = take_option(s, argv, &i, why, bytes);
		if (err)
			return err;
	}
	if (i < argc && s->n_rest)
		return settings_refuse(
			why, bytes, "%.60s: a second file; give one", argv[i]);
	if (i < argc) {
		s->rest = &argv[i];
		s->n_rest = argc - i;
	}
	return 0;
}

/* ---- the whole --------------------------------------------------------- */

static int find_command(const char *word, enum command *out)
{
	for (int c = COMMAND_RUN; c < COMMANDS; c++) {
		if (strcmp(settings_commands[c].name, word))
			continue;
		*out = (enum command)c;
		return 0;
	}
	return -ENOENT;
}

static int check_config(const struct settings *s, char *why, size_t bytes)
{
	const char *word = s->n_rest ? s->rest[0] : "";
	bool check = !strcmp(word, "check");

	if (!check && strcmp(word, "show"))
		return settings_refuse(why, bytes,
				       "config: nothing to do; give it as "
				       "moetop config check [FILE], or moetop "
				       "config show");
	if (s->n_rest > (check ? 2 : 1))
		return settings_refuse(why, bytes,
				       "config: %.60s: too much; see moetop "
				       "help config",
				       s->rest[check ? 2 : 1]);
	return 0;
}

static int check_rest(struct settings *s, char *why, size_t bytes)
{
	const char *name = command_name(s->command);

	switch (s->command) {
	case COMMAND_RUN:
		if (!s->n_rest)
			return settings_refuse(
				why, bytes,
				"run: no command; give it as moetop run "
				"-- CMD [ARG]...");
		return 0;
	case COMMAND_REPLAY:
		if (!s->n_rest)
			return settings_refuse(
				why, bytes,
				"replay: no recording; give it as moetop "
				"replay FILE");
		if (s->n_rest > 1)
			return settings_refuse(why, bytes,
					       "%.60s: a second file; give one",
					       s->rest[1]);
		return 0;
	case COMMAND_CONFIG:
		return check_config(s, why, bytes);
	case COMMAND_HELP:
		if (s->n_rest && find_command(s->rest[0], &s->topic))
			return settings_refuse(
				why, bytes,
				"%.40s: no such command; see moetop help",
				s->rest[0]);
		return 0;
	default:
		if (s->n_rest)
			return settings_refuse(
				why, bytes,
				"%.40s: not understood here; see moetop "
				"help%s%s",
				s->rest[0], *name ? " " : "", name);
		return 0;
	}
}

static int check_whole(struct settings *s, char *why, size_t bytes)
{
	if (s->help || s->version)
		return 0;
	if (s->command == COMMAND_RECORD && (!s->pid || !s->output))
		return settings_refuse(
			why, bytes,
			"record: nothing to record or nowhere to put it; "
			"give it as moetop record -p PID -o FILE");
	if (s->headless && !s->listen && !s->json)
		return settings_refuse(
			why, bytes,
			"--headless: nobody could see anything; add "
			"--listen PORT or --json");
	if (s->all && !s->listen && !s->json)
		return settings_refuse(why, bytes,
				       "--all: there is no screen for several "
				       "servers; add --listen PORT or --json");
	if (s->all && s->pid)
		return settings_refuse(
			why, bytes,
			"--all: watches every server; leave out -p, or --all");
	if (s->listen && http_check_listen(s->listen, why, bytes))
		return -EINVAL;
	return check_rest(s, why, bytes);
}

/* What stands in files, then the arguments again, which overrule it. */
static int take_files(struct settings *s, int argc, char **argv, char *why,
		      size_t bytes)
{
	struct settings out;
	int err;

	settings_defaults(&out);
	out.command = s->command;
	settings_read_user(&out);
	err = s->config
		      ? settings_read(&out, s->config, ORIGIN_FILE, why, bytes)
		      : 0;
	if (!err)
		err = take_arguments(&out, argc, argv, why, bytes);
	if (err)
		settings_fini(&out);
	else
		*s = out;
	return err;
}

/* Commands that files of options are for. */
static bool reads_files(const struct settings *s)
{
	static const unsigned none =
		1u << COMMAND_RUN | 1u << COMMAND_HELP | 1u << COMMAND_VERSION;

	return !(none & (1u << s->command)) && !s->help && !s->version;
}

int settings_parse(struct settings *s, int argc, char **argv, char *why,
		   size_t why_bytes)
{
	enum command c = COMMAND_VIEW;
	struct settings out;
	int err;

	settings_defaults(&out);
	if (argc > 1 && argv[1][0] != '-' && find_command(argv[1], &c))
		return settings_refuse(why, why_bytes,
				       "%.40s: no such command; see moetop "
				       "help",
				       argv[1]);
	out.command = c;
	if (!settings_commands[c].built)
		return settings_refuse(
			why, why_bytes,
			"%s: not built into this version; see moetop help "
			"for what is",
			settings_commands[c].name);
	err = take_arguments(&out, argc, argv, why, why_bytes);
	if (!err && reads_files(&out))
		err = take_files(&out, argc, argv, why, why_bytes);
	if (!err)
		err = check_whole(&out, why, why_bytes);
	if (err) {
		settings_fini(&out);
		return err;
	}
	*s = out;
	return 0;
}

void settings_fini(struct settings *s)
{
	for (size_t i = 0; i < SETTINGS_FILES; i++) {
		free(s->file_text[i]);
		s->file_text[i] = NULL;
	}
}

const char *command_name(enum command c)
{
	return c < COMMANDS ? settings_commands[c].name : "";
}
