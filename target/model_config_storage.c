#include "target/model_config_parts.h"

#include <math.h>
#include <stdio.h>

#define NF4_GROUP 64.0   /* weights that share an absolute maximum */
#define NF4_DOUBLE 256.0 /* maxima that share their own scale */

/* Scales of integers: one for each group, or, without groups, for each row of
 * the output (of INT8 in 32 bits); zero points are as wide as the weights. */
static double integer_bytes(const struct storage *s, double params, double rows,
			    double width)
{
	double scales = s->group ? params / s->group : rows;

	return params * width + scales * (2 + (s->zero_points ? width : 0));
}

double storage_bytes(const struct storage *s, double params, double rows)
{
	switch (s->scheme) {
	case SCHEME_FP8_TENSOR:
		return params;
	case SCHEME_INT8:
		if (s->group)
			return integer_bytes(s, params, rows, 1);
		return params + rows * 4;
	case SCHEME_FP8_CHANNEL:
		return params + rows * 4;
	case SCHEME_FP8_BLOCK:
		return params * (1 + 4.0 / (s->group ? s->group : BLOCK_AREA));
	case SCHEME_MXFP8:
		return params * (1 + 1.0 / 32);
	case SCHEME_MXFP6:
		return params * (0.75 + 1.0 / 32);
	case SCHEME_MXFP4:
		return params * (0.5 + 1.0 / 32);
	case SCHEME_NVFP4:
		return params * (0.5 + 1.0 / 16);
	case SCHEME_INT4:
		return integer_bytes(s, params, rows, 0.5);
	case SCHEME_INT3:
		return integer_bytes(s, params, rows, 0.375);
	case SCHEME_INT2:
		return integer_bytes(s, params, rows, 0.25);
	case SCHEME_NF4:
		return params * (0.5 + 4 / NF4_GROUP);
	case SCHEME_NF4_DOUBLE:
		return params *
		       (0.5 + 1 / NF4_GROUP + 4 / (NF4_GROUP * NF4_DOUBLE));
	case SCHEME_BF16:
	case SCHEMES:
		break;
	}
	return params * 2;
}

double quant_bytes(const struct quant *q, enum part p, double params,
		   double rows)
{
	double plain = fmin(fmax(q->bf16[p], 0), 1);

	return plain * params * 2 +
	       (1 - plain) * storage_bytes(&q->of[p], params, rows);
}

static const char *name_of(enum scheme s)
{
	static const char *const names[SCHEMES] = {
		[SCHEME_BF16] = "bf16",
		[SCHEME_FP8_TENSOR] = "fp8 per-tensor",
		[SCHEME_FP8_CHANNEL] = "fp8 per-channel",
		[SCHEME_FP8_BLOCK] = "fp8 block",
		[SCHEME_MXFP8] = "mxfp8 g32",
		[SCHEME_MXFP6] = "mxfp6 g32",
		[SCHEME_MXFP4] = "mxfp4 g32",
		[SCHEME_NVFP4] = "nvfp4 g16",
		[SCHEME_INT8] = "int8",
		[SCHEME_INT4] = "int4",
		[SCHEME_INT3] = "int3",
		[SCHEME_INT2] = "int2",
		[SCHEME_NF4] = "nf4 g64",
		[SCHEME_NF4_DOUBLE] = "nf4 g64 double",
	};

	return s < SCHEMES ? names[s] : "unknown";
}

void storage_name(const struct storage *s, bool by_name, char *out,
		  size_t bytes)
{
	const char *tail = by_name ? " by its name" : "";
	const char *name = name_of(s->scheme);
	double side = sqrt(s->group);
	bool grouped = s->scheme == SCHEME_INT4 || s->scheme == SCHEME_INT3 ||
		       s->scheme == SCHEME_INT2;

	if (s->scheme == SCHEME_FP8_BLOCK && side == floor(side))
		snprintf(out, bytes, "%s%.0f%s", name, side, tail);
	else if (s->scheme == SCHEME_FP8_BLOCK)
		snprintf(out, bytes, "%s of %u%s", name, s->group, tail);
	else if (grouped && s->group)
		snprintf(out, bytes, "%s g%u%s", name, s->group, tail);
	else if (grouped)
		snprintf(out, bytes, "%s per-channel%s", name, tail);
	else
		snprintf(out, bytes, "%s%s", name, tail);
}
