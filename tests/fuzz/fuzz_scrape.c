/* fuzz_scrape.c - any bytes as the engine's metrics */
#include "target/scrape.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct scrape s = { .running = -1 };
	int err = scrape_parse((const char *)data, bytes, &s);

	/* an error leaves the result alone, success means numbers */
	if (err ? s.running >= 0 || s.engine[0] : !s.engine[0])
		abort();
	if (!err &&
	    (s.running < 0 || s.waiting < 0 || s.generation_tokens_total < 0))
		abort();
	return 0;
}
