#include "core/rank_peek.h"
#include "wire/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Records nearest to being overwritten: one may change while it is copied. */
#define MARGIN 64u

static int read_header(int fd, struct ring_header *h)
{
	uint32_t n;

	if (pread(fd, h, sizeof(*h), 0) != (ssize_t)sizeof(*h) ||
	    h->magic != RING_MAGIC)
		return -EPROTO;
	if (h->version != RING_VERSION || h->record_version != RECORD_VERSION)
		return -EPROTONOSUPPORT;
	n = h->capacity;
	if (h->record_bytes != RECORD_BYTES || n < 2 * MARGIN || n & (n - 1) ||
	    n > RING_CAPACITY_MAX)
		return -EPROTO;
	return 0;
}

static void take(struct rank_peek *p, const struct record *r, uint32_t *window)
{
	const struct rec_layer *l = &r->layer;

	if (r->type == REC_STATUS && r->status.state < AGENT_STATES) {
		p->status = r->status;
		p->status.device_name[sizeof(p->status.device_name) - 1] = 0;
		p->have_status = true;
	}
	if (r->type != REC_LAYER || l->klass >= CLASSES)
		return;
	if (l->window != *window)
		p->windows++;
	*window = l->window;
	p->class_ns[l->klass] += (double)l->sum_ns;
	p->class_calls[l->klass] += (double)l->calls;
}

static int read_records(int fd, const struct ring_header *h,
			struct rank_peek *out)
{
	uint64_t head = h->head, n = h->capacity - MARGIN;
	struct record *all = malloc(h->capacity * sizeof(*all));
	size_t bytes = h->capacity * sizeof(*all);
	struct rank_peek p = { 0 };
	uint32_t window = 0;
	bool any = false;

	if (!all)
		return -ENOMEM;
	if (pread(fd, all, bytes, RING_HEADER_BYTES) != (ssize_t)bytes) {
		free(all);
		return -EPROTO;
	}
	if (n > head)
		n = head;
	for (uint64_t i = head - n; i < head; i++) {
		const struct record *r = &all[i & (h->capacity - 1)];

		any |= r->type != 0;
		take(&p, r, &window);
	}
	free(all);
	if (!any)
		return -ENOENT;
	*out = p;
	return 0;
}

int rank_peek(const char *path, struct rank_peek *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct ring_header *h;
	int err;

	if (fd < 0)
		return -errno;
	h = aligned_alloc(64, sizeof(*h));
	err = h ? read_header(fd, h) : -ENOMEM;
	if (!err)
		err = read_records(fd, h, out);
	free(h);
	close(fd);
	return err;
}

double rank_peek_known(const struct rank_peek *p)
{
	double all = 0;

	for (unsigned c = 0; c < CLASSES; c++)
		all += p->class_ns[c];
	return all > 0 ? 1 - p->class_ns[CLASS_OTHER] / all : NAN;
}
