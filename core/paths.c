#include "core/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGENT_FILE "libmoetop-agent.so"

/* The folder of this program, absolute. */
static int own_folder(char *out, size_t bytes)
{
	ssize_t n = readlink("/proc/self/exe", out, bytes - 1);
	char *slash;

	if (n < 0)
		return -errno;
	out[n] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	return 0;
}

static int absolute(const char *path, char *out, size_t bytes)
{
	char full[PATH_MAX];

	if (!realpath(path, full) || access(full, R_OK))
		return -ENOENT;
	if ((size_t)snprintf(out, bytes, "%s", full) >= bytes)
		return -ENAMETOOLONG;
	return 0;
}

/* The first of the folders, relative to this program, that has the file. */
static int find(const char *const *folders, const char *name, char *out,
		size_t bytes)
{
	char folder[PATH_MAX], path[2 * PATH_MAX];
	int err = own_folder(folder, sizeof(folder));

	if (err)
		return err;
	for (; *folders; folders++) {
		snprintf(path, sizeof(path), "%s/%s/%s", folder, *folders,
			 name);
		if (!absolute(path, out, bytes))
			return 0;
	}
	return -ENOENT;
}

int path_agent(const char *given, char *out, size_t bytes)
{
	static const char *const folders[] = { ".", "../lib/moetop", "../lib",
					       NULL };
	int err = given ? absolute(given, out, bytes)
			: find(folders, AGENT_FILE, out, bytes);

	if (err)
		snprintf(out, bytes, "%s", given ? given : AGENT_FILE);
	return err;
}

int path_sim(const char *name, char *out, size_t bytes)
{
	static const char *const folders[] = { "sim", "../lib/moetop/sim",
					       "../sim", "../../sim", NULL };

	return find(folders, name, out, bytes);
}
