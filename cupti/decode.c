#include "cupti/decode.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

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

static bool sane(const struct cupti_kernel *k)
{
	return k->grid[0] > 0 && k->grid[1] > 0 && k->grid[2] > 0 &&
	       k->block[0] > 0 && k->block[0] <= 1024 && k->start <= k->end &&
	       k->name && readable_name(k->name);
}

static int take_kernel(struct decode *d, const struct cupti_kernel *k)
{
	uint64_t length = k->end - k->start;
	struct kernel_name *name;
	struct reduce_event e;

	if (!d->checked) {
		d->bad_layout = !sane(k);
		if (d->bad_layout)
			return -EPROTO;
		d->checked = true;
	}
	d->kernels++;
	if (!k->start || k->end < k->start || !k->name) {
		d->bad_stamps++;
		return 0;
	}
	name = kernel_names_get(d->names, k->name);
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

void decode_begin(struct decode *d)
{
	d->copies = 0;
}

int decode_buffer(struct decode *d, uint8_t *buffer, size_t valid)
{
	const uint8_t *last = NULL;
	void *record = NULL;

	while (d->cupti->next_record(buffer, valid, &record) == CUPTI_OK) {
		uint32_t kind;

		memcpy(&kind, record, sizeof(kind));
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL ||
		    kind == CUPTI_KIND_KERNEL) {
			if (last && (const uint8_t *)record > last)
				d->stride =
					(uint32_t)((uint8_t *)record - last);
			last = record;
			if (take_kernel(d, record))
				return -EPROTO;
		} else {
			last = NULL;
			if (kind == CUPTI_KIND_MEMCPY)
				take_copy(d, record);
		}
	}
	return 0;
}
