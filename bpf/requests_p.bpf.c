/*
 * requests_p.bpf.c - source P: probes of tcp_sendmsg and tcp_recvmsg, and of
 * their kin for UNIX streams
 *
 * The entry remembers the socket of the thread and the return takes it up.  A
 * thread that is killed in between leaves an entry, which goes when its number's
 * next call comes, or when room is needed.
 */
#define SOCKETS_BY_ADDRESS
#include "bpf/call.h"
#include "bpf/existing.h"
#include "bpf/life.h"

#define CALLS_MAX 8192

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CALLS_MAX);
	__type(key, __u64);
	__type(value, __u64);
} calls SEC(".maps"); /* thread -> socket */

/* First argument of the function that is entered. */
static __always_inline struct sock *argument(void *regs)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;

	if (bpf_core_field_exists(x86->orig_ax))
		return (struct sock *)BPF_CORE_READ(x86, di);
	return (struct sock *)BPF_CORE_READ(arm, regs[0]);
}

static __always_inline int result(void *regs)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;

	if (bpf_core_field_exists(x86->orig_ax))
		return (int)BPF_CORE_READ(x86, ax);
	return (int)BPF_CORE_READ(arm, regs[0]);
}

static __always_inline int enter(struct sock *sk)
{
	__u64 thread = bpf_get_current_pid_tgid(), key = (__u64)sk;

	if (bpf_map_update_elem(&calls, &thread, &key, 0))
		exchange_add(counters.overflows, 1);
	return 0;
}

/* A client of what we follow tells when the server closes. */
static __always_inline int unix_enter(void *regs)
{
	struct sock *sk = BPF_CORE_READ((struct socket *)argument(regs), sk);

	if (!unix_is(sk))
		return 0;
	return conn_of(sk) || unix_find(unix_read(sk, peer)) ? enter(sk) : 0;
}

/* The socket of the call that ends, NULL for one that is not followed. */
static __always_inline struct sock *leave(void)
{
	__u64 thread = bpf_get_current_pid_tgid(), sk;
	__u64 *key = bpf_map_lookup_elem(&calls, &thread);

	if (!key)
		return NULL;
	sk = *key;
	bpf_map_delete_elem(&calls, &thread);
	return (struct sock *)sk;
}

SEC("kprobe/tcp_sendmsg")
int on_send_enter(void *regs)
{
	struct sock *sk = argument(regs);

	return conn_of(sk) ? enter(sk) : 0;
}

SEC("kprobe/tcp_recvmsg")
int on_recv_enter(void *regs)
{
	struct sock *sk = argument(regs);

	return conn_of(sk) ? enter(sk) : 0;
}

SEC("kretprobe/tcp_sendmsg")
int on_send(void *regs)
{
	int ret = result(regs);
	struct sock *sk = leave();
	struct conn *c = sk && ret > 0 ? conn_find(sk) : NULL;

	return c ? returning_sent(c, ret, bpf_ktime_get_ns()) : 0;
}

SEC("kretprobe/tcp_recvmsg")
int on_recv(void *regs)
{
	int ret = result(regs);
	struct sock *sk = leave();
	struct conn *c = sk && ret > 0 ? conn_find(sk) : NULL;

	return c ? returning_received(c, ret) : 0;
}

SEC("kprobe/unix_stream_sendmsg")
int on_unix_send_enter(void *regs)
{
	return unix_enter(regs);
}

SEC("kprobe/unix_stream_recvmsg")
int on_unix_recv_enter(void *regs)
{
	return unix_enter(regs);
}

SEC("kretprobe/unix_stream_sendmsg")
int on_unix_send(void *regs)
{
	int ret = result(regs);
	struct sock *sk = leave();
	struct conn *c;

	if (!sk)
		return 0;
	if (ret <= 0)
		return unix_nothing(sk, ret);
	c = conn_of(sk);
	return c ? returning_sent(c, ret, bpf_ktime_get_ns()) : 0;
}

SEC("kretprobe/unix_stream_recvmsg")
int on_unix_recv(void *regs)
{
	int ret = result(regs);
	struct sock *sk = leave();
	struct conn *c;

	if (!sk)
		return 0;
	if (ret <= 0)
		return unix_nothing(sk, ret);
	c = conn_of(sk);
	return c ? returning_received(c, ret) : 0;
}
