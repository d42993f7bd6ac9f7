#include "core/counters_library.h"
#include "core/trusted.h"
#include "target/inject_maps.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Does the process see the same files as we do? */
static bool same_files(pid_t pid)
{
	struct stat theirs, ours;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
	return !stat(path, &theirs) && !stat("/proc/self/ns/mnt", &ours) &&
	       theirs.st_ino == ours.st_ino;
}

/* The file of a library that a process has mapped: 0, -ENOENT, or -EPERM for one
 * that is not to be trusted.  out has PATH_MAX bytes. */
static int find_library(pid_t pid, const char *name, char *out)
{
	char path[PATH_MAX];
	struct maps maps;
	struct map map;
	size_t place = 0;
	int err = maps_read(pid, &maps);

	if (err)
		return err;
	err = -ENOENT;
	while (err == -ENOENT && maps_next(&maps, &place, &map)) {
		if (!map_is(&map, name) || map.path_bytes >= sizeof(path))
			continue;
		snprintf(path, sizeof(path), "%.*s", (int)map.path_bytes,
			 map.path);
		err = same_files(pid) && trusted_file(path, out) ? 0 : -EPERM;
	}
	maps_free(&maps);
	return err;
}

/* One of this machine's own. */
static int find_installed(char *out)
{
	static const char *const paths[] = {
		"/usr/local/cuda/lib64/libcupti.so",
		"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (trusted_file(paths[i], out))
			return 0;
	return -ENOENT;
}

int counters_library_find(const struct target *t, char *cupti, char *cuda)
{
	const char *named = getenv("MOETOP_CUPTI");
	int err = -ENOENT;

	cuda[0] = '\0';
	for (unsigned i = 0; t && i < t->n_ranks && err; i++) {
		const struct target_rank *r = &t->ranks[i];

		/* a simulated GPU has no other */
		if (r->simulated && find_library(r->pid, "libcuda", cuda))
			cuda[0] = '\0';
		err = find_library(r->pid, "libcupti", cupti);
	}
	if (named) {
		snprintf(cupti, PATH_MAX, "%s", named);
		return 0;
	}
	return err && find_installed(cupti) ? err : 0;
}

const char *counters_library_why(int err)
{
	return err == -EPERM ? "PM sampling: the server's libcupti is not to "
			       "be trusted: another user, or a container, "
			       "could have written it"
			     : "PM sampling: no libcupti on this machine";
}
