/*
 * state.h - what model_update keeps between samples, and finds out for one
 *
 * Internal to model/.  update: load and evidence first (evidence.c), then the
 * figures (figures.c, tables.c), the regime, findings and the verdict.
 */
#ifndef MOETOP_MODEL_STATE_H
#define MOETOP_MODEL_STATE_H

#include "model/calibrate.h"
#include "model/economics.h"
#include "model/hist.h"
#include "model/regime.h"
#include "model/rows.h"
#include "model/sample.h"
#include "model/snapshot.h"
#include "model/traffic.h"
#include "model/whatif.h"

/* Kernel groups of sample.h that mean something here. */
enum { GROUP_OF_EXPERTS = 0, GROUP_OF_ATTENTION = 2, GROUP_OF_COMM = 4 };

#define LOAD_HISTORY 64u
#define OCTAVES 16u
#define POINTS_PER_OCTAVE 4u
_Static_assert(OCTAVES *POINTS_PER_OCTAVE <= CALIBRATE_POINTS_MAX,
	       "all points are taken");
#define WINDOW_STALE_S 60.0 /* older windows are shown as stale */
#define SCRAPE_STALE_S 15.0 /* so are the engine's own figures */
#define COUNTED_TAU_S 10.0
/* More tokens than requests by this much: a request has several in a step. */
#define SPECULATION_MIN 1.25

/*
 * Signals of the load, all continuous; NAN unknown.  A window is a second out
 * of twenty: these say whether what it saw still holds.
 */
struct load {
	double now_ns;
	double in_flight, streaming; /* requests, from the kernel */
	double padded;               /* tokens per graph replay, agent */
	double running;              /* the engine's own count */
	double tokens;               /* B by the best of them, unscaled */
	enum value_source source;    /* of tokens */
};

/* How a window's time divides into decode steps and steps with prompts. */
struct prompts {
	double end_ns;    /* 0: no window yet */
	double share;     /* of step time that prompts take; NAN unknown */
	struct load load; /* then */
};

/* Where the valley is for this traffic; all 0: not known, or there is none. */
struct valley_edges {
	double floor;                     /* s1 = 1/2 */
	double exit, exit_low, exit_high; /* s1 = 0.1 */
};

/* What DRAM counters saw while the load stayed what it is: sums that fade with
 * a time constant of COUNTED_TAU_S. */
struct counted {
	double steps, tokens;        /* B summed over the steps */
	double read_bytes, kv_bytes; /* all; what of them is cache */
};

struct model {
	struct model_settings settings;
	bool started;
	double start_time;
	uint64_t sequence;

	struct load history[LOAD_HISTORY]; /* ring, newest at (n - 1) */
	unsigned long n_history;

	struct prompts prompts; /* of the newest window */
	bool have_window;
	struct sample_window window; /* the newest with decode steps */
	double window_ns;            /* CLOCK_MONOTONIC of its end */
	struct load window_load;     /* load when it was taken */
	bool window_mixed;           /* the load changed inside it */
	double tokens_scale; /* B over the load signal, 1 if they agree */

	struct traffic
		traffic;       /* of the last window with rows; batch 0: none */
	bool traffic_inferred; /* from DRAM counters, no rows were sampled */
	struct valley_edges edges;
	/* the newest windows of every octave of B, so that a long time at one
	 * batch does not crowd out the others */
	struct calibration_point points[OCTAVES * POINTS_PER_OCTAVE];
	unsigned long n_points[OCTAVES];
	double steady_s; /* since the load last changed */
	struct load steady_load;
	struct counted counted; /* since then */

	/* the table of what-ifs, and what it was made from */
	unsigned n_what_if;
	struct snapshot_what_if what_if[SNAPSHOT_WHAT_IF_MAX];
	struct whatif what_if_base;
	double what_if_age_s;

	bool was_disagreeing;
	double idle_s, prefill_only_s;
	struct regime_state regime;
	struct hist_total totals[HISTOGRAMS];
	double totals_end_ns; /* of the newest window in them */
};

