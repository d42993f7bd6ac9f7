#include "sim/gpu/cuda_engine.h"

#include <stdlib.h>
#include <string.h>

#define SPARES_MAX 256u
#define SPARE_BYTES_MAX (4u << 20) /* larger batches are not kept */

/* ---- batches --------------------------------------------------------------- */

struct sim_batch *sim_batch_get(void)
{
	struct sim_batch *b;

	pthread_mutex_lock(&sim.lock);
	b = sim.spare;
	if (b) {
		sim.spare = b->next;
		sim.spares--;
	}
	pthread_mutex_unlock(&sim.lock);
	if (!b)
		b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->next = NULL;
	b->end_ns = 0;
	b->op_count = b->op_done = b->data_used = 0;
	return b;
}

static void put_locked(struct sim_batch *b)
{
	if (sim.spares < SPARES_MAX && b->data_room <= SPARE_BYTES_MAX) {
		b->next = sim.spare;
		sim.spare = b;
		sim.spares++;
		return;
	}
	free(b->ops);
	free(b->data);
	free(b);
}

void sim_batch_put(struct sim_batch *b)
{
	pthread_mutex_lock(&sim.lock);
	put_locked(b);
	pthread_mutex_unlock(&sim.lock);
}

static bool data_reserve(struct sim_batch *b, size_t bytes)
{
	size_t room = b->data_room ? b->data_room : 4096;
	uint8_t *data;

	if (bytes > SIZE_MAX / 2 - b->data_used)
		return false;
	while (room < b->data_used + bytes)
		room *= 2;
	if (room == b->data_room)
		return true;
	data = realloc(b->data, room);
	if (!data)
		return false;
	b->data = data;
	b->data_room = room;
	return true;
}

bool sim_batch_add(struct sim_batch *b, const struct sim_op *op,
		   const void *data)
{
	if (b->op_count == b->op_room) {
		size_t room = b->op_room ? 2 * b->op_room : 16;
		void *ops = realloc(b->ops, room * sizeof(*b->ops));

		if (!ops)
			return false;
		b->ops = ops;
		b->op_room = room;
	}
	if (op->kind == OP_STORE && !data_reserve(b, op->bytes))
		return false;
	b->ops[b->op_count] = *op;
	if (op->kind == OP_STORE) {
		b->ops[b->op_count].src = b->data_used;
		memcpy(b->data + b->data_used, data, op->bytes);
		b->data_used += op->bytes;
	}
	b->op_count++;
	return true;
}

/* By time; lanes of a graph leave short runs out of order. */
void sim_batch_sort(struct sim_batch *b)
{
	for (size_t i = 1; i < b->op_count; i++) {
		struct sim_op op = b->ops[i];
		size_t j = i;

		for (; j > 0 && b->ops[j - 1].at_ns > op.at_ns; j--)
			b->ops[j] = b->ops[j - 1];
		b->ops[j] = op;
	}
}

void sim_batch_push(struct sim_stream *s, struct sim_batch *b)
{
	sim_stream_advance(s, b->end_ns);
	b->next = NULL;
	if (s->tail)
		s->tail->next = b;
	else
		s->head = b;
	s->tail = b;
	s->batches++;
}

/* ---- application ------------------------------------------------------------ */

static void op_run(const struct sim_batch *b, const struct sim_op *op)
{
	switch (op->kind) {
	case OP_STORE:
		memcpy(sim_front(op->dst), b->data + op->src, op->bytes);
		break;
	case OP_FILL:
		memset(sim_front(op->dst), op->value, op->bytes);
		break;
	case OP_DTOH:
		memcpy((void *)(uintptr_t)op->dst, sim_front(op->src),
		       op->bytes);
		break;
	default:
		memmove(sim_front(op->dst), sim_front(op->src), op->bytes);
		break;
	}
}

