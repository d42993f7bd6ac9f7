/*
 * requests_c.bpf.c - source C: the packets of the root control group
 *
 * Where tracing is refused: nothing is read but packets and the socket that
 * they belong to (without the walk over open sockets, if that is refused too).  Each byte is taken once and in order, by its sequence
 * number.  A request counts when it arrives and not when it is read.  Needs
 * CAP_NET_ADMIN too.
 */
#define SOURCE_IS_PACKETS
#include "bpf/existing.h"

#define PACKET_GOES_ON 1
#define IPV6_HEADER_BYTES 40

enum { TCP_FIN = 1, TCP_RST = 4 };

struct tcp_header {
	__be16 source, destination;
	__be32 sequence, acknowledged;
	__u8 words; /* of the header, in the upper half */
	__u8 flags;
	__be16 window;
};

/* One packet of a connection. */
struct packet {
	__u32 sequence;
	__u32 at; /* offset of the first byte */
	__u32 bytes;
	__u32 flags;
};

/* 0: not one of TCP. */
static __always_inline int packet_read(struct __sk_buff *skb, struct packet *p)
{
	struct tcp_header h;
	__u32 at = IPV6_HEADER_BYTES, header;
	__u8 first;

	if (bpf_skb_load_bytes(skb, 0, &first, 1))
		return 0;
	if (first >> 4 == 4)
		at = (first & 15) * 4;
	if (bpf_skb_load_bytes(skb, at, &h, sizeof(h)))
		return 0;
	header = (__u32)(h.words >> 4) * 4;
	if (skb->len < at + header)
		return 0;
	p->sequence = __builtin_bswap32(h.sequence);
	p->at = at + header;
	p->bytes = skb->len - p->at;
	p->flags = h.flags;
	return 1;
}

/* Leave out what was seen before.  0: nothing is new. */
static __always_inline int packet_new_part(struct conn *c, int out,
					   struct packet *p)
{
	__u32 *next = out ? &c->next_out : &c->next_in;
	__s32 ahead = (__s32)(p->sequence - *next);
	__u32 end = p->sequence + p->bytes;

	if (*next && ahead > 0)
		conn_gap(c, out);
	if (*next && ahead < 0) {
		if ((__s32)(end - *next) <= 0)
			return 0;
		p->at += (__u32)-ahead;
		p->bytes -= (__u32)-ahead;
	}
	*next = end ? end : 1;
	return 1;
}

static __always_inline struct conn *packet_conn(struct bpf_sock *sk)
{
	__u16 port = (__u16)sk->src_port;
	struct tcp_sock *tp;
	struct conn *c;
	int state;

	if (port && !port_bit(shared.ports_seen, port))
		return NULL;
	c = conn_find(sk);
	if (c || !port_bit(shared.ports_on, port))
		return c;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !wanted((struct sock *)tp))
		return NULL;
	state = ((struct sock *)tp)->__sk_common.skc_state;
	c = conn_make(sk);
	if (c)
		conn_claim(c, port, state);
	return c;
}

static __always_inline void packet_end(struct conn *c, const struct packet *p,
				       int out, int in_order)
{
	__u64 now = bpf_ktime_get_ns();

	if ((p->flags & TCP_RST) && in_order)
		conn_event(c, CONN_GONE, !out, now);
	else if ((p->flags & TCP_FIN) && out)
		conn_event(c, CONN_SERVER_CLOSED, 0, now);
	else if ((p->flags & TCP_FIN) && in_order)
		conn_event(c, CONN_CLIENT_CLOSED, 0, now);
	if (c->closed)
		h2_drop(c);
}

static __always_inline int packet(struct __sk_buff *skb, int out)
{
	struct bpf_sock *sk = skb->sk;
	struct reader r = { 0 };
	struct packet p;
	struct conn *c;
	__u32 *next;
	int in_order;

	if (!sk)
		return PACKET_GOES_ON;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP || !packet_read(skb, &p))
		return PACKET_GOES_ON;
	if (!p.bytes && !(p.flags & (TCP_FIN | TCP_RST)))
		return PACKET_GOES_ON;
	c = packet_conn(sk);
	if (!c)
		return PACKET_GOES_ON;
	next = out ? &c->next_out : &c->next_in;
	in_order = !*next || (__s32)(p.sequence - *next) <= 0;
	if (p.bytes && packet_new_part(c, out, &p)) {
		r.at = p.at;
		r.piece = p.bytes;
		if (out)
			conn_sent(skb, c, &r, bpf_ktime_get_ns());
		else
			conn_received(skb, c, &r, bpf_ktime_get_ns());
	}
	packet_end(c, &p, out, in_order);
	return PACKET_GOES_ON;
}

SEC("cgroup_skb/ingress")
int on_packet_in(struct __sk_buff *skb)
{
	return packet(skb, 0);
}

SEC("cgroup_skb/egress")
int on_packet_out(struct __sk_buff *skb)
{
	return packet(skb, 1);
}

/* ---- beginnings, and ends that no packet tells --------------------------- */

SEC("sockops")
int on_socket(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp;
	struct conn *c;

	if (ops->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		exchange_add(shared.listens, 1);
	if (!sk)
		return 1;
	if (ops->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		tp = bpf_skc_to_tcp_sock(sk);
		if (!tp || !wanted((struct sock *)tp) || conn_find(sk))
			return 1;
		c = conn_make(sk);
		if (!c)
			return 1;
		conn_claim(c, ((struct sock *)tp)->__sk_common.skc_num, 0);
		conn_fresh(c);
		bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_STATE_CB_FLAG);
	} else if (ops->op == BPF_SOCK_OPS_STATE_CB &&
		   ops->args[1] == TCP_CLOSE) {
		tp = bpf_skc_to_tcp_sock(sk);
		c = conn_find(sk);
		if (c)
			conn_event(c, CONN_GONE,
				   tp ? ((struct sock *)tp)->sk_err : 0,
				   bpf_ktime_get_ns());
		if (c)
			h2_drop(c);
	}
	return 1;
}
