/*
 * unix.h - connections over UNIX stream sockets
 *
 * The socket of the server's end has the address of its listener: the same
 * object in the kernel, by which it is told.  The listeners are known by the
 * inodes of their sockets, and their addresses are looked up by the walk
 * (existing.h).
 *
 * Nothing in the kernel tells when a connection begins or ends.  It begins with
 * its first bytes.  Its end shows in calls that move nothing: the server reads
 * the end or fails to write, or the client, which is on the same machine, does.
 * What is left of both when they are gone is found by the walk, in two rounds.
 * The state is in a table by address, since the kernel would drop what lies in
 * a socket without a word; the inode of the socket tells another socket at the
 * same address.
 */
#ifndef MOETOP_BPF_UNIX_H
#define MOETOP_BPF_UNIX_H

#include "bpf/program.h"

#define UNIX_CONNECTIONS_MAX 4096
#define UNIX_NAMES_MAX 64 /* addresses of listeners, old ones included */
#define UNIX_EAGAIN (-11)

struct unix_conn {
	struct conn c;
	__u64 inode;
	__u64 seen;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNIX_LISTENERS_MAX);
	__type(key, __u64);
	__type(value, __u8);
} unix_listeners SEC(".maps"); /* inodes, by the loader */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, UNIX_NAMES_MAX);
	__type(key, __u64);
	__type(value, struct unix_name);
} unix_names SEC(".maps"); /* addresses of their addresses */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, UNIX_CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, struct unix_conn);
} unix_conns SEC(".maps"); /* by the address of the server's socket */

HTTP_TABLE __u8 unix_none[sizeof(struct unix_conn)] = {};

#define unix_read(sk, field) BPF_CORE_READ((struct unix_sock *)(sk), field)
#define unix_sk_read(sk, ...) BPF_CORE_READ((struct sock *)(sk), __VA_ARGS__)

/* May there be something to follow? */
static __always_inline int unix_is(struct sock *sk)
{
	return shared.unix_on && bpf_core_type_exists(struct unix_sock) &&
	       sk_read(sk, __sk_common.skc_family) == AF_UNIX;
}

static __always_inline struct unix_conn *unix_find(void *sk)
{
	__u64 key = (__u64)sk;

	return bpf_map_lookup_elem(&unix_conns, &key);
}

/* Of the socket, as the user of a descriptor sees it. */
static __always_inline __u64 unix_inode(void *sk)
{
	struct socket_alloc *a = (void *)unix_sk_read(sk, sk_socket);

	return a ? BPF_CORE_READ(a, vfs_inode.i_ino) : 0;
}

static __always_inline void unix_drop(void *sk, struct unix_conn *u)
{
	__u64 key = (__u64)sk;

	conn_event(&u->c, CONN_GONE, 0, bpf_ktime_get_ns());
	h2_drop(&u->c);
	bpf_map_delete_elem(&unix_conns, &key);
}

static __always_inline struct unix_conn *unix_make(void *sk, __u64 inode)
{
	__u64 key = (__u64)sk;
	struct unix_conn *u;

	bpf_map_update_elem(&unix_conns, &key, &unix_none, BPF_NOEXIST);
	u = bpf_map_lookup_elem(&unix_conns, &key);
	if (!u) {
		exchange_add(counters.overflows, 1);
		return NULL;
	}
	u->inode = inode;
	u->seen = shared.round;
	return u;
}

/* The connection of a socket that is the server's end of one. */
static __always_inline struct conn *unix_conn_of(void *sk)
{
	__u64 address = (__u64)unix_read(sk, addr), inode;
	struct unix_name *name;
	struct unix_conn *u;

	if (!address)
		return NULL;
	inode = unix_inode(sk);
	u = unix_find(sk);
	if (u && u->inode == inode)
		return &u->c;
	if (u)
		unix_drop(sk, u);
	name = bpf_map_lookup_elem(&unix_names, &address);
	if (!name)
		return NULL;
	u = unix_make(sk, inode);
	if (!u)
		return NULL;
	if (conn_claim(&u->c, 0, 0) && name->born < shared.unix_since)
		conn_fresh(&u->c);
	return &u->c;
}

/*
 * A call has moved nothing on either end of a connection: has the other end
 * gone?  A client that only shut its sending half may still be answered.
 */
