/*
 * adapters.h - launches of MoE kernels, and what their arguments say
 *
 * cupti/row_adapters.def lists the kernels whose arguments are known.  A launch
 * callback copies the raw arguments of such a kernel; what they mean is worked
 * out later, after the parameter sizes have been compared with what the driver
 * says about the function.  What one layer's launches say together
 * (layer_read) is where its rows per expert can be read, and in which form.
 */
#ifndef MOETOP_CUPTI_ADAPTERS_H
#define MOETOP_CUPTI_ADAPTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cupti/library.h"
#include "cupti/row_counts.h"

#define LAUNCH_WORDS 24u    /* 8 bytes each, of the arguments */
#define FUNCTIONS_MAX 4096u /* a power of two */
#define LAYER_LAUNCHES 12u  /* of one layer that are looked at */

/* Positions are held plus one: 0 is none. */
enum { /* in place of an argument's position */
       ARG_NONE = 0,
       ARG_GRID_X = -1,
       ARG_ONE = -2,
       ARG_BLOCK_EXPERTS = -3, /* last but one of the leading pointers */
       ARG_SECOND_INT = -4,    /* after the leading pointers */
       ARG_FOURTH_INT = -5,
};

/* What a kernel does with rows. */
enum row_role {
	ROLE_CHOOSE, /* opens a layer: writes the ids or the blocks */
	ROLE_FINISH, /* changes the ids in place: padding */
	ROLE_READ,   /* reads ids: tells how many, of how many experts */
	ROLE_REMAP,  /* reads ids, writes those of physical experts */
	ROLE_COUNT,  /* counts the rows of all tokens of this rank */
	ROLE_ARRIVE, /* counts the rows that came here from all ranks */
	ROLE_DIRECT, /* a GEMM whose blocks may be named by the ids */
};

/*
 * One layout.  Members are positions among the parameters or, where the kernel
 * takes one struct, byte offsets in it, plus one; or ARG_*.
 */
struct row_adapter {
	const char *name;   /* part of the mangled name */
	const char *engine; /* whose kernel it is */
	const char *sizes;  /* of the leading parameters; "s": one struct */
	uint8_t role, what; /* enum row_role, enum row_what of data */
	int16_t ids;        /* ids that it writes or reads */
	int16_t data[3];    /* its counts, offsets or blocks; physical ids */
	int16_t rows;       /* M, padding included */
	int16_t k;
	int16_t experts; /* E, or end of the range; of physical ids E too */
	int16_t first_expert; /* start of the range */
	int16_t numel;        /* rows x k */
	int16_t tile;         /* rows of a block */
	int16_t here;         /* experts of this rank, where data is of these */
	int16_t ranks;        /* or: that all experts are divided among */
	uint16_t struct_bytes; /* least size of the struct */
	uint8_t bytes;         /* of one number; 0: the template's index type */
	uint8_t extra;         /* buckets that `experts` counts beyond E */
};

/* Raw arguments of one launch. */
struct launch {
	uint64_t arg[LAUNCH_WORDS];
	uint32_t args; /* words that were read; 0: none could be */
	uint32_t correlation;
	uint32_t grid_x;
	uint32_t function; /* index in struct functions */
	uint64_t stage;    /* where its graph keeps a copy of its rows; 0 ? */
};

/* Where the rows of a layer can be read. */
struct layer_rows_at {
	struct moe_launch rows;   /* of the tokens of this rank */
	struct moe_launch placed; /* of the experts that are here; what 0: ? */
	uint64_t
		stage; /* address of a copy of `rows` made by the graph; 0: no */
	bool direct;   /* each (token, expert) pair is a block of its own */
	uint8_t settle; /* index of the launch that makes `rows` final */
};

/* What is known of the model from elsewhere; 0 unknown. */
struct model_hint {
	uint32_t experts, top_k;
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
	uint8_t args;    /* words read at a launch */
	uint8_t id_bytes;
	uint8_t pointers; /* leading parameters of 8 bytes */
	uint8_t ints;     /* of 4 bytes behind them, at most 4 */
	uint8_t role;     /* enum row_role of the family */
	uint8_t value;    /* bytes that are read of a struct */
	bool stub;        /* the handle is libcudart's, not the driver's */
	uint8_t bytes[LAUNCH_WORDS];
};

/* Written by callbacks of any thread (new entries) and by one agent thread
 * (validation).  Zero-initialised memory is an empty table. */
struct functions {
	struct function slot[FUNCTIONS_MAX];
	_Atomic uint32_t count, pending, refused;
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

/* The adapter's name of a function of the table. */
const char *function_name(const struct function *f);

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

/* The same, whether or not another thread is at it: both come to the same. */
int functions_validate_now(struct functions *t, const struct cuda_api *cuda);

/* Does this launch open a layer? */
bool launch_opens(const struct functions *t, const struct launch *l);

/* How many of the n launches, in order, are of the first layer: up to the next
 * that opens one, to what comes after expert GEMMs or, where nothing opens it, to
 * the kernel that the layer began with. */
size_t layer_length(const struct functions *t, const struct launch *l,
		    size_t n);

/*
 * What the launches of one layer say together.  Of ids, the number of rows must
 * be told by two kernels or by a grid.  0; -EAGAIN a function is not
 * validated yet; -EINVAL no launch can be believed, or numbers that contradict
 * each other or the model (*out is unchanged then).
 */
int layer_read(const struct functions *t, const struct launch *l, size_t n,
	       const struct model_hint *hint, struct layer_rows_at *out);

/* Bytes of one expert index in the ids of this kernel, from the template
 * arguments in its mangled name: 4 unless they say 64 bits. */
uint8_t adapter_id_bytes(const char *mangled, const char *identifier);

/* Row i of the table; NULL beyond its end. */
const struct row_adapter *adapter_at(size_t i);

#endif