/* When the next event of s is: an op, or the end of its oldest batch. */
static uint64_t next_at(const struct sim_stream *s)
{
	const struct sim_batch *b = s->head;

	if (!b)
		return UINT64_MAX;
	return b->op_done < b->op_count ? b->ops[b->op_done].at_ns : b->end_ns;
}

static void step(struct sim_stream *s)
{
	struct sim_batch *b = s->head;

	if (b->op_done < b->op_count) {
		op_run(b, &b->ops[b->op_done++]);
		return;
	}
	s->head = b->next;
	if (!s->head)
		s->tail = NULL;
	s->batches--;
	put_locked(b);
}

/* The stream with the earliest event, and the time of the runner-up. */
static struct sim_stream *earliest(uint64_t *first, uint64_t *second)
{
	struct sim_stream *best = NULL;

	*first = *second = UINT64_MAX;
	for (struct sim_stream *s = sim.streams; s; s = s->next) {
		uint64_t at = next_at(s);

		if (at < *first) {
			*second = *first;
			*first = at;
			best = s;
		} else if (at < *second) {
			*second = at;
		}
	}
	return best;
}

void sim_apply_planning(void)
{
	uint64_t first, second, now;
	struct sim_stream *s;

	pthread_mutex_lock(&sim.lock);
	now = sim_now();
	while ((s = earliest(&first, &second)) && first <= now) {
		uint64_t until = second < now ? second : now;

		while (next_at(s) <= until)
			step(s);
	}
	pthread_mutex_unlock(&sim.lock);
}

void sim_apply(void)
{
	pthread_mutex_lock(&sim.plan);
	sim_apply_planning();
	pthread_mutex_unlock(&sim.plan);
}

/* ---- cursors ---------------------------------------------------------------- */

static bool is_legacy(const struct sim_stream *s)
{
	return s == s->context->null_stream;
}

uint64_t sim_stream_from(const struct sim_stream *s)
{
	uint64_t from = s->end_ns;

	if (is_legacy(s) && sim.blocking_end_ns > from)
		from = sim.blocking_end_ns;
	if (!is_legacy(s) && !(s->flags & CU_STREAM_NON_BLOCKING) &&
	    sim.legacy_end_ns > from)
		from = sim.legacy_end_ns;
	return from;
}

void sim_stream_advance(struct sim_stream *s, uint64_t end_ns)
{
	if (end_ns > s->end_ns)
		s->end_ns = end_ns;
	if (s->flags & CU_STREAM_NON_BLOCKING)
		return;
	if (is_legacy(s)) {
		if (end_ns > sim.legacy_end_ns)
			sim.legacy_end_ns = end_ns;
	} else if (end_ns > sim.blocking_end_ns) {
		sim.blocking_end_ns = end_ns;
	}
}

/* Like the driver, stop a caller that is too far ahead of the device. */
void sim_stream_throttle(struct sim_stream *s)
{
	for (;;) {
		uint64_t until = 0;

		pthread_mutex_lock(&sim.lock);
		if (s->batches >= SIM_BATCHES_MAX)
			until = s->head->end_ns;
		pthread_mutex_unlock(&sim.lock);
		if (!until)
			return;
		sim_wait_until(until);
		sim_apply();
	}
}

CUresult sim_stream_drain(struct sim_stream *s)
{
	uint64_t end;

	pthread_mutex_lock(&sim.lock);
	end = sim_stream_from(s);
	pthread_mutex_unlock(&sim.lock);
	sim_wait_until(end);
	sim_apply();
	return atomic_load(&sim.error);
}

void sim_device_drain(void)
{
	uint64_t end = 0;

	/* A launch that is being planned counts, too. */
	pthread_mutex_lock(&sim.plan);
	pthread_mutex_lock(&sim.lock);
	for (struct sim_stream *s = sim.streams; s; s = s->next)
		if (s->end_ns > end)
			end = s->end_ns;
	pthread_mutex_unlock(&sim.lock);
	pthread_mutex_unlock(&sim.plan);
	sim_wait_until(end);
	sim_apply();
}
