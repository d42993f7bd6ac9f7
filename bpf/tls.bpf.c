/*
 * tls.bpf.c - the plain text of connections that the server encrypts itself
 *
 * Probes of OpenSSL's functions, attached to one process at a time, beside the
 * programs of a source, whose tables and counters they use.  A write is followed
 * where it begins: into memory it always succeeds.  One into a socket may be cut
 * short or refused, and the caller then comes again with the rest; such objects
 * are followed where the write returns, in processes whose returns are probed.
 *
 * An object is known by its address and process, from the handshake on; one
 * that is older, from its first bytes that are those of a server.
 */
#define SOURCE_IS_LIBRARY
#include "bpf/program.h"

#define CALLS_MAX 8192
#define OBJECTS_MAX 8192

/* A read or write under way. */
struct tls_call {
	__u64 ssl, at;
	__u64 moved_at; /* where the number of bytes comes to; 0: result */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, CALLS_MAX);
	__type(key, __u64);
	__type(value, struct tls_call);
} tls_calls SEC(".maps"); /* by thread */

/* With one BIO for both directions, it is a socket or as narrow as one. */
enum { BIO_PER_DIRECTION = 1, BIO_FOR_BOTH };

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OBJECTS_MAX);
	__type(key, struct tls_key);
	__type(value, __u32);
} tls_objects SEC(".maps"); /* new ones -> where their bytes go */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LIBSSL_FILES_MAX);
	__type(key, __u32);
	__type(value, __u64);
} tls_since SEC(".maps"); /* by the loader: all calls are seen; 0: not yet */

/* ---- the call ------------------------------------------------------------ */

static __always_inline __u64 argument(void *regs, int i)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;

	if (!bpf_core_field_exists(x86->orig_ax))
		return BPF_CORE_READ(arm, regs[i]);
	switch (i) {
	case 0:
		return BPF_CORE_READ(x86, di);
	case 1:
		return BPF_CORE_READ(x86, si);
	case 2:
		return BPF_CORE_READ(x86, dx);
	}
	return BPF_CORE_READ(x86, cx);
}

static __always_inline int result(void *regs)
{
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm = regs;

	if (bpf_core_field_exists(x86->orig_ax))
		return (int)BPF_CORE_READ(x86, ax);
	return (int)BPF_CORE_READ(arm, regs[0]);
}

static __always_inline struct tls_key key_of(__u64 ssl)
{
	return (struct tls_key){
		.ssl = ssl,
		.tgid = (__u32)(bpf_get_current_pid_tgid() >> 32),
	};
}

/* ---- handshakes ---------------------------------------------------------- */

/*
 * Since when no call is missed of what has this probe.  The loader says by its
 * cookie which library that is, and in the lowest bit whether the return of
 * SSL_write is probed.
 */
static __always_inline __u64 probed_since(void *regs)
{
	__u32 library = (__u32)(bpf_get_attach_cookie(regs) >> 1);
	__u64 *since = bpf_map_lookup_elem(&tls_since, &library);

	return since && *since ? *since : (__u64)-1;
}

/*
 * A step of one begins, or what may be one.  The first record that the thread
 * has read is the object's or nobody's.  since: these steps are seen.
 */
static __always_inline void handshake(const struct tls_key *key, __u64 since)
{
	struct tls_thread *t = tls_thread_make();
	__u64 socket;

	if (!t)
		return;
	socket = t->socket;
	t->socket = 0;
	t->ssl = 0;
	if (bpf_map_lookup_elem(&tls_conns, key))
		return;
	if (socket && socket != TLS_SEVERAL && t->read_ns > since &&
	    bpf_ktime_get_ns() - t->read_ns < TLS_HANDOVER_NS &&
	    tls_pair(key, socket))
		return;
	t->ssl = key->ssl;
}

static __always_inline void handshake_done(void)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct tls_thread *t = bpf_map_lookup_elem(&tls_threads, &thread);

	if (t)
		t->ssl = 0;
}

SEC("uprobe")
int on_handshake(void *regs)
{
	struct tls_key key = key_of(argument(regs, 0));

	if (bpf_get_attach_cookie(regs) & 1) /* before any write */
		tls_process_is(key.tgid, TLS_RETURNS);
	handshake(&key, probed_since(regs));
	return 0;
}

SEC("uretprobe")
int on_handshake_done(void *regs)
{
	handshake_done();
	return 0;
}

SEC("uprobe")
int on_set_bio(void *regs)
{
	struct tls_key key = key_of(argument(regs, 0));
	__u32 bio = argument(regs, 1) == argument(regs, 2) ? BIO_FOR_BOTH
							   : BIO_PER_DIRECTION;

	bpf_map_update_elem(&tls_objects, &key, &bio, 0);
	return 0;
}

/* The socket outlives the object; another one may get its address. */
static __always_inline void socket_unpair(__u64 socket,
					  const struct tls_key *key)
{
	struct tls_socket *s = bpf_map_lookup_elem(&tls_sockets, &socket);

	if (s && s->key.ssl == key->ssl && s->key.tgid == key->tgid)
		s->key.ssl = TLS_FREED;
}

SEC("uprobe")
int on_free(void *regs)
{
	struct tls_key key = key_of(argument(regs, 0));
	struct conn *c = bpf_map_lookup_elem(&tls_conns, &key);

	bpf_map_delete_elem(&tls_objects, &key);
	if (!c)
		return 0;
	/* a server frees one whose socket is not known for its client left */
	conn_event(c, CONN_GONE, !c->tls.socket, bpf_ktime_get_ns());
	h2_drop(c);
	socket_unpair(c->tls.socket, &key);
	bpf_map_delete_elem(&tls_conns, &key);
	return 0;
}

/* ---- bytes --------------------------------------------------------------- */

