#include "model/hw.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define TOKENS_MAX 16u
#define TOKEN_BYTES 16u

enum gpu_id {
#define GPU(id, name, gb, bf16, fp8, fp4, mib, mem, src) id,
#include "model/gpus.def"
#undef GPU
	GPUS
};

static const struct gpu gpus[GPUS] = {
#define GPU(id, n, gb, bf16, fp8, fp4, mib, mem, src)       \
	[id] = { .name = (n),                               \
		 .bw = 1e9 * (gb),                          \
		 .flops = { [COMPUTE_BF16] = 1e12 * (bf16), \
			    [COMPUTE_FP8] = 1e12 * (fp8),   \
			    [COMPUTE_FP4] = 1e12 * (fp4) }, \
		 .l2_bytes = 1048576.0 * (mib),             \
		 .memory_bytes = 1e9 * (mem),               \
		 .source = (src) },
#include "model/gpus.def"
#undef GPU
};

struct alias {
	const char *words;
	enum gpu_id gpu;
};

/* Names with a word that elsewhere means a variant. */
static const struct alias precise[] = {
	{ "v100 sxm2", V100_SXM },
	{ "v100 sxm3", V100_SXM },
	{ "v100 pcie", V100_PCIE },
	{ "v100", V100_SXM },
	{ "h20 3e", H20_3E },
	{ "h20 141gb", H20_3E },
	{ "gh200 144g", GH200_144 },
	{ "gh200 144gb", GH200_144 },
	{ "rtx pro 6000 max q", PRO_MAXQ },
	{ "rtxpro6000 maxq", PRO_MAXQ },
};

/* Words that a name must have; the first row that fits wins. */
static const struct alias aliases[] = {
	{ "a100 40gb", A100_40 },
	{ "a100 pcie", A100_PCIE },
	{ "a100", A100_SXM },
	{ "a800 40gb", A100_40 },
	{ "a800 pcie", A100_PCIE },
	{ "a800", A100_SXM },
	{ "t4", T4 },
	{ "a30", A30 },
	{ "a40", A40 },
	{ "a10", A10 },
	{ "a10g", A10G },
	{ "l4", L4 },
	{ "l20", L20 },
	{ "l40", L40 },
	{ "l40s", L40S },
	{ "rtx a6000", RTXA6000 },
	{ "rtxa6000", RTXA6000 },
	{ "rtx 6000 ada", RTX6000_ADA },
	{ "rtx6000 ada", RTX6000_ADA },
	{ "rtx3090", RTX3090 },
	{ "rtx 3090", RTX3090 },
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
	{ "h800 pcie", H100_PCIE },
	{ "h800", H800_SXM },
	{ "h20", H20 },
	{ "h200 nvl", H200_NVL },
	{ "h200", H200_SXM },
	{ "gh200", GH200 },
	{ "b200", B200 },
	{ "gb200", GB200 },
	{ "b300", B300 },
	{ "gb300", GB300 },
	{ "gb10", GB10 },
	{ "mi300x", MI300X },
	{ "mi325x", MI325X },
	{ "mi350x", MI350X },
	{ "mi355x", MI355X },
};

/* A part of a GPU, or one that is clocked otherwise: better unknown than
 * wrong.  Other sizes of memory have other bandwidths. */
static const char *const parts[] = { "mig", "laptop", "mobile", "d", "ti" };
static const char *const variants[] = { "max",  "3e",    "32gb", "64gb",
					"144g", "144gb", "20gb", "48gb" };

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

static bool has_any(const struct tokens *in, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_all(in, words[i]))
			return true;
	return false;
}

static const struct gpu *look_up(const struct tokens *in,
				 const struct alias *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_all(in, table[i].words))
			return &gpus[table[i].gpu];
	return NULL;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct gpu *gpu_find(const char *name)
{
	const struct gpu *g;
	struct tokens in;

	if (!name)
		return NULL;
	split_name(name, &in);
	if (has_any(&in, parts, COUNT(parts)))
		return NULL;
	g = look_up(&in, precise, COUNT(precise));
	if (g || has_any(&in, variants, COUNT(variants)))
		return g;
	return look_up(&in, aliases, COUNT(aliases));
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
