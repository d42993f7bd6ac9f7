/*
 * requests_f.bpf.c - source F: the ends of tcp_sendmsg and tcp_recvmsg, and of
 * their kin for UNIX streams
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
	struct conn *c = ret > 0 ? conn_of(sk) : NULL;

	return c ? returning_sent(c, ret, bpf_ktime_get_ns()) : 0;
}

static __always_inline int received(struct sock *sk, int ret)
{
	struct conn *c = ret > 0 ? conn_of(sk) : NULL;

	return c ? returning_received(c, ret) : 0;
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

SEC("fexit/unix_stream_sendmsg")
int BPF_PROG(on_unix_send, struct socket *s, void *m, __u64 n, int ret)
{
	struct sock *sk = s->sk;
	struct conn *c;

	if (ret <= 0)
		return unix_nothing(sk, ret);
	c = conn_of(sk);
	return c ? returning_sent(c, ret, bpf_ktime_get_ns()) : 0;
}

SEC("fexit/unix_stream_recvmsg")
int BPF_PROG(on_unix_recv, struct socket *s, void *m, __u64 n, int flags,
	     int ret)
{
	struct sock *sk = s->sk;

	return ret > 0 ? received(sk, ret) : unix_nothing(sk, ret);
}