/*
 * The connection of an object; NULL where it is none of ours.  One that is new
 * and has no socket of ours is that of a client, or not followed.
 */
static __always_inline struct conn *conn_of(const struct tls_key *key)
{
	struct conn *c = bpf_map_lookup_elem(&tls_conns, key);

	if (c || bpf_map_lookup_elem(&tls_objects, key))
		return c;
	return tls_conn_make(key);
}

/* An older object has shown that it is a server's. */
static __always_inline void judge(const struct conn *c,
				  const struct tls_key *key)
{
	if (c->in.state != HTTP_UNKNOWN ||
	    (c->out.state != HTTP_UNKNOWN && !(c->out.flags & HTTP_PROBE)))
		tls_process_is(key->tgid, TLS_SERVES);
}

static __always_inline int call_begins(__u64 ssl, __u64 at, __u64 moved_at)
{
	struct tls_call call = { ssl, at, moved_at };
	__u64 thread = bpf_get_current_pid_tgid();

	bpf_map_update_elem(&tls_calls, &thread, &call, 0);
	return 0;
}

/* An older object writes: which socket sends the record? */
static __always_inline void write_remember(__u64 ssl, __u64 bytes)
{
	struct tls_thread *t = tls_thread_make();
	struct tls_write *w;
	__u64 now;

	if (!t)
		return;
	now = bpf_ktime_get_ns();
	w = &t->writes[(t->next - 1) & (TLS_WRITES - 1)];
	/* those before have gone, known or not; or some never will */
	if (t->sending && (t->sent >= t->next || t->next >= TLS_WRITES ||
			   now - w->at_ns > TLS_FLUSH_NS)) {
		__builtin_memset(t->writes, 0, sizeof(t->writes));
		t->next = 0;
		t->sent = 0;
	}
	t->sending = 0;
	w = &t->writes[t->next++ & (TLS_WRITES - 1)];
	w->ssl = ssl;
	w->at_ns = now;
	w->bytes = bytes;
}

/* When the bytes of a write count: known once what it writes to is. */
static __always_inline int writes_by_return(struct conn *c,
					    const struct tls_key *key)
{
	__u32 *bio;

	if (c->tls.writes)
		return c->tls.writes == TLS_WRITES_RETURN;
	bio = bpf_map_lookup_elem(&tls_objects, key);
	if (tls_process_bits(key->tgid) & TLS_RETURNS)
		c->tls.writes = TLS_WRITES_RETURN;
	else if (bio && *bio == BIO_PER_DIRECTION)
		c->tls.writes = TLS_WRITES_BEGIN;
	else if (bio && c->tls.socket)
		shared.tls_returns = 1;
	return c->tls.writes == TLS_WRITES_RETURN;
}

enum { BYTES_READ, WRITE_BEGINS, WRITE_RETURNS };

/* The caller's bytes have moved, or are about to. */
HTTP_GLOBAL int moved(__u64 ssl, __u64 at, __u64 bytes, __u32 how,
		      __u64 moved_at)
{
	struct tls_key key = key_of(ssl);
	struct reader r = { .at = at, .piece = (__u32)bytes };
	struct conn *c;

	if (!bytes || bytes > 0x7fffffff)
		return 0;
	c = conn_of(&key);
	if (!c)
		return 0;
	if (how == WRITE_BEGINS && !c->tls.socket)
		write_remember(ssl, bytes);
	if (how == WRITE_BEGINS && writes_by_return(c, &key))
		return call_begins(ssl, at, moved_at);
	if (how == BYTES_READ)
		conn_received(c, &r, bpf_ktime_get_ns());
	else
		conn_sent(c, &r, bpf_ktime_get_ns());
	if (!c->tls.socket)
		judge(c, &key);
	return 0;
}

static __always_inline int call_returns(void *regs, __u32 how)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct tls_call *call = bpf_map_lookup_elem(&tls_calls, &thread);
	int ret = result(regs);
	__u64 ssl, at, bytes;

	if (!call)
		return 0;
	ssl = call->ssl;
	at = call->at;
	bytes = ret > 0 ? (__u64)ret : 0;
	if (ret > 0 && call->moved_at && copy_bytes(&bytes, 8, call->moved_at))
		bytes = 0;
	bpf_map_delete_elem(&tls_calls, &thread);
	return bytes ? moved(ssl, at, bytes, how, 0) : 0;
}

static __always_inline int read_begins(void *regs, __u64 moved_at)
{
	struct tls_key key = key_of(argument(regs, 0));

	if (!bpf_map_lookup_elem(&tls_conns, &key) &&
	    bpf_map_lookup_elem(&tls_objects, &key))
		/* a new one may have it within */
		handshake(&key, probed_since(regs));
	return call_begins(key.ssl, argument(regs, 1), moved_at);
}

SEC("uprobe")
int on_read(void *regs)
{
	return read_begins(regs, 0);
}

SEC("uprobe")
int on_read_ex(void *regs)
{
	return read_begins(regs, argument(regs, 3));
}

SEC("uretprobe")
int on_read_done(void *regs)
{
	handshake_done();
	return call_returns(regs, BYTES_READ);
}

SEC("uprobe")
int on_write(void *regs)
{
	return moved(argument(regs, 0), argument(regs, 1),
		     (__u32)argument(regs, 2), WRITE_BEGINS, 0);
}

SEC("uprobe")
int on_write_ex(void *regs)
{
	return moved(argument(regs, 0), argument(regs, 1), argument(regs, 2),
		     WRITE_BEGINS, argument(regs, 3));
}

SEC("uretprobe")
int on_write_done(void *regs)
{
	tls_process_is((__u32)(bpf_get_current_pid_tgid() >> 32), TLS_RETURNS);
	return call_returns(regs, WRITE_RETURNS);
}
