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
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_RB_NO_WAKEUP = 1,
};

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	IPPROTO_TCP = 6,
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

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	int sk_err;
} CO_RE;

struct task_struct;

/*
 * The saved registers of a system call; the part after ___ names the machine
 * for us and is ignored by the relocation, which picks the one that exists.
 */
struct pt_regs___x86 {
	unsigned long si;
	unsigned long dx;
	unsigned long orig_ax;
} CO_RE;

struct pt_regs___arm64 {
	__u64 regs[31];
	__s32 syscallno;
} CO_RE;

#endif
