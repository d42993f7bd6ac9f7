/*
 * requests_k.bpf.c - source K: the tracepoints at the end of every socket call
 *
 * sock_send_length and sock_recv_length, Linux >= 6.3.
 */
#include "bpf/program.h"

/* What the verifier shall take an address for.  Costs nothing, where a helper that
 * does the same takes as long as sixty instructions. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym;
#define kernel_cast(address, type)                        \
	((type *)bpf_rdonly_cast((const void *)(address), \
				 bpf_core_type_id_kernel(type)))

/* The place is the same on the stack of every task. */
static __always_inline void *k_registers(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 stack = (__u64)task->stack, at;
	void *regs;

	if (shared.registers)
		return kernel_cast(stack + shared.registers,
				   struct pt_regs___x86);
	regs = (void *)bpf_task_pt_regs(task);
	if (!bpf_probe_read_kernel(&at, sizeof(at), &regs))
		shared.registers = (__u32)(at - stack);
	return regs;
}

#define call_registers k_registers
#include "bpf/call.h"
#include "bpf/existing.h"
#include "bpf/life.h"

/*
 * When a call that is about to return sent its bytes.  TCP has just looked at the
 * clock if all that was ever written has left; a clock that is read anew waits
 * for all that the processor has to fetch, which is longer than it takes.
 */
static __always_inline __u64 sent_ns(const struct sock *sk)
{
	const struct tcp_sock *tp = kernel_cast(sk, struct tcp_sock);

	if (sk->sk_protocol == IPPROTO_TCP &&
	    bpf_core_field_exists(tp->tcp_clock_cache) &&
	    tp->snd_nxt == tp->write_seq)
		return tp->tcp_clock_cache;
	return bpf_ktime_get_ns();
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret, int flags)
{
	struct conn *c;

	if (ret <= 0)
		return unix_nothing(sk, ret);
	c = conn_of(sk);
	return c ? returning_sent(c, ret, sent_ns(sk)) : 0;
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
