#include "agent/client.h"

#include <limits.h>
#include <stdatomic.h>
#include <time.h>

#include "agent/callbacks.h"
#include "agent/life.h"
#include "agent/publish.h"
#include "agent/state.h"
#include "cupti/release.h"
#include "cupti/subscribe.h"

#define CUPTI_VERSION_FINALIZE 23u /* CUDA 12.5 */
#define POLL_NS 1000000u
#define CALL_WAIT_NS 2000000000ull /* for a call of a host at work */
#define CALL_WAIT_IDLE_NS 250000000ull
#define TEARDOWN_WAIT_NS 10000000000ull
#define CAPTURE_WAIT_NS 10000000000ull
#define CAPTURE_STEP_NS 1000000000ull /* from node to node at most */

/* Who takes CUPTI down: nobody; the next host's call; a host's call is at it;
 * it is done. */
enum teardown { TEARDOWN_NONE, TEARDOWN_WANTED, TEARDOWN_RUNS, TEARDOWN_DONE };

static _Atomic int teardown;
static _Atomic int teardown_result;
static _Atomic bool leaving;
static _Atomic int captures; /* begun and not ended */
static _Atomic uint64_t capture_ns, node_ns;

/* ---- libraries -------------------------------------------------------------- */

/* Without a driver CUPTI fails in many ways; that is the reason then. */
void client_failed(int err)
{
	if (err == CUPTI_E_MULTIPLE_SUBSCRIBERS)
		life_yield(err);
	else
		life_fail(agent.has_cuda ? REASON_CUPTI_ERROR
					 : REASON_NO_DRIVER,
			  err);
}

static bool version_is_good(void)
{
	switch (cupti_release(agent.cupti_version)) {
	case CUPTI_TOO_OLD:
		life_fail(REASON_CUPTI_VERSION, (int32_t)agent.cupti_version);
		return false;
	case CUPTI_NEWER:
		publish_text(TEXT_WARNING,
			     "CUPTI %u is newer than this agent: its records "
			     "are checked before they are used",
			     agent.cupti_version);
		return true;
	default:
		return true;
	}
}

bool client_find(void)
{
	char path[PATH_MAX] = "";
	int err;

	agent.has_cuda = cuda_find(&agent.cuda) == 0;
	if (agent.has_cuda)
		agent.cuda.driver_version((int *)&agent.driver_version);
	err = cupti_find(&agent.cupti, path, sizeof(path));
	if (err) {
		life_fail(REASON_NO_CUPTI, err);
		return false;
	}
	publish_text(TEXT_INFO, "CUPTI: %s", path);
	/* Without a driver 13.5 does not even tell its version, and any call
	 * of 13.2 crashes. */
	err = agent.has_cuda ? agent.cupti.version(&agent.cupti_version)
			     : CUPTI_E_NOT_INITIALIZED;
	if (err) {
		client_failed(err);
		return false;
	}
	return version_is_good();
}

/* ---- subscription ------------------------------------------------------------ */

/* Reduces the memory that recording takes where it may; refusals do not
 * matter. */
static void set_attributes(void)
{
	uint8_t per_thread = 1;
	size_t bytes = sizeof(per_thread);

	agent.cupti.set_attribute(CUPTI_ATTR_PER_THREAD_BUFFER, &bytes,
				  &per_thread);
}

static int try_subscribe(void)
{
	bool share =
		cupti_is_shareable(agent.cupti_version, agent.driver_version);
	char other[CUPTI_NAME_BYTES];
	void *subscriber = NULL;
	int err = cupti_subscribe(&agent.cupti, share, callback_entry, NULL,
				  &subscriber, &agent.shared, other);

	if (err == CUPTI_E_MULTIPLE_SUBSCRIBERS && other[0] &&
	    agent.state != AGENT_YIELDED)
		publish_text(TEXT_WARNING, "CUPTI is in use: %s", other);
	if (err)
		return err;
	agent.subscriber = subscriber;
	set_attributes();
	err = agent.cupti.register_callbacks(callback_buffer_requested,
					     callback_buffer_completed);
	if (err)
		return err;
	atomic_fetch_add(&agent.epoch, 1);
	atomic_store(&agent.live, true);
	return callbacks_enable(true);
}

