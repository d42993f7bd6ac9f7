/* The files of a model: config.json, and what lies beside it. */
#include "target/model_config_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/model_config.h"

static int read_file(const char *path, char **text, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	size_t n = 0, size;
	char *buf;
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (st.st_size > (off_t)MODEL_CONFIG_BYTES_MAX)
		err = -EFBIG;
	if (err) {
		close(fd);
		return err;
	}
	size = (size_t)st.st_size;
	buf = malloc(size + 1);
	while (buf && n < size) {
		ssize_t got = read(fd, buf + n, size - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			err = -errno;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	if (!buf || err) {
		free(buf);
		return err ? err : -ENOMEM;
	}
	*text = buf;
	*bytes = n;
	return 0;
}

/* Where hf_quant_config.json would be: what is before "config.json" in a
 * name stays ("NAME_config.json" has NAME_hf_quant_config.json). */
static bool path_beside(const char *path, char *out, size_t bytes)
{
	static const char tail[] = "config.json";
	const char *slash = strrchr(path, '/');
	size_t n = strlen(path), keep = slash ? (size_t)(slash - path + 1) : 0;

	if (n >= sizeof(tail) - 1 &&
	    strcmp(path + n - (sizeof(tail) - 1), tail) == 0)
		keep = n - (sizeof(tail) - 1);
	return snprintf(out, bytes, "%.*shf_quant_config.json", (int)keep,
			path) < (int)bytes;
}

/* The file's name and its folder's, from the end of the path. */
static const char *last_names(const char *path)
{
	const char *p = path + strlen(path);

	for (unsigned slashes = 0; p > path; p--)
		if (p[-1] == '/' && ++slashes == 2)
			break;
	return p;
}

/* A folder stands for the config in it, in the format of Hugging Face or of
 * Mistral. */
static int path_inside(const char *path, char *out, size_t bytes)
{
	static const char *const names[] = { "config.json", "params.json" };
	size_t n = strlen(path);
	struct stat st;

	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
		return snprintf(out, bytes, "%s", path) < (int)bytes
			       ? 0
			       : -ENAMETOOLONG;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (snprintf(out, bytes, "%s%s%s", path,
			     n && path[n - 1] == '/' ? "" : "/",
			     names[i]) >= (int)bytes)
			return -ENAMETOOLONG;
		if (access(out, F_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

static const char *words_of(int err)
{
	switch (err) {
	case -EINVAL:
		return "not a regular file";
	case -EFBIG:
		return "too large for a config.json";
	default:
		return strerror(-err);
	}
}

int model_config_read(const char *path, struct arch *out, char *why,
		      size_t why_bytes)
{
	char file[4096], beside[4096];
	char *json = NULL, *quant = NULL;
	struct model_config_text in = { .name = "" };
	int err = path_inside(path, file, sizeof(file));

	if (err) {
		snprintf(why, why_bytes, "%s",
			 err == -ENOENT ? "no config.json in this folder"
					: words_of(err));
		return err;
	}
	in.name = last_names(file);
	err = read_file(file, &json, &in.bytes);
	if (err) {
		snprintf(why, why_bytes, "%s", words_of(err));
		return err;
	}
	if (path_beside(file, beside, sizeof(beside)))
		(void)read_file(beside, &quant, &in.quant_bytes);
	in.json = json;
	in.quant = quant;
	err = model_config_named(&in, out, why, why_bytes);
	free(json);
	free(quant);
	return err;
}
