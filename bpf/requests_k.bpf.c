/*
 * requests_k.bpf.c - source K: the tracepoints at the end of every socket call
 *
 * sock_send_length and sock_recv_length, Linux >= 6.3.
 */
#include "bpf/call.h"
#include "bpf/existing.h"
#include "bpf/life.h"

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret, int flags)
{
	struct conn *c;

	if (ret <= 0)
		return unix_nothing(sk, ret);
	c = conn_of(sk);
	return c ? returning_sent(c, ret) : 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_recv, struct sock *sk, int ret, int flags)
{
	struct call call;
	struct conn *c;

	if (ret <= 0)
		return unix_nothing(sk, ret);
	if (flags & CALL_TAKES_NOTHING)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	call_read(&call, 0);
	call_received(c, &call, (__u32)ret, (__u32)flags);
	return 0;
}
