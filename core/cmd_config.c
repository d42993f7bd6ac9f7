/*
 * The file of options: whether every line of it is good, and what holds in the
 * end with where it came from.
 */
#include "core/commands.h"
#include "core/say.h"
#include "core/settings_parts.h"

#include <errno.h>
#include <string.h>

static void say_line(void *arg, const char *text)
{
	(void)arg;
	say(STATUS_USAGE, "%s", text);
}

static int check(const char *named)
{
	char own[512] = "";
	const char *path = named ? named : own;
	int n = named ? 0 : settings_user_path(own, sizeof(own));

	if (n)
		return say(STATUS_RUNTIME,
			   "config: %s; set XDG_CONFIG_HOME or HOME, or name "
			   "the file",
			   strerror(-n));
	n = settings_check_file(path, say_line, NULL);
	if (n == -ENOENT && !named) {
		printf("%s: not there, every option has its default\n", path);
		return STATUS_OK;
	}
	if (n < 0)
		return say(STATUS_USAGE,
			   "%s: %s; name a text file of at most 64 KiB", path,
			   strerror(-n));
	if (!n)
		printf("%s: good\n", path);
	return n ? STATUS_USAGE : STATUS_OK;
}

static const char *origin_name(const struct settings *s, size_t i,
			       const char *own)
{
	switch ((enum settings_origin)s->origin[i]) {
	case ORIGIN_USER:
		return own;
	case ORIGIN_FILE:
		return s->config;
	case ORIGIN_ARGUMENT:
		return "argument";
	case ORIGIN_CHANGED:
	case ORIGIN_DEFAULT:
		break;
	}
	return "default";
}

static int show(const struct settings *s)
{
	char own[512] = "", value[256];

	if (settings_user_path(own, sizeof(own)))
		own[0] = '\0';
	for (size_t i = 0; i < settings_n_options; i++) {
		const struct option *o = &settings_options[i];

		if (!settings_kept(o))
			continue;
		settings_get(s, o, value, sizeof(value));
		printf("%-16s %-20s %s\n", o->name, value[0] ? value : "-",
		       origin_name(s, i, own));
	}
	return STATUS_OK;
}

int cmd_config(const struct settings *s)
{
	if (!strcmp(s->rest[0], "check"))
		return check(s->n_rest > 1 ? s->rest[1] : NULL);
	return show(s);
}
