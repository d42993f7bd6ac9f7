#include "core/settings_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX 65536u

enum {
	ON_VIEW = 1 << COMMAND_VIEW,
	ON_RUN = 1 << COMMAND_RUN,
	ON_DEMO = 1 << COMMAND_DEMO,
	ON_DOCTOR = 1 << COMMAND_DOCTOR,
	ON_PLAN = 1 << COMMAND_PLAN,
	ON_RECORD = 1 << COMMAND_RECORD,
	ON_REPLAY = 1 << COMMAND_REPLAY,
	ON_VIEWS = ON_VIEW | ON_DEMO | ON_REPLAY,
	ON_LIVE = ON_VIEW | ON_DEMO | ON_DOCTOR | ON_RECORD,
	ON_ALL = (1 << COMMANDS) - 1,
};

#define ROW(id, l, n, on, kind, a, def, lo, hi, h) \
	{ .name = (n),                             \
	  .arg = (a),                              \
	  .help = (h),                             \
	  .letter = (l),                           \
	  .offset = offsetof(struct settings, id), \
	  .type = OPTION_##kind,                   \
	  .commands = (unsigned)(on),              \
	  .init = (def),                           \
	  .min = (lo),                             \
	  .max = (hi) },
const struct option settings_options[] = {
#define FLAG(id, l, n, on, h) ROW(id, l, n, on, FLAG, "", 0, 0, 0, h)
#define NUMBER(id, l, n, on, a, def, lo, hi, h) \
	ROW(id, l, n, on, NUMBER, a, def, lo, hi, h)
#define INTEGER(id, l, n, on, a, def, lo, hi, h) \
	ROW(id, l, n, on, INTEGER, a, def, lo, hi, h)
#define TEXT(id, l, n, on, a, h) ROW(id, l, n, on, TEXT, a, 0, 0, 0, h)
#define LIST(id, l, n, on, a, h) ROW(id, l, n, on, LIST, a, 0, 0, 0, h)
#define CHOICE(id, l, n, on, w, def, h) \
	ROW(id, l, n, on, CHOICE, w, def, 0, 0, h)
#include "core/settings.def"
};
#define OPTIONS (sizeof(settings_options) / sizeof(settings_options[0]))
const size_t settings_n_options = OPTIONS;

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
	[COMMAND_HELP] = { "help", "moetop help [COMMAND]", "print help",
			   true },
	[COMMAND_VERSION] = { "version", "moetop version", "print the version",
			      true },
};

__attribute__((format(printf, 3, 4))) static int refuse(char *why, size_t bytes,
							const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(why, bytes, format, ap);
	va_end(ap);
	return -EINVAL;
}

/* ---- values ------------------------------------------------------------ */

static void *member(struct settings *s, const struct option *o)
{
	return (char *)s + o->offset;
}

static void set_defaults(struct settings *s)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < OPTIONS; i++) {
		const struct option *o = &settings_options[i];

		if (o->type == OPTION_NUMBER)
			*(double *)member(s, o) = o->init;
		else if (o->type == OPTION_INTEGER)
			*(long *)member(s, o) = (long)o->init;
		else if (o->type == OPTION_CHOICE)
			*(int *)member(s, o) = (int)o->init;
	}
}

static int set_number(struct settings *s, const struct option *o,
		      const char *text, char *why, size_t bytes)
{
	bool whole = o->type == OPTION_INTEGER;
	char *end = NULL;
	double v = strtod(text, &end);

	if (isspace((unsigned char)text[0]) || end == text || *end ||
	    !isfinite(v) || (whole && v != floor(v)))
		return refuse(
			why, bytes,
			"--%s: '%.60s' is not a %snumber; give one from %.15g "
			"to %.15g",
			o->name, text, whole ? "whole " : "", o->min, o->max);
	if (v < o->min || v > o->max)
		return refuse(why, bytes,
			      "--%s: %.60s is out of range; give a number from "
			      "%.15g to %.15g",
			      o->name, text, o->min, o->max);
	if (whole)
		*(long *)member(s, o) = (long)v;
	else
		*(double *)member(s, o) = v;
	return 0;
}

void settings_usable_words(const char *words, char *out, size_t bytes)
{
	size_t n = 0;

	while (*words) {
		size_t len = strcspn(words, "|");

		if (*words != '!')
			n += (size_t)snprintf(out + n, bytes - n, "%s%.*s",
					      n ? "|" : "", (int)len, words);
		words += len + (words[len] == '|');
	}
}

