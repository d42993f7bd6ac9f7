/* fuzz_popularity.c - any bytes as a table of expert popularity; the first one
 * chooses the number of experts */
#include "model/popularity.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const struct popularity *p, double k)
{
	double before = 0;

	for (double b = 1; b < 1e6; b *= 31) {
		double u = popularity_active(p, b);
		double f1 = popularity_single(p, b);

		if (!isfinite(u) || !isfinite(f1) || u < before * (1 - 1e-9) ||
		    u > p->experts * (1 + 1e-9) || u > k * b * (1 + 1e-9) ||
		    f1 < 0 || f1 > u * (1 + 1e-9))
			abort();
		before = u;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct popularity *p = NULL;
	uint32_t experts = bytes ? data[0] % 8u : 0;
	double k = experts ? 1 + data[0] / 8u % experts : 1;
	char why[160] = "";
	int err;

	if (!bytes)
		return 0;
	err = popularity_parse((const char *)data + 1, bytes - 1, experts, k,
			       &p, why, sizeof(why));
	if (err ? p || !why[0] || strpbrk(why, "\n\r\033") : !p)
		abort();
	if (p)
		check(p, k);
	free(p);
	return 0;
}
