/*
 * seats.h - the states of most connections, found by one look
 *
 * A server that streams to hundreds of clients comes back to each so late that
 * its state has left the caches.  The storage of a socket is three pointers away
 * then, which is half of what an event costs.  So a connection has a seat, which
 * the address of its socket tells; only one that finds its seat taken lies in
 * that storage.
 *
 * A seat is given up when its socket is destroyed, which the programs of life.h
 * must see: they are attached before those that may take one.  A free seat is
 * all zero.  Nobody looks at a connection any more by then: whoever moves its
 * bytes or walks over it holds the socket.
 */
#ifndef MOETOP_BPF_SEATS_H
#define MOETOP_BPF_SEATS_H

#define SEATS_SHIFT 11 /* 2048 of them, 1.4 MB */

struct seat {
	__u64 name; /* of its socket; 0: free */
	struct conn conn;
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page */
	__uint(max_entries, 1 << SEATS_SHIFT);
	__type(key, __u32);
	__type(value, struct seat);
} seats SEC(".maps");

/* Of an address the verifier allows only the difference to another. */
static __always_inline __u64 seat_name(void *sk)
{
	return (__u64)sk - (__u64)&shared;
}

static __always_inline struct seat *seat_of(void *sk)
{
	__u32 key = (__u32)(seat_name(sk) * 0x9e3779b97f4a7c15ull >>
			    (64 - SEATS_SHIFT));

	return bpf_map_lookup_elem(&seats, &key);
}

/* NULL: it has none. */
static __always_inline struct seat *seat_held(void *sk)
{
	struct seat *seat = seat_of(sk);

	return seat && seat->name == seat_name(sk) ? seat : NULL;
}

static __always_inline struct conn *conn_find(void *sk)
{
	struct seat *seat = seat_held(sk);

	return seat ? &seat->conn : conn_stored(sk, 0);
}

/* NULL: the kernel has no memory for it. */
static __always_inline struct conn *conn_room(void *sk)
{
	struct conn *c = conn_find(sk);
	struct seat *seat;
	__u64 was;

	if (c)
		return c;
	seat = seat_of(sk);
	if (seat) {
		was = __sync_val_compare_and_swap(&seat->name, 0,
						  seat_name(sk));
		if (!was || was == seat_name(sk)) /* meanwhile */
			return &seat->conn;
	}
	return conn_stored(sk, BPF_SK_STORAGE_GET_F_CREATE);
}

static __always_inline void conn_leave(void *sk)
{
	struct seat *seat = seat_held(sk);

	if (!seat)
		return;
	__builtin_memset(&seat->conn, 0, sizeof(seat->conn));
	__sync_lock_test_and_set(&seat->name, 0);
}

#endif
