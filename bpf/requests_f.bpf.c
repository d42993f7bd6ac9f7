/*
 * requests_f.bpf.c - source F: the ends of tcp_sendmsg and tcp_recvmsg
 *
 * By trampoline: x86 >= 5.15, 64-bit Arm >= 6.4.  The result is behind the
 * arguments, of which tcp_recvmsg has had 6, 5 and 4; the loader lets only the
 * one live that agrees with the kernel's types.
 */
#include "bpf/call.h"
#include "bpf/existing.h"
#include "bpf/life.h"

SEC("fexit/tcp_sendmsg")
int BPF_PROG(on_send, struct sock *sk, void *m, __u64 n, int ret)
{
	struct call call;
	struct conn *c;

	if (ret <= 0)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	call_read(&call, call_registers(), 0);
	call_sent(c, &call, (__u32)ret);
	return 0;
}

static __always_inline int received(struct sock *sk, int ret)
{
	struct call call;
	struct conn *c;

	if (ret <= 0)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	call_read(&call, call_registers(), CALL_FLAGS);
	if (!(call.flags & CALL_TAKES_NOTHING))
		call_received(c, &call, (__u32)ret, call.flags);
	return 0;
}

SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_recv_6, struct sock *sk, void *m, __u64 n, int nonblock,
	     int flags, void *length, int ret)
{
	return received(sk, ret);
}

SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_recv_5, struct sock *sk, void *m, __u64 n, int flags,
	     void *length, int ret)
{
	return received(sk, ret);
}

SEC("fexit/tcp_recvmsg")
int BPF_PROG(on_recv_4, struct sock *sk, void *m, __u64 n, int flags, int ret)
{
	return received(sk, ret);
}