static __always_inline int unix_ended(struct sock *sk, int ret)
{
	void *peer = unix_read(sk, peer);
	__u64 now = bpf_ktime_get_ns();
	struct unix_conn *u = unix_find(sk);
	int closed;

	if (!peer)
		return 0;
	closed = unix_sk_read(peer, __sk_common.skc_state) == TCP_CLOSE;
	if (u && u->inode == unix_inode(sk)) {
		if (closed)
			conn_event(&u->c, CONN_GONE, 1, now);
		else if (!ret && !u->c.client_closed &&
			 (unix_sk_read(sk, sk_shutdown) & RCV_SHUTDOWN))
			conn_event(&u->c, CONN_CLIENT_CLOSED, 0, now);
		return 0;
	}
	u = unix_find(peer);
	if (u && (closed || (unix_sk_read(peer, sk_shutdown) & SEND_SHUTDOWN)))
		conn_event(&u->c, CONN_SERVER_CLOSED, 0, now);
	return 0;
}

/* What a call that moved no bytes says. */
static __always_inline int unix_nothing(struct sock *sk, int ret)
{
	return ret != UNIX_EAGAIN && unix_is(sk) ? unix_ended(sk, ret) : 0;
}

/*
 * The connection that a socket is followed as, NULL for none.  A reset socket of
 * TCP has lost its port, and may still have a request to be read.
 */
static __always_inline struct conn *conn_of(struct sock *sk)
{
	__u16 port = sk_read(sk, __sk_common.skc_num);
	struct conn *c;

	if (port && !port_bit(shared.ports_seen, port))
		return NULL;
	if (!port && unix_is(sk))
		return unix_conn_of(sk);
	c = conn_find(sk);
	if (c || !wanted(sk))
		return c;
	return conn_new(sk); /* older than we: out of step */
}

/* ---- the walk ------------------------------------------------------------ */

static __always_inline void unix_listener_seen(void *sk, __u64 inode)
{
	__u64 address = (__u64)unix_read(sk, addr);
	struct unix_name *name, fresh = { shared.round, shared.round };

	if (!address || !bpf_map_lookup_elem(&unix_listeners, &inode))
		return;
	name = bpf_map_lookup_elem(&unix_names, &address);
	if (name)
		name->seen = shared.round;
	else if (bpf_map_update_elem(&unix_names, &address, &fresh, 0))
		exchange_add(counters.overflows, 1);
}

/*
 * A socket of the server's end, in the round after the one that found its
 * listener: it may be older than we.  Nothing tells when it last moved bytes.
 */
static __always_inline void unix_judge(struct unix_conn *u)
{
	conn_claim(&u->c, 0, 0);
	u->c.judged = 1;
	u->c.guess = GUESS_MAYBE;
	slot_move(&u->c.adopted, SLOT_FREE,
		  slot_word(SLOT_GUESSED, ENDPOINT_GENERATION));
}

/* The connection of a socket that the walk came to, NULL for no such. */
static __always_inline struct conn *unix_seen(void *sk, __u64 inode)
{
	struct unix_conn *u = unix_find(sk);
	struct unix_name *name;
	__u64 address;

	if (u && u->inode == inode) {
		u->seen = shared.round;
		if (conn_unjudged(&u->c))
			unix_judge(u);
		return &u->c;
	}
	if (unix_sk_read(sk, sk_type) != SOCK_STREAM)
		return NULL;
	if (unix_sk_read(sk, __sk_common.skc_state) == TCP_LISTEN) {
		unix_listener_seen(sk, inode);
		return NULL;
	}
	address = (__u64)unix_read(sk, addr);
	name = bpf_map_lookup_elem(&unix_names, &address);
	if (!name || name->born < shared.unix_since)
		return NULL;
	u = unix_make(sk, inode);
	if (!u)
		return NULL;
	unix_judge(u);
	return &u->c;
}

SEC("iter/bpf_map_elem")
int unix_gone(struct bpf_iter__bpf_map_elem *ctx)
{
	__u64 *key = ctx->key, sk;
	struct unix_conn *u;

	if (!key)
		return 0;
	sk = *key;
	u = unix_find((void *)sk);
	if (u && shared.round - u->seen > 1)
		unix_drop((void *)sk, u);
	return 0;
}

#endif
