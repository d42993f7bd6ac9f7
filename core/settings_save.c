#include "core/settings_parts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the new text ------------------------------------------------------ */

/* The option that a line of the file is about; NULL for comments and for what
 * is no option. */
static const struct option *option_of(const char *line, size_t bytes)
{
	const char *end = memchr(line, '=', bytes);

	end = end ? end : line + bytes;
	while (line < end && isspace((unsigned char)*line))
		line++;
	while (end > line && isspace((unsigned char)end[-1]))
		end--;
	return *line == '#' ? NULL : settings_find(line, (size_t)(end - line));
}

static void put_option(FILE *f, const struct settings *s,
		       const struct option *o)
{
	char value[256];

	settings_get(s, o, value, sizeof(value));
	/* what has no value cannot be said but by leaving it out */
	if (value[0])
		fprintf(f, "%s = %s\n", o->name, value);
}

/* A name that stands twice: the last line holds, so that one is changed and
 * the others stay. */
static bool stands_again(const char *rest, const struct option *o)
{
	while (*rest) {
		size_t n = strcspn(rest, "\n");

		if (option_of(rest, n) == o)
			return true;
		rest += n + (rest[n] == '\n');
	}
	return false;
}

static void write_text(FILE *f, const struct settings *s, const bool *which,
		       const char *old)
{
	bool done[SETTINGS_OPTIONS_MAX] = { false };

	while (*old) {
		size_t n = strcspn(old, "\n");
		const struct option *o = option_of(old, n);
		const char *next = old + n + (old[n] == '\n');

		if (o && which[settings_index(o)] && !stands_again(next, o)) {
			put_option(f, s, o);
			done[settings_index(o)] = true;
		} else {
			fprintf(f, "%.*s\n", (int)n, old);
		}
		old = next;
	}
	for (size_t i = 0; i < settings_n_options; i++)
		if (which[i] && !done[i])
			put_option(f, s, &settings_options[i]);
}

/* ---- the file ---------------------------------------------------------- */

/* Every directory above the file. */
static int make_directories(const char *path)
{
	char dir[PATH_MAX];

	if (snprintf(dir, sizeof(dir), "%s", path) >= (int)sizeof(dir))
		return -ENAMETOOLONG;
	for (char *p = dir + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(dir, 0700) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

/* A link stays one: what it leads to is replaced. */
static int resolve(const char *path, char out[PATH_MAX])
{
	if (realpath(path, out))
		return 0;
	if (errno != ENOENT)
		return -errno;
	return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX ? 0
							      : -ENAMETOOLONG;
}

/* A file that is replaced stays its owner's, who may be another one than he who
 * saves (sudo), as far as that is allowed; its mode is not up to our umask. */
static void keep_owner(int fd, const struct stat *before)
{
	(void)!fchown(fd, before->st_uid, before->st_gid);
	(void)!fchmod(fd, before->st_mode & 0777);
}

/* before: of the file that is replaced, NULL: there is none. */
static int write_file(const struct settings *s, const bool *which,
		      const char *old, const char *path,
		      const struct stat *before)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
	int err = 0;

	if (!f) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	if (before)
		keep_owner(fd, before);
	write_text(f, s, which, old);
	errno = 0;
	if (fflush(f) || ferror(f) || fsync(fd))
		err = errno ? -errno : -EIO;
	if (fclose(f) && !err)
		err = errno ? -errno : -EIO;
	return err;
}

int settings_save(const struct settings *s, const bool *which, const char *path)
{
	char target[PATH_MAX], temporary[PATH_MAX + 32], *old = NULL;
	struct stat before;
	bool there;
	int err = make_directories(path);

	if (!err)
		err = resolve(path, target);
	if (err)
		return err;
	there = !stat(target, &before);
	err = settings_read_text(target, &old);
	if (err && err != -ENOENT)
		return err;
	snprintf(temporary, sizeof(temporary), "%s.%d.new", target,
		 (int)getpid());
	err = write_file(s, which, old ? old : "", temporary,
			 there ? &before : NULL);
	if (!err && rename(temporary, target))
		err = -errno;
	if (err && err != -EEXIST)
		unlink(temporary);
	free(old);
	return err;
}