static int set_choice(struct settings *s, const struct option *o,
		      const char *text, char *why, size_t bytes)
{
	const char *word = o->arg;
	char usable[64];
	int index = 0;

	settings_usable_words(o->arg, usable, sizeof(usable));
	while (*word) {
		bool absent = *word == '!';
		size_t len = strcspn(word += absent, "|");

		if (strlen(text) == len && !strncmp(word, text, len)) {
			if (absent)
				return refuse(why, bytes,
					      "--%s=%s: not built into this "
					      "version; give one of %s",
					      o->name, text, usable);
			*(int *)member(s, o) = index;
			return 0;
		}
		index++;
		word += len + (word[len] == '|');
	}
	return refuse(why, bytes,
		      "--%s: '%.60s' is not a choice; give one of %s", o->name,
		      text, usable);
}

static int add_value(struct settings *s, const struct option *o,
		     const char *text, char *why, size_t bytes)
{
	struct settings_list *list = member(s, o);

	if (list->n == SETTINGS_LIST_MAX)
		return refuse(why, bytes,
			      "--%s: given more than %u times; give fewer",
			      o->name, SETTINGS_LIST_MAX);
	list->v[list->n++] = text;
	return 0;
}

static int set_value(struct settings *s, const struct option *o,
		     const char *text, char *why, size_t bytes)
{
	switch (o->type) {
	case OPTION_NUMBER:
	case OPTION_INTEGER:
		return set_number(s, o, text, why, bytes);
	case OPTION_CHOICE:
		return set_choice(s, o, text, why, bytes);
	case OPTION_TEXT:
	case OPTION_LIST:
		if (!*text)
			return refuse(why, bytes,
				      "--%s: empty; give it as --%s %s",
				      o->name, o->name, o->arg);
		if (o->type == OPTION_LIST)
			return add_value(s, o, text, why, bytes);
		*(const char **)member(s, o) = text;
		return 0;
	case OPTION_FLAG:
		break;
	}
	*(bool *)member(s, o) = true;
	return 0;
}

/* ---- arguments --------------------------------------------------------- */

static const struct option *find_name(const char *name, size_t bytes)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (strlen(settings_options[i].name) == bytes &&
		    !strncmp(settings_options[i].name, name, bytes))
			return &settings_options[i];
	return NULL;
}

static const struct option *find_letter(char letter)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (settings_options[i].letter &&
		    settings_options[i].letter == letter)
			return &settings_options[i];
	return NULL;
}

static int check_command(const struct settings *s, const struct option *o,
			 char *why, size_t bytes)
{
	const char *name = command_name(s->command), *gap = *name ? " " : "";

	if (o->commands & (1u << s->command))
		return 0;
	return refuse(
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

		o = find_name(arg + 2, len);
		value = arg[2 + len] ? arg + 3 + len : NULL;
	} else {
		o = find_letter(arg[1]);
		value = arg[1] && arg[2] ? arg + 2 : NULL;
	}
	if (!o)
		return refuse(why, bytes,
			      "%.40s: no such option; see moetop help", arg);
	err = check_command(s, o, why, bytes);
	if (err)
		return err;
	if (o->type == OPTION_FLAG && value)
		return refuse(why, bytes,
			      "%.40s: takes no value; give --%s alone", arg,
			      o->name);
	if (o->type != OPTION_FLAG && !value) {
		value = argv[*i + 1];
		if (!value)
			return refuse(why, bytes,
				      "--%s: no value; give it as --%s %s",
				      o->name, o->name, o->arg);
		++*i;
	}
	return set_value(s, o, value, why, bytes);
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
			if (s->command != COMMAND_REPLAY)
				break;
			/* the file may stand before or after the options */
			if (s->n_rest++)
				return refuse(why, bytes,
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
		return refuse(why, bytes, "%.60s: a second file; give one",
			      argv[i]);
	if (i < argc) {
		s->rest = &argv[i];
		s->n_rest = argc - i;
	}
	return 0;
}

/* ---- configuration file ------------------------------------------------ */

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return text;
}

static int take_line(struct settings *s, char *line, char *why, size_t bytes)
{
	char *value = strchr(line, '=');
	const struct option *o;

	if (value)
		*value++ = '\0';
	line = trim(line);
	o = find_name(line, strlen(line));
	if (!o || !strcmp(o->name, "config"))
		return refuse(why, bytes, "'%.40s' is no option", line);
	/* One file may serve several commands. */
	if (!(o->commands & (1u << s->command)))
		return 0;
	value = value ? trim(value) : "";
	if (o->type == OPTION_FLAG && *value && strcmp(value, "true"))
		return refuse(why, bytes, "'%.40s' is true or absent", line);
	return set_value(s, o, value, why, bytes);
}

