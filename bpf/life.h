/*
 * life.h - when connections begin and end, by inet_sock_set_state
 */
#ifndef MOETOP_BPF_LIFE_H
#define MOETOP_BPF_LIFE_H

#include "bpf/program.h"

/* The same happens to the plain text of the connection. */
static __always_inline void tls_life(struct conn *c, int state, int error)
{
	struct conn *plain = tls_conn_of(c);
	__u64 socket = c->tls.socket;

	if (plain && state == TCP_CLOSE_WAIT)
		conn_event(plain, CONN_CLIENT_CLOSED, 0, bpf_ktime_get_ns());
	else if (plain && (state == TCP_FIN_WAIT1 || state == TCP_LAST_ACK))
		conn_event(plain, CONN_SERVER_CLOSED, 0, bpf_ktime_get_ns());
	else if (plain && state == TCP_CLOSE)
		conn_event(plain, CONN_GONE, error, bpf_ktime_get_ns());
	if (plain && plain->closed)
		h2_drop(plain);
	if (state != TCP_CLOSE)
		return;
	if (c->tls.inferred && tls_elsewhere(c))
		tls_forget(c, bpf_ktime_get_ns());
	bpf_map_delete_elem(&tls_sockets, &socket);
}

/*
 * The last of a socket; another one may get its address.  Twice, for two
 * processors may have made two states of it (seats.h).
 */
static __always_inline int life_end(struct sock *sk)
{
	for (int i = 0; i < 2; i++) {
		struct conn *c = conn_find(sk);

		if (!c)
			break;
		conn_event(c, CONN_GONE, sk_read(sk, sk_err),
			   bpf_ktime_get_ns());
		if (c->tls.kind)
			tls_life(c, TCP_CLOSE, sk_read(sk, sk_err));
		h2_drop(c);
		conn_leave(sk);
	}
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(on_destroy, struct sock *sk)
{
	return life_end(sk);
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(on_destroy_too, struct sock *sk)
{
	return life_end(sk);
}

static __always_inline int life_cycle(struct sock *sk, int before, int after)
{
	struct conn *c;

	if (before == TCP_SYN_RECV && after == TCP_ESTABLISHED) {
		if (!wanted(sk))
			return 0;
		c = conn_find(sk);
		if (c && !c->closed)
			return 0;
		if (c) { /* of another socket, whose last was not seen */
			h2_drop(c);
			conn_leave(sk);
		}
		c = conn_new(sk);
		if (c)
			conn_fresh(c);
		return 0;
	}
	if (before == TCP_LISTEN || after == TCP_LISTEN)
		exchange_add(shared.listens, 1);
	c = conn_find(sk);
	if (!c)
		return 0;
	if (after == TCP_CLOSE_WAIT)
		conn_event(c, CONN_CLIENT_CLOSED, 0, bpf_ktime_get_ns());
	else if (after == TCP_FIN_WAIT1 || after == TCP_LAST_ACK)
		conn_event(c, CONN_SERVER_CLOSED, 0, bpf_ktime_get_ns());
	else if (after == TCP_CLOSE)
		conn_event(c, CONN_GONE, sk_read(sk, sk_err),
			   bpf_ktime_get_ns());
	if (c->tls.kind)
		tls_life(c, after, sk_read(sk, sk_err));
	return 0;
}

/*
 * The kernel skips a program that is running on this CPU already.  A packet
 * that arrives on top of a close would so be missed by one program; of two,
 * at least one is free.  A change that both see counts once.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int before, int after)
{
	return life_cycle(sk, before, after);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state_too, struct sock *sk, int before, int after)
{
	return life_cycle(sk, before, after);
}

#endif
