/*
 * requests.bpf.c - which sockets are followed, and where their bytes are
 *
 * The framing is in exchange.h.  sock_send_length and sock_recv_length run at
 * the end of every socket call, with the number of bytes that it moved; the
 * bytes themselves are found through the saved registers of the system call
 * that is about to return.  inet_sock_set_state gives the life cycle.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/http.h"
#include "bpf/path.h"
#include "wire/requests.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PORT_WORDS 1024 /* one bit per port */

/* Mapped by the loader, which alone writes the settings. */
struct request_gauges gauges = {};
struct request_counters counters = {};
__u64 ports_on[PORT_WORDS] = {};   /* follow new connections to these */
__u64 ports_seen[PORT_WORDS] = {}; /* these may have followed connections */
__u32 netns_inode = 0;
__u32 paths_wanted = 0; /* report paths that no table knows */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PATHS_MAX);
	__type(key, __u64);
	__type(value, __u8);
} paths SEC(".maps"); /* FNV-1a -> enum endpoint */

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, struct request_histogram);
} histograms SEC(".maps"); /* by enum exchange_histogram */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps"); /* struct request_record and struct path_record */

/* ---- what exchange.h asks for -------------------------------------------- */

static __always_inline long copy_user(void *to, __u32 n, __u64 from)
{
	return bpf_probe_read_user(to, n, (const void *)from);
}

static __always_inline int endpoint_of(__u64 hash)
{
	__u8 *e = bpf_map_lookup_elem(&paths, &hash);

	return e ? *e : -1;
}

static __always_inline void endpoint_learn(__u64 hash)
{
	__u8 e = ENDPOINT_GENERATION;

	bpf_map_update_elem(&paths, &hash, &e, 0);
}

static __always_inline void path_emit(const struct http_stream *s)
{
	struct path_record *r;

	if (!paths_wanted)
		return;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r)
		return;
	r->hash = s->hash;
	r->bytes = s->path_bytes;
	r->pad = 0;
	__builtin_memcpy(r->tail, s->path, sizeof(r->tail));
	bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

static __always_inline int record_emit(struct request_record *r)
{
	return bpf_ringbuf_output(&records, r, sizeof(*r), BPF_RB_NO_WAKEUP) !=
	       0;
}

static __always_inline void histogram_add(__u32 which, __u64 ns)
{
	struct request_histogram *h = bpf_map_lookup_elem(&histograms, &which);
	__u32 bucket = hist_bucket(ns);

	if (!h || bucket >= HIST_BUCKETS)
		return;
	h->count++;
	h->sum_ns += ns;
	h->buckets[bucket]++;
}

#include "bpf/exchange.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

/* ---- which sockets ------------------------------------------------------- */

static __always_inline int port_bit(const __u64 *set, __u16 port)
{
	return (int)(set[port >> 6] >> (port & 63)) & 1;
}

static __always_inline int wanted(struct sock *sk)
{
	__u16 family = sk->__sk_common.skc_family;

	return port_bit(ports_on, sk->__sk_common.skc_num) &&
	       (family == AF_INET || family == AF_INET6) &&
	       sk->sk_protocol == IPPROTO_TCP &&
	       sk->__sk_common.skc_net.net->ns.inum == netns_inode;
}

static __always_inline struct conn *conn_new(struct sock *sk)
{
	struct conn *c =
		bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (!c || __sync_lock_test_and_set(&c->known, 1))
		return c;
	c->port = sk->__sk_common.skc_num;
	c->client_closed = sk->__sk_common.skc_state == TCP_CLOSE_WAIT;
	exchange_add(counters.connections, 1);
	return c;
}

/* A reset socket has lost its port, and may still have a request to be read. */
static __always_inline struct conn *conn_of(struct sock *sk)
{
	__u16 port = sk->__sk_common.skc_num;
	struct conn *c;

	if (port && !port_bit(ports_seen, port))
		return NULL;
	c = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (c || !wanted(sk))
		return c;
	return conn_new(sk); /* older than we: out of step */
}

/* ---- where the bytes are ------------------------------------------------- */

enum io { IO_OTHER, IO_BUFFER, IO_VECTOR, IO_MESSAGE };

static __always_inline enum io io_x86(__u64 call)
{
	switch (call) {
	case 0:  /* read */
	case 1:  /* write */
	case 44: /* sendto */
	case 45: /* recvfrom */
		return IO_BUFFER;
	case 19: /* readv */
	case 20: /* writev */
		return IO_VECTOR;
	case 46: /* sendmsg */
	case 47: /* recvmsg */
		return IO_MESSAGE;
	}
	return IO_OTHER;
}

