/*
 * state.h - what model_update keeps between samples, and finds out for one
 *
 * Internal to model/.  update: load and evidence first (evidence.c), then the
 * figures (figures.c, tables.c), the regime, findings and the verdict.
 */
#ifndef MOETOP_MODEL_STATE_H
#define MOETOP_MODEL_STATE_H

#include "model/economics.h"
#include "model/regime.h"
#include "model/rows.h"
#include "model/sample.h"
#include "model/snapshot.h"

/* Kernel groups of sample.h that mean something here. */
enum { GROUP_OF_EXPERTS = 0, GROUP_OF_ATTENTION = 2 };

#define LOAD_HISTORY 64u
#define WINDOW_STALE_S 60.0 /* older windows are shown as stale */
#define SCRAPE_STALE_S 15.0 /* so are the engine's own figures */

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

	bool have_skew;
	double skew; /* valley.h: a, from the last window */

	bool was_disagreeing;
	double idle_s, prefill_only_s;
	struct regime_state regime;
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
};

void evidence_find(struct model *m, const struct sample *in,
		   const struct arch *arch, struct evidence *e);

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
	double step_s;          /* T behind the shares */
	double exit_tokens;     /* B where s1 falls to 0.1; 0 unknown */
	double exit_cost_ratio; /* cost per token there, over now; 0 unknown */
};

void figures_find(const struct model *m, const struct sample *in,
		  const struct evidence *e, const struct arch *arch,
		  const struct gpu *gpu, struct figures *f);
void figures_metrics(const struct model *m, const struct sample *in,
		     const struct evidence *e, const struct arch *arch,
		     const struct figures *f, struct snapshot *out);

/* Layers, classes, shares by kernel group. */
void tables_fill(const struct model *m, const struct evidence *e,
		 struct snapshot *out);

#endif
