/*
 * places.h - what the kernels around routing leave in device memory
 *
 * Each buffer has a name for args_spec.h and one content, which follows from the
 * ids that the tokens of a step have drawn (-1: padding):
 *
 *	ids ids16 ids64	[rows][k], of 4, 2 and 8 bytes
 *	idsS	[rows][k + S]: fused shared experts E .. E + S - 1 at the end
 *	idsZ	[rows][k + Z]: between them ids of experts without weights
 *	phys	[rows][k]: of physical experts; the first ones have a replica,
 *		which every second pair goes to
 *	counts	int32[E]; sizes int32[E][3], rows first; off32, off64: offsets
 *	blocks	int32: how many blocks of PLACE_TILE rows there are; batch, limit:
 *		int32 of each: its expert, and where its rows end
 *	real	the number of real rows, which the host writes
 */
#ifndef MOETOP_SIM_SERVER_PLACES_H
#define MOETOP_SIM_SERVER_PLACES_H

#include <stddef.h>
#include <stdint.h>

#define PLACE_FUSED 1u
#define PLACE_ZERO_IDS 2u
#define PLACE_ZERO_EXPERTS 32u
#define PLACE_TILE 8u

enum place {
	PLACE_IDS,
	PLACE_IDS16,
	PLACE_IDS64,
	PLACE_IDS_FUSED,
	PLACE_IDS_ZERO,
	PLACE_PHYSICAL,
	PLACE_COUNTS,
	PLACE_SIZES,
	PLACE_OFF32,
	PLACE_OFF64,
	PLACE_BLOCKS,
	PLACE_BATCH,
	PLACE_LIMIT,
	PLACE_REAL,
	PLACES
};

struct places_input {
	const int32_t *ids;     /* [rows][k] */
	const uint32_t *counts; /* of each expert */
	uint32_t rows, k, experts;
};

/* The place of a name, or -1. */
int places_find(const char *name);

/* Experts and their replicas. */
uint32_t places_physical(uint32_t experts);

/* The most bytes that a place of so many rows takes. */
size_t places_bytes(enum place what, uint32_t rows, uint32_t k,
		    uint32_t experts);

/* Write the content to buf, which has room for places_bytes; how many bytes it
 * is, 0 for one that no kernel writes. */
size_t places_fill(enum place what, const struct places_input *in, void *buf);

#endif
