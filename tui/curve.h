/*
 * curve.h - the gain of one more request against tokens per step
 *
 * What screen 6 draws: eta(B) of the model and the traffic of a snapshot, and
 * the marks of the valley on it.  The numbers are whatif_at's, of the
 * snapshot's what_if_base; of a recording without one they are those of its
 * table of what-ifs, with straight lines between.
 */
#ifndef MOETOP_TUI_CURVE_H
#define MOETOP_TUI_CURVE_H

#include "model/snapshot.h"

#define CURVE_OCTAVES 14 /* B from 1 to 16384 */
#define CURVE_PER_OCTAVE 4
#define CURVE_POINTS (CURVE_OCTAVES * CURVE_PER_OCTAVE + 1)

enum curve_basis {
	CURVE_NONE,    /* nothing is known */
	CURVE_TABLE,   /* of the table of what-ifs */
	CURVE_UNIFORM, /* routing was never measured: uniform */
	CURVE_SKEW,    /* of the number of experts that were read */
	CURVE_ROWS,    /* of the rows of every expert */
};

struct curve {
	enum curve_basis basis;
	bool load; /* what-ifs can be asked relative to now */
	struct whatif base;
	unsigned n;
	struct {
		double octaves, gain; /* log2 B; NAN gain: unknown */
		bool beyond;          /* what the data carry */
	} point[CURVE_POINTS];
	/* B where s1 falls through 0.9, 0.5 and 0.1, the last with its
	 * interval; NAN unknown */
	double enter, floor, exit, exit_low, exit_high;
};

/* Anew where the snapshot's base is another one than that of *c. */
void curve_find(struct curve *c, const struct snapshot *s);

/* Between the points; NAN where there are none. */
double curve_gain(const struct curve *c, double octaves);

/* First and last octave to show: 1 to 1024, further where the load or the exit
 * lies further. */
double curve_end(const struct curve *c, const struct snapshot *s);

#endif
