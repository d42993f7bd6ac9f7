#include "target/server_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES (192 << 10)
#define TAIL_BYTES (64 << 10)

static void take_lines(const char *text, size_t bytes, struct log_facts *f)
{
	const char *end = text + bytes;

	while (text < end) {
		const char *eol = memchr(text, '\n', (size_t)(end - text));
		const char *stop = eol ? eol : end;

		log_line_read(text, (size_t)(stop - text), f);
		text = stop + 1;
	}
}

static ssize_t read_part(int fd, char *buf, size_t room, off_t at)
{
	size_t n = 0;
	ssize_t got = 1;

	while (n < room && got > 0) {
		got = pread(fd, buf + n, room - n, at + (off_t)n);
		n += got > 0 ? (size_t)got : 0;
	}
	return got < 0 ? -errno : (ssize_t)n;
}

static int take_file(int fd, off_t size, struct log_facts *f)
{
	char *buf = malloc(HEAD_BYTES);
	ssize_t n = buf ? read_part(fd, buf, HEAD_BYTES, 0) : -ENOMEM;
	off_t tail = size - TAIL_BYTES;

	if (n > 0)
		take_lines(buf, (size_t)n, f);
	if (n > 0 && tail > 0) {
		if (tail < HEAD_BYTES)
			tail = HEAD_BYTES;
		n = read_part(fd, buf, TAIL_BYTES, tail);
		if (n > 0)
			take_lines(buf, (size_t)n, f);
	}
	free(buf);
	return n < 0 ? (int)n : 0;
}

/* Looked at before it is opened: opening a device or a pipe may do something. */
static int open_log(pid_t pid, int number, struct stat *st)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, number);
	if (stat(path, st))
		return -errno;
	if (!S_ISREG(st->st_mode) || st->st_size == 0)
		return -ENOENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int server_log_read(pid_t pid, struct log_facts *out)
{
	struct stat first = { 0 }, st;
	struct log_facts f;
	int err = -ENOENT;

	log_facts_init(&f);
	for (int number = 1; number <= 2; number++) {
		int fd = open_log(pid, number, &st);

		if (fd < 0) {
			err = err && fd == -EACCES ? fd : err;
			continue;
		}
		/* both go to one file, as a rule */
		if (!first.st_ino || st.st_ino != first.st_ino ||
		    st.st_dev != first.st_dev)
			err = take_file(fd, st.st_size, &f) && err ? err : 0;
		first = st;
		close(fd);
	}
	if (!err)
		*out = f;
	return err;
}

static void add(struct launch *l, enum launch_id id, const char *value)
{
	const char *old = launch_find(l, id);
	char text[64];

	if (!value[0] || (old && strcmp(old, "auto") != 0))
		return;
	snprintf(text, sizeof(text), "%.40s (log)", value);
	launch_set(l, id, text);
}

void server_log_add(const struct log_facts *f, struct cmdline *c)
{
	struct launch read = { 0 };
	char sizes[sizeof(f->sizes) + 8];

	add(&c->launch, LAUNCH_MOE_BACKEND, f->moe_backend);
	add(&c->launch, LAUNCH_ATTENTION, f->attention_backend);
	if (f->sizes[0]) {
		snprintf(sizes, sizeof(sizes), "%s%s", f->sizes,
			 f->sizes_cut ? "..." : "");
		launch_set_sizes(&read, sizes);
		add(&c->launch, LAUNCH_CAPTURE,
		    launch_find(&read, LAUNCH_CAPTURE));
		if (!c->launch.capture_max)
			c->launch.capture_max = read.capture_max;
	}
	if (!c->version[0] && strcmp(f->engine, c->engine) == 0)
		snprintf(c->version, sizeof(c->version), "%s", f->version);
	if (!c->model[0])
		snprintf(c->model, sizeof(c->model), "%s", f->model);
}
