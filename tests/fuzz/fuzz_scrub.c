/* Any text and environment: the scrubber ends, and a word that was named is not
 * in what it lets through. */
#include "core/scrub.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORD "Planted%Word"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	size_t half = bytes / 2, rest = bytes - half;
	struct scrub *s = scrub_new();
	char *text = malloc(bytes + sizeof(WORD)), *out;

	if (!s || !text)
		abort();
	scrub_word(s, WORD, "<x>", false);
	scrub_environ(s, (const char *)data, half);
	scrub_cmdline(s, (const char *)data, half);
	memcpy(text, data, half);
	memcpy(text + half, WORD, sizeof(WORD) - 1);
	memcpy(text + half + sizeof(WORD) - 1, data + half, rest);
	text[bytes + sizeof(WORD) - 1] = '\0';
	out = scrub_text(s, text);
	if (!out ||
	    (strlen(text) >= half + sizeof(WORD) - 1 && strstr(out, WORD)))
		abort();
	free(out);
	free(text);
	scrub_free(s);
	return 0;
}
