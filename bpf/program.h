/*
 * program.h - what the BPF programs of all data sources have in common
 *
 * The framing is in exchange.h; here are the maps and which sockets are
 * followed.  A source says first how it knows a socket:
 *
 *	nothing			the verifier knows the pointer: the state of the
 *				connection lies in a seat (seats.h) or in the
 *				socket itself
 *	SOCKETS_BY_ADDRESS	it is a number: the state is in a table, up to
 *				CONNECTIONS_MAX, and fields are copied out
 *	SOURCE_IS_PACKETS	bytes are those of a packet
 *	SOURCE_IS_LIBRARY	bytes are those of SSL objects (tls.bpf.c), and no
 *				socket is seen
 */
#ifndef MOETOP_BPF_PROGRAM_H
#define MOETOP_BPF_PROGRAM_H

#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifdef SOURCE_IS_PACKETS
#define READER_PARAM struct __sk_buff *skb,
#define READER_ARG skb,
#endif

#include "bpf/http.h"
#include "bpf/path.h"
#include "bpf/shared.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define CONNECTIONS_MAX 16384
#define H2_CONNECTIONS_MAX 1024 /* with their streams, 14 KB each */

struct tracker_shared shared = {};
#define gauges shared.gauges /* as exchange.h names them */
#define counters shared.counters

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

#ifdef SOURCE_IS_PACKETS
static __always_inline long copy_bytes(READER_PARAM void *to, __u32 n,
				       __u64 from)
{
	return bpf_skb_load_bytes(READER_ARG(__u32) from, to, n);
}
#else
static __always_inline long copy_bytes(void *to, __u32 n, __u64 from)
{
	return bpf_probe_read_user(to, n, (const void *)from);
}
#endif

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

	r = shared.paths_wanted ? bpf_ringbuf_reserve(&records, sizeof(*r), 0)
				: NULL;
	if (!r) {
		(void)__sync_fetch_and_add(&counters.paths_lost, 1);
		return;
	}
	r->hash = s->hash;
	r->bytes = s->path_bytes;
	r->coded = (s->flags & HTTP_CODED) != 0;
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

#include "bpf/tls_tables.h"

#include "bpf/ends.h"

/* ---- HTTP/2 -------------------------------------------------------------- */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, H2_CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, struct h2);
} h2_conns SEC(".maps"); /* address of a struct conn -> its streams */

HTTP_TABLE __u8 h2_none[sizeof(struct h2)] = {};

static __always_inline struct h2 *h2_find(const struct conn *c)
{
	__u64 key = (__u64)c;

	return bpf_map_lookup_elem(&h2_conns, &key);
}

static __always_inline struct h2 *h2_make(const struct conn *c)
{
	__u64 key = (__u64)c;

	struct h2 *h;

	/* never in place of one: the other direction may be counting in it */
	bpf_map_update_elem(&h2_conns, &key, &h2_none, BPF_NOEXIST);
	h = bpf_map_lookup_elem(&h2_conns, &key);
	if (!h)
		exchange_add(counters.overflows, 1);
	return h;
}

/* The connection is about to be forgotten, whatever it speaks by now. */
static __always_inline void h2_drop(const struct conn *c)
{
	__u64 key = (__u64)c;

	bpf_map_delete_elem(&h2_conns, &key);
}

#ifndef SOURCE_IS_LIBRARY

/* ---- the state of a connection ------------------------------------------- */

#ifdef SOCKETS_BY_ADDRESS
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, struct conn);
} conns SEC(".maps");

static __always_inline struct conn *conn_find(void *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_lookup_elem(&conns, &key);
}

static __always_inline struct conn *conn_room(void *sk)
{
	__u64 key = (__u64)sk;

	bpf_map_update_elem(&conns, &key, &conn_none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&conns, &key);
}

static __always_inline void conn_leave(void *sk)
{
	__u64 key = (__u64)sk;

	bpf_map_delete_elem(&conns, &key);
}

#define sk_read(sk, ...) BPF_CORE_READ((struct sock *)(sk), __VA_ARGS__)
#define sk_netns(sk) sk_read(sk, __sk_common.skc_net.net, ns.inum)
#else
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct conn);
} conns SEC(".maps");

#define conn_stored(sk, flags) \
	((struct conn *)bpf_sk_storage_get(&conns, sk, 0, flags))

#ifdef SOURCE_IS_PACKETS
#define conn_find(sk) conn_stored(sk, 0)
#define conn_room(sk) conn_stored(sk, BPF_SK_STORAGE_GET_F_CREATE)
#define conn_leave(sk) ((void)(sk)) /* the kernel does */
#else
#include "bpf/seats.h"
#endif

#define sk_read(sk, field) ((sk)->field)
#define sk_netns(sk) ((sk)->__sk_common.skc_net.net->ns.inum)
#endif

/* NULL: the table is full, or the kernel has no memory for a socket's state. */
#define conn_make(sk)                                        \
	({                                                   \
		struct conn *made = conn_room(sk);           \
		if (!made)                                   \
			exchange_add(counters.overflows, 1); \
		made;                                        \
	})

/* ---- which sockets ------------------------------------------------------- */

static __always_inline int port_bit(const __u64 *set, __u16 port)
{
	return (int)(set[port >> 6] >> (port & 63)) & 1;
}

static __always_inline int wanted(struct sock *sk)
{
	__u16 family = sk_read(sk, __sk_common.skc_family);

	return port_bit(shared.ports_on, sk_read(sk, __sk_common.skc_num)) &&
	       (family == AF_INET || family == AF_INET6) &&
	       sk_read(sk, sk_protocol) == IPPROTO_TCP &&
	       sk_netns(sk) == shared.netns_inode;
}

/*
 * Older than the tracker, not looked at by the walk yet, and nothing seen of it
 * that says where it stands: perhaps a part of a request's body.
 */
static __always_inline int conn_unjudged(struct conn *c)
{
	return !c->judged && c->in.state == HTTP_UNKNOWN &&
	       c->out.state == HTTP_UNKNOWN && !c->pushed && !c->tls.kind &&
	       !c->closed;
}

/* 1: this call is the first to know the connection. */
static __always_inline int conn_claim(struct conn *c, __u16 port, int state)
{
	if (__sync_lock_test_and_set(&c->known, 1))
		return 0;
	c->port = port;
	if (state == TCP_CLOSE_WAIT) {
		c->left_ns = bpf_ktime_get_ns();
		c->client_closed = 1;
	}
	exchange_add(counters.connections, 1);
	return 1;
}

#ifndef SOURCE_IS_PACKETS
static __always_inline struct conn *conn_new(struct sock *sk)
{
	struct conn *c = conn_make(sk);

	if (!c)
		return NULL;
	conn_claim(c, sk_read(sk, __sk_common.skc_num),
		   sk_read(sk, __sk_common.skc_state));
	c->tls.socket = (__u64)sk;
	return c;
}
#endif

#endif

#endif
