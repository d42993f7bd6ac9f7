/*
 * fuzz_adapters.c - shuffled arguments of MoE kernels are refused or read right
 *
 * clang -fsanitize=fuzzer,address,undefined.  The input chooses an adapter, the
 * shape of a batch, the seed of its routing, and which parameters (or words of
 * the struct) change places, with their sizes, as if a new release had moved
 * them; the last bytes change sizes that the driver reports.  Device memory is
 * that of tests/unit/cupti/layouts.h.
 *
 * Checked: what is taken for rows is the batch's rows per expert in every layer.
 */
#include "tests/unit/cupti/layouts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct world world;
static struct functions functions;

static uint8_t take(const uint8_t **data, size_t *size)
{
	if (!*size)
		return 0;
	--*size;
	return *(*data)++;
}

static size_t adapters(void)
{
	size_t n = 0;

	while (adapter_at(n))
		n++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct row_adapter *a;
	uint32_t k, experts, rows, padding;
	struct call c;
	unsigned swaps;

	if (size < 8)
		return 0;
	a = adapter_at(take(&data, &size) % adapters());
	k = 2 + take(&data, &size) % 7;
	experts = 8 + take(&data, &size) % (WORLD_EXPERTS_MAX - 7);
	if (experts < 2 * k)
		experts = 2 * k;
	rows = 1 + take(&data, &size) % WORLD_ROWS_MAX;
	if (a->rows == ARG_ONE)
		rows = 1;
	padding = take(&data, &size) % rows;
	world_make(&world, 1 + take(&data, &size) * 256u + take(&data, &size),
		   rows, padding, k, experts);
	call_make(&c, &world, a);
	swaps = take(&data, &size) % 8;
	for (unsigned i = 0; i < swaps; i++) {
		unsigned from = take(&data, &size);

		call_swap(&c, from, take(&data, &size));
	}
	if (call_read(&functions, &c, &world) == VERDICT_WRONG)
		abort();
	return 0;
}
