/*
 * ship.bpf.c - the other design, to be compared with: every write goes to user
 * space, its first bytes and when, and is parsed there
 *
 * The hook, the choice of sockets and the ring are those of source K.
 */
#include "bpf/call.h"

#define SHIP_BYTES 256u /* of each write */
#ifndef SHIP_FLAGS
#define SHIP_FLAGS BPF_RB_NO_WAKEUP /* the reader looks from time to time */
#endif

struct shipped {
	__u64 sk, ns;
	__u32 bytes, taken;
	char data[SHIP_BYTES];
};

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret, int flags)
{
	struct shipped *s;
	struct reader r;
	struct call call;
	__u32 n;

	if (ret <= 0 || !wanted(sk))
		return 0;
	call_read(&call, 0);
	call_open(&call, &r, (__u32)ret);
	if (!r.piece && reader_next(&r))
		return 0;
	s = bpf_ringbuf_reserve(&records, sizeof(*s), 0);
	if (!s) {
		exchange_add(counters.records_lost, 1);
		return 0;
	}
	n = r.piece < SHIP_BYTES ? r.piece : SHIP_BYTES;
	n = ((n - 1) & (SHIP_BYTES - 1)) + 1;
	s->sk = (__u64)sk;
	s->ns = bpf_ktime_get_ns();
	s->bytes = (__u32)ret;
	s->taken = copy_bytes(s->data, n, r.at) ? 0 : n;
	bpf_ringbuf_submit(s, SHIP_FLAGS);
	return 0;
}
