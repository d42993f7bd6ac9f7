/*
 * fuzz_records.c - any bytes as CUPTI's records, through pool and decoder
 *
 * clang -fsanitize=fuzzer,address,undefined.  The first byte chooses a release,
 * the rest becomes the buffers that a stand-in for CUPTI returns: as it is or
 * laid over good records by exclusive or, twice, with impossible lengths.  Its cuptiActivityGetNextRecord steps by the
 * sizes of that release and refuses what is not whole, as the real one does.
 * Names are pointers, which no input can hold: each becomes one of a few.
 *
 * Checked: every kernel record is counted as used or dropped, none twice; no
 * record is used after a layout was found bad; all buffers of the pool are there
 * afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "cupti/buffers.h"
#include "cupti/decode.h"
#include "cupti/release.h"

#define POOL 4u
#define BYTES 4096u
#define EVENTS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t kernel_bytes;

static size_t bytes_of(const uint8_t *record)
{
	uint32_t kind;

	memcpy(&kind, record, sizeof(kind));
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return kernel_bytes;
	case CUPTI_KIND_MEMCPY:
		return 96;
	case CUPTI_KIND_MEMSET:
		return 88;
	default:
		return 0;
	}
}

static int next_record(uint8_t *b, size_t valid, void **record)
{
	uint8_t *at = *record ? (uint8_t *)*record + bytes_of(*record) : b;
	size_t left = (size_t)(b + valid - at), bytes;

	if (!left)
		return CUPTI_E_MAX_LIMIT_REACHED;
	bytes = left < 8 ? 0 : bytes_of(at);
	if (!bytes || bytes > left)
		return 21; /* CUPTI_ERROR_INVALID_KIND */
	*record = at;
	return CUPTI_OK;
}

static int struct_size(int kind, uint32_t version, size_t *bytes)
{
	(void)kind;
	(void)version;
	*bytes = kernel_bytes;
	return CUPTI_OK;
}

/* Make the names good, and count the kernel records that CUPTI would say are
 * there. */
static uint64_t prepare(uint8_t *b, size_t valid)
{
	static const char *const names[] = { "fused_moe_kernel", "nvjet_tst_64",
					     "x", NULL };
	void *record = NULL;
	uint64_t kernels = 0;

	while (next_record(b, valid, &record) == CUPTI_OK) {
		struct cupti_kernel *k = record;

		if (bytes_of(record) != kernel_bytes)
			continue;
		k->name = names[(uintptr_t)k->name % 4];
		kernels++;
	}
	return kernels;
}

static void check(bool good)
{
	if (!good)
		abort();
}

/* Made once: the tables are large. */
static struct decode *decoder(uint8_t choice)
{
	static const struct cupti_api cupti = { .next_record = next_record,
						.struct_size = struct_size };
	static const uint32_t versions[] = { 18, 28, 130001, 130401, 140000 };
	static struct kernel_names *names;
	static struct reduce *reduce;
	static struct decode d;
	uint32_t version = versions[choice % 5];

	if (!reduce) {
		names = kernel_names_new();
		reduce = reduce_new(EVENTS, names);
		check(names && reduce);
	}
	memset(&d, 0, offsetof(struct decode, copy));
	d.cupti = &cupti;
	d.names = names;
	d.reduce = reduce;
	kernel_bytes = cupti_kernel_bytes(version);
	reduce_begin(reduce);
	decode_meet(&d, version);
	return &d;
}

static void read_buffers(struct decode *d, struct buffers *b)
{
	uint8_t *buffer;
	size_t valid;

	decode_begin(d);
	while ((buffer = buffers_take(b, &valid))) {
		uint64_t before = d->kernels, there = prepare(buffer, valid);
		int err = d->bad_layout ? 0 : decode_buffer(d, buffer, valid);

		check(err || d->bad_layout || d->kernels == before + there);
		check(!err || d->bad_layout);
		check(d->kernels <= before + there);
		buffers_give(b, buffer);
	}
	check(d->kernels ==
	      d->bad_stamps + d->no_room + reduce_events(d->reduce));
	check(d->copies <= COPIES_MAX);
}

/* Kernels with a copy between them now and then. */
static void lay_good_records(uint8_t *p, size_t bytes)
{
	struct cupti_kernel k = { .kind = CUPTI_KIND_CONCURRENT_KERNEL,
				  .start = 1000,
				  .end = 2000,
				  .grid = { 1, 1, 1 },
				  .block = { 128, 1, 1 },
				  .correlation = 1 };
	struct cupti_memcpy m = { .kind = CUPTI_KIND_MEMCPY,
				  .copy_kind = CUPTI_COPY_DTOH,
				  .start = 1000,
				  .end = 2000 };
	size_t at = 0;

	memset(p, 0, bytes);
	for (int i = 0; at + kernel_bytes + 96 <= bytes; i++) {
		memcpy(p + at, &k, sizeof(k));
		at += kernel_bytes;
		if (i % 3 == 2) {
			memcpy(p + at, &m, sizeof(m));
			at += 96;
		}
	}
}

/* One buffer: its length and what becomes of it from two bytes of the input. */
static size_t fill(struct buffers *b, const uint8_t *data, size_t size)
{
	size_t bytes, n, valid = (size_t)data[0] * 17;
	uint8_t *p = buffers_request(b, &bytes), what = data[1];

	data += 2;
	n = size - 2 < bytes ? size - 2 : bytes;
	n = n < valid ? n : valid;
	lay_good_records(p, bytes);
	if (what & 4)
		memcpy(p, data, n);
	for (size_t i = 0; !(what & 4) && i < n; i++)
		p[i] ^= data[i];
	buffers_complete(b, p, valid);
	if (what & 1)
		buffers_complete(b, p, valid); /* twice */
	if (what & 2)
		buffers_complete(b, p + 8, valid);
	return 2 + n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buffers b;
	struct decode *d;
	size_t bytes;

	if (size < 4 || buffers_init(&b, POOL, BYTES))
		return 0;
	d = decoder(data[0]);
	for (size_t at = 1; at + 2 < size;)
		at += fill(&b, data + at, size - at);
	read_buffers(d, &b);
	for (uint32_t i = 0; i < POOL; i++)
		check(buffers_request(&b, &bytes) != b.discard);
	check(buffers_request(&b, &bytes) == b.discard);
	buffers_fini(&b);
	return 0;
}
