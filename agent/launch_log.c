#include "agent/launch_log.h"

#define MASK (LAUNCH_LOG_SLOTS - 1)
#define LATEST_BACK 12u /* of one layer there are fewer */

void launch_log_push(struct launch_log *log, enum launch_kind kind,
		     uint64_t time_ns, uint32_t exec,
		     const struct launch *launch)
{
	uint64_t n =
		atomic_fetch_add_explicit(&log->head, 1, memory_order_relaxed);
	struct launch_slot *s = &log->slot[n & MASK];

	atomic_store_explicit(&s->seq, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	s->entry.time_ns = time_ns;
	s->entry.kind = kind;
	s->entry.exec = exec;
	if (launch)
		s->entry.launch = *launch;
	atomic_store_explicit(&s->seq, n + 1, memory_order_release);
}

/* Copy entry n; false when it is not there, or was overwritten meanwhile. */
static bool copy_entry(struct launch_log *log, uint64_t n,
		       struct launch_entry *out)
{
	struct launch_slot *s = &log->slot[n & MASK];

	if (atomic_load_explicit(&s->seq, memory_order_acquire) != n + 1)
		return false;
	*out = s->entry;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&s->seq, memory_order_relaxed) == n + 1;
}

bool launch_log_take(struct launch_log *log, struct launch_entry *out)
{
	for (;;) {
		uint64_t head =
			atomic_load_explicit(&log->head, memory_order_acquire);

		if (log->tail == head)
			return false;
		if (head - log->tail > LAUNCH_LOG_SLOTS) {
			uint64_t oldest = head - LAUNCH_LOG_SLOTS;

			log->lost += oldest - log->tail;
			log->tail = oldest;
		}
		if (copy_entry(log, log->tail, out)) {
			log->tail++;
			return true;
		}
		/* Still being written: later.  Overwritten: the next one. */
		head = atomic_load_explicit(&log->head, memory_order_acquire);
		if (head - log->tail <= LAUNCH_LOG_SLOTS)
			return false;
	}
}

bool launch_log_latest(struct launch_log *log, struct launch_entry *out)
{
	uint64_t head = atomic_load_explicit(&log->head, memory_order_acquire);
	struct launch_entry e;
	bool any = false;

	for (uint64_t back = 1; back <= LATEST_BACK && back <= head; back++) {
		if (!copy_entry(log, head - back, &e) ||
		    (any && e.kind == LAUNCH_OTHER))
			continue;
		*out = e;
		any = true;
		if (e.kind != LAUNCH_OTHER)
			break;
	}
	return any;
}
