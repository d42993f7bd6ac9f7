/* fuzz_negotiate.c - any bytes as Accept, Accept-Encoding and Authorization */
#include "exporter/http_auth.h"
#include "exporter/negotiate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1), *room = malloc(bytes + 1);
	const char *name, *password;
	struct wanted w;

	if (!text || !room)
		abort();
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	negotiate_format(text, &w);
	/* what goes back into a header is a word of ours */
	if ((unsigned)w.format >= WIRE_FORMATS ||
	    (w.escaping && strpbrk(w.escaping, "\r\n;, ")))
		abort();
	(void)negotiate_gzip(text);
	if (auth_decode(text, room, bytes + 1, &name, &password) &&
	    (strchr(name, ':') || password != name + strlen(name) + 1))
		abort();
	free(room);
	free(text);
	return 0;
}
