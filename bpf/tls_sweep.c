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
#define endpoint_learn(hash) ((void)(hash))
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

static bool is_over(const struct conn *c, bool full)
{
	uint64_t since_ns;

	if (c->closed)
		return true;
	/* streams of HTTP/2 are not seen from here: left until SSL_free */
	return full && !c->tls.socket && c->in.state != HTTP_FRAMES &&
	       c->out.state != HTTP_FRAMES && !in_use(c, &since_ns);
}

static void end(int conns, const struct tls_key *key, uint64_t now_ns)
{
	struct conn c;

	if (bpf_map_lookup_and_delete_elem(conns, key, &c))
		return;
	for (unsigned i = 0; i < EXCHANGE_SLOTS; i++)
		slot_end(&c, &c.slots[i], ENDED_BY_CLIENT, now_ns);
	slot_end(&c, &c.adopted, ENDED_BY_CLIENT, now_ns);
}

/* Objects with a request and no socket, the longest silent ones. */
struct silent {
	unsigned n;
	struct {
		struct tls_key key;
		uint64_t since_ns;
	} list[TLS_SWEEP_MAX]; /* by since_ns, ascending */
	unsigned all;
};

static void silent_add(struct silent *s, const struct tls_key *key,
		       uint64_t since_ns)
{
	unsigned i;

	s->all++;
	if (s->n == TLS_SWEEP_MAX && since_ns >= s->list[s->n - 1].since_ns)
		return;
	i = s->n < TLS_SWEEP_MAX ? s->n++ : s->n - 1;
	for (; i && s->list[i - 1].since_ns > since_ns; i--)
		s->list[i] = s->list[i - 1];
	s->list[i].key = *key;
	s->list[i].since_ns = since_ns;
}

/* There cannot be more of them than open sockets without an object. */
static void end_silent(int conns, const struct silent *s, uint64_t now_ns)
{
	int64_t open = __atomic_load_n(&gauges.tls_unpaired, __ATOMIC_RELAXED);
	unsigned most = open > 0 ? (unsigned)open : 0;

	for (unsigned i = 0; i < s->n && s->all - i > most; i++)
		if (now_ns > s->list[i].since_ns + TLS_SWEEP_SILENT_NS)
			end(conns, &s->list[i].key, now_ns);
}

unsigned tls_sweep(int conns, struct tracker_shared *shared, unsigned before,
		   uint64_t now_ns)
{
	bool more, full = before > TLS_CONNECTIONS_MAX / 2;
	struct silent silent = { 0 };
	struct tls_key key, next;
	uint64_t since_ns;
	struct conn c;
	unsigned n = 0, left = 0;

	accounts = shared;
	more = !bpf_map_get_next_key(conns, NULL, &next);
	for (; more && n < TLS_CONNECTIONS_MAX; n++) {
		key = next;
		more = !bpf_map_get_next_key(conns, &key, &next);
		if (bpf_map_lookup_elem(conns, &key, &c))
			continue;
		if (is_over(&c, full)) {
			end(conns, &key, now_ns);
			continue;
		}
		left++;
		if (!c.tls.socket && in_use(&c, &since_ns))
			silent_add(&silent, &key, since_ns);
	}
	end_silent(conns, &silent, now_ns);
	return left;
}