/* What is known of one decode step, from whichever source is best. */
struct evidence {
	bool idle; /* nothing ran, nothing waits */
	enum value_source idle_source;
	bool new_window;   /* arrived with this sample */
	bool have_rows;    /* m->window has sampled cells */
	bool fresh;        /* window not older than WINDOW_STALE_S */
	bool agrees;       /* and the load is what it was in the window */
	bool classify;     /* and its figures may decide the regime */
	bool load_changed; /* the window stopped agreeing just now */
	struct load load;
	struct value tokens;        /* B */
	struct value steps_per_s;   /* decode steps */
	struct value forward_per_s; /* all steps: each decodes a token of
				     * every stream */
	struct value step_s;
	struct value prefill; /* share of step time, of the window */
	double prefill_now;   /* the same for the classifier */
	double attention;     /* share of the decode step, NAN unknown */
	/* per MoE layer and step, for the economics */
	bool have_active;
	double active, single;
	enum value_source active_source;
	double expert_s; /* measured time of expert kernels in a step, NAN */
	/* F1 of requests, not tokens: experts that one request alone reads;
	 * differs where a request has several tokens in a step */
	double single_request;
	double tokens_per_request; /* 1, or more with speculation; NAN */
	double kv_bytes;           /* of a step, by the engine's word; NAN */
	double kv_capacity_bytes;  /* of one that reads all there is room for;
				   * NAN */
	double tp, ep;             /* both divide the GPUs; tp share one copy */
};

/* learn.c: what a window says beyond itself. */

/* One rank's experts, or a fused shared expert among them, made the whole
 * layer's routed experts; rows of the ranks are pooled. */
void learn_whole_layers(struct sample_window *w, double gpus,
			const struct arch *arch);
/* tokens: B of m->window, which has just been taken. */
void learn_traffic(struct model *m, const struct sample *in,
		   const struct arch *arch, double tokens);
/* Takes in what DRAM counters saw, or forgets it where the load has changed. */
void learn_counted(struct model *m, const struct sample *in,
		   const struct evidence *e);
/* U from the bytes of the newest window's expert kernels; false when they are not
 * known, or not of the present. */
bool learn_from_layers(struct model *m, const struct arch *arch,
		       struct evidence *e);
/* U from the bytes that DRAM counters saw; false when they do not tell. */
bool learn_from_dram(struct model *m, const struct sample *in,
		     const struct arch *arch, struct evidence *e);
/* The traffic as far as it is known: uniform without any. */
void learn_traffic_known(const struct model *m, const struct arch *arch,
			 struct traffic *out);
/* Standard error of s1 by the steps of a window; NAN. */
double learn_single_error(const struct sample_window *w);

/* layout: tp and ep of the target, 0 unknown. */
void evidence_find(struct model *m, const struct sample *in,
		   const struct arch *arch,
		   const struct snapshot_target *layout, struct evidence *e);

/* The figures of one update, shared by metrics, findings and verdict. */
struct figures {
	struct machine machine;
	struct step_cost cost; /* all 0 unknown */
	bool have_cost;
	bool have_shares;
	struct step_shares shares;
	enum value_source source; /* of cost and shares */
	/* No skew was seen yet: what is modelled takes uniform routing, where U
	 * is largest and the valley ends earliest. */
	bool uniform;
	bool have_kv; /* kv is known, by the engine or by bound */
	enum value_source kv_source;
	struct calibration calibration;
	double step_s;          /* T behind the shares */
	double exit_tokens;     /* B where s1 falls to 0.1; 0 unknown */
	double exit_cost_ratio; /* cost per token there, over now; 0 unknown */
	double straggler;       /* share; NAN unknown */
	double effective;       /* N2, mean of layers; NAN unknown */
	double popularity;      /* N2 / E; NAN unknown */
	double fixed;           /* t0 / T; NAN unknown */
};

void figures_find(struct model *m, const struct sample *in,
		  const struct evidence *e, const struct arch *arch,
		  const struct gpu *gpu, struct figures *f);
/* Decoded tokens per second of the wall: with pauses, and steps with prompts. */
struct value figures_tokens(const struct sample *in, const struct evidence *e);
void figures_metrics(const struct model *m, const struct sample *in,
		     const struct evidence *e, const struct arch *arch,
		     const struct figures *f, struct snapshot *out);

/* measures.c: overlap, balance, the traffic's valley, calibration, KV. */
void measures_find(const struct model *m, const struct sample *in,
		   const struct evidence *e, const struct arch *arch,
		   struct figures *f);
void measures_fill(const struct model *m, const struct evidence *e,
		   const struct arch *arch, const struct figures *f,
		   struct snapshot *out);

/* predict.c: what-ifs. */

/* The deployment as it is, into out->what_if_base, valid only with a step of
 * experts; and from it what the exit of the valley would cost, into *f. */
void predict_base(const struct model *m, const struct sample *in,
		  const struct evidence *e, const struct arch *arch,
		  const struct gpu *gpu, struct figures *f,
		  struct snapshot *out);
/* The table, made anew when what it is made from has changed. */
void predict_table(struct model *m, double interval_s, struct snapshot *out);

/* Layers, classes, shares by kernel group. */
void tables_fill(const struct model *m, const struct sample *in,
		 const struct evidence *e, const struct arch *arch,
		 struct snapshot *out);

#endif
