/*
 * inject_maps.h - the mappings of a process: /proc/PID/maps
 */
#ifndef MOETOP_TARGET_INJECT_MAPS_H
#define MOETOP_TARGET_INJECT_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct maps {
	char *text; /* NUL-terminated */
	size_t bytes;
};

struct map {
	uint64_t start, end, offset, inode;
	bool readable, writable, executable;
	const char *path; /* into struct maps, not terminated; "" none */
	size_t path_bytes;
};

/* 0 or -errno (-ESRCH, -EACCES, -E2BIG above 64 MiB); *m is unchanged then. */
int maps_read(pid_t pid, struct maps *m);
void maps_free(struct maps *m);

/* The mapping at *place (0 at first), which moves on.  false: no more.  Lines
 * that make no sense are passed over. */
bool maps_next(const struct maps *m, size_t *place, struct map *out);

/* The file's name without folders and without " (deleted)". */
size_t map_name(const struct map *m, const char **name);

/* Is the name `name`, or name followed by '.' or '-' and more ("libc" for
 * libc.so.6 and libc-2.31.so)? */
bool map_is(const struct map *m, const char *name);

#endif
