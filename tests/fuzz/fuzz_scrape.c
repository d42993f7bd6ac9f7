/* fuzz_scrape.c - any bytes as the engine's metrics */
#include "target/promtext.h"
#include "target/scrape.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_all(void *arg, const struct promtext_sample *s)
{
	size_t *sum = arg;

	*sum += strlen(s->name);
	for (unsigned i = 0; i < s->n_labels; i++)
		*sum += strlen(s->labels[i].name) + strlen(s->labels[i].value);
}

/* In two pieces or as a whole: the same samples. */
static void check_pieces(const char *text, size_t n)
{
	const struct promtext_handler handler = { .sample = read_all };
	size_t sums[2] = { 0 };

	for (unsigned i = 0; i < 2; i++) {
		size_t cut = i ? n / 2 : n;
		struct promtext *x;

		if (promtext_new(&x, &handler, &sums[i]))
			abort();
		promtext_feed(x, text, cut);
		promtext_feed(x, text + cut, n - cut);
		promtext_finish(x);
		promtext_free(x);
	}
	if (sums[0] != sums[1])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct scrape s = { .running = -1 };
	int err = scrape_parse((const char *)data, bytes, &s);

	/* an error leaves the result alone, success means an engine */
	if (err ? s.running >= 0 || s.engine[0] : !s.engine[0])
		abort();
	for (unsigned v = 0; !err && v < ENGINE_VALUES; v++)
		if (s.values[v] < 0)
			abort();
	for (unsigned h = 0; !err && h < ENGINE_HISTS; h++)
		for (unsigned i = 1; i < s.hists[h].n; i++)
			if (!(s.hists[h].buckets[i].upper >
			      s.hists[h].buckets[i - 1].upper))
				abort();
	check_pieces((const char *)data, bytes);
	return 0;
}