int client_subscribe(void)
{
	int err = try_subscribe();

	if (!err) {
		decode_meet(agent.decode, agent.cupti_version);
		if (agent.shared && !agent.cupti_lives)
			publish_text(TEXT_INFO, "CUPTI: other profilers may "
						"use it at the same time");
		agent.cupti_lives++;
		return CUPTI_OK;
	}
	client_unsubscribe();
	return err;
}

void client_unsubscribe(void)
{
	if (agent.subscriber && !atomic_load(&agent.fatal)) {
		callbacks_enable(false);
		atomic_store(&agent.live, false);
		agent.cupti.flush_all(1); /* our buffers come back */
		agent.cupti.unsubscribe(agent.subscriber);
	}
	atomic_store(&agent.live, false);
	agent.subscriber = NULL;
}

/* ---- captures --------------------------------------------------------------- */

void client_note_capture(uint32_t cbid, const struct cupti_callback_data *d)
{
	bool begins = cbid == CBID_STREAM_BEGIN_CAPTURE ||
		      cbid == CBID_STREAM_BEGIN_CAPTURE_PTSZ;
	const int *result = d->return_value;
	int n = atomic_load(&captures);

	if (d->site != CUPTI_EXIT)
		return;
	if (begins && result && *result == 0) {
		atomic_store(&capture_ns, agent_now_ns());
		atomic_fetch_add(&captures, 1);
	}
	while (!begins && n > 0 &&
	       !atomic_compare_exchange_weak(&captures, &n, n - 1))
		;
}

void client_note_node(uint64_t now_ns)
{
	atomic_store_explicit(&node_ns, now_ns, memory_order_relaxed);
}

/* A capture whose end was not seen is over some time. */
bool client_capturing(uint64_t now_ns)
{
	return (atomic_load(&captures) > 0 &&
		now_ns < atomic_load(&capture_ns) + CAPTURE_WAIT_NS) ||
	       now_ns < atomic_load(&node_ns) + CAPTURE_STEP_NS;
}

/* ---- teardown --------------------------------------------------------------- */

/* Among several clients cuptiFinalize does nothing while there is another, as
 * long as ours is counted too. */
static int take_down_shared(void)
{
	int err = agent.cupti.finalize();
	uint8_t runs = 1;

	if (!err && !agent.cupti.is_running(&runs) && !runs)
		return CUPTI_OK;
	agent.cupti.unsubscribe(agent.subscriber);
	return err ? err : CUPTI_E_MULTIPLE_SUBSCRIBERS;
}

static int take_down(void)
{
	int err;

	if (agent.shared)
		return take_down_shared();
	err = agent.cupti.unsubscribe(agent.subscriber);
	return err ? err : agent.cupti.finalize();
}

void client_at_callback(int domain, uint32_t cbid, const void *data)
{
	const struct cupti_callback_data *d = data;
	int wanted = TEARDOWN_WANTED;

	if (atomic_load(&teardown) != TEARDOWN_WANTED ||
	    (domain != CUPTI_DOMAIN_DRIVER && domain != CUPTI_DOMAIN_RUNTIME))
		return;
	if (cbid == CBID_STREAM_BEGIN_CAPTURE ||
	    cbid == CBID_STREAM_BEGIN_CAPTURE_PTSZ ||
	    cbid == CBID_STREAM_END_CAPTURE ||
	    cbid == CBID_STREAM_END_CAPTURE_PTSZ)
		client_note_capture(cbid, d);
	if (d->site != CUPTI_EXIT || client_capturing(agent_now_ns()) ||
	    !atomic_compare_exchange_strong(&teardown, &wanted, TEARDOWN_RUNS))
		return;
	atomic_store(&teardown_result, take_down());
	atomic_store(&teardown, TEARDOWN_DONE);
}

