#include "core/bundle.h"
#include "core/bundle_parts.h"
#include "core/say.h"
#include "core/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "moetop-bundle/"

struct bundle {
	FILE *file;
	char path[PATH_MAX];
	bool whole;
	struct scrub *scrub;
	uint64_t unix_s;
};

static const char readme[] =
	"What moetop collected for a bug report: nothing has been sent.\n"
	"\n"
	"doctor.json     what moetop doctor says\n"
	"snapshots.json  a few lines of moetop --json\n"
	"kernels.txt     time by class of kernel; their names stay in the "
	"server\n"
	"processes.txt   chosen fields of /proc/PID/status\n"
	"versions.txt    of moetop, kernel, C library, driver, engine\n"
	"\n"
	"Replaced in all of them: values of environment variables, keys, names "
	"of hosts\n"
	"and users, addresses, folders of paths. Please look through it before "
	"you\n"
	"send it.\n";

int bundle_open(struct bundle **out, const char *path)
{
	int fd =
		open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		     0600);
	struct bundle *b;

	if (fd < 0)
		return say(status_of(-errno), "--bundle: %s: %s; %s", path,
			   strerror(errno),
			   errno == EEXIST ? "remove it, or name another file"
					   : "name a file that can be made");
	b = calloc(1, sizeof(*b));
	if (b)
		b->scrub = scrub_new();
	if (!b || !b->scrub || !(b->file = fdopen(fd, "w"))) {
		close(fd);
		unlink(path);
		if (b)
			scrub_free(b->scrub);
		free(b);
		return say(STATUS_RUNTIME, "--bundle: no memory; free some");
	}
	snprintf(b->path, sizeof(b->path), "%s", path);
	b->unix_s = (uint64_t)time(NULL);
	*out = b;
	return STATUS_OK;
}

/* ---- scrubbed parts ------------------------------------------------------- */

static int add_text(struct bundle *b, const char *name, const char *text)
{
	char full[64], *clean = scrub_text(b->scrub, text);
	int err = -ENOMEM;

	snprintf(full, sizeof(full), FOLDER "%s", name);
	if (clean)
		err = tar_add(b->file, full, clean, strlen(clean), b->unix_s);
	free(clean);
	return err;
}

/* Every string in it; keys are those of the contract. */
static int scrub_json(const struct scrub *s, json_t *v)
{
	const char *key;
	size_t i;
	json_t *child;
	void *save;
	int err = 0;

	if (json_is_string(v)) {
		char *clean = scrub_text(s, json_string_value(v));

		err = clean ? json_string_set_nocheck(v, clean) : -1;
		free(clean);
		return err;
	}
	json_array_foreach(v, i, child) err |= scrub_json(s, child);
	json_object_foreach_safe(v, save, key, child) err |=
		scrub_json(s, child);
	return err;
}

/* Lines of JSON, each scrubbed; one that is no JSON is left out. */
static int add_json(struct bundle *b, const char *name, char *lines)
{
	char full[64], *out = NULL, *save = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&out, &bytes);
	int err = f ? 0 : -ENOMEM;

	for (char *l = strtok_r(lines, "\n", &save); l && !err;
	     l = strtok_r(NULL, "\n", &save)) {
		json_t *v = json_loads(l, 0, NULL);

		if (v && scrub_json(b->scrub, v))
			err = -ENOMEM;
		else if (v && json_dumpf(v, f, JSON_COMPACT) == 0)
			fputc('\n', f);
		json_decref(v);
	}
	snprintf(full, sizeof(full), FOLDER "%s", name);
	if (f && fclose(f))
		err = -ENOMEM;
	if (!err)
		err = tar_add(b->file, full, out, bytes, b->unix_s);
	free(out);
	return err;
}

static int add_doctor(struct bundle *b, const struct doctor *d, unsigned asked)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int err;

	if (!f)
		return -ENOMEM;
	err = doctor_print_json(d, asked, f);
	if (fclose(f))
		err = -ENOMEM;
	if (!err)
		err = add_json(b, "doctor.json", text);
	free(text);
	return err;
}

/* A part that is made as text by fn. */
static int add_part(struct bundle *b, const struct doctor *d, const char *name,
		    void (*fn)(const struct doctor *d, FILE *f), bool json)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int err = 0;

	if (!f)
		return -ENOMEM;
	fn(d, f);
	if (fclose(f))
		err = -ENOMEM;
	if (!err)
		err = json ? add_json(b, name, text) : add_text(b, name, text);
	free(text);
	return err;
}

int bundle_write(struct bundle *b, const struct doctor *d, unsigned asked,
		 int status)
{
	int err;

	bundle_words(b->scrub, d);
	err = add_text(b, "README.txt", readme);
	if (!err)
		err = add_doctor(b, d, asked);
	if (!err)
		err = add_part(b, d, "versions.txt", bundle_versions, false);
	if (!err && d->target)
		err = add_part(b, d, "processes.txt", bundle_processes, false);
	if (!err && d->target)
		err = add_part(b, d, "kernels.txt", bundle_kernels, false);
	if (!err && d->target)
		err = add_part(b, d, "snapshots.json", bundle_snapshots, true);
	if (!err)
		err = tar_end(b->file);
	if (!err && fsync(fileno(b->file)))
		err = -errno;
	if (err)
		return say(status_of(err),
			   "--bundle: %s: %s; free some space, or write "
			   "elsewhere",
			   b->path, strerror(-err));
	b->whole = true;
	return status;
}

void bundle_close(struct bundle *b)
{
	if (!b)
		return;
	if (fclose(b->file) || !b->whole)
		unlink(b->path);
	scrub_free(b->scrub);
	free(b);
}
