/*
 * adapters.h - launches of routing kernels, and what their arguments say
 *
 * cupti/row_adapters.def lists the kernels whose argument order is known.  A
 * launch callback copies the raw arguments of such a kernel; what they mean is
 * worked out later, after the parameter sizes have been compared with what the
 * driver says about the function.
 */
#ifndef MOETOP_CUPTI_ADAPTERS_H
#define MOETOP_CUPTI_ADAPTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/library.h"

#define LAUNCH_ARGS 12u     /* leading parameters that are looked at */
#define FUNCTIONS_MAX 4096u /* a power of two */

enum { /* in place of an argument's position */
       ARG_GRID_X = -1,
       ARG_ONE = -2,
};

struct row_adapter {
	const char *name;    /* part of the mangled name */
	const char *sizes;   /* of the leading parameters */
	int8_t ids;          /* position of the pointer to the ids */
	int8_t rows;         /* M, padding included */
	int8_t k;            /* 0: not among the arguments */
	int8_t experts;      /* E, or end of the range; 0: not there */
	int8_t first_expert; /* start of the range; 0: not there */
	int8_t numel;        /* rows x k, of an alignment kernel */
	uint8_t extra;       /* buckets that `experts` counts beyond E */
	bool align;          /* an alignment kernel */
	bool typed;          /* the index type is a template argument */
};

/* Raw arguments of one launch. */
struct launch {
	uint64_t arg[LAUNCH_ARGS];
	uint32_t args; /* how many were read; 0: none could be */
	uint32_t correlation;
	uint32_t grid_x;
	uint32_t function; /* index in struct functions */
};

/* What a routing kernel was launched with. */
struct moe_launch {
	uint64_t ids;     /* device address of int[rows][k] */
	uint32_t rows;    /* M, padding included */
	uint32_t k;       /* 0 unknown */
	uint32_t experts; /* 0 unknown */
	uint8_t id_bytes; /* 4 or 8 */
};

enum function_state {
	FUNCTION_FREE,
	FUNCTION_PLAIN,   /* no adapter for this name */
	FUNCTION_PENDING, /* a name of the table, sizes not compared yet */
	FUNCTION_READY,
	FUNCTION_REFUSED, /* the sizes fit no row */
};

struct function {
	_Atomic(void *) handle; /* CUfunction or CUkernel */
	_Atomic int state;
	uint8_t family;  /* index of the first row of this name */
	uint8_t adapter; /* the row, once READY */
	uint8_t args;    /* parameters read at a launch */
	uint8_t id_bytes;
	bool align;
	bool stub; /* the handle is libcudart's, not the driver's */
	uint8_t bytes[LAUNCH_ARGS];
};

/* Written by callbacks of any thread (new entries) and by one agent thread
 * (validation).  Zero-initialised memory is an empty table. */
struct functions {
	struct function slot[FUNCTIONS_MAX];
	_Atomic uint32_t count, pending;
	_Atomic uint32_t overflow; /* functions that found no slot */
};

/*
 * The entry of a function, made if new; NULL when the table is full or the
 * name is NULL.  stub: the handle is a host stub of the CUDA runtime.
 * Lock-free, no allocation: for callbacks.
 */
struct function *functions_get(struct functions *t, void *handle, bool stub,
			       const char *name);

/*
 * Is this still the name that f was entered with, as far as the table goes?
 * A handle may come again for another function when a module was unloaded, and
 * must then not be read as if it had the arguments of the old one.
 */
bool function_is_named(const struct function *f, const char *name);

/*
 * Copy the arguments of a launch of f.  Arguments of a function that is not
 * READY yet are read with the kernel's help, so that a wrong guess about their
 * number faults nothing.  params may be NULL: args becomes 0.
 */
void launch_capture(struct launch *l, const struct functions *t,
		    const struct function *f, void *const *params,
		    uint32_t grid_x);

/* Compare pending functions with the driver's parameter sizes.  Outside
 * callbacks only; any context.  Returns how many changed state. */
int functions_validate(struct functions *t, const struct cuda_api *cuda);

/*
 * What a launch means.  `align` is the alignment launch that followed it, or
 * NULL.  0; -EAGAIN not validated yet; -EINVAL refused, arguments unread, or
 * values that no launch can have (out is unchanged then).
 */
int launch_read(const struct functions *t, const struct launch *l,
		const struct launch *align, struct moe_launch *out);

/* Bytes of one expert index in the ids of this kernel, from the template
 * arguments in its mangled name: 4 unless they say 64 bits. */
uint8_t adapter_id_bytes(const char *mangled, const char *identifier);

#endif
