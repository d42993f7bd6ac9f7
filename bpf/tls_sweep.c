#include "bpf/tls_sweep.h"

#include <stdbool.h>
#include <string.h>

#include <bpf/bpf.h>

/* What exchange.h asks for: an account is changed as the programs do it. */
static _Thread_local struct tracker_shared *accounts;
#define gauges accounts->gauges
#define counters accounts->counters
#define histogram_add(which, ns) ((void)(which), (void)(ns))
#define record_emit(r) ((void)(r), 0)
#include "bpf/slot.h"

#include "bpf/tls_tables.h"

static bool in_use(const struct conn *c, uint64_t *since_ns)
{
	bool used = c->adopted.state != SLOT_FREE;

	*since_ns = c->answer.last_ns;
	for (unsigned i = 0; i < EXCHANGE_SLOTS; i++) {
		if (c->slots[i].state == SLOT_FREE)
			continue;
		used = true;
		if (c->slots[i].start_ns > *since_ns)
			*since_ns = c->slots[i].start_ns;
	}
	return used;
}

static bool is_over(const struct conn *c, bool full, uint64_t now_ns,
		    uint64_t silent_ns)
{
	uint64_t since_ns;

	if (c->closed)
		return true;
	if (c->tls.socket)
		return false;
	if (!in_use(c, &since_ns))
		return full;
	return since_ns && now_ns > since_ns && now_ns - since_ns > silent_ns;
}

static void end(struct conn *c, uint64_t now_ns)
{
	for (unsigned i = 0; i < EXCHANGE_SLOTS; i++)
		slot_end(c, &c->slots[i], ENDED_BY_CLIENT, now_ns);
	slot_end(c, &c->adopted, ENDED_BY_CLIENT, now_ns);
}

unsigned tls_sweep(int conns, struct tracker_shared *shared, unsigned before,
		   uint64_t now_ns, uint64_t silent_ns)
{
	struct tls_key key, next;
	struct conn c;
	bool more;
	unsigned n = 0, left = 0;

	accounts = shared;
	more = !bpf_map_get_next_key(conns, NULL, &next);
	for (; more && n < TLS_CONNECTIONS_MAX; n++) {
		key = next;
		more = !bpf_map_get_next_key(conns, &key, &next);
		if (bpf_map_lookup_elem(conns, &key, &c) ||
		    !is_over(&c, before > TLS_CONNECTIONS_MAX / 2, now_ns,
			     silent_ns)) {
			left++;
			continue;
		}
		if (!bpf_map_lookup_and_delete_elem(conns, &key, &c))
			end(&c, now_ns);
	}
	return left;
}
