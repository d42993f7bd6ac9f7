#include "sim/gpu/cupti_played.h"
#include "sim/gpu/cupti_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/gpu/cuda_api.h"

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
		if (attributes[i].id == id && cupti_has_attribute(id)) {
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

/* The fault: another client has come between, by the calls of V2. */
static bool displaced(void)
{
	uint64_t after = 0;
	bool yes;

	if (!simgpu_fault("later39", &after))
		return false;
	pthread_mutex_lock(&cupti.lock);
	yes = cupti.kernels > after;
	pthread_mutex_unlock(&cupti.lock);
	return yes;
}

bool cupti_v1_barred(void)
{
	if (displaced())
		return true;
	for (int i = 1; i < CUPTI_CLIENTS; i++)
		if (atomic_load(&cupti.client[i].subscribed))
			return true;
	return false;
}

CUptiResult cuptiActivityRegisterCallbacks(cupti_buffer_requested requested,
					   cupti_buffer_completed completed)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (!requested || !completed)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti_v1_barred())
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	cupti.client[0].requested = requested;
	cupti.client[0].completed = completed;
	cupti_worker_start();
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	pthread_mutex_unlock(&cupti.delivery);
	return CUPTI_OK;
}

CUptiResult cupti_set_kind(struct client *c, uint32_t kind, uint8_t on)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (kind == 0 || kind >= CUPTI_KINDS)
		return CUPTI_E_INVALID_KIND;
	pthread_mutex_lock(&cupti.lock);
	atomic_store(&c->kinds[kind], on);
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

CUptiResult cuptiActivityEnable(uint32_t kind)
{
	if (cupti_v1_barred())
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	return cupti_set_kind(&cupti.client[0], kind, 1);
}

CUptiResult cuptiActivityDisable(uint32_t kind)
{
	if (cupti_v1_barred())
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	return cupti_set_kind(&cupti.client[0], kind, 0);
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	bool ready = false;

	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (displaced())
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	pthread_mutex_lock(&cupti.lock);
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		ready = ready || cupti.client[i].completed ||
			cupti.client[i].completed_v2;
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
	uint32_t kind, bytes;
	size_t left;

	if (!buffer || !record)
		return CUPTI_E_INVALID_PARAMETER;
	if (*record) {
		p = *record;
		memcpy(&kind, p, sizeof(kind));
		bytes = cupti_played_bytes(kind);
		if (bytes == 0)
			return CUPTI_E_INVALID_KIND;
		p += bytes;
	}
	left = valid_bytes - (size_t)(p - buffer);
	if (p < buffer || left == 0 || left > valid_bytes)
		return CUPTI_E_MAX_LIMIT_REACHED;
	if (left < sizeof(kind))
		return CUPTI_E_INVALID_KIND;
	memcpy(&kind, p, sizeof(kind));
	bytes = cupti_played_bytes(kind);
	if (bytes == 0 || bytes > left)
		return CUPTI_E_INVALID_KIND;
	*record = p;
	return CUPTI_OK;
}

CUptiResult cupti_take_dropped(struct client *c, size_t *dropped)
{
	if (!dropped)
		return CUPTI_E_INVALID_PARAMETER;
	pthread_mutex_lock(&cupti.lock);
	*dropped = c->dropped;
	c->dropped = 0;
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream,
					      size_t *dropped)
{
	(void)context;
	(void)stream;
	return cupti_take_dropped(&cupti.client[0], dropped);
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

static unsigned subscribers(void)
{
	unsigned n = 0;

	for (int i = 0; i < CUPTI_CLIENTS; i++)
		n += atomic_load(&cupti.client[i].subscribed);
	return n;
}

/*
 * Buffers that were not flushed before are not returned.  The contexts are
 * synchronised, which spoils a capture.  At the entry of a call the real one may
 * crash or hang; here it is sure to be noticed.
 */
CUptiResult cuptiFinalize(void)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (cupti_site() == CUPTI_ENTER) {
		fputs("libcupti: cuptiFinalize at the entry of a call\n",
		      stderr);
		abort();
	}
	if (subscribers() > 1)
		return CUPTI_OK; /* others go on as if nothing had happened */
	cupti_teardown();
	worker_join();
	cuCtxSynchronize();
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		cupti_client_forget(&cupti.client[i]);
	cupti.kernels = 0;
	pthread_mutex_unlock(&cupti.lock);
	pthread_mutex_unlock(&cupti.delivery);
	return CUPTI_OK;
}
