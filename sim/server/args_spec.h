/*
 * args_spec.h - arguments of a kernel, spelled in a sequence file
 *
 * '@' and items apart by commas, in the order of the kernel's parameters:
 *
 *	8ids	a parameter of 8 bytes (or 4, 2, 1) that holds the value ids
 *	trows	an integer of a Triton kernel: 4 bytes, not passed when it is 1
 *	8>ids	a pointer, and the kernel writes what belongs there
 *	scratch	the two pointers that Triton appends
 *
 * One struct by value is '@sBYTES' and items with the byte where each lies, as
 * 8>batch:48; the rest of it is 0.
 *
 * Values are numbers of the launch (rows, k, E, ...), the literals of value
 * names below, or pointers to buffers.  What a buffer holds is in places.h.
 */
#ifndef MOETOP_SIM_SERVER_ARGS_SPEC_H
#define MOETOP_SIM_SERVER_ARGS_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/places.h"

struct kernel_args; /* kernels.h */

#define SPEC_ITEMS_MAX 32u
#define SPEC_STRUCT_MAX 248u

enum spec_number {
	NUMBER_NULL,
	NUMBER_ZERO,
	NUMBER_ONE,
	NUMBER_MINUS_ONE,
	NUMBER_ROWS,
	NUMBER_K,
	NUMBER_WIDE_K, /* with fused shared experts */
	NUMBER_ZERO_K, /* with experts without weights */
	NUMBER_EXPERTS,
	NUMBER_EXPERTS_1, /* and one more bucket */
	NUMBER_WIDE,      /* with experts without weights */
	NUMBER_PHYSICAL,  /* with replicas */
	NUMBER_PAIRS,
	NUMBER_WIDE_PAIRS, /* rows x (k + S) */
	NUMBER_ZERO_PAIRS,
	NUMBER_BLOCK,
	NUMBER_TILE,
	NUMBER_HIDDEN,
	NUMBER_SOME, /* a pointer that nothing looks at */
	SPEC_NUMBERS
};

struct spec_item {
	uint8_t bytes;
	bool triton, store, pointer;
	uint8_t value;   /* enum spec_number, or enum place where pointer */
	uint16_t offset; /* in the struct */
};

struct args_spec {
	unsigned n;
	uint16_t struct_bytes; /* 0: parameters one by one */
	struct spec_item item[SPEC_ITEMS_MAX];
};

/* What values depend on. */
struct spec_call {
	uint32_t rows, k, experts, hidden;
	uint64_t place[PLACES]; /* addresses of the buffers */
};

/* text without '@'.  0 or -EINVAL. */
int spec_parse(const char *text, struct args_spec *out);

void spec_args(const struct args_spec *s, const struct spec_call *c,
	       struct kernel_args *out);

/* The struct: s->struct_bytes of them. */
void spec_struct(const struct args_spec *s, const struct spec_call *c,
		 uint8_t *out);

/* Call fn for each buffer that the kernel writes, with its address as params
 * hold it. */
void spec_stores(const struct args_spec *s, const struct spec_call *c,
		 void *const *params,
		 void (*fn)(void *arg, enum place what, uint64_t address),
		 void *arg);

#endif
