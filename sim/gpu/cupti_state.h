/*
 * cupti_state.h - inside the simulated libcupti
 *
 * A client is a struct client: the first is for the calls without a subscriber's
 * handle (V1), the others for subscribers that live side by side (V2, from 13.3
 * on).
 *
 * Locks, in this order: delivery (one thread hands out buffers at a time, so
 * that a flush returns after everything before it was handed out), lock (all
 * state below).  The client's callbacks run without lock; the completed and, in
 * a flush, the requested callback run with delivery held.
 */
#ifndef MOETOP_SIM_GPU_CUPTI_STATE_H
#define MOETOP_SIM_GPU_CUPTI_STATE_H

#include "cupti/abi.h"
#include "sim/gpu/simgpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef int CUptiResult;

/* ---- the exported functions ------------------------------------------------ */

CUptiResult cuptiGetVersion(uint32_t *version);
CUptiResult cuptiGetResultString(CUptiResult result, const char **s);
CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **s);
CUptiResult cuptiSubscribe(void **subscriber, cupti_callback fn,
			   void *userdata);
CUptiResult cuptiUnsubscribe(void *subscriber);
CUptiResult cuptiEnableCallback(uint32_t enable, void *subscriber, int domain,
				uint32_t cbid);
CUptiResult cuptiEnableDomain(uint32_t enable, void *subscriber, int domain);
CUptiResult cuptiGetCallbackState(uint32_t *enable, void *subscriber,
				  int domain, uint32_t cbid);
CUptiResult cuptiActivityRegisterCallbacks(cupti_buffer_requested requested,
					   cupti_buffer_completed completed);
CUptiResult cuptiActivityEnable(uint32_t kind);
CUptiResult cuptiActivityDisable(uint32_t kind);
CUptiResult cuptiActivitySetAttribute(int attr, size_t *bytes, void *value);
CUptiResult cuptiActivityGetAttribute(int attr, size_t *bytes, void *value);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityFlushPeriod(uint32_t ms);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes,
				       void **record);
CUptiResult cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream,
					      size_t *dropped);
CUptiResult cuptiGetTimestamp(uint64_t *ns);
CUptiResult cuptiGetGraphId(void *graph, uint32_t *id);
CUptiResult cuptiGetGraphExecId(void *exec, uint32_t *id);
CUptiResult cuptiGetGraphNodeId(void *node, uint64_t *id);
CUptiResult cuptiGetDeviceId(void *context, uint32_t *id);
CUptiResult cuptiGetContextId(void *context, uint32_t *id);
CUptiResult cuptiGetStreamId(void *context, void *stream, uint32_t *id);
CUptiResult cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread,
			       uint32_t *id);
CUptiResult cuptiSetThreadIdType(int type);
CUptiResult cuptiGetThreadIdType(int *type);
CUptiResult cuptiFinalize(void);

CUptiResult cuptiSubscribe_v2(void **subscriber, cupti_callback fn,
			      void *userdata,
			      struct cupti_subscriber_params *params);
CUptiResult
cuptiActivityRegisterCallbacks_v2(void *subscriber,
				  cupti_buffer_requested_v2 requested,
				  cupti_buffer_completed_v2 completed);
CUptiResult cuptiActivityEnable_v2(void *subscriber, uint32_t kind,
				   void *config);
CUptiResult cuptiActivityDisable_v2(void *subscriber, uint32_t kind,
				    void *config);
CUptiResult cuptiActivitySetAttribute_v2(void *subscriber, int attr,
					 size_t *bytes, void *value);
CUptiResult cuptiActivityGetAttribute_v2(void *subscriber, int attr,
					 size_t *bytes, void *value);
CUptiResult cuptiActivityGetNextRecord_v2(void *subscriber, uint8_t *buffer,
					  size_t valid_bytes, void **record);
CUptiResult cuptiActivityGetNumDroppedRecords_v2(void *subscriber,
						 void *context, uint32_t stream,
						 size_t *dropped);
CUptiResult cuptiGetTimestamp_v2(void *subscriber, uint64_t *ns);
CUptiResult cuptiActivityGetStructSize(uint32_t kind, uint32_t version,
				       size_t *bytes);
