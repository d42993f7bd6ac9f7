/*
 * fuzz_maps.c - any bytes as lines of /proc/PID/maps
 */
#include "target/inject_maps.h"
#include "target/version.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *line = malloc(bytes + 1), dir[PATH_MAX];
	const struct maps maps = { .text = line, .bytes = bytes };
	const char *name;
	struct map map;
	size_t place = 0;

	memcpy(line, data, bytes);
	line[bytes] = '\0';
	while (maps_next(&maps, &place, &map))
		if (map.path_bytes &&
		    (map.path < line ||
		     map.path + map.path_bytes > line + bytes ||
		     map_name(&map, &name) > map.path_bytes))
			abort();
	for (char *save = NULL, *l = strtok_r(line, "\n", &save); l;
	     l = strtok_r(NULL, "\n", &save))
		if (version_packages(l, dir, sizeof(dir)) == 0 &&
		    (dir[0] != '/' || !strstr(dir, "-packages")))
			abort();
	free(line);
	return 0;
}
