/*
 * classify.h - kernel names to classes and small numbers
 *
 * Names are interned by content: CUPTI may hand out the same name behind
 * several pointers, and (before 13.4 U1) a stale pointer for another name.  A
 * new name is classified once with the patterns of wire/kernel_class.def, all
 * later ones cost one hash of the string.
 *
 * One thread.  New names allocate inside regexec; known names never do.
 */
#ifndef MOETOP_CUPTI_CLASSIFY_H
#define MOETOP_CUPTI_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/kernel_class.h"

#define NAMES_MAX 4096u
#define NAME_BYTES_MAX 4096u /* of a mangled name that are looked at */

struct kernel_names; /* opaque, about 200 KB */

/* What is known of one name.  Valid until kernel_names_free. */
struct kernel_name {
	uint64_t hash;
	uint16_t id; /* 0-based; NAMES_MAX for all names after the last */
	uint8_t klass;
	uint32_t marker; /* free for the caller: reduce.c keeps a period here */
};

struct kernel_names *kernel_names_new(void); /* NULL: no memory */
void kernel_names_free(struct kernel_names *n);

/* The entry of this name, made if new; never NULL for a name.  When the table
 * is full, one shared entry of CLASS_OTHER with id NAMES_MAX. */
struct kernel_name *kernel_names_get(struct kernel_names *n, const char *name);

/* The entry of an id that kernel_names_get gave out. */
struct kernel_name *kernel_names_at(struct kernel_names *n, uint16_t id);

size_t kernel_names_count(const struct kernel_names *n);

/* Is this the top-k or routing kernel that opens an MoE layer? */
bool kernel_class_is_anchor(unsigned klass);
/* Can this kernel be the last one of an MoE block?  A class that may also run
 * ahead of a block or after the last layer (router GEMM, top-k and radix sort
 * of the token sampler, activation of a dense layer) cannot. */
bool kernel_class_closes(unsigned klass);
enum kernel_group kernel_class_group(unsigned klass);

#endif
