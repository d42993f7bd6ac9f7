/*
 * kernel.h - the few kernel types that the BPF programs touch
 *
 * Only the named fields exist here; their offsets are relocated at load time
 * against the running kernel's BTF (CO-RE), so no header of a particular kernel
 * is needed to build.  Constants are of the kernel's stable interface.
 */
#ifndef MOETOP_BPF_KERNEL_H
#define MOETOP_BPF_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_NOEXIST = 1,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_STATE_CB = 10,
	BPF_SOCK_OPS_STATE_CB_FLAG = 4,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
};

enum {
	AF_UNIX = 1,
	AF_INET = 2,
	AF_INET6 = 10,
	IPPROTO_TCP = 6,
	SOCK_STREAM = 1,
	RCV_SHUTDOWN = 1,
	SEND_SHUTDOWN = 2,
};

enum {
	MSG_OOB = 0x1,
	MSG_PEEK = 0x2,
	MSG_TRUNC = 0x20,
	MSG_ERRQUEUE = 0x2000,
};

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
};

#define CO_RE __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} CO_RE;

struct net {
	struct ns_common ns;
} CO_RE;

struct sock_common {
	__u16 skc_num; /* local port, host order; 0 once the port is released */
	__u16 skc_family;
	volatile unsigned char skc_state; /* TCP_* */
	struct {
		struct net *net;
	} skc_net;
} CO_RE;

struct socket;

struct sock {
	struct sock_common __sk_common;
	__u8 sk_shutdown;
	__u16 sk_type;
	__u16 sk_protocol;
	int sk_err;
	struct socket *sk_socket;
} CO_RE;

struct unix_sock {
	void *addr; /* of the server's end: that of its listener */
	struct sock *peer;
} CO_RE;

struct inet_connection_sock {
	struct {
		__u32 lrcvtime; /* of the last data received, in ticks */
	} icsk_ack;
} CO_RE;

struct tcp_sock {
	__u32 lsndtime; /* of the last data sent, in ticks */
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 data_segs_out;
	__u64 bytes_received;
	__u32 write_seq, snd_nxt;
	__u64 tcp_clock_cache; /* when it last sent or was about to, ns */
} CO_RE;

struct inode {
	__u16 i_mode;
	unsigned long i_ino;
} CO_RE;

struct file {
	struct inode *f_inode;
	void *private_data;
} CO_RE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} CO_RE;

struct files_struct {
	struct fdtable *fdt;
} CO_RE;

struct task_struct {
	void *stack;
	int tgid;
	struct files_struct *files;
} CO_RE;

struct socket {
	struct sock *sk;
} CO_RE;

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
} CO_RE;

struct bpf_iter__bpf_map_elem {
	void *key, *value;
} CO_RE;

struct bpf_iter__task_file {
	struct task_struct *task;
	struct file *file;
} CO_RE;

/* Of the interface to programs: fixed. */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;
	__u32 src_ip6[4];
	__u32 src_port; /* host order */
};

struct __sk_buff {
	__u32 len;
	__u32 fields[41];
	struct bpf_sock *sk __attribute__((aligned(8)));
};

struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 fields[41];
	struct bpf_sock *sk __attribute__((aligned(8)));
};

struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

/*
 * The saved registers of a system call; the part after ___ names the machine
 * for us and is ignored by the relocation, which picks the one that exists.
 */
struct pt_regs___x86 {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long cx;
	unsigned long r10;
	unsigned long ax;
	unsigned long orig_ax;
} CO_RE;

struct pt_regs___arm64 {
	__u64 regs[31];
	__u64 orig_x0;
	__s32 syscallno;
} CO_RE;

#endif