/* Until the teardown has come to `state`, or ns have passed, or exit. */
static bool wait_for(enum teardown state, uint64_t ns)
{
	const struct timespec t = { .tv_nsec = POLL_NS };
	uint64_t end_ns = agent_now_ns() + ns;

	while (atomic_load(&teardown) < (int)state) {
		if (agent_now_ns() >= end_ns || atomic_load(&leaving))
			return false;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return true;
}

/* Hand the teardown to the next call of the host; true when one took it. */
static bool offer(uint64_t wait_ns)
{
	int wanted = TEARDOWN_WANTED;

	if (!agent.cupti.enable_domain)
		return false;
	atomic_store(&teardown, TEARDOWN_WANTED);
	agent.cupti.enable_domain(1, agent.subscriber, CUPTI_DOMAIN_DRIVER);
	agent.cupti.enable_domain(1, agent.subscriber, CUPTI_DOMAIN_RUNTIME);
	if (wait_for(TEARDOWN_RUNS, wait_ns))
		return true;
	return !atomic_compare_exchange_strong(&teardown, &wanted,
					       TEARDOWN_NONE);
}

static int finish_offer(void)
{
	int err;

	if (!wait_for(TEARDOWN_DONE, TEARDOWN_WAIT_NS)) {
		/* A host's thread is still inside: never touch CUPTI again. */
		atomic_store(&agent.fatal, true);
		return CUPTI_E_UNKNOWN;
	}
	err = atomic_load(&teardown_result);
	atomic_store(&teardown, TEARDOWN_NONE);
	return err;
}

static int take_down_idle(void)
{
	if (atomic_load(&leaving) || client_capturing(agent_now_ns())) {
		client_unsubscribe();
		return CUPTI_E_UNKNOWN;
	}
	if (agent.has_cuda && agent.cuda.ctx_synchronize)
		agent.cuda.ctx_synchronize();
	agent.cupti.flush_all(1);
	return take_down();
}

static bool may_finalize(void)
{
	const struct timespec t = { .tv_nsec = POLL_NS };
	uint64_t end_ns = agent_now_ns() + CAPTURE_WAIT_NS;

	if (!agent.cupti.finalize ||
	    (agent.shared && !agent.cupti.is_running) ||
	    agent.cupti_version < CUPTI_VERSION_FINALIZE)
		return false;
	while (client_capturing(agent_now_ns())) {
		if (agent_now_ns() > end_ns || atomic_load(&leaving))
			return false;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	}
	return true;
}

bool client_finalize(void)
{
	bool busy = agent_now_ns() - agent.launch_ns < CALL_WAIT_NS;
	int err;

	if (!agent.subscriber || atomic_load(&agent.fatal) || !may_finalize()) {
		client_unsubscribe();
		return false;
	}
	agent.cupti.flush_all(1);
	atomic_store(&agent.live, false);
	err = offer(busy ? CALL_WAIT_NS : CALL_WAIT_IDLE_NS) ? finish_offer()
							     : take_down_idle();
	agent.subscriber = NULL;
	if (err)
		return false;
	agent.cupti_kernels = 0;
	return true;
}

void client_leave(void)
{
	int wanted = TEARDOWN_WANTED;

	atomic_store(&leaving, true);
	atomic_compare_exchange_strong(&teardown, &wanted, TEARDOWN_NONE);
}

bool client_in_teardown(void)
{
	return atomic_load(&teardown) == TEARDOWN_RUNS;
}

void client_forget(void)
{
	atomic_store(&teardown, TEARDOWN_NONE);
	atomic_store(&leaving, false);
	atomic_store(&captures, 0);
	atomic_store(&node_ns, 0);
}
