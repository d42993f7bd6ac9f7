/*
 * requests_p.bpf.c - source P: probes of tcp_sendmsg and tcp_recvmsg
 *
 * The entry remembers the socket of the thread and the return takes it up.  A
 * thread that is killed in between leaves an entry, which its number's next
 * call overwrites.
 */
#define SOCKETS_BY_ADDRESS
#include "bpf/call.h"
#include "bpf/existing.h"
#include "bpf/life.h"

#define CALLS_MAX 8192

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
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

static __always_inline int enter(void *regs)
{
	struct sock *sk = argument(regs);
	__u64 thread = bpf_get_current_pid_tgid(), key = (__u64)sk;

	if (conn_of(sk) && bpf_map_update_elem(&calls, &thread, &key, 0))
		exchange_add(counters.overflows, 1);
	return 0;
}

static __always_inline struct conn *leave(int ret)
{
	__u64 thread = bpf_get_current_pid_tgid();
	__u64 *key = bpf_map_lookup_elem(&calls, &thread);
	void *sk;

	if (!key)
		return NULL;
	sk = (void *)*key;
	bpf_map_delete_elem(&calls, &thread);
	return ret > 0 ? conn_find(sk) : NULL;
}

SEC("kprobe/tcp_sendmsg")
int on_send_enter(void *regs)
{
	return enter(regs);
}

SEC("kprobe/tcp_recvmsg")
int on_recv_enter(void *regs)
{
	return enter(regs);
}

SEC("kretprobe/tcp_sendmsg")
int on_send(void *regs)
{
	int ret = result(regs);
	struct conn *c = leave(ret);

	return c ? returning_sent(c, ret) : 0;
}

SEC("kretprobe/tcp_recvmsg")
int on_recv(void *regs)
{
	int ret = result(regs);
	struct conn *c = leave(ret);

	return c ? returning_received(c, ret) : 0;
}
