/*
 * inject_image.h - the library that is to be loaded, as a file's content
 */
#ifndef MOETOP_TARGET_INJECT_IMAGE_H
#define MOETOP_TARGET_INJECT_IMAGE_H

#include "target/inject.h"

#include <stdint.h>

/* The pages of the file that hold its boot code. */
struct boot_code {
	uint64_t offset; /* in the file, a multiple of the page size */
	uint64_t bytes;  /* a multiple of the page size; may end behind it */
	uint64_t enter;  /* of the borrowed thread, from offset */
};

/* 0, or -EINVAL when the image is no library of this machine with boot code of
 * our version and InitializeInjection. */
int image_find_boot(const struct inject_image *image, struct boot_code *out);

#endif
