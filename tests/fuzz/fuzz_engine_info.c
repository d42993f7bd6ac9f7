/* fuzz_engine_info.c - any bytes as a server's log and as its pages */
#include "target/engine_info.h"
#include "target/engine_log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whatever is kept ends within its room. */
static void check_log(const char *text, size_t bytes)
{
	struct engine_log l;

	engine_log_init(&l);
	engine_log_add(&l, text, bytes);
	if (!memchr(l.model, '\0', sizeof(l.model)) ||
	    !memchr(l.moe_backend, '\0', sizeof(l.moe_backend)) ||
	    !memchr(l.capture_sizes, '\0', sizeof(l.capture_sizes)) ||
	    l.running < 0 || l.kv_share < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct engine_info_page *p = engine_info_pages;
	struct engine_info i = { .tp = 0 };

	check_log((const char *)data, bytes);
	for (; p->path; p++)
		if (!engine_info_add(&i, p, (const char *)data, bytes) &&
		    (i.launch.n > LAUNCH_MAX ||
		     !memchr(i.model, '\0', sizeof(i.model))))
			abort();
	return 0;
}
