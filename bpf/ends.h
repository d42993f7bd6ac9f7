/*
 * ends.h - how a connection ends, and the requests that are open then
 *
 * A request that was left when its client closed is in flight until the server
 * closes too, since until then the server works on it, and may even answer it
 * (a client may close its sending half only).
 */
#ifndef MOETOP_BPF_ENDS_H
#define MOETOP_BPF_ENDS_H

#include "bpf/exchange.h"

#define EXCHANGE_LEFT_NS 30000000000ull /* silence after the client closed */

/* No more responses: end what is outstanding. */
static __always_inline void conn_close(struct conn *c, __u32 how, __u64 now)
{
	if (!c->closed)
		__sync_lock_test_and_set(&c->closed, 1 + how);
	if (c->out.state == HTTP_CLOSE && how == ENDED_BY_SERVER) {
		struct slot *s = response_slot(c);

		if (s)
			slot_end(c, s, ENDED_COMPLETED, now);
	}
	for (__u32 i = 0; i < EXCHANGE_SLOTS; i++)
		slot_end(c, &c->slots[i], how, now);
	slot_end(c, &c->adopted, how, now);
	if (c->in.state == HTTP_FRAMES || c->out.state == HTTP_FRAMES)
		h2_close(c, how, now);
}

/*
 * Called from time to time.  A server that lets a request lie long after its
 * client closed has forgotten it: the client's abort, though the socket is
 * still there.
 */
static __always_inline void conn_sweep(struct conn *c, __u64 now)
{
	__u64 seen = c->left_ns;

	tls_settle(c, now);
	if (!c->client_closed || c->closed)
		return;
	if (c->answer.last_ns > seen)
		seen = c->answer.last_ns;
	if (now > seen && now - seen > EXCHANGE_LEFT_NS)
		conn_close(c, ENDED_BY_CLIENT, now);
}

enum conn_event {
	CONN_CLIENT_CLOSED, /* FIN received */
	CONN_SERVER_CLOSED, /* close or shutdown by the server */
	CONN_GONE,          /* reset, or closed with bytes unread */
};

/* error: that of the socket, not 0 if the peer or the network broke it. */
static __always_inline void conn_event(struct conn *c, enum conn_event event,
				       int error, __u64 now)
{
	if (event == CONN_CLIENT_CLOSED) {
		c->left_ns = now;
		c->client_closed = 1;
		return;
	}
	conn_close(c,
		   error || c->client_closed ? ENDED_BY_CLIENT
					     : ENDED_BY_SERVER,
		   now);
	tls_closed(c);
}

#endif
