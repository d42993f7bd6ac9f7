/*
 * merge.h - from the records of an agent to the sums of a sample
 *
 * Pure: no I/O, no clock.  Records come from a foreign process and are not
 * trusted: an unknown type, a layer, class, phase or expert out of range is
 * counted in `refused` and skipped.
 *
 * A window's LAYER, ROWS, STEP_ROWS and HIST records come before its WINDOW
 * record, which closes it.  Parts of a window whose WINDOW record was lost are
 * dropped and counted.
 */
#ifndef MOETOP_CORE_MERGE_H
#define MOETOP_CORE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/sample.h"
#include "wire/record.h"

struct merge_totals { /* since merge_init */
	uint64_t windows;
	uint64_t windows_torn; /* parts dropped: their WINDOW was lost */
	uint64_t refused;      /* records that made no sense */
	uint64_t cells;        /* of decode steps, whose rows are known */
	uint64_t cells_rejected, cells_lost;
	uint64_t bad_steps;
	uint64_t records_dropped; /* by the agent, before its windows */
};

/* What one rank said.  Members may be read. */
struct merge {
	bool have_status, have_tick;
	struct rec_status status; /* newest */
	struct rec_tick tick;     /* newest */
	uint64_t tick_ns;         /* its time */
	uint64_t last_ns;         /* time of the newest record of any type */
	uint32_t experts;         /* E of the newest ROWS record, 0 unknown */
	struct merge_totals totals;
	bool exact; /* most rows of the newest window were kept by graphs */
	uint64_t part_cells, part_exact; /* of the window that is open */
	uint32_t part_id;            /* window that `part` belongs to, 0 none */
	struct sample_window part;   /* of the window that is still open */
	struct sample_window closed; /* windows closed since merge_clear */
	uint64_t backend_ns[SAMPLE_LAYERS_MAX]; /* of part's backends */
	char text[TEXT_BYTES + 1]; /* newest warning or error, "" none */
};

void merge_init(struct merge *m);

/*
 * Take in one record of types STATUS, TICK, WINDOW, LAYER, ROWS, STEP_ROWS,
 * HIST, STEPS and TEXT; EXPERTS and SPANS are checked only.  0, or -EBADMSG for a
 * record that makes no sense.
 */
int merge_record(struct merge *m, const struct record *r);

/*
 * A graph that holds a draft model's layers too has more anchors than the model
 * has layers: moe_layers + draft of its config.  Takes these out of the layers;
 * does nothing for any other number.
 */
void merge_split_draft(struct sample_window *w, unsigned moe_layers,
		       unsigned draft);

/* Forget the closed windows, once they are used. */
void merge_clear(struct merge *m);

/*
 * Add the sums of `from`, one more rank, to those of `to`.  Everything is added,
 * steps and wall time too, so that a ratio of sums becomes the mean over windows
 * and ranks; what a rank has most of is kept beside them.
 */
void merge_windows(struct sample_window *to, const struct sample_window *from);

/* Divide the sums of n ranks by n: those of the mean rank.  Distributions stay
 * those of all ranks. */
void merge_mean(struct sample_window *w, unsigned n);

#endif
