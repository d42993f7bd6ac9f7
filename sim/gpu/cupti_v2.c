#include "sim/gpu/cupti_played.h"
#include "sim/gpu/cupti_state.h"

#include <stdio.h>
#include <string.h>

/* ---- subscription ---------------------------------------------------------------- */

static bool in_use(const struct client *c)
{
	return atomic_load(&c->subscribed) || c->requested;
}

/* Whoever is in the way of one more, NULL for nobody. */
static struct client *obstacle(bool beside_others)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++) {
		struct client *c = &cupti.client[i];

		if (in_use(c) && (i == 0 || c->alone || !beside_others))
			return c;
	}
	return NULL;
}

static struct client *free_client(void)
{
	for (int i = 1; i < CUPTI_CLIENTS; i++)
		if (!atomic_load(&cupti.client[i].subscribed))
			return &cupti.client[i];
	return NULL;
}

static void tell_name(const struct cupti_subscriber_params *p,
		      const struct client *c)
{
	if (p && p->old_name && p->old_name_bytes)
		snprintf(p->old_name, p->old_name_bytes, "%s",
			 c->name[0] ? c->name : "CUPTI");
}

/* lock is held. */
static CUptiResult subscribe(void **subscriber, cupti_callback fn,
			     void *userdata,
			     const struct cupti_subscriber_params *p)
{
	bool many = p && p->allow_multiple;
	struct client *c, *other = obstacle(many);

	if (other) {
		tell_name(p, other);
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	}
	if (many && !cupti_has_v2())
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	c = free_client();
	if (!c)
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	c->alone = !many;
	snprintf(c->name, sizeof(c->name), "CUPTI for %.*s",
		 (int)sizeof(c->name) - 11, p && p->name ? p->name : "");
	return cupti_subscribe_as(c, subscriber, fn, userdata);
}

/* Before 13.3 it is cuptiSubscribe that knows names. */
CUptiResult cuptiSubscribe_v2(void **subscriber, cupti_callback fn,
			      void *userdata,
			      struct cupti_subscriber_params *params)
{
	CUptiResult e;

	if (!cupti_plays(13000))
		return CUPTI_E_NOT_SUPPORTED;
	if (!subscriber || !fn || (params && params->struct_size < 32))
		return CUPTI_E_INVALID_PARAMETER;
	if (!cupti_plays(13030))
		return cuptiSubscribe(subscriber, fn, userdata);
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (simgpu_fault("subscribe39", NULL))
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	pthread_mutex_lock(&cupti.lock);
	e = subscribe(subscriber, fn, userdata, params);
	pthread_mutex_unlock(&cupti.lock);
	return e;
}

/* ---- records ---------------------------------------------------------------------- */

CUptiResult
cuptiActivityRegisterCallbacks_v2(void *subscriber,
				  cupti_buffer_requested_v2 requested,
				  cupti_buffer_completed_v2 completed)
{
	struct client *c = cupti_client_of(subscriber);

	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (!c || !requested || !completed)
		return CUPTI_E_INVALID_PARAMETER;
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	c->requested_v2 = requested;
	c->completed_v2 = completed;
	cupti_worker_start();
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	pthread_mutex_unlock(&cupti.delivery);
	return CUPTI_OK;
}

CUptiResult cuptiActivityEnable_v2(void *subscriber, uint32_t kind,
				   void *config)
{
	struct client *c = cupti_client_of(subscriber);

	if (!c || config) /* user-defined records are not there */
		return CUPTI_E_INVALID_PARAMETER;
	return cupti_set_kind(c, kind, 1);
}

CUptiResult cuptiActivityDisable_v2(void *subscriber, uint32_t kind,
				    void *config)
{
	struct client *c = cupti_client_of(subscriber);

	(void)config;
	return c ? cupti_set_kind(c, kind, 0) : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiActivityGetNextRecord_v2(void *subscriber, uint8_t *buffer,
					  size_t valid_bytes, void **record)
{
	if (!cupti_client_of(subscriber))
		return CUPTI_E_INVALID_PARAMETER;
	return cuptiActivityGetNextRecord(buffer, valid_bytes, record);
}

CUptiResult cuptiActivityGetNumDroppedRecords_v2(void *subscriber,
						 void *context, uint32_t stream,
						 size_t *dropped)
{
	struct client *c = cupti_client_of(subscriber);

	(void)context;
	(void)stream;
	return c ? cupti_take_dropped(c, dropped) : CUPTI_E_INVALID_PARAMETER;
}

CUptiResult cuptiActivitySetAttribute_v2(void *subscriber, int attr,
					 size_t *bytes, void *value)
{
	if (!cupti_client_of(subscriber))
		return CUPTI_E_INVALID_PARAMETER;
	return cuptiActivitySetAttribute(attr, bytes, value);
}

CUptiResult cuptiActivityGetAttribute_v2(void *subscriber, int attr,
					 size_t *bytes, void *value)
{
	if (!cupti_client_of(subscriber))
		return CUPTI_E_INVALID_PARAMETER;
	return cuptiActivityGetAttribute(attr, bytes, value);
}

CUptiResult cuptiGetTimestamp_v2(void *subscriber, uint64_t *ns)
{
	if (!cupti_client_of(subscriber))
		return CUPTI_E_INVALID_PARAMETER;
	return cuptiGetTimestamp(ns);
}

CUptiResult cuptiIsTracingSessionRunning(uint8_t *runs)
{
	if (!runs)
		return CUPTI_E_INVALID_PARAMETER;
	*runs = 0;
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		*runs |= in_use(&cupti.client[i]);
	return CUPTI_OK;
}
