#include "cupti/decode.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cupti/release.h"

/* Records that are looked at closely: of a release in the table one, in case
 * the library lies about its version. */
#define CHECKED_KNOWN 1u
#define CHECKED_UNKNOWN 64u

/* Can the name be read, without touching it? */
static bool readable_name(const char *name)
{
	char text[8];
	struct iovec to = { text, sizeof(text) };
	struct iovec from = { (void *)(uintptr_t)name, sizeof(text) };
	ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	/* Not permitted here: then a non-null pointer has to do. */
	if (n < 0 && (errno == EPERM || errno == ENOSYS))
		return true;
	return n > 0 && text[0] > ' ' && text[0] < 127;
}

/* Of threads per block and of devices there are never more. */
enum { THREADS_MAX = 1024, DEVICES_MAX = 1024 };

static bool has_sane_shape(const struct cupti_kernel *k)
{
	for (int i = 0; i < 3; i++)
		if (k->grid[i] <= 0 || k->block[i] <= 0 ||
		    k->block[i] > THREADS_MAX)
			return false;
	return k->block[0] * k->block[1] <= THREADS_MAX &&
	       k->block[0] * k->block[1] * k->block[2] <= THREADS_MAX;
}

static bool sane(const struct decode *d, const struct cupti_kernel *k)
{
	if (!has_sane_shape(k) || !k->name || !readable_name(k->name))
		return false;
	if (!d->unknown)
		return true;
	return k->start <= k->end && k->device < DEVICES_MAX &&
	       k->correlation != 0 &&
	       (!d->kernel_bytes || d->kernel_bytes >= sizeof(*k)) &&
	       (!d->stride || d->stride >= sizeof(*k)) &&
	       (!d->stride || !d->kernel_bytes ||
		d->stride % d->kernel_bytes == 0);
}

static struct kernel_name *name_of(struct decode *d, const char *pointer)
{
	uintptr_t p = (uintptr_t)pointer;
	struct decode_name *s = &d->seen[(p ^ p >> 8) % DECODE_NAMES];

	if (s->pointer != pointer || s->turn != d->turn)
		*s = (struct decode_name){ pointer,
					   kernel_names_get(d->names, pointer),
					   d->turn };
	return s->name;
}

static int take_kernel(struct decode *d, const struct cupti_kernel *k)
{
	uint64_t length = k->end - k->start;
	struct kernel_name *name;
	struct reduce_event e;

	if (d->checked < (d->unknown ? CHECKED_UNKNOWN : CHECKED_KNOWN)) {
		d->bad_layout = !sane(d, k);
		if (d->bad_layout)
			return -EPROTO;
		d->checked++;
	}
	d->kernels++;
	if (!k->start || k->end < k->start || !k->name) {
		d->bad_stamps++;
		return 0;
	}
	name = name_of(d, k->name);
	e = (struct reduce_event){
		.start = k->start,
		.graph_node = k->graph_node,
		.length = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX,
		.correlation = k->correlation,
		.graph = k->graph,
		.name = name->id,
		.klass = name->klass,
	};
	if (reduce_add(d->reduce, &e))
		d->no_room++;
	return 0;
}

static void take_copy(struct decode *d, const struct cupti_memcpy *m)
{
	if (m->copy_kind != CUPTI_COPY_DTOH || !m->start || m->end < m->start)
		return;
	/* The host's own copies may fill this: then cells are lost, no more. */
	if (d->copies == COPIES_MAX)
		return;
	d->copy[d->copies++] = (struct copy_time){
		.correlation = m->correlation, .start = m->start, .end = m->end
	};
}

void decode_meet(struct decode *d, uint32_t version)
{
	size_t bytes = 0;

	d->unknown = cupti_release(version) != CUPTI_KNOWN;
	d->checked = 0;
	d->bad_layout = false;
	d->stride = 0;
	d->kernel_bytes = 0;
	if (d->cupti->struct_size &&
	    d->cupti->struct_size(CUPTI_KIND_CONCURRENT_KERNEL, 0, &bytes) ==
		    CUPTI_OK &&
	    bytes <= UINT32_MAX)
		d->kernel_bytes = (uint32_t)bytes;
}

void decode_begin(struct decode *d)
{
	d->copies = 0;
}

/* How far a kernel record lies behind the kernel record before it, if that is
 * its neighbour. */
static void measure(struct decode *d, const uint8_t *last,
		    const uint8_t *record)
{
	if (last && record > last)
		d->stride = (uint32_t)(record - last);
}

int decode_buffer(struct decode *d, uint8_t *buffer, size_t valid)
{
	const uint8_t *last = NULL; /* the record before, if of a kernel */
	const uint8_t *end = buffer + valid;
	const uint8_t *at = buffer;    /* the last record, used or not */
	const uint8_t *least = buffer; /* where the next one may begin */
	void *record = NULL;
	int err;

	d->turn++;
	while (!(err = d->cupti->next_record(buffer, valid, &record))) {
		const uint8_t *next = record;
		uint32_t kind;

		if (next < least || next > end ||
		    (size_t)(end - next) < sizeof(kind))
			break;
		at = next;
		least = at + sizeof(kind);
		memcpy(&kind, record, sizeof(kind));
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL ||
		    kind == CUPTI_KIND_KERNEL) {
			if ((size_t)(end - at) < sizeof(struct cupti_kernel))
				break;
			measure(d, last, at);
			last = at;
			if (take_kernel(d, record))
				return -EPROTO;
			continue;
		}
		last = NULL;
		if (kind != CUPTI_KIND_MEMCPY)
			continue;
		if ((size_t)(end - at) < sizeof(struct cupti_memcpy))
			break;
		take_copy(d, record);
	}
	/* Not the end of the buffer, but of what makes sense in it. */
	if (err != CUPTI_E_MAX_LIMIT_REACHED)
		d->cut_bytes += (size_t)(end - at);
	return 0;
}