static int take_lines(struct settings *s, const char *path, char *why,
		      size_t bytes)
{
	char *save = NULL, detail[160];
	unsigned number = 0;

	/* strsep keeps empty lines, so that the numbers are right */
	save = s->file_text;
	for (char *line; (line = strsep(&save, "\n"));) {
		number++;
		line = trim(line);
		if (!*line || *line == '#')
			continue;
		if (take_line(s, line, detail, sizeof(detail)))
			return refuse(why, bytes,
				      "%.80s: line %u: %s; see moetop help",
				      path, number, detail);
	}
	return 0;
}

static int read_file(const char *path, char **text)
{
	FILE *f = fopen(path, "re");
	char *p = f ? malloc(CONFIG_BYTES_MAX + 1) : NULL;
	size_t n;
	int err = 0;

	if (!p) {
		err = errno ? -errno : -ENOMEM;
		if (f)
			fclose(f);
		return err;
	}
	n = fread(p, 1, CONFIG_BYTES_MAX + 1, f);
	if (ferror(f))
		err = -EIO;
	else if (n > CONFIG_BYTES_MAX)
		err = -EFBIG;
	else if (memchr(p, 0, n))
		err = -EINVAL;
	fclose(f);
	if (err) {
		free(p);
		return err;
	}
	p[n] = '\0';
	*text = p;
	return 0;
}

static int take_file(struct settings *s, const char *path, char *why,
		     size_t bytes)
{
	int err = read_file(path, &s->file_text);

	if (err)
		return refuse(
			why, bytes,
			"%.80s: %s; --config needs a text file of at most "
			"64 KiB",
			path, strerror(-err));
	return take_lines(s, path, why, bytes);
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

static int check_rest(struct settings *s, char *why, size_t bytes)
{
	const char *name = command_name(s->command);

	switch (s->command) {
	case COMMAND_RUN:
		if (!s->n_rest)
			return refuse(why, bytes,
				      "run: no command; give it as moetop run "
				      "-- CMD [ARG]...");
		return 0;
	case COMMAND_REPLAY:
		if (!s->n_rest)
			return refuse(why, bytes,
				      "replay: no recording; give it as moetop "
				      "replay FILE");
		if (s->n_rest > 1)
			return refuse(why, bytes,
				      "%.60s: a second file; give one",
				      s->rest[1]);
		return 0;
	case COMMAND_HELP:
		if (s->n_rest && find_command(s->rest[0], &s->topic))
			return refuse(why, bytes,
				      "%.40s: no such command; see moetop help",
				      s->rest[0]);
		return 0;
	default:
		if (s->n_rest)
			return refuse(why, bytes,
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
		return refuse(why, bytes,
			      "record: nothing to record or nowhere to put it; "
			      "give it as moetop record -p PID -o FILE");
	if (s->headless && !s->listen && !s->json)
		return refuse(why, bytes,
			      "--headless: nobody could see anything; add "
			      "--listen PORT or --json");
	return check_rest(s, why, bytes);
}

int settings_parse(struct settings *s, int argc, char **argv, char *why,
		   size_t why_bytes)
{
	enum command c = COMMAND_VIEW;
	struct settings out;
	int err;

	set_defaults(&out);
	if (argc > 1 && argv[1][0] != '-' && find_command(argv[1], &c))
		return refuse(why, why_bytes,
			      "%.40s: no such command; see moetop help",
			      argv[1]);
	out.command = c;
	if (!settings_commands[c].built)
		return refuse(
			why, why_bytes,
			"%s: not built into this version; see moetop help "
			"for what is",
			settings_commands[c].name);
	err = take_arguments(&out, argc, argv, why, why_bytes);
	if (!err && out.config) {
		const char *path = out.config;

		set_defaults(&out);
		out.command = c;
		err = take_file(&out, path, why, why_bytes);
		if (!err)
			err = take_arguments(&out, argc, argv, why, why_bytes);
	}
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
	free(s->file_text);
	s->file_text = NULL;
}

const char *command_name(enum command c)
{
	return c < COMMANDS ? settings_commands[c].name : "";
}
