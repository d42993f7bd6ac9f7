/*
 * plan.h - the batch valley of a model, on paper
 *
 * What a decode step of B tokens touches, reads and takes, from the shape of
 * the model and the GPU's data sheet alone.  Everything here is modelled:
 *
 *	U, F1	uniform or beta-binomial routing (valley.h), or the popularity
 *		of a file (popularity.h)
 *	T	 = max(routed bytes / BW, routed operations / F)
 *		 + max(dense bytes / BW, dense operations / F) + KV bytes / BW
 *	tokens/s = B / T
 *
 * BW and F are the sums over all GPUs of what kernels reach (economics.h).  The
 * layout is one deployment with ideal balance: every GPU reads its share of the
 * touched experts and of the KV cache at the same time; `tp` GPUs share one copy
 * of the dense weights, so gpus / tp copies are read in every step.  Left out:
 * communication, launches and other fixed costs, tile padding, attention scores
 * in the operations, activations.
 *
 *	memory	 weights of a GPU = (experts + dense x gpus / tp) / gpus
 *		 room = (0.9 gpus x memory - weights) / KV cache of a sequence
 *
 * Left out there: the table of input embeddings, activations, what the engine
 * keeps for itself beyond a tenth.
 */
#ifndef MOETOP_MODEL_PLAN_H
#define MOETOP_MODEL_PLAN_H

#include "model/arch.h"
#include "model/economics.h"
#include "model/hw.h"
#include "model/popularity.h"

#define PLAN_MEMORY_USABLE 0.9
#define PLAN_POINTS_MAX 64u
#define PLAN_BATCH_MAX 1000000.0
#define PLAN_GPUS_MAX 4096

/* In the order of the words of --dtype. */
enum plan_dtype {
	PLAN_DTYPE_CONFIG, /* as the model's files say */
	PLAN_DTYPE_BF16,   /* every weight 2 bytes */
	PLAN_DTYPE_FP8,    /* every weight 1 byte + 4 per 128 x 128 block */
	PLAN_DTYPE_FP4,    /* experts 4 bits + 1 byte per 16; the rest stays */
	PLAN_DTYPE_INT4,   /* experts 4 bits + 2 bytes per 128; the rest stays;
			    * multiplied in BF16 */
};

struct plan_input {
	struct arch arch;
	const struct gpu *gpu; /* borrowed, not NULL */
	double gpus, tp, ep;   /* whole, 1 or more; see plan_layout */
	double context_tokens; /* of each sequence; 0 leaves the KV cache out */
	double skew;           /* a of valley.h; VALLEY_SKEW_UNIFORM: uniform */
	const struct popularity *popularity; /* borrowed; NULL: by skew */
	double usd_per_gpu_hour;             /* 0: not known */
};

/* One batch.  active and single are means over the MoE layers. */
struct plan_point {
	double batch, active, single;
	double coverage_ratio;      /* c = U/E */
	double fragmentation_ratio; /* phi = U/R */
	double single_row_ratio;    /* s1 = F1/U */
	double valley_index;        /* V = c phi */
	struct step_cost cost;      /* all GPUs, all copies */
	struct step_shares shares;  /* gain: the marginal gain */
	double bytes_per_token;
	double step_s, tokens_per_s;
	double usd_per_mtok; /* 0: not known */
};

/* Where the valley is, in tokens per step; all 0: there is none, as every
 * token uses every expert.  With a popularity whose s1 crosses a bound more than
 * once, the outermost crossings count. */
struct plan_valley {
	double enter; /* s1 falls to 0.9: rows begin to share experts */
	double floor; /* V peaks: s1 = 1/2; not before enter */
	double exit;  /* s1 falls to 0.1: the valley is behind */
};

struct plan_memory {
	double weight_bytes;   /* of one GPU */
	double sequence_bytes; /* KV cache of one sequence; 0: not known */
	double room;           /* sequences; 0: the weights alone do not fit,
				* or the length is not known */
	bool fits;             /* the weights do */
};

struct model_plan {
	struct plan_input in;
	struct plan_memory memory;
	struct machine machine;
	struct plan_valley valley;
	unsigned n_points;
	struct plan_point points[PLAN_POINTS_MAX];
};

/*
 * Complete a layout in which 0 means "not said": there are as many GPUs as the
 * greater of tp and ep; tp is all of them; ep is 1.  -EINVAL, and nothing
 * changed, when tp or ep does not divide the GPUs.  The bytes of the experts are
 * spread over all GPUs whatever ep is: each rank's experts are sliced over
 * gpus / ep of them.
 */
int plan_layout(double *gpus, double *tp, double *ep);

/* The weights of *a stored as t; what t leaves alone stays. */
void plan_store_as(struct arch *a, enum plan_dtype t);

void plan_point_at(const struct plan_input *in, double batch,
		   struct plan_point *out);
void plan_valley_of(const struct plan_input *in, struct plan_valley *out);
void plan_memory_of(const struct plan_input *in, struct plan_memory *out);

/* U and F1 at b tokens, by the input's routing. */
double plan_active(const struct plan_input *in, double b);
double plan_single(const struct plan_input *in, double b);

/*
 * The whole.  -EINVAL without a point or with too many, or a batch outside
 * 1..PLAN_BATCH_MAX; -ENOTSUP no mixture of experts; -ENODATA when the bytes of
 * its weights, or with a context those of its KV cache, are not known.  *out is
 * unchanged on error.
 */
int plan_make(const struct plan_input *in, const double *batches, unsigned n,
	      struct model_plan *out);

#endif
