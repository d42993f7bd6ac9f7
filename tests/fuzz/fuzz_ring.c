/*
 * fuzz_ring.c - any bytes as a ring, through the reader
 *
 * clang -fsanitize=fuzzer,address,undefined; the first 8 input bytes choose
 * the clock, the rest is laid over a valid ring by exclusive or, so that a
 * zero byte keeps what is right.  Without the last byte's low bit the file
 * keeps its size, otherwise it has that of the input.
 */
#include "wire/ring.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CAPACITY 16u
#define FILE_BYTES (RING_HEADER_BYTES + CAPACITY * RECORD_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(int fd, uint64_t now_ns)
{
	struct ring_reader r;
	struct record out[5];

	if (ring_open(&r, fd, now_ns))
		return;
	for (int i = 0; i < 64 && ring_read(&r, out, 5) > 0; i++)
		ring_lost(&r);
	ring_close(&r, false);
}

static size_t forge(uint8_t *file, const uint8_t *data, size_t size)
{
	struct ring_header h = {
		.magic = RING_MAGIC,
		.version = RING_VERSION,
		.record_version = RECORD_VERSION,
		.record_bytes = RECORD_BYTES,
		.capacity = CAPACITY,
		.head = 20,
		.tail = 7,
	};
	size_t n = size < FILE_BYTES ? size : FILE_BYTES;

	memset(file, 0, FILE_BYTES);
	memcpy(file, &h, sizeof(h));
	for (size_t i = 0; i < n; i++)
		file[i] ^= data[i];
	return n && (data[n - 1] & 1) ? n : FILE_BYTES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[FILE_BYTES];
	uint64_t now_ns;
	size_t bytes;
	int fd;

	if (size < sizeof(now_ns))
		return 0;
	memcpy(&now_ns, data, sizeof(now_ns));
	bytes = forge(file, data + sizeof(now_ns), size - sizeof(now_ns));
	fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return 0;
	if (write(fd, file, bytes) == (ssize_t)bytes) {
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
		read_all(fd, now_ns);
	}
	close(fd);
	return 0;
}