CUptiResult cuptiIsTracingSessionRunning(uint8_t *runs);

/* ---- state ------------------------------------------------------------------- */

#pragma GCC visibility push(hidden)

#define CUPTI_E_INVALID_OPERATION 7
#define CUPTI_E_SIZE 10
#define CUPTI_E_INVALID_KIND 21
#define CUPTI_DOMAINS 7
#define CUPTI_CBIDS 1024
#define CUPTI_KINDS 64
#define CUPTI_CLIENTS 4
#define CUPTI_WORKER_NS 10000000u /* how often the worker looks */

struct buffer {
	struct buffer *next;
	uint8_t *p;
	size_t bytes, used;
	size_t slots, count; /* records that surely fit, records in it */
};

struct buffers { /* oldest first */
	struct buffer *head, *tail;
};

struct pending { /* a record whose end may lie ahead */
	struct simgpu_record r;
	int64_t shift_ns; /* to CLOCK_REALTIME, and the jitter fault */
	bool zero;        /* the zero_stamps fault */
	bool serial;      /* a KERNEL, not a CONCURRENT_KERNEL record */
};

struct client {
	/* callbacks */
	_Atomic bool subscribed;
	bool alone; /* allows no other */
	char name[CUPTI_NAME_BYTES];
	cupti_callback callback;
	void *userdata;
	_Atomic uint8_t enabled[CUPTI_DOMAINS][CUPTI_CBIDS];
	/* activity; one pair of functions is set at most */
	cupti_buffer_requested requested;
	cupti_buffer_completed completed;
	cupti_buffer_requested_v2 requested_v2;
	cupti_buffer_completed_v2 completed_v2;
	_Atomic uint8_t kinds[CUPTI_KINDS];
	struct buffers open, full;
	size_t slots_free; /* of the open ones; >= pending, but after a flush */
	struct pending *pending;
	size_t pending_count, pending_room;
	uint64_t dropped;
};

struct cupti_state {
	pthread_mutex_t delivery, lock;
	_Atomic bool dead;                   /* after FATAL_ERROR */
	struct client client[CUPTI_CLIENTS]; /* the first: V1 */
	uint64_t kernels, grid_id;
	/* worker */
	pthread_t worker;
	pthread_cond_t wake;
	bool worker_runs, worker_stop;
	int thread_id_type;
};
extern struct cupti_state cupti;

/* The client behind a V2 handle, NULL if it is none; V1 calls while V2 clients
 * live are refused. */
struct client *cupti_client_of(void *subscriber);
bool cupti_v1_barred(void);
/* Of the API callback that this thread is in, CUPTI_ENTER or CUPTI_EXIT; -1. */
int cupti_site(void);

CUptiResult cupti_subscribe_as(struct client *c, void **subscriber,
			       cupti_callback fn, void *userdata);
CUptiResult cupti_set_kind(struct client *c, uint32_t kind, uint8_t on);
CUptiResult cupti_take_dropped(struct client *c, size_t *dropped);

/* Install what the present state needs into libcuda. */
void cupti_hooks_update(void);
void cupti_state_error(const char *message); /* deliver FATAL_ERROR */
void cupti_teardown(void);
bool cupti_records_wanted(void);
void cupti_on_records(const struct simgpu_record *r, size_t n);
void cupti_worker_start(void);
void cupti_flush(bool forced);
/* Forget the client's buffers and pending records; lock is held. */
void cupti_client_forget(struct client *c);
/* Write one record at p; its size.  incomplete: without times. */
size_t cupti_record_write(uint8_t *p, const struct pending *x, bool incomplete);
/* Uniform in [-n, n], the same in every run. */
int64_t cupti_jitter_ns(uint64_t n);
/* What CUPTI's clock is ahead of CLOCK_MONOTONIC, the same for the life of the
 * process: near CLOCK_REALTIME. */
int64_t cupti_offset_ns(void);
uint64_t cupti_monotonic_ns(void);

#pragma GCC visibility pop

#endif
