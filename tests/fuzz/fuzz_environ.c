/*
 * fuzz_environ.c - any bytes as the environment and the control groups of a
 * process, as its status, and as the names of its open files
 */
#include "target/container.h"
#include "target/ray.h"
#include "target/version.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1), out[64], job[RAY_JOB_BYTES];
	struct container c;

	memcpy(text, data, bytes);
	text[bytes] = '\0';
	container_parse(text, bytes, &c);
	container_describe(&c, out, sizeof(out));
	if (strlen(out) >= sizeof(out))
		abort();
	for (const char *p = out; *p; p++)
		if (*p < ' ' || *p > '~')
			abort();
	if (container_inner_pid(text) < 0)
		abort();
	if (!ray_job_parse(text, job, sizeof(job)) &&
	    strlen(job) >= sizeof(job))
		abort();
	if (!version_parse(text, "vllm", out, sizeof(out)) &&
	    strlen(out) >= sizeof(out))
		abort();
	/* cut at any place, too */
	container_parse(text, bytes / 2, &c);
	free(text);
	return 0;
}
