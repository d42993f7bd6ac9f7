#include "exporter/recording_arena.h"

#include <string.h>

void *arena_take(struct arena *a, size_t bytes)
{
	size_t n = (bytes + 15) & ~(size_t)15;

	if (n > ARENA_BYTES - a->used) {
		a->full = true;
		return NULL;
	}
	a->used += n;
	return memset(a->data + a->used - n, 0, n);
}

void *arena_message(struct arena *a, const ProtobufCMessageDescriptor *d)
{
	void *m = arena_take(a, d->sizeof_message);

	if (m)
		protobuf_c_message_init(d, m);
	return m;
}

Moetop__Value *value_pack(struct arena *a, struct value x)
{
	Moetop__Value *m;

	if (x.state == VALUE_NO_DATA && x.source == SOURCE_MEASURED)
		return NULL;
	m = arena_message(a, &moetop__value__descriptor);
	if (m) {
		m->v = x.v;
		m->state = (Moetop__State)x.state;
		m->source = (Moetop__Source)x.source;
	}
	return m;
}
