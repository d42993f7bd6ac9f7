#include "sim/gpu/cupti_state.h"

#include <stdlib.h>
#include <string.h>

/* ---- attributes ----------------------------------------------------------------- */

static struct attribute {
	int id;
	size_t bytes;
	uint64_t value;
} attributes[] = {
	{ CUPTI_ATTR_DEVICE_BUFFER_SIZE, 8, 3200000 },
	{ 1, 8, 8u << 20 },
	{ CUPTI_ATTR_DEVICE_BUFFER_POOL_LIMIT, 8, 250 },
	{ 3, 8, 25000 },
	{ 4, 8, 250 },
	{ CUPTI_ATTR_ZEROED_OUT_BUFFER, 1, 0 },
	{ 6, 8, 3 },
	{ 7, 8, 3 },
	{ 8, 1, 0 },
	{ CUPTI_ATTR_PER_THREAD_BUFFER, 1, 1 },
};

static CUptiResult attribute_find(int id, const size_t *bytes,
				  const void *value, struct attribute **out)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (!bytes || !value)
		return CUPTI_E_INVALID_PARAMETER;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].id == id) {
			*out = &attributes[i];
			return *bytes < attributes[i].bytes ? CUPTI_E_SIZE
							    : CUPTI_OK;
		}
	return CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiActivitySetAttribute(int attr, size_t *bytes, void *value)
{
	struct attribute *a;
	CUptiResult e = attribute_find(attr, bytes, value, &a);

	if (e)
		return e;
	pthread_mutex_lock(&cupti.lock);
	memcpy(&a->value, value, a->bytes);
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

CUptiResult cuptiActivityGetAttribute(int attr, size_t *bytes, void *value)
{
	struct attribute *a;
	CUptiResult e = attribute_find(attr, bytes, value, &a);

	if (e)
		return e;
	pthread_mutex_lock(&cupti.lock);
	memcpy(value, &a->value, a->bytes);
	*bytes = a->bytes;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

/* ---- kinds and buffers ------------------------------------------------------------- */

CUptiResult cuptiActivityRegisterCallbacks(cupti_buffer_requested requested,
					   cupti_buffer_completed completed)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (!requested || !completed)
		return CUPTI_E_INVALID_PARAMETER;
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	cupti.requested = requested;
	cupti.completed = completed;
	cupti_worker_start();
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	pthread_mutex_unlock(&cupti.delivery);
	return CUPTI_OK;
}

static CUptiResult kind_set(uint32_t kind, uint8_t on)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (kind == 0 || kind >= CUPTI_KINDS)
		return CUPTI_E_INVALID_KIND;
	pthread_mutex_lock(&cupti.lock);
	atomic_store(&cupti.kinds[kind], on);
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

CUptiResult cuptiActivityEnable(uint32_t kind)
{
	return kind_set(kind, 1);
}

CUptiResult cuptiActivityDisable(uint32_t kind)
{
	return kind_set(kind, 0);
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	bool ready;

	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	pthread_mutex_lock(&cupti.lock);
	ready = cupti.completed != NULL;
	pthread_mutex_unlock(&cupti.lock);
	if (!ready)
		return CUPTI_E_INVALID_OPERATION;
	cupti_flush(flag & 1);
	return CUPTI_OK;
}

/* Full buffers come every CUPTI_WORKER_NS anyway, so there is nothing to do. */
CUptiResult cuptiActivityFlushPeriod(uint32_t ms)
{
	(void)ms;
	return atomic_load(&cupti.dead) ? CUPTI_E_UNKNOWN : CUPTI_OK;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes,
				       void **record)
{
	uint8_t *p = buffer;
	uint32_t kind;
	size_t left;

	if (!buffer || !record)
		return CUPTI_E_INVALID_PARAMETER;
	if (*record) {
		p = *record;
		memcpy(&kind, p, sizeof(kind));
		if (cupti_record_bytes(kind) == 0)
			return CUPTI_E_INVALID_KIND;
		p += cupti_record_bytes(kind);
	}
	left = valid_bytes - (size_t)(p - buffer);
	if (p < buffer || left == 0 || left > valid_bytes)
		return CUPTI_E_MAX_LIMIT_REACHED;
	if (left < sizeof(kind))
		return CUPTI_E_INVALID_KIND;
	memcpy(&kind, p, sizeof(kind));
	if (cupti_record_bytes(kind) == 0 || cupti_record_bytes(kind) > left)
		return CUPTI_E_INVALID_KIND;
	*record = p;
	return CUPTI_OK;
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream,
					      size_t *dropped)
{
	(void)context;
	(void)stream;
	if (!dropped)
		return CUPTI_E_INVALID_PARAMETER;
	pthread_mutex_lock(&cupti.lock);
	*dropped = cupti.dropped;
	cupti.dropped = 0;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

/* ---- end ------------------------------------------------------------------------------ */

static void worker_join(void)
{
	pthread_t worker;
	bool runs;

	pthread_mutex_lock(&cupti.lock);
	runs = cupti.worker_runs;
	worker = cupti.worker;
	cupti.worker_runs = false;
	cupti.worker_stop = true;
	if (runs)
		pthread_cond_signal(&cupti.wake);
	pthread_mutex_unlock(&cupti.lock);
	if (runs && !pthread_equal(worker, pthread_self()))
		pthread_join(worker, NULL);
}

static void drop_buffers(struct buffers *l)
{
	while (l->head) {
		struct buffer *b = l->head;

		l->head = b->next;
		free(b);
	}
	l->tail = NULL;
}

/* Buffers that were not flushed before are not returned. */
CUptiResult cuptiFinalize(void)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	cupti_teardown();
	worker_join();
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	drop_buffers(&cupti.open);
	drop_buffers(&cupti.full);
	cupti.slots_free = 0;
	cupti.pending_count = 0;
	cupti.requested = NULL;
	cupti.completed = NULL;
	pthread_mutex_unlock(&cupti.lock);
	pthread_mutex_unlock(&cupti.delivery);
	return CUPTI_OK;
}
