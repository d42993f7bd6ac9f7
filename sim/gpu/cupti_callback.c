#include "sim/gpu/cupti_played.h"
#include "sim/gpu/cupti_state.h"

#include <string.h>

#define DEPTH_MAX 8

struct cupti_state cupti = {
	.delivery = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

/* Calls in progress in this thread, with the word that CUPTI keeps for each. */
static _Thread_local struct {
	uint32_t correlation;
	uint64_t data[CUPTI_CLIENTS];
} calls[DEPTH_MAX];
static _Thread_local unsigned depth;
static _Thread_local int site_now = -1;

int cupti_site(void)
{
	return site_now;
}

static bool wanted(struct client *c, int domain, uint32_t cbid)
{
	return atomic_load_explicit(&c->subscribed, memory_order_acquire) &&
	       cbid < CUPTI_CBIDS &&
	       atomic_load_explicit(&c->enabled[domain][cbid],
				    memory_order_relaxed);
}

static void call(struct client *c, int domain, uint32_t cbid, const void *data)
{
	cupti_callback fn = __atomic_load_n(&c->callback, __ATOMIC_ACQUIRE);
	void *user = __atomic_load_n(&c->userdata, __ATOMIC_ACQUIRE);

	fn(user, domain, cbid, data);
}

static bool anyone_wants(int domain, uint32_t cbid)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (wanted(&cupti.client[i], domain, cbid))
			return true;
	return false;
}

static void call_all(int domain, uint32_t cbid, const void *data)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (wanted(&cupti.client[i], domain, cbid))
			call(&cupti.client[i], domain, cbid, data);
}

/* ---- from libcuda --------------------------------------------------------------- */

static const char *symbol_of(uint32_t cbid, const void *params)
{
	const struct cu_launch_kernel_params *a = params;
	const struct cu_launch_kernel_ex_params *b = params;

	if (cbid == CBID_LAUNCH_KERNEL)
		return simgpu_symbol(a->f);
	return cbid == CBID_LAUNCH_KERNEL_EX ? simgpu_symbol(b->f) : NULL;
}

static uint64_t *slot(int site, uint32_t correlation)
{
	static _Thread_local uint64_t lone[CUPTI_CLIENTS];

	if (site == CUPTI_ENTER && depth < DEPTH_MAX) {
		calls[depth].correlation = correlation;
		memset(calls[depth].data, 0, sizeof(lone));
		return calls[depth++].data;
	}
	if (site == CUPTI_EXIT && depth &&
	    calls[depth - 1].correlation == correlation)
		return calls[--depth].data;
	memset(lone, 0, sizeof(lone));
	return lone;
}

static void on_api(int site, uint32_t cbid, const char *function,
		   const void *params, int *result, uint32_t correlation)
{
	uint64_t *data = slot(site, correlation);
	struct cupti_callback_data d = {
		.site = (uint32_t)site,
		.function_name = function,
		.function_params = params,
		.return_value = result,
		.correlation = correlation,
	};

	if (!anyone_wants(CUPTI_DOMAIN_DRIVER, cbid))
		return;
	d.symbol_name = symbol_of(cbid, params);
	d.context = simgpu_context();
	d.context_uid = simgpu_context_id(d.context);
	for (int i = 0; i < CUPTI_CLIENTS; i++) {
		if (!wanted(&cupti.client[i], CUPTI_DOMAIN_DRIVER, cbid))
			continue;
		d.correlation_data = &data[i];
		site_now = site;
		call(&cupti.client[i], CUPTI_DOMAIN_DRIVER, cbid, &d);
		site_now = -1;
	}
}

static void on_resource(uint32_t cbid, const void *data)
{
	if (cbid == CBID_RES_GRAPHNODE_CLONED &&
	    simgpu_fault("no_clones", NULL))
		return;
	call_all(CUPTI_DOMAIN_RESOURCE, cbid, data);
}

void cupti_state_error(const char *message)
{
	const struct { /* CUpti_StateData */
		int result;
		const char *message;
	} d = { CUPTI_E_UNKNOWN, message };

	call_all(CUPTI_DOMAIN_STATE, CBID_STATE_FATAL_ERROR, &d);
}

static bool anyone(void)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (atomic_load(&cupti.client[i].subscribed))
			return true;
	return false;
}

