#include "target/inject_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_BYTES_MAX ((size_t)64 << 20)

static int grow(struct maps *m, size_t *room)
{
	size_t more = *room ? *room * 2 : 65536;
	char *text;

	if (more > MAPS_BYTES_MAX)
		return -E2BIG;
	text = realloc(m->text, more);
	if (!text)
		return -ENOMEM;
	m->text = text;
	*room = more;
	return 0;
}

int maps_read(pid_t pid, struct maps *m)
{
	struct maps got = { 0 };
	size_t room = 0;
	char path[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	for (;;) {
		ssize_t n;

		if (room - got.bytes < 2)
			err = grow(&got, &room);
		if (err)
			break;
		n = read(fd, got.text + got.bytes, room - got.bytes - 1);
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		got.bytes += (size_t)n;
	}
	close(fd);
	if (err) {
		free(got.text);
		return err;
	}
	got.text[got.bytes] = '\0';
	*m = got;
	return 0;
}

void maps_free(struct maps *m)
{
	free(m->text);
	*m = (struct maps){ 0 };
}

/* start-end perms offset device inode [path] */
static bool parse(const char *line, const char *end, struct map *out)
{
	unsigned long long start, stop, offset, inode;
	char perms[8];
	int used = 0;
	struct map m = { 0 };

	if (sscanf(line, "%llx-%llx %7s %llx %*s %llu%n", &start, &stop, perms,
		   &offset, &inode, &used) != 5 ||
	    line + used > end || stop <= start || strlen(perms) < 4)
		return false;
	m.start = start;
	m.end = stop;
	m.offset = offset;
	m.inode = inode;
	m.readable = perms[0] == 'r';
	m.writable = perms[1] == 'w';
	m.executable = perms[2] == 'x';
	line += used;
	while (line < end && *line == ' ')
		line++;
	m.path = line;
	m.path_bytes = (size_t)(end - line);
	*out = m;
	return true;
}

bool maps_next(const struct maps *m, size_t *place, struct map *out)
{
	while (*place < m->bytes) {
		const char *line = m->text + *place;
		const char *end = memchr(line, '\n', m->bytes - *place);

		if (!end)
			end = m->text + m->bytes;
		*place = (size_t)(end - m->text) + 1;
		if (parse(line, end, out))
			return true;
	}
	return false;
}

size_t map_name(const struct map *m, const char **name)
{
	static const char deleted[] = " (deleted)";
	size_t n = m->path_bytes, cut = sizeof(deleted) - 1;
	const char *slash = n ? memrchr(m->path, '/', n) : NULL;

	if (n > cut && !memcmp(m->path + n - cut, deleted, cut))
		n -= cut;
	*name = slash ? slash + 1 : m->path;
	return n > (size_t)(*name - m->path) ? n - (size_t)(*name - m->path)
					     : 0;
}

bool map_is(const struct map *m, const char *name)
{
	size_t want = strlen(name), n;
	const char *p;

	n = map_name(m, &p);
	return n >= want && !memcmp(p, name, want) &&
	       (n == want || p[want] == '.' || p[want] == '-');
}
