#include "sim/gpu/cupti_played.h"
#include "sim/gpu/cupti_state.h"

#include <string.h>
#include <time.h>

/* The records of CUDA 13.0; newer ones append, older ones end earlier. */
struct kernel10 {
	struct cupti_kernel head;
	void *access_policy;
	uint32_t channel, channel_type;
	uint32_t cluster[3], cluster_policy;
	uint64_t local_total;
	uint32_t max_cluster, active_clusters;
	uint8_t device_launched, pad[7];
};

struct memcpy6 {
	uint32_t kind;
	uint8_t copy_kind, src_kind, dst_kind, flags;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation, runtime_correlation, pad;
	void *reserved0;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
	uint64_t copy_count;
};

struct memset4 {
	uint32_t kind, value;
	uint64_t bytes, start, end;
	uint32_t device, context, stream, correlation;
	uint16_t flags, memory_kind;
	uint32_t pad;
	void *reserved0;
	uint64_t graph_node;
	uint32_t graph, channel, channel_type;
	uint8_t device_launched, pad2[3];
};

_Static_assert(sizeof(struct kernel10) == 216, "abi");
_Static_assert(sizeof(struct memcpy6) == 96, "abi");
_Static_assert(sizeof(struct memset4) == 88, "abi");
_Static_assert(offsetof(struct memcpy6, channel) == 76, "abi");
_Static_assert(offsetof(struct memset4, graph_node) == 64, "abi");

enum { COMPUTE = 1, ASYNC_COPY = 2 }; /* channel types */
enum { PINNED = 2, DEVICE = 3 };      /* memory kinds */
enum { HTOD = 1, DTOH = 2, SMEM_RESERVED = 1024 };

static uint64_t read_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t cupti_monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

static int64_t offset_ns;

/* Of many pairs the tightest: a reader that is interrupted between its two
 * clocks would shift every record. */
static void find_offset(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 32; i++) {
		uint64_t before = read_clock(CLOCK_MONOTONIC);
		uint64_t real = read_clock(CLOCK_REALTIME);
		uint64_t after = read_clock(CLOCK_MONOTONIC);

		if (after - before >= best)
			continue;
		best = after - before;
		offset_ns = (int64_t)(real - before - best / 2);
	}
}

int64_t cupti_offset_ns(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_offset);
	return offset_ns;
}

int64_t cupti_jitter_ns(uint64_t n)
{
	static _Atomic uint64_t calls;
	uint64_t x;

	if (n == 0)
		return 0;
	x = atomic_fetch_add(&calls, 1) * UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	return (int64_t)((x >> 32) % (2 * n + 1)) - (int64_t)n;
}

static uint64_t stamp(const struct pending *x, uint64_t t, bool incomplete)
{
	if (incomplete || x->zero)
		return 0;
	return (uint64_t)((int64_t)t + x->shift_ns);
}

/* As much of the 13.0 record as the played release has.  What it appends is
 * full of ones: nobody may rely on that. */
static size_t finish(uint8_t *p, uint32_t kind, const void *record,
		     size_t bytes)
{
	uint32_t played = cupti_played_bytes(kind);

	memset(p, 0xff, played);
	memcpy(p, record, bytes < played ? bytes : played);
	if (simgpu_fault("strange_records", NULL))
		memmove(p + 16, p + 8, played - 16);
	return played;
}

static size_t write_kernel(uint8_t *p, const struct pending *x, bool incomplete)
{
	const struct simgpu_record *r = &x->r;
	struct kernel10 k = {
		.head = {
			.kind = x->serial ? CUPTI_KIND_KERNEL : CUPTI_KIND_CONCURRENT_KERNEL,
			.registers = 64,
			.partitioned_cache = { 1, 1 }, /* not supported */
			.start = stamp(x, r->start_ns, incomplete),
			.end = stamp(x, r->end_ns, incomplete),
			.completed = stamp(x, r->end_ns, incomplete),
			.context = r->context,
			.stream = r->stream,
			.dynamic_smem = (int32_t)r->dynamic_smem,
			.correlation = r->correlation,
			.grid_id = (int64_t)++cupti.grid_id,
			.name = r->name,
			.smem_executed = r->dynamic_smem + SMEM_RESERVED,
			.graph_node = r->graph_node,
			.graph = r->graph,
		},
		.channel = 8,
		.channel_type = COMPUTE,
	};

	for (int i = 0; i < 3; i++) {
		k.head.grid[i] = (int32_t)r->grid[i];
		k.head.block[i] = (int32_t)r->block[i];
	}
	return finish(p, k.head.kind, &k, sizeof(k));
}

static size_t write_memcpy(uint8_t *p, const struct pending *x, bool incomplete)
{
	const struct simgpu_record *r = &x->r;
	const struct memcpy6 m = {
		.kind = CUPTI_KIND_MEMCPY,
		.copy_kind = r->copy_kind,
		.src_kind = r->copy_kind == HTOD ? PINNED : DEVICE,
		.dst_kind = r->copy_kind == DTOH ? PINNED : DEVICE,
		.flags = 1, /* asynchronous */
		.bytes = r->bytes,
		.start = stamp(x, r->start_ns, incomplete),
		.end = stamp(x, r->end_ns, incomplete),
		.context = r->context,
		.stream = r->stream,
		.correlation = r->correlation,
		.graph_node = r->graph_node,
		.graph = r->graph,
		.channel = 9,
		.channel_type = ASYNC_COPY,
		.copy_count = 1,
	};

	return finish(p, m.kind, &m, sizeof(m));
}

static size_t write_memset(uint8_t *p, const struct pending *x, bool incomplete)
{
	const struct simgpu_record *r = &x->r;
	const struct memset4 m = {
		.kind = CUPTI_KIND_MEMSET,
		.value = r->value,
		.bytes = r->bytes,
		.start = stamp(x, r->start_ns, incomplete),
		.end = stamp(x, r->end_ns, incomplete),
		.context = r->context,
		.stream = r->stream,
		.correlation = r->correlation,
		.memory_kind = DEVICE,
		.graph_node = r->graph_node,
		.graph = r->graph,
		.channel = 8,
		.channel_type = COMPUTE,
	};

	return finish(p, m.kind, &m, sizeof(m));
}

size_t cupti_record_write(uint8_t *p, const struct pending *x, bool incomplete)
{
	if (x->r.name)
		return write_kernel(p, x, incomplete);
	return x->r.copy_kind ? write_memcpy(p, x, incomplete)
			      : write_memset(p, x, incomplete);
}
