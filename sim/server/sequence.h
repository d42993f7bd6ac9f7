/*
 * sequence.h - the kernels of one step, from a file of sim/sequences/
 *
 * A file lists the kernels that an engine launches with one of its MoE
 * backends, one a line, in program order:
 *
 *	part stream role cost grid layout when class name
 *
 * part	start	once at the start of a step
 *	attention, dense, moe	of each layer: attention of all, then the dense
 *		MLP of a dense layer or the MoE of the others
 *	end	after the last layer
 *	after	after the graph: launched one by one even where a step replays
 *	draft, draft_end	around the layers of a draft model: these are more MoE
 *		layers, with the attention and moe lines, after the main ones
 * stream	0, or 1: a second stream, between the lines `PART fork` and
 *	`PART join`
 * role	embed	takes the step's input from memory
 *	topk	chooses experts and opens the layer; route: the same, but the ids
 *		go nowhere that could be read
 *	fill	marks padding in the ids, late
 *	align, sort	write the offsets of the experts
 *	close	the last kernel of a layer's MoE block
 *	-	any other
 * cost	weights:WHAT	a dense GEMM: qkv output router head mlp_up mlp_down
 *		shared_up shared_down (times of two thirds and a third)
 *	experts:T0:WHICH	an expert GEMM, T0 ns besides its bytes: first second all
 *	kv:T0	attention
 *	T0:FACTOR*UNIT	FACTOR x UNIT elements of 2 bytes are read and written:
 *		hidden (rows x hidden), pairs (rows x k), routed (pairs x
 *		hidden), inter (pairs x intermediate), experts (rows x E), vocab
 *		(rows x vocabulary), kv (the rows' keys and values), padding
 *	T0	no bytes that would matter
 * grid	UNIT/N or N: rows pairs experts blocks (of the expert GEMMs) columns (of
 *	a dense GEMM)
 * layout	of the parameters: a name known to runner_kernels.c, their sizes, as
 *	"88844", or what they are (args_spec.h)
 * when	-, or words apart by commas, all of which must hold: shared (the model
 *	has shared experts), fp8 (of its expert GEMMs), naive, aligned (few rows,
 *	or not), small, large (of the alignment), one, more (row, or not), eager
 *	(never in a graph: cuts it to pieces), vN (of MoE layers N, N + V, .. where V is one more than
 *	the greatest N of the file)
 * class	what it is to wire/kernel_class.def
 * name	as CUPTI delivers it, mangled
 *
 * A line `draft own` gives the draft layers a graph of their own, `draft same`
 * puts them into the step's.  '#' begins a comment.
 */
#ifndef MOETOP_SIM_SERVER_SEQUENCE_H
#define MOETOP_SIM_SERVER_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/server/args_spec.h"
#include "wire/kernel_class.h"

#define SEQUENCE_LINES_MAX 224u
#define SEQUENCE_NAME_BYTES 512u

enum seq_part {
	SEQ_START,
	SEQ_ATTENTION,
	SEQ_DENSE,
	SEQ_MOE,
	SEQ_END,
	SEQ_AFTER,
	SEQ_DRAFT,
	SEQ_DRAFT_END,
	SEQ_PARTS
};

enum seq_role {
	SEQ_PLAIN,
	SEQ_EMBED,
	SEQ_TOPK,
	SEQ_ROUTE,
	SEQ_FILL,
	SEQ_ALIGN,
	SEQ_SORT,
	SEQ_CLOSE,
	SEQ_FORK, /* no kernels: the second stream */
	SEQ_JOIN,
	SEQ_ROLES
};

enum seq_cost { COST_ELEMENTS, COST_WEIGHTS, COST_EXPERTS, COST_KV };

enum seq_weights {
	WEIGHTS_QKV,
	WEIGHTS_OUTPUT,
	WEIGHTS_ROUTER,
	WEIGHTS_HEAD,
	WEIGHTS_MLP_UP,
	WEIGHTS_MLP_DOWN,
	WEIGHTS_SHARED_UP,
	WEIGHTS_SHARED_DOWN,
	WEIGHTS_KINDS
};

enum seq_share { EXPERTS_FIRST, EXPERTS_SECOND, EXPERTS_ALL, EXPERTS_SHARES };

enum seq_unit {
	UNIT_ONE,
	UNIT_ROWS,
	UNIT_HIDDEN,
	UNIT_PAIRS,
	UNIT_ROUTED,
	UNIT_INTER,
	UNIT_EXPERTS,
	UNIT_VOCAB,
	UNIT_KV,
	UNIT_PADDING,
	UNIT_BLOCKS,
	UNIT_COLUMNS,
	UNITS
};

enum { /* seq_line.when */
       WHEN_SHARED = 1,
       WHEN_FP8 = 2,
       WHEN_NAIVE = 4,
       WHEN_ALIGNED = 8,
       WHEN_SMALL = 16,
       WHEN_LARGE = 32,
       WHEN_EAGER = 64,
       WHEN_ONE = 128,
       WHEN_MORE = 256,
};

struct seq_line {
	enum seq_part part;
	enum seq_role role;
	enum seq_cost cost;
	unsigned stream, when;
	unsigned what; /* enum seq_weights, seq_share or seq_unit */
	double factor; /* of the unit */
	uint64_t t0_ns;
	enum seq_unit grid;
	unsigned grid_div;
	enum kernel_class klass;
	unsigned ids; /* of a top-k kernel: which argument points at them */
	int variant;  /* of the MoE layers; -1: of all */
	struct args_spec spec; /* n 0: the layout is no spec */
	char layout[256];
	char name[SEQUENCE_NAME_BYTES];
};

enum seq_draft { DRAFT_NONE, DRAFT_OWN, DRAFT_SAME };

struct sequence {
	enum seq_draft draft;
	bool pieces;       /* has lines that cut graphs to pieces */
	bool pads_late;    /* has a line that fills padding */
	unsigned variants; /* of MoE layers; 0: all are alike */
	unsigned lines;
	struct seq_line line[SEQUENCE_LINES_MAX];
};

/* 0, -errno of the file, or -EINVAL for a line that is not understood; why gets
 * one line. */
int sequence_read(const char *path, struct sequence *out, char *why,
		  size_t why_bytes);

const char *seq_class_name(enum kernel_class klass);

#endif