void cupti_hooks_update(void)
{
	bool on = anyone();

	__atomic_store_n(&simgpu_hooks.api, on ? on_api : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&simgpu_hooks.resource, on ? on_resource : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&simgpu_hooks.records,
			 cupti_records_wanted() ? cupti_on_records : NULL,
			 __ATOMIC_RELEASE);
}

/* ---- from the client -------------------------------------------------------------- */

/* lock is held. */
CUptiResult cupti_subscribe_as(struct client *c, void **subscriber,
			       cupti_callback fn, void *userdata)
{
	if (atomic_load(&c->subscribed))
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	__atomic_store_n(&c->userdata, userdata, __ATOMIC_RELEASE);
	__atomic_store_n(&c->callback, fn, __ATOMIC_RELEASE);
	atomic_store(&c->subscribed, true);
	*subscriber = c;
	cupti_hooks_update();
	return CUPTI_OK;
}

CUptiResult cuptiSubscribe(void **subscriber, cupti_callback fn, void *userdata)
{
	CUptiResult e;

	if (!subscriber || !fn)
		return CUPTI_E_INVALID_PARAMETER;
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (simgpu_fault("subscribe39", NULL) || cupti_v1_barred())
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	pthread_mutex_lock(&cupti.lock);
	e = cupti_subscribe_as(&cupti.client[0], subscriber, fn, userdata);
	pthread_mutex_unlock(&cupti.lock);
	return e;
}

static struct client *find(void *subscriber)
{
	for (int i = 0; i < CUPTI_CLIENTS; i++)
		if (subscriber == &cupti.client[i] &&
		    atomic_load(&cupti.client[i].subscribed))
			return &cupti.client[i];
	return NULL;
}

struct client *cupti_client_of(void *subscriber)
{
	struct client *c = find(subscriber);

	return c == &cupti.client[0] ? NULL : c;
}

static CUptiResult check(void *subscriber, int domain, uint32_t cbid)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (!find(subscriber) || domain < 1 || domain >= CUPTI_DOMAINS ||
	    cbid >= CUPTI_CBIDS || !cupti_has(domain, cbid))
		return CUPTI_E_INVALID_PARAMETER;
	return CUPTI_OK;
}

static void enable_all(struct client *c, int domain, uint8_t on)
{
	for (int i = 1; i < CUPTI_CBIDS; i++)
		atomic_store_explicit(&c->enabled[domain][i], on,
				      memory_order_relaxed);
}

/* The calls of a V2 subscriber end with it, those of V1 do not need one. */
static void drop(struct client *c)
{
	atomic_store(&c->subscribed, false);
	for (int d = 0; d < CUPTI_DOMAINS; d++)
		enable_all(c, d, 0);
	if (c == &cupti.client[0])
		return;
	for (int k = 0; k < CUPTI_KINDS; k++)
		atomic_store(&c->kinds[k], 0);
	cupti_client_forget(c);
}

/* No callback starts afterwards; one in another thread may still be running. */
CUptiResult cuptiUnsubscribe(void *subscriber)
{
	CUptiResult e = check(subscriber, 1, 0);

	if (e)
		return e;
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	drop(subscriber);
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	pthread_mutex_unlock(&cupti.delivery);
	return CUPTI_OK;
}

CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, int domain,
				uint32_t cbid)
{
	CUptiResult e = check(subscriber, domain, cbid);
	struct client *c = subscriber;

	if (!e)
		atomic_store(&c->enabled[domain][cbid], enable != 0);
	return e;
}

CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, int domain)
{
	CUptiResult e = check(subscriber, domain, 0);

	if (!e)
		enable_all(subscriber, domain, enable != 0);
	return e;
}

CUptiResult cuptiGetCallbackState(uint32_t *enable, void *subscriber,
				  int domain, uint32_t cbid)
{
	CUptiResult e = check(subscriber, domain, cbid);
	struct client *c = subscriber;

	if (!e && !enable)
		e = CUPTI_E_INVALID_PARAMETER;
	if (!e)
		*enable = atomic_load(&c->enabled[domain][cbid]);
	return e;
}

void cupti_teardown(void)
{
	pthread_mutex_lock(&cupti.lock);
	for (int i = 0; i < CUPTI_CLIENTS; i++) {
		struct client *c = &cupti.client[i];

		atomic_store(&c->subscribed, false);
		for (int d = 0; d < CUPTI_DOMAINS; d++)
			enable_all(c, d, 0);
		for (int k = 0; k < CUPTI_KINDS; k++)
			atomic_store(&c->kinds[k], 0);
		c->pending_count = 0;
	}
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
}
