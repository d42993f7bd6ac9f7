/*
 * requests_s.bpf.c - source S: the end of every system call of the machine
 *
 * For kernels where nothing nearer can be had.  Every process pays for it.
 */
#define SOCKETS_BY_ADDRESS
#include "bpf/call.h"
#include "bpf/existing.h"
#include "bpf/life.h"

#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* The socket behind a descriptor of the caller, NULL if it is none. */
static __always_inline struct sock *descriptor_socket(__u32 fd)
{
	struct task_struct *t = (void *)bpf_get_current_task_btf();
	struct fdtable *table = t->files->fdt;
	struct file *f = NULL;
	struct socket *s;

	if (fd >= table->max_fds ||
	    bpf_probe_read_kernel(&f, sizeof(f), table->fd + fd) || !f)
		return NULL;
	if ((BPF_CORE_READ(f, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	s = BPF_CORE_READ(f, private_data);
	return BPF_CORE_READ(s, sk);
}

SEC("raw_tp/sys_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	long ret = (long)ctx->args[1];
	struct call call;
	struct sock *sk;
	struct conn *c;

	if (ret > 0x7fffffff ||
	    (ret <= 0 && (!shared.unix_on || ret == UNIX_EAGAIN)))
		return 0;
	call_read(&call, CALL_FD | CALL_FLAGS);
	if (call.kind == CALL_OTHER && !call.sends)
		return 0;
	sk = descriptor_socket(call.fd);
	if (!sk)
		return 0;
	if (ret <= 0)
		return unix_nothing(sk, (int)ret);
	c = conn_of(sk);
	if (!c)
		return 0;
	if (call.sends)
		call_sent(c, &call, (__u32)ret, bpf_ktime_get_ns());
	else if (!(call.flags & CALL_TAKES_NOTHING))
		call_received(c, &call, (__u32)ret, call.flags);
	return 0;
}