static __always_inline enum io io_arm64(__u64 call)
{
	switch (call) {
	case 63:  /* read */
	case 64:  /* write */
	case 206: /* sendto */
	case 207: /* recvfrom */
		return IO_BUFFER;
	case 65: /* readv */
	case 66: /* writev */
		return IO_VECTOR;
	case 211: /* sendmsg */
	case 212: /* recvmsg */
		return IO_MESSAGE;
	}
	return IO_OTHER;
}

/* The kind of call in progress, and its second and third argument. */
static __always_inline enum io io_call(__u64 *arg2, __u64 *arg3)
{
	void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;

	if (bpf_core_field_exists(x86->orig_ax)) {
		*arg2 = BPF_CORE_READ(x86, si);
		*arg3 = BPF_CORE_READ(x86, dx);
		return io_x86(BPF_CORE_READ(x86, orig_ax));
	}
	*arg2 = BPF_CORE_READ(arm, regs[1]);
	*arg3 = BPF_CORE_READ(arm, regs[2]);
	return io_arm64((__u64)BPF_CORE_READ(arm, syscallno));
}

static __always_inline void reader_open(struct reader *r, __u32 bytes)
{
	struct {
		__u64 iov, iovs;
	} m = { 0 };
	__u64 arg2 = 0, arg3 = 0;
	enum io io = io_call(&arg2, &arg3);

	__builtin_memset(r, 0, sizeof(*r));
	if (io == IO_BUFFER) {
		r->at = arg2;
		r->piece = bytes;
		return;
	}
	if (io == IO_MESSAGE) {
		/* struct msghdr: the vector follows name and its length */
		if (copy_user(&m, sizeof(m), arg2 + 16))
			io = IO_OTHER;
		arg2 = m.iov;
		arg3 = m.iovs;
	}
	if (io == IO_OTHER) {
		r->piece = bytes;
		r->opaque = 1;
		return;
	}
	r->iov = arg2;
	r->iovs = arg3 < READER_IOVECS ? (__u32)arg3 : READER_IOVECS;
	r->rest = bytes;
}

/* ---- the hooks ----------------------------------------------------------- */

SEC("tp_btf/sock_send_length")
int BPF_PROG(on_send, struct sock *sk, int ret, int flags)
{
	struct reader r;
	struct conn *c;

	if (ret <= 0)
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	reader_open(&r, (__u32)ret);
	conn_sent(c, &r, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(on_recv, struct sock *sk, int ret, int flags)
{
	struct reader r;
	struct conn *c;

	if (ret <= 0 || (flags & (MSG_PEEK | MSG_OOB | MSG_ERRQUEUE)))
		return 0;
	c = conn_of(sk);
	if (!c)
		return 0;
	reader_open(&r, (__u32)ret);
	if (flags & MSG_TRUNC) /* thrown away, not copied */
		r.opaque = 1;
	conn_received(c, &r, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int life_cycle(struct sock *sk, int before, int after)
{
	struct conn *c;

	if (before == TCP_SYN_RECV && after == TCP_ESTABLISHED) {
		if (!wanted(sk))
			return 0;
		c = bpf_sk_storage_get(&conns, sk, 0, 0);
		if (c)
			return 0;
		c = conn_new(sk);
		if (c)
			conn_fresh(c);
		return 0;
	}
	c = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!c)
		return 0;
	if (after == TCP_CLOSE_WAIT)
		conn_event(c, CONN_CLIENT_CLOSED, 0, 0);
	else if (after == TCP_FIN_WAIT1 || after == TCP_LAST_ACK)
		conn_event(c, CONN_SERVER_CLOSED, 0, bpf_ktime_get_ns());
	else if (after == TCP_CLOSE)
		conn_event(c, CONN_GONE, sk->sk_err, bpf_ktime_get_ns());
	return 0;
}

/*
 * The kernel skips a program that is running on this CPU already.  A packet
 * that arrives on top of a close would so be missed by one program; of two,
 * at least one is free.  A change that both see counts once.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state, struct sock *sk, int before, int after)
{
	return life_cycle(sk, before, after);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(on_state_too, struct sock *sk, int before, int after)
{
	return life_cycle(sk, before, after);
}
