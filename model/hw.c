#include "model/hw.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define TOKENS_MAX 16u
#define TOKEN_BYTES 16u

/* Peaks are dense: data sheets that print sparse figures are halved. */
#define ROW(n, gb, bf16, fp8, fp4, mib, src)                 \
	{                                                    \
		.name = n, .bw = 1e9 * (gb),                 \
		.flops = { [COMPUTE_BF16] = 1e12 * (bf16),   \
			   [COMPUTE_FP8] = 1e12 * (fp8),     \
			   [COMPUTE_FP4] = 1e12 * (fp4) },   \
		.l2_bytes = 1048576.0 * (mib), .source = src \
	}

enum gpu_id {
	A100_40,
	A100_PCIE,
	A100_SXM,
	A10,
	L4,
	L40S,
	RTX4090,
	RTX5090,
	PRO_WS,
	PRO_SE,
	H100_PCIE,
	H100_SXM,
	H100_NVL,
	H800_SXM,
	H20,
	H200_SXM,
	H200_NVL,
	GH200,
	B200,
	GB200,
	B300,
	MI300X,
	GB10,
	GPUS
};

static const struct gpu gpus[GPUS] = {
	[A100_40] =
		ROW("A100-40GB", 1555, 312, 0, 0, 40, "NVIDIA A100 data sheet"),
	[A100_PCIE] = ROW("A100-80GB-PCIe", 1935, 312, 0, 0, 40,
			  "NVIDIA A100 data sheet"),
	[A100_SXM] = ROW("A100-80GB-SXM", 2039, 312, 0, 0, 40,
			 "NVIDIA A100 data sheet"),
	[A10] = ROW("A10", 600, 125, 0, 0, 6, "NVIDIA A10 data sheet"),
	[L4] = ROW("L4", 300, 121, 242.5, 0, 48,
		   "NVIDIA L4 data sheet, sparse figures halved"),
	[L40S] = ROW("L40S", 864, 362.05, 733, 0, 96,
		     "NVIDIA L40S data sheet; L2 unconfirmed"),
	[RTX4090] = ROW("RTX4090", 1008, 165.2, 330.3, 0, 72,
			"NVIDIA Ada architecture paper, FP32 accumulation"),
	[RTX5090] = ROW("RTX5090", 1792, 209.5, 419, 1676, 96,
			"NVIDIA RTX Blackwell paper, FP32 accumulation; "
			"BF16 and FP8 derived from FP4"),
	[PRO_WS] = ROW("RTXPRO6000-WS", 1792, 503.8, 1007.6, 2015.2, 128,
		       "NVIDIA RTX PRO Blackwell paper"),
	[PRO_SE] = ROW("RTXPRO6000-SE", 1597, 503.8, 1007.6, 2015.2, 128,
		       "NVIDIA RTX PRO 6000 Server Edition data sheet"),
	[H100_PCIE] = ROW("H100-PCIe", 2000, 756, 1513, 0, 50,
			  "NVIDIA H100 data sheet, sparse figures halved"),
	[H100_SXM] = ROW("H100-SXM", 3352, 989.4, 1978.9, 0, 50,
			 "NVIDIA H100 data sheet, sparse figures halved"),
	[H100_NVL] = ROW("H100-NVL", 3938, 835.5, 1671, 0, 50,
			 "NVIDIA H100 NVL data sheet, one GPU; BF16 "
			 "unconfirmed"),
	[H800_SXM] = ROW("H800-SXM", 3352, 989.4, 1978.9, 0, 50,
			 "as H100 SXM; only NVLink differs"),
	[H20] = ROW("H20-96GB", 4022, 148, 296, 0, 60, "NVIDIA H20 data sheet"),
	[H200_SXM] = ROW("H200-SXM", 4800, 989.4, 1978.9, 0, 50,
			 "NVIDIA H200 data sheet, sparse figures halved"),
	[H200_NVL] = ROW("H200-NVL", 4800, 835.5, 1671, 0, 50,
			 "NVIDIA H200 data sheet, NVL column halved; "
			 "unconfirmed"),
	[GH200] = ROW("GH200-96GB", 4000, 989.4, 1978.9, 0, 50,
		      "NVIDIA GH200 data sheet, 96 GB HBM3; unconfirmed"),
	[B200] = ROW("B200-HGX", 8000, 2250, 4500, 9000, 126,
		     "NVIDIA HGX B200 data sheet; L2 unconfirmed"),
	[GB200] = ROW("GB200", 8000, 2500, 5000, 10000, 126,
		      "NVIDIA GB200 NVL72 data sheet; L2 unconfirmed"),
	[B300] = ROW("B300-HGX", 8000, 2250, 4500, 13500, 126,
		     "NVIDIA HGX B300: 108 PFLOPS dense FP4 / 8"),
	[MI300X] = ROW("MI300X", 5300, 1307.4, 2614.9, 0, 256,
		       "AMD MI300X data sheet; Infinity Cache, not L2"),
	[GB10] = ROW("GB10-Spark", 273, 62.05, 124.1, 496.4, 24,
		     "NVIDIA DGX Spark; tensor rates of third parties"),
};

