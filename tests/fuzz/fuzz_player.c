/*
 * fuzz_player.c - any bytes as a recording; what plays must also print
 */
#include "exporter/exporter.h"
#include "exporter/recording.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void fuzz_file(const uint8_t *data, size_t bytes)
{
	static struct snapshot s;
	struct player *p;
	char path[64], why[256];
	int fd = memfd_create("recording", MFD_CLOEXEC), err;

	if (fd < 0 || write(fd, RECORDING_MAGIC, RECORDING_MAGIC_BYTES) < 0 ||
	    write(fd, data, bytes) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (player_open(&p, path, why, sizeof(why)))
		abort();
	do
		err = player_next(p, &s);
	while (err == 1);
	player_close(p);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct snapshot s;
	struct text t = { 0 };

	if (bytes && recording_unpack(NULL, data, bytes, &s) == 0) {
		format_json.write(&t, &s);
		format_prometheus.write(&t, &s);
		if (t.error || strlen(t.data) != t.bytes)
			abort();
		text_free(&t);
	}
	fuzz_file(data, bytes);
	return 0;
}
