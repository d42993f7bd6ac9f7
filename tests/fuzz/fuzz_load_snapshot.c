/* fuzz_load_snapshot.c - any bytes as SGLang's shared load */
#include "target/load_snapshot.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const uint8_t *data, size_t bytes)
{
	struct load_snapshot s = { .running = -1 };
	int err = load_snapshot_parse(data, bytes, &s);

	if (err ? s.running >= 0 : !(s.running >= 0) || isinf(s.running))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	size_t room = bytes + 16;
	uint8_t *image = calloc(1, room);

	if (!image)
		return 0;
	check(data, bytes);
	/* the same as the one slot of a file that is in order */
	memcpy(image, "SLNS\2\0\1\0", 8);
	image[8] = (uint8_t)(bytes + 4);
	image[9] = (uint8_t)((bytes + 4) >> 8);
	image[12] = (uint8_t)bytes;
	image[13] = (uint8_t)(bytes >> 8);
	memcpy(image + 16, data, bytes);
	check(image, room);
	free(image);
	return 0;
}