/* Words that a name must have; the first row that fits wins. */
static const struct {
	const char *words;
	enum gpu_id gpu;
} aliases[] = {
	{ "a100 40gb", A100_40 },
	{ "a100 pcie", A100_PCIE },
	{ "a100", A100_SXM },
	{ "a800 40gb", A100_40 },
	{ "a800 pcie", A100_PCIE },
	{ "a800", A100_SXM },
	{ "a10", A10 },
	{ "l4", L4 },
	{ "l40s", L40S },
	{ "rtx4090", RTX4090 },
	{ "rtx 4090", RTX4090 },
	{ "rtx5090", RTX5090 },
	{ "rtx 5090", RTX5090 },
	{ "rtx pro 6000 server", PRO_SE },
	{ "rtx pro 6000 se", PRO_SE },
	{ "rtx pro 6000", PRO_WS },
	{ "rtxpro6000 se", PRO_SE },
	{ "rtxpro6000", PRO_WS },
	{ "h100 pcie", H100_PCIE },
	{ "h100 nvl", H100_NVL },
	{ "h100", H100_SXM },
	{ "h800", H800_SXM },
	{ "h20", H20 },
	{ "h200 nvl", H200_NVL },
	{ "h200", H200_SXM },
	{ "gh200", GH200 },
	{ "b200", B200 },
	{ "gb200", GB200 },
	{ "b300", B300 },
	{ "mi300x", MI300X },
	{ "gb10", GB10 },
};

/* Variants with other peaks, or a part of a GPU: better unknown than wrong. */
static const char *const variants[] = { "mig",  "laptop", "d",     "max",
					"3e",   "64gb",   "144gb", "144g",
					"32gb", "mobile" };

struct tokens {
	char t[TOKENS_MAX][TOKEN_BYTES];
	unsigned n;
};

static void split_name(const char *name, struct tokens *out)
{
	size_t len = 0;

	out->n = 0;
	for (; *name && out->n < TOKENS_MAX; name++) {
		if (isalnum((unsigned char)*name)) {
			if (len + 1 < TOKEN_BYTES)
				out->t[out->n][len++] =
					(char)tolower((unsigned char)*name);
			continue;
		}
		if (len) {
			out->t[out->n++][len] = '\0';
			len = 0;
		}
	}
	if (len && out->n < TOKENS_MAX)
		out->t[out->n++][len] = '\0';
}

static bool has_token(const struct tokens *in, const char *word, size_t n)
{
	for (unsigned i = 0; i < in->n; i++)
		if (strlen(in->t[i]) == n && memcmp(in->t[i], word, n) == 0)
			return true;
	return false;
}

static bool has_all(const struct tokens *in, const char *words)
{
	while (*words) {
		size_t n = strcspn(words, " ");

		if (!has_token(in, words, n))
			return false;
		words += n;
		words += strspn(words, " ");
	}
	return true;
}

const struct gpu *gpu_find(const char *name)
{
	struct tokens in;

	if (!name)
		return NULL;
	split_name(name, &in);
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		if (has_all(&in, variants[i]))
			return NULL;
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (has_all(&in, aliases[i].words))
			return &gpus[aliases[i].gpu];
	return NULL;
}

const struct gpu *gpu_at(unsigned i)
{
	return i < GPUS ? &gpus[i] : NULL;
}

enum compute_type gpu_compute(const struct gpu *g, enum compute_type c)
{
	return g->flops[c] > 0 ? c : COMPUTE_BF16;
}

double gpu_flops(const struct gpu *g, enum compute_type c)
{
	return g->flops[gpu_compute(g, c)];
}
