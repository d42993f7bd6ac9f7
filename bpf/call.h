/*
 * call.h - where the bytes of a system call are
 *
 * They are found through the saved registers of the call that is about to
 * return, so that no layout of the kernel's own vectors matters.
 */
#ifndef MOETOP_BPF_CALL_H
#define MOETOP_BPF_CALL_H

#include "bpf/unix.h"

enum call_kind {
	CALL_OTHER, /* bytes were moved, but not by the caller's memory */
	CALL_BUFFER,
	CALL_VECTOR,
	CALL_MESSAGE,
};

struct call {
	enum call_kind kind;
	__u32 sends;
	__u32 fd;
	__u32 flags; /* MSG_* of one that receives; 0 where it has none */
	__u64 arg2, arg3;
};

static __always_inline void call_kind_x86(struct call *c, __u64 number)
{
	c->sends = number == 1 || number == 20 || number == 40 ||
		   number == 44 || number == 46;
	switch (number) {
	case 0:  /* read */
	case 1:  /* write */
	case 44: /* sendto */
	case 45: /* recvfrom */
		c->kind = CALL_BUFFER;
		return;
	case 19: /* readv */
	case 20: /* writev */
		c->kind = CALL_VECTOR;
		return;
	case 46: /* sendmsg */
	case 47: /* recvmsg */
		c->kind = CALL_MESSAGE;
		return;
	}
	c->kind = CALL_OTHER;
}

static __always_inline void call_kind_arm64(struct call *c, __u64 number)
{
	c->sends = number == 64 || number == 66 || number == 71 ||
		   number == 206 || number == 211;
	switch (number) {
	case 63:  /* read */
	case 64:  /* write */
	case 206: /* sendto */
	case 207: /* recvfrom */
		c->kind = CALL_BUFFER;
		return;
	case 65: /* readv */
	case 66: /* writev */
		c->kind = CALL_VECTOR;
		return;
	case 211: /* sendmsg */
	case 212: /* recvmsg */
		c->kind = CALL_MESSAGE;
		return;
	}
	c->kind = CALL_OTHER;
}

/* What is read besides the arguments that give the bytes; constants. */
enum { CALL_FD = 1, CALL_FLAGS = 2 };

/* The registers of the call that is about to return.  The verifier knows their
 * type, so that each is read without a helper. */
#ifndef call_registers
#define call_registers() ((void *)bpf_task_pt_regs(bpf_get_current_task_btf()))
#endif

/* The call that is about to return. */
static __always_inline void call_read(struct call *c, __u32 parts)
{
	void *regs = call_registers();
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;
	__u64 arg4 = 0, number;

	if (bpf_core_field_exists(x86->orig_ax)) {
		number = x86->orig_ax;
		call_kind_x86(c, number);
		c->fd = parts & CALL_FD ? (__u32)x86->di : 0;
		c->arg2 = x86->si;
		c->arg3 = x86->dx;
		if (parts & CALL_FLAGS)
			arg4 = x86->r10;
		c->flags = number == 45 ? (__u32)arg4 : 0;
	} else {
		number = (__u64)arm->syscallno;
		call_kind_arm64(c, number);
		c->fd = parts & CALL_FD ? (__u32)arm->orig_x0 : 0;
		c->arg2 = arm->regs[1];
		c->arg3 = arm->regs[2];
		if (parts & CALL_FLAGS)
			arg4 = arm->regs[3];
		c->flags = number == 207 ? (__u32)arg4 : 0;
	}
	if (c->kind == CALL_MESSAGE)
		c->flags = (__u32)c->arg3;
}

/* The bytes of a call that moved so many. */
static __always_inline void call_open(const struct call *c, struct reader *r,
				      __u32 bytes)
{
	struct {
		__u64 iov, iovs;
	} m = { c->arg2, c->arg3 };
	enum call_kind kind = c->kind;

	__builtin_memset(r, 0, sizeof(*r));
	if (kind == CALL_BUFFER) {
		r->at = c->arg2;
		r->piece = bytes;
		return;
	}
	/* struct msghdr: the vector follows name and its length */
	if (kind == CALL_MESSAGE && copy_bytes(&m, sizeof(m), c->arg2 + 16))
		kind = CALL_OTHER;
	if (kind == CALL_OTHER) {
		r->piece = bytes;
		r->opaque = 1;
		return;
	}
	r->iov = m.iov;
	r->iovs = m.iovs < READER_IOVECS ? (__u32)m.iovs : READER_IOVECS;
	r->rest = bytes;
}

static __always_inline void call_sent(struct conn *c, const struct call *call,
				      __u32 bytes, __u64 now)
{
	struct reader r;

	call_open(call, &r, bytes);
	conn_sent(c, &r, now);
}

/* flags: the call's own, or what the kernel made of them */
static __always_inline void
call_received(struct conn *c, const struct call *call, __u32 bytes, __u32 flags)
{
	struct reader r;

	call_open(call, &r, bytes);
	if (flags & MSG_TRUNC) /* thrown away, not copied */
		r.opaque = 1;
	conn_received(c, &r, bpf_ktime_get_ns());
}

#define CALL_TAKES_NOTHING (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)

/* The call that is about to return has sent so many bytes. */
static __always_inline int returning_sent(struct conn *c, int bytes, __u64 now)
{
	struct call call;

	call_read(&call, 0);
	call_sent(c, &call, (__u32)bytes, now);
	return 0;
}

/* It has received them; only its own flags tell how. */
static __always_inline int returning_received(struct conn *c, int bytes)
{
	struct call call;

	call_read(&call, CALL_FLAGS);
	if (!(call.flags & CALL_TAKES_NOTHING))
		call_received(c, &call, (__u32)bytes, call.flags);
	return 0;
}

#endif
