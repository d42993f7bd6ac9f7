/*
 * whatif.h - what another batch, layout or GPU would do to this server
 *
 *	T(B) = t0 + max(L w U(B) I / BW, 2 routed weights B / F)
 *		  + max(D / BW, 2 dense weights B / F) + KV bytes / BW + q B
 *	tokens/s = y / (T / B + p)
 *	$/Mtok = GPUs x price / 3600 / (tokens/s) x 10^6
 *
 * What prompts take for each decoded token is q where the step of now is one that
 * carries them, p where they have steps of their own.  y is the share of the wall
 * time in which steps run, times what speculation keeps of B.  All are as they
 * are now, so that a batch like now's has the tokens/s and the $/Mtok of now; p
 * and q scale with the arithmetic of the GPUs.  Without a rate of now p is 0 and
 * y is 1.
 *
 * U(B) is that of the measured traffic (traffic.h), t0 and BW are calibrated
 * (calibrate.h), F is ECONOMICS_FLOPS_ACHIEVED of the data sheet.  BW, F are of
 * all GPUs; D counts once for each copy of the dense weights.  I is the chance
 * imbalance of ep ranks (balance.h).  KV bytes grow with B at the present
 * length of contexts.  On another GPU BW and F scale with its data sheet, t0
 * stays.
 *
 * Intervals hold in nine of ten cases as far as U and BW go.  Not in them:
 * communication (t0 stays what it is), kernels that change with the size,
 * captured sizes.  A point beyond what the data carry is computed, but says so.
 */
#ifndef MOETOP_MODEL_WHATIF_H
#define MOETOP_MODEL_WHATIF_H

#include <stdbool.h>

#include "model/arch.h"
#include "model/calibrate.h"
#include "model/economics.h"
#include "model/hw.h"
#include "model/traffic.h"
#include "model/value.h"

/*
 * The deployment as it is.  Plain memory, no pointers; valid false: the load is
 * unknown.  Then, if known, batch, step_s, kv_bytes, tokens_per_s, prompt_s and
 * mixed_s are 0, and a change that names a batch is answered by the model alone.
 */
struct whatif {
	bool valid;
	bool known; /* shape, GPUs and bandwidth are */
	struct arch arch;
	struct traffic traffic;
	struct calibration calibration;
	double gpu_bw, gpu_flops; /* one GPU, data sheet; flops 0 unknown */
	double gpus, tp, ep;      /* tp GPUs share one copy of the dense part */
	double batch;             /* B now */
	double step_s;            /* measured or modelled */
	double tokens_per_s;      /* of now; 0 unknown */
	double prompt_s;          /* p; 0 none, or not known */
	double mixed_s;           /* q, likewise; batch x q < step_s */
	double kv_bytes;          /* of a step now; 0: not known, left out */
	double kv_capacity_bytes; /* room for them on one replica; 0 unknown */
	double usd_per_gpu_hour;  /* 0 unknown */
	enum value_source source; /* the weakest of what is in here */
	/* what whatif_settle found of now; 0: found anew by every whatif_at */
	double now_active, now_rows_uneven, now_active_uneven;
};

/* Once all of the above is there: makes whatif_at cheaper, changes nothing. */
void whatif_settle(struct whatif *w);

/* Fields of 0 stay as they are. */
struct whatif_change {
	double batch;          /* tokens per step of one replica */
	double replicas;       /* N like this one become one of N times batch */
	double gpus, tp, ep;   /* gpus 0 and tp given: gpus follow tp */
	const struct gpu *gpu; /* borrowed for the call */
	double usd_per_gpu_hour; /* of that GPU; else its price is unknown */
};

enum whatif_limit {
	WHATIF_WITHIN,
	WHATIF_BATCH,   /* further than TRAFFIC_REACH from what was measured */
	WHATIF_ROUTING, /* no rows and no U were ever measured */
	WHATIF_MEMORY,  /* the KV cache would not fit */
	WHATIF_SHAPE,   /* the layout is impossible: nothing is computed */
};

/* NAN: not known.  _low and _high around the value. */
struct whatif_point {
	double batch, gpus;
	double active, active_low, active_high; /* U per layer */
	double single_row_ratio;
	double step_s, step_s_low, step_s_high;
	double tokens_per_s, tokens_per_s_low, tokens_per_s_high;
	double usd_per_mtok, usd_per_mtok_low, usd_per_mtok_high;
	double cost_ratio, cost_ratio_low, cost_ratio_high; /* GPU seconds per
				* token, over now: of N replicas together; pauses
				* and prompts count in both */
	struct step_shares shares; /* gain: eta there */
	enum whatif_limit limit;
};

/* False: w is not valid, and not known or no batch named; or the batch is
 * senseless (< 0.01, > 1e7).  *out is all NAN then.  Takes some 15 us. */
bool whatif_at(const struct whatif *w, const struct whatif_change *c,
	       struct whatif_point *out);

/* "", "batch", "routing", "memory", "shape". */
const char *whatif_limit_name(enum whatif_limit l);

#endif
