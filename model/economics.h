/*
 * economics.h - what a decode step pays for, and what the next request would
 *
 *	t_E = routed bytes / BW	   t_D = dense bytes / BW    t_KV = KV bytes / BW
 *	c_E, c_D = operations / F   the same parts at their compute roof
 *
 *	sigma_E	 = s1 t_E / T	reads of experts that serve a single row; t_E is
 *				at most the measured time of the expert kernels;
 *				0 when the experts are bound by arithmetic
 *	sigma_KV = t_KV / T
 *	sigma_C	 = (c_E if c_E >= t_E) + (c_D if c_D >= t_D), over T, at most 1
 *	eta	 = 1 - sigma_E - sigma_KV - sigma_C, at least 0: the share of one
 *		   more request that is free, d ln(tokens/s) / d ln B
 *
 *	MBU	 = DRAM bytes / (wall time x BW of the data sheet)	0..1
 *	S-MBU	 = (routed + dense + KV bytes) / (T x BW of the data sheet)
 *		   0..1; above 1.02 an input is wrong.  The routed bytes are
 *		   those of the U experts that were touched, never of all
 *	A	 = bytes of MBU / bytes of S-MBU: read amplification, about 1
 *	MFU	 = tokens/s x operations of a token / F of the data sheet, dense,
 *		   of the type that is computed in	0..1
 *	m*	 = F bytes per weight / (2 BW), data sheet: ridge, rows
 *	$/Mtok	 = GPUs x price per hour / 3600 / (tokens/s) x 10^6
 *
 * BW and F, where nothing else is said, are what kernels reach, by default
 * 0.85 and 0.6 of the data sheet. Left out: communication, and attention
 * scores in the operations.
 *
 * Sources: Good-Turing (d ln U / d ln B = F1/U), the roofline model, S-MBU
 * after MoE-CAP equation 4, MFU after PaLM appendix B (forward pass only).
 */
#ifndef MOETOP_MODEL_ECONOMICS_H
#define MOETOP_MODEL_ECONOMICS_H

#include "model/arch.h"
#include "model/hw.h"

#define ECONOMICS_BW_ACHIEVED 0.85
#define ECONOMICS_FLOPS_ACHIEVED 0.6

/* One decode step of the whole model. */
struct step_cost {
	double routed_bytes, dense_bytes, kv_bytes;
	double routed_flop, dense_flop;
};

/* All GPUs together; 0: unknown. */
struct machine {
	double bw, flops;                   /* data sheet */
	double bw_achieved, flops_achieved; /* what kernels reach */
};

struct step_shares {
	double expert, kv, compute, gain; /* 0..1 each */
};

/* gpu may be NULL; peak_bw, of one GPU, overrules the data sheet if > 0. */
void economics_machine(const struct gpu *gpu, double gpus, double peak_bw,
		       enum compute_type compute, struct machine *out);

/* tokens: B; active: U per MoE layer; kv_bytes: of the step, 0 unknown. */
void economics_cost(const struct arch *arch, double tokens, double active,
		    double kv_bytes, struct step_cost *out);

/* Shares of a step of step_s seconds.  expert_s: measured time of the expert
 * kernels in it, NAN or 0 unknown; it stands in for t_E where BW is not known.
 * False, and all 0, when T is not known, or BW and expert_s both. */
bool economics_shares(const struct step_cost *c, const struct machine *m,
		      double single_ratio, double step_s, double expert_s,
		      struct step_shares *out);

/* The step by the roofline of its parts; 0 unknown. */
double economics_step_seconds(const struct step_cost *c,
			      const struct machine *m);

/* Rows per active expert at which its GEMM becomes bound by arithmetic:
 * F bytes_per_weight / (2 BW), data-sheet figures. */
double economics_ridge_rows(const struct machine *m, double bytes_per_weight);

/* USD per million tokens; 0 when tokens_per_s is. */
double economics_usd_per_mtok(double gpus, double usd_per_gpu_hour,
			      double tokens_per_s);

#endif
