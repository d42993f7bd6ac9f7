/*
 * recorder.c - files of recorded snapshots
 *
 * RECORDING_MAGIC, then for each snapshot its length as a varint and the
 * message.  A snapshot is written whole or not at all.
 */
#include "exporter/exporter.h"
#include "exporter/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARINT_BYTES_MAX 5u

struct recorder {
	int fd;
	off_t end; /* behind the last whole snapshot */
	struct recording_kept kept;
};

struct player {
	FILE *file;
	uint8_t *buf; /* RECORDING_MESSAGE_MAX bytes */
	struct recording_kept kept;
};

/* ---- writing ------------------------------------------------------------ */

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* 1: empty, a recording of ours, or a pipe or terminal, which have nothing to
 * lose; 0: something else, a disk among it. */
static int replaceable(int fd)
{
	char magic[RECORDING_MAGIC_BYTES];
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISBLK(st.st_mode))
		return 0;
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return 1;
	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       memcmp(magic, RECORDING_MAGIC, sizeof(magic)) == 0;
}

static int start_file(int fd)
{
	int ok = replaceable(fd);

	if (ok < 0)
		return ok;
	if (!ok)
		return -EEXIST;
	/* pipes and devices cannot be cut, and need not be */
	if (ftruncate(fd, 0) && errno != EINVAL)
		return -errno;
	return write_all(fd, (const uint8_t *)RECORDING_MAGIC,
			 RECORDING_MAGIC_BYTES);
}

int recorder_open(struct recorder **out, const char *path, char *why,
		  size_t why_bytes)
{
	struct recorder *r = calloc(1, sizeof(*r));
	int fd = -1, err = r ? 0 : -ENOMEM;

	if (!err) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
		err = fd < 0 ? -errno : start_file(fd);
	}
	if (err) {
		if (err == -EEXIST)
			snprintf(why, why_bytes,
				 "%s: exists and is no recording; choose "
				 "another name",
				 path);
		else
			snprintf(why, why_bytes,
				 "%s: %s; choose a file that can be written",
				 path, strerror(-err));
		if (fd >= 0)
			close(fd);
		free(r);
		return err;
	}
	r->fd = fd;
	r->end = RECORDING_MAGIC_BYTES;
	*out = r;
	return 0;
}

static size_t varint(uint8_t *out, size_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		out[n++] = (uint8_t)(v | 0x80);
	out[n++] = (uint8_t)v;
	return n;
}

int recorder_write(struct recorder *r, const struct snapshot *s)
{
	uint8_t *message, head[VARINT_BYTES_MAX];
	size_t bytes, n;
	int err = recording_pack(&r->kept, s, &message, &bytes);

	if (err)
		return err;
	n = varint(head, bytes);
	err = write_all(r->fd, head, n);
	if (!err)
		err = write_all(r->fd, message, bytes);
	if (!err) {
		r->end += (off_t)(n + bytes);
		recording_keep(&r->kept, s);
	} else if (ftruncate(r->fd, r->end) == 0) {
		lseek(r->fd, r->end, SEEK_SET);
	}
	free(message);
	return err;
}

int recorder_close(struct recorder *r)
{
	int err = 0;

	if (!r)
		return 0;
	if (close(r->fd))
		err = -errno;
	free(r);
	return err;
}

/* ---- reading ------------------------------------------------------------ */

static int player_start(struct player *p, const char *path)
{
	char magic[RECORDING_MAGIC_BYTES];
	size_t n;

	p->buf = malloc(RECORDING_MESSAGE_MAX);
	if (!p->buf)
		return -ENOMEM;
	p->file = fopen(path, "re");
	if (!p->file)
		return -errno;
	n = fread(magic, 1, sizeof(magic), p->file);
	if (ferror(p->file))
		return -errno;
	if (n != sizeof(magic) || memcmp(magic, RECORDING_MAGIC, n) != 0)
		return -EBADMSG;
	return 0;
}

int player_open(struct player **out, const char *path, char *why,
		size_t why_bytes)
{
	struct player *p = calloc(1, sizeof(*p));
	int err = p ? player_start(p, path) : -ENOMEM;

	if (!err) {
		*out = p;
		return 0;
	}
	if (err == -EBADMSG)
		snprintf(why, why_bytes,
			 "%s: not a recording; make one with moetop record",
			 path);
	else
		snprintf(why, why_bytes,
			 "%s: %s; name a file that moetop record made", path,
			 strerror(-err));
	player_close(p);
	return err;
}

/* 1 and *out, 0 at the end of the file, -EBADMSG, -EIO. */
static int read_length(FILE *f, size_t *out)
{
	size_t v = 0;

	for (unsigned i = 0; i < VARINT_BYTES_MAX; i++) {
		int c = getc(f);

		if (c == EOF && ferror(f))
			return -EIO;
		if (c == EOF)
			return i ? -EBADMSG : 0;
		v |= (size_t)(c & 0x7f) << (7 * i);
		if (!(c & 0x80)) {
			*out = v;
			return v <= RECORDING_MESSAGE_MAX ? 1 : -EBADMSG;
		}
	}
	return -EBADMSG;
}

int player_next(struct player *p, struct snapshot *s)
{
	size_t bytes;
	int err = read_length(p->file, &bytes);

	if (err <= 0)
		return err;
	if (fread(p->buf, 1, bytes, p->file) != bytes)
		return ferror(p->file) ? -EIO : -EBADMSG;
	err = recording_unpack(&p->kept, p->buf, bytes, s);
	if (err)
		return err;
	recording_keep(&p->kept, s);
	return 1;
}

void player_close(struct player *p)
{
	if (!p)
		return;
	if (p->file)
		fclose(p->file);
	free(p->buf);
	free(p);
}
