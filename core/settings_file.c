#include "core/settings_parts.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

int settings_read_text(const char *path, char **text)
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
	errno = 0;
	n = fread(p, 1, CONFIG_BYTES_MAX + 1, f);
	if (ferror(f))
		err = errno ? -errno : -EIO;
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

/* ---- one line ---------------------------------------------------------- */

/* Options of other commands are read all the same: a value that is no good is
 * none for any command. */
static int take_line(struct settings *s, char *line,
		     enum settings_origin origin, char *why, size_t bytes)
{
	struct settings elsewhere = { 0 };
	char *value = strchr(line, '=');
	const struct option *o;
	bool mine;
	int err;

	if (value)
		*value++ = '\0';
	line = trim(line);
	o = settings_find(line, strlen(line));
	if (!o || !strcmp(o->name, "config"))
		return settings_refuse(why, bytes, "'%.40s' is no option",
				       line);
	value = value ? trim(value) : "";
	/* one file may serve several commands */
	mine = settings_takes(s->command, o);
	err = settings_put(mine ? s : &elsewhere, o, value, why, bytes);
	if (!err && mine)
		s->origin[settings_index(o)] = (unsigned char)origin;
	return err;
}

struct reader {
	enum settings_origin origin;
	const char *path, *advice;
	/* a line that is no good; false: go on with the next */
	bool (*bad)(void *arg, const char *text);
	void *arg;
};

static int take_lines(struct settings *s, char *text, const struct reader *r)
{
	char why[160], line_why[280];
	unsigned number = 0;
	int bad = 0;

	/* strsep keeps empty lines, so that the numbers are right */
	for (char *line; (line = strsep(&text, "\n"));) {
		number++;
		line = trim(line);
		if (!*line || *line == '#' ||
		    !take_line(s, line, r->origin, why, sizeof(why)))
			continue;
		bad++;
		snprintf(line_why, sizeof(line_why), "%.80s: line %u: %s; %s",
			 r->path, number, why, r->advice);
		if (r->bad(r->arg, line_why))
			break;
	}
	return bad;
}

static char **free_place(struct settings *s)
{
	size_t i = 0;

	while (i + 1 < SETTINGS_FILES && s->file_text[i])
		i++;
	return &s->file_text[i];
}

/* ---- whole files ------------------------------------------------------- */

struct refusal {
	char *why;
	size_t bytes;
};

static bool refuse_line(void *arg, const char *text)
{
	const struct refusal *r = arg;

	snprintf(r->why, r->bytes, "%s", text);
	return true;
}

int settings_read(struct settings *s, const char *path,
		  enum settings_origin origin, char *why, size_t bytes)
{
	struct refusal refusal = { why, bytes };
	const struct reader r = { origin, path, "see moetop help", refuse_line,
				  &refusal };
	char **text = free_place(s);
	int err = settings_read_text(path, text);

	if (err)
		return settings_refuse(
			why, bytes,
			"%.80s: %s; --config needs a text file of at most "
			"64 KiB",
			path, strerror(-err));
	return take_lines(s, *text, &r) ? -EINVAL : 0;
}

static bool count_line(void *arg, const char *text)
{
	struct settings *s = arg;

	if (!s->bad_lines++)
		snprintf(s->first_bad, sizeof(s->first_bad), "%s", text);
	return false;
}

void settings_read_user(struct settings *s)
{
	char path[512];
	const struct reader r = { ORIGIN_USER, path,
				  "left out, see moetop config check",
				  count_line, s };
	char **text = free_place(s);
	int err = settings_user_path(path, sizeof(path));

	if (err)
		return;
	err = settings_read_text(path, text);
	if (!err)
		take_lines(s, *text, &r);
	else if (err != -ENOENT && err != -ENOTDIR) {
		s->bad_lines = 1;
		snprintf(s->first_bad, sizeof(s->first_bad),
			 "%.160s: %s; it must be a text file of at most 64 KiB",
			 path, strerror(-err));
	}
}

int settings_user_path(char *out, size_t bytes)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	/* a relative one is to be ignored, by the XDG base directory rules */
	if (base && *base == '/')
		n = snprintf(out, bytes, "%s/moetop/config", base);
	else if (home && *home == '/')
		n = snprintf(out, bytes, "%s/.config/moetop/config", home);
	else
		return -ENOENT;
	return (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

struct check {
	void (*line)(void *arg, const char *text);
	void *arg;
};

static bool pass_line(void *arg, const char *text)
{
	const struct check *c = arg;

	c->line(c->arg, text);
	return false;
}

int settings_check_file(const char *path,
			void (*line)(void *arg, const char *text), void *arg)
{
	struct check check = { line, arg };
	const struct reader r = { ORIGIN_FILE, path, "see moetop help",
				  pass_line, &check };
	struct settings s;
	int n;

	settings_defaults(&s);
	n = settings_read_text(path, &s.file_text[0]);
	if (!n)
		n = take_lines(&s, s.file_text[0], &r);
	settings_fini(&s);
	return n;
}
