#include "core/set_up.h"

#include "core/settings_parts.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* What a running moetop can change. */
static bool is_live(const struct option *o)
{
	static const char *const live[] = { "interval",    "ascii",
					    "no-color",    "theme",
					    "color-depth", "mouse",
					    "highlight" };

	for (size_t i = 0; i < sizeof(live) / sizeof(*live); i++)
		if (!strcmp(o->name, live[i]))
			return true;
	return false;
}

static const char *origin_name(unsigned origin)
{
	static const char *const names[] = {
		[ORIGIN_DEFAULT] = "default", [ORIGIN_USER] = "own file",
		[ORIGIN_FILE] = "--config",   [ORIGIN_ARGUMENT] = "argument",
		[ORIGIN_CHANGED] = "here",
	};

	return names[origin];
}

static const struct option *option(const struct set_up *s, unsigned i)
{
	return &settings_options[s->index[i]];
}

static void show(struct set_up *s, unsigned i)
{
	struct tui_option *t = &s->options[i];

	settings_get(&s->now, option(s, i), t->value, sizeof(t->value));
	if (option(s, i)->type == OPTION_FLAG && !strcmp(t->value, "false"))
		t->value[0] = '\0';
	t->origin = origin_name(s->now.origin[s->index[i]]);
}

/* What "" means: no text, no flag, a number as the table has it. */
static const char *or_default(const struct option *o, const char *value,
			      char text[32])
{
	if (*value)
		return value;
	if (o->type == OPTION_FLAG)
		return "false";
	snprintf(text, 32, "%.10g", o->init);
	return text;
}

static int put(struct set_up *s, unsigned i, const char *value, char *why,
	       size_t why_bytes)
{
	const struct option *o = option(s, i);
	char text[32];
	int err;

	if (o->type == OPTION_TEXT && !*value) {
		*(const char **)((char *)&s->now + o->offset) = NULL;
		return 0;
	}
	/* no value, where the table has none: 0 is out of range by itself */
	if (!*value &&
	    (o->type == OPTION_NUMBER || o->type == OPTION_INTEGER) &&
	    o->init == 0) {
		memset((char *)&s->now + o->offset, 0,
		       o->type == OPTION_NUMBER ? sizeof(double)
						: sizeof(long));
		return 0;
	}
	if (o->type != OPTION_TEXT)
		return settings_put(&s->now, o, or_default(o, value, text), why,
				    why_bytes);
	if (strlen(value) >= TUI_VALUE_BYTES)
		return settings_refuse(why, why_bytes, "--%s: too long",
				       o->name);
	err = settings_put(&s->now, o, value, why, why_bytes);
	if (err)
		return err;
	snprintf(s->texts[i], TUI_VALUE_BYTES, "%s", value);
	return settings_put(&s->now, o, s->texts[i], why, why_bytes);
}

static int set(void *arg, unsigned i, const char *value, char *why,
	       size_t why_bytes)
{
	struct set_up *s = arg;
	int err = put(s, i, value, why, why_bytes);

	if (err)
		return err;
	s->now.origin[s->index[i]] = ORIGIN_CHANGED;
	show(s, i);
	s->changed(s->arg, &s->now);
	return 0;
}

static int save(void *arg, char *why, size_t why_bytes)
{
	bool which[SETTINGS_OPTIONS_MAX] = { false };
	struct set_up *s = arg;
	char path[512];
	unsigned n = 0;
	int err = settings_user_path(path, sizeof(path));

	if (err)
		return settings_refuse(why, why_bytes,
				       "not saved: %s; set XDG_CONFIG_HOME or "
				       "HOME",
				       strerror(-err));
	for (unsigned i = 0; i < s->tui.n; i++) {
		which[s->index[i]] =
			s->now.origin[s->index[i]] == ORIGIN_CHANGED;
		n += which[s->index[i]];
	}
	if (!n)
		return settings_refuse(why, why_bytes,
				       "nothing was changed; %s is as it was",
				       path);
	err = settings_save(&s->now, which, path);
	if (err) {
		snprintf(why, why_bytes, "%s: %s; nothing is saved", path,
			 strerror(-err));
		return err;
	}
	for (unsigned i = 0; i < s->tui.n; i++) {
		if (which[s->index[i]])
			s->now.origin[s->index[i]] = ORIGIN_USER;
		show(s, i);
	}
	snprintf(why, why_bytes, "saved to %s", path);
	return 0;
}

static void add_options(struct set_up *s, bool live)
{
	for (size_t i = 0; i < settings_n_options; i++) {
		const struct option *o = &settings_options[i];
		unsigned n = s->tui.n;

		if (!settings_kept(o) || is_live(o) != live ||
		    n == TUI_OPTIONS_MAX)
			continue;
		s->index[n] = (unsigned char)i;
		s->options[n] = (struct tui_option){
			.name = o->name,
			.help = o->help,
			.words = o->type == OPTION_FLAG     ? NULL
				 : o->type == OPTION_CHOICE ? o->arg
							    : "",
			.live = live,
		};
		s->tui.n++;
		show(s, n);
	}
}

void set_up_init(struct set_up *s, const struct settings *from,
		 void (*changed)(void *arg, const struct settings *now),
		 void *arg)
{
	*s = (struct set_up){ .now = *from, .changed = changed, .arg = arg };
	s->tui = (struct tui_setup){
		.arg = s, .options = s->options, .set = set, .save = save
	};
	/* what can be seen at once comes first */
	add_options(s, true);
	add_options(s, false);
}

void set_up_interval(struct set_up *s, double interval_s)
{
	s->now.interval = interval_s;
	for (unsigned i = 0; i < s->tui.n; i++)
		if (!strcmp(s->options[i].name, "interval"))
			show(s, i);
}

static bool no_color(const struct settings *s)
{
	const char *asked = getenv("NO_COLOR");

	return s->no_color || (asked && *asked);
}

struct tui_options set_up_options(const struct settings *s, char theme[32])
{
	setlocale(LC_ALL, "");
	/* numbers in files and JSON keep their point */
	setlocale(LC_NUMERIC, "C");
	settings_word("theme", s->theme, theme, 32);
	return (struct tui_options){
		.ascii = s->ascii || strcmp(nl_langinfo(CODESET), "UTF-8"),
		.color = !no_color(s),
		.depth = (enum tui_depth)s->color_depth,
		.theme = theme,
		.no_mouse = s->mouse != 0,
		.no_highlight = s->highlight != 0,
		.screen = (unsigned)s->screen,
	};
}
