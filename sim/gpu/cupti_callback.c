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
	uint64_t data;
} calls[DEPTH_MAX];
static _Thread_local unsigned depth;

static bool wanted(int domain, uint32_t cbid)
{
	return atomic_load_explicit(&cupti.subscribed, memory_order_acquire) &&
	       cbid < CUPTI_CBIDS &&
	       atomic_load_explicit(&cupti.enabled[domain][cbid],
				    memory_order_relaxed);
}

static void call(int domain, uint32_t cbid, const void *data)
{
	cupti_callback fn = __atomic_load_n(&cupti.callback, __ATOMIC_ACQUIRE);
	void *user = __atomic_load_n(&cupti.userdata, __ATOMIC_ACQUIRE);

	fn(user, domain, cbid, data);
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
	static _Thread_local uint64_t lone;

	if (site == CUPTI_ENTER && depth < DEPTH_MAX) {
		calls[depth].correlation = correlation;
		calls[depth].data = 0;
		return &calls[depth++].data;
	}
	if (site == CUPTI_EXIT && depth &&
	    calls[depth - 1].correlation == correlation)
		return &calls[--depth].data;
	lone = 0;
	return &lone;
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
		.correlation_data = data,
		.correlation = correlation,
	};

	if (!wanted(CUPTI_DOMAIN_DRIVER, cbid))
		return;
	d.symbol_name = symbol_of(cbid, params);
	d.context = simgpu_context();
	d.context_uid = simgpu_context_id(d.context);
	call(CUPTI_DOMAIN_DRIVER, cbid, &d);
}

static void on_resource(uint32_t cbid, const void *data)
{
	if (wanted(CUPTI_DOMAIN_RESOURCE, cbid))
		call(CUPTI_DOMAIN_RESOURCE, cbid, data);
}

void cupti_state_error(const char *message)
{
	const struct { /* CUpti_StateData */
		int result;
		const char *message;
	} d = { CUPTI_E_UNKNOWN, message };

	if (wanted(CUPTI_DOMAIN_STATE, CBID_STATE_FATAL_ERROR))
		call(CUPTI_DOMAIN_STATE, CBID_STATE_FATAL_ERROR, &d);
}

void cupti_hooks_update(void)
{
	bool on = atomic_load(&cupti.subscribed);

	__atomic_store_n(&simgpu_hooks.api, on ? on_api : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&simgpu_hooks.resource, on ? on_resource : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&simgpu_hooks.records,
			 cupti_records_wanted() ? cupti_on_records : NULL,
			 __ATOMIC_RELEASE);
}

/* ---- from the client -------------------------------------------------------------- */

CUptiResult cuptiSubscribe(void **subscriber, cupti_callback fn, void *userdata)
{
	CUptiResult e = CUPTI_OK;

	if (!subscriber || !fn)
		return CUPTI_E_INVALID_PARAMETER;
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (simgpu_fault("subscribe39", NULL))
		return CUPTI_E_MULTIPLE_SUBSCRIBERS;
	pthread_mutex_lock(&cupti.lock);
	if (atomic_load(&cupti.subscribed)) {
		e = CUPTI_E_MULTIPLE_SUBSCRIBERS;
	} else {
		__atomic_store_n(&cupti.userdata, userdata, __ATOMIC_RELEASE);
		__atomic_store_n(&cupti.callback, fn, __ATOMIC_RELEASE);
		atomic_store(&cupti.subscribed, true);
		*subscriber = &cupti;
		cupti_hooks_update();
	}
	pthread_mutex_unlock(&cupti.lock);
	return e;
}

static CUptiResult check(void *subscriber, int domain, uint32_t cbid)
{
	if (atomic_load(&cupti.dead))
		return CUPTI_E_UNKNOWN;
	if (subscriber != &cupti || !atomic_load(&cupti.subscribed) ||
	    domain < 1 || domain >= CUPTI_DOMAINS || cbid >= CUPTI_CBIDS)
		return CUPTI_E_INVALID_PARAMETER;
	return CUPTI_OK;
}

static void enable_all(int domain, uint8_t on)
{
	for (int i = 1; i < CUPTI_CBIDS; i++)
		atomic_store_explicit(&cupti.enabled[domain][i], on,
				      memory_order_relaxed);
}

/* No callback starts afterwards; one in another thread may still be running. */
CUptiResult cuptiUnsubscribe(void *subscriber)
{
	CUptiResult e = check(subscriber, 1, 0);

	if (e)
		return e;
	pthread_mutex_lock(&cupti.lock);
	atomic_store(&cupti.subscribed, false);
	for (int d = 0; d < CUPTI_DOMAINS; d++)
		enable_all(d, 0);
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
	return CUPTI_OK;
}

CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, int domain,
				uint32_t cbid)
{
	CUptiResult e = check(subscriber, domain, cbid);

	if (!e)
		atomic_store(&cupti.enabled[domain][cbid], enable != 0);
	return e;
}

CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, int domain)
{
	CUptiResult e = check(subscriber, domain, 0);

	if (!e)
		enable_all(domain, enable != 0);
	return e;
}

CUptiResult cuptiGetCallbackState(uint32_t *enable, void *subscriber,
				  int domain, uint32_t cbid)
{
	CUptiResult e = check(subscriber, domain, cbid);

	if (!e && !enable)
		e = CUPTI_E_INVALID_PARAMETER;
	if (!e)
		*enable = atomic_load(&cupti.enabled[domain][cbid]);
	return e;
}

void cupti_teardown(void)
{
	pthread_mutex_lock(&cupti.lock);
	atomic_store(&cupti.subscribed, false);
	for (int d = 0; d < CUPTI_DOMAINS; d++)
		enable_all(d, 0);
	for (int k = 0; k < CUPTI_KINDS; k++)
		atomic_store(&cupti.kinds[k], 0);
	cupti.pending_count = 0;
	cupti_hooks_update();
	pthread_mutex_unlock(&cupti.lock);
}
