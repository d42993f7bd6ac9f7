/*
 * tls_tables.h - which socket carries the plain text of which SSL object
 *
 * The tables belong to the programs of a source and are lent to those of
 * tls.bpf.c.  A thread ties the two together, in one of three ways:
 *
 *	before		it reads the client's first record itself and hands it
 *			to the next step of a handshake (memory BIO)
 *	within		a step of a handshake reads it (socket BIO)
 *	older ones	what a thread sends can be the record of only one of
 *			its SSL_writes since the sends before those, by its
 *			length; twice alike
 *
 * In the first two the socket must be new, open, and nobody's yet.
 */
#ifndef MOETOP_BPF_TLS_TABLES_H
#define MOETOP_BPF_TLS_TABLES_H

#include "bpf/slot.h"

#define TLS_CONNECTIONS_MAX 16384
#define TLS_THREADS_MAX 1024
#define TLS_PROCESSES_MAX 1024
#define TLS_HANDOVER_NS 200000000ull /* from reading a record to its use */
#define TLS_WRITES 16u           /* of older objects, remembered by a thread */
#define TLS_FLUSH_NS 50000000ull /* from a write to the send of its record */

#define TLS_FREED 1ull

struct tls_key {
	__u64 ssl; /* address of the object; 0: none yet, or TLS_FREED */
	__u32 tgid;
	__u32 pad;
};

struct tls_socket {
	struct tls_key key;
	__u16 port;
	__u16 pad[3];
};

enum tls_process_bit {
	TLS_SERVES = 1,  /* it has shown plain text of a server */
	TLS_RETURNS = 2, /* the return of its SSL_write is probed */
};

struct tls_process {
	__u64 since_ns; /* of its first call that we saw */
	__u64 bits;
};

struct tls_write {
	__u64 ssl; /* 0: none */
	__u64 at_ns;
	__u64 bytes;
};

struct tls_thread {
	__u64 socket;  /* whose first record it has read last, */
	__u64 read_ns; /* and when */
	__u64 ssl;     /* in whose handshake it may be reading */
	__u32 next;    /* of the writes, modulo TLS_WRITES */
	__u32 sent;    /* their records are being sent */
	struct tls_write writes[TLS_WRITES];
};

#ifdef __bpf__
#ifndef SOURCE_IS_PACKETS

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TLS_CONNECTIONS_MAX);
	__type(key, __u64);
	__type(value, struct tls_socket);
} tls_sockets SEC(".maps"); /* open ones, by address */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TLS_CONNECTIONS_MAX);
	__type(key, struct tls_key);
	__type(value, struct conn);
} tls_conns SEC(".maps"); /* plain text, until SSL_free */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TLS_THREADS_MAX);
	__type(key, __u64);
	__type(value, struct tls_thread);
} tls_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TLS_PROCESSES_MAX);
	__type(key, __u32);
	__type(value, struct tls_process);
} tls_processes SEC(".maps"); /* by tgid: those probed */

HTTP_TABLE __u8 conn_none[sizeof(struct conn)] = {};
HTTP_TABLE __u8 tls_thread_none[sizeof(struct tls_thread)] = {};

static __always_inline struct tls_thread *tls_thread_make(void)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct tls_thread *t = bpf_map_lookup_elem(&tls_threads, &thread);

	if (t)
		return t;
	bpf_map_update_elem(&tls_threads, &thread, &tls_thread_none,
			    BPF_NOEXIST);
	return bpf_map_lookup_elem(&tls_threads, &thread);
}

static __always_inline struct conn *tls_conn_make(const struct tls_key *key)
{
	struct conn *c;

	bpf_map_update_elem(&tls_conns, key, &conn_none, BPF_NOEXIST);
	c = bpf_map_lookup_elem(&tls_conns, key);
	if (!c)
		exchange_add(counters.overflows, 1);
	return c;
}

static __always_inline __u64 tls_process_bits(__u32 tgid)
{
	struct tls_process *p = bpf_map_lookup_elem(&tls_processes, &tgid);

	return p ? p->bits : 0;
}

static __always_inline void tls_process_is(__u32 tgid, __u32 bit)
{
	struct tls_process fresh = { .bits = bit }, *p;

	p = bpf_map_lookup_elem(&tls_processes, &tgid);
	if (!p) {
		fresh.since_ns = bpf_ktime_get_ns();
		bpf_map_update_elem(&tls_processes, &tgid, &fresh, BPF_NOEXIST);
	} else if (!(p->bits & bit)) {
		__sync_fetch_and_or(&p->bits, bit);
	}
}

/* A new object and a new socket belong together.  0: they do not. */
static __always_inline int tls_pair(const struct tls_key *key, __u64 socket)
{
	struct tls_socket *s = bpf_map_lookup_elem(&tls_sockets, &socket);
	struct conn *c;

	if (!s || s->key.ssl)
		return 0;
	c = tls_conn_make(key);
	if (!c)
		return 0;
	conn_fresh(c);
	c->tls.socket = socket;
	c->port = s->port;
	s->key = *key;
	tls_process_is(key->tgid, TLS_SERVES);
	exchange_add(counters.tls_read, 1);
	return 1;
}

/* The plain text of a socket's connection, where that is known. */
static __always_inline struct conn *tls_conn_of(const struct conn *c)
{
	__u64 socket = c->tls.socket;
	struct tls_socket *s;
	struct tls_key key;

	if (!c->tls.kind)
		return NULL;
	s = bpf_map_lookup_elem(&tls_sockets, &socket);
	if (!s || !s->key.ssl)
		return NULL;
	key = s->key;
	return bpf_map_lookup_elem(&tls_conns, &key);
}

#endif

/* ---- what tls.h asks for ------------------------------------------------- */

#if defined(SOURCE_IS_PACKETS) || defined(SOURCE_IS_LIBRARY)
#define tls_begins(c) ((void)(c))
#define tls_elsewhere(c) ((void)(c), TLS_NOWHERE)
#define tls_lone(c, bytes) ((void)(c), (void)(bytes))
#ifdef SOURCE_IS_PACKETS
#define tls_conn_of(c) ((struct conn *)NULL)
#endif
#else
static __always_inline void tls_begins(struct conn *c)
{
	struct tls_socket s = { .port = c->port };
	__u64 socket = c->tls.socket;
	struct tls_key key = { 0 };
	struct tls_thread *t;

	c->tls.tgid = (__u32)(bpf_get_current_pid_tgid() >> 32);
	if (c->tls.kind != TLS_FRESH || !socket)
		return; /* of a UNIX socket, the life is not told */
	bpf_map_update_elem(&tls_sockets, &socket, &s, 0);
	t = tls_thread_make();
	if (!t)
		return;
	if (t->ssl) {
		key.ssl = t->ssl;
		key.tgid = c->tls.tgid;
		tls_pair(&key, socket);
		t->ssl = 0;
		return;
	}
	t->socket = socket;
	t->read_ns = bpf_ktime_get_ns();
}

static __always_inline int tls_elsewhere(const struct conn *c)
{
	__u64 socket = c->tls.socket;
	struct tls_socket *s = bpf_map_lookup_elem(&tls_sockets, &socket);
	__u32 tgid = c->tls.tgid;
	struct tls_process *p;

	if (s && s->key.ssl)
		return TLS_PAIRED;
	p = bpf_map_lookup_elem(&tls_processes, &tgid);
	if (!p || !(p->bits & TLS_SERVES))
		return TLS_NOWHERE;
	return c->tls.kind == TLS_OLD || c->tls.since_ns < p->since_ns
		       ? TLS_SOMEWHERE
		       : TLS_NOWHERE;
}

/* An older object belongs to an older socket. */
static __always_inline void tls_pair_old(struct conn *c,
					 const struct tls_key *key)
{
	struct conn *plain = bpf_map_lookup_elem(&tls_conns, key);
	struct tls_socket s = { .key = *key, .port = c->port };
	__u64 socket = c->tls.socket;

	if (!socket || !plain || plain->tls.socket)
		return; /* 0: of a UNIX socket, as above */
	plain->tls.socket = socket;
	plain->port = c->port;
	plain->left_ns = c->left_ns;
	plain->client_closed = c->client_closed;
	bpf_map_update_elem(&tls_sockets, &socket, &s, 0);
	exchange_add(counters.tls_read, 1);
}

/*
 * How much longer a record is than its text, by the cipher: all that is in use
 * for TLS 1.3; AES-GCM; ChaCha20.  0: it is not the record of that text.
 */
static __always_inline __u32 tls_longer(__u64 record, __u64 text)
{
	__u64 more = record - text;

	return more == 17 || more == 24 || more == 16 ? (__u32)more : 0;
}

/* The write of which this is the record, if it can be only one. */
static __always_inline struct tls_write *tls_write_of(struct tls_thread *t,
						      __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns();
	struct tls_write *found = NULL;

	for (__u32 i = 0; i < TLS_WRITES; i++) {
		struct tls_write *w = &t->writes[i];

		if (!w->ssl || !tls_longer(bytes, w->bytes) ||
		    now - w->at_ns > TLS_FLUSH_NS)
			continue;
		if (found && found->ssl != w->ssl)
			return NULL;
		found = w;
	}
	return found;
}

static __always_inline void tls_lone(struct conn *c, __u32 bytes)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct tls_thread *t = bpf_map_lookup_elem(&tls_threads, &thread);
	struct tls_write *w = t ? tls_write_of(t, bytes) : NULL;
	struct tls_key key = { 0 };
	__u32 longer;

	if (t)
		t->sent = 1;
	if (!w)
		return;
	key.ssl = w->ssl;
	key.tgid = (__u32)(thread >> 32);
	longer = tls_longer(bytes, w->bytes);
	w->ssl = 0;
	if (c->tls.candidate == key.ssl && c->tls.longer == longer)
		tls_pair_old(c, &key);
	c->tls.candidate = key.ssl;
	c->tls.longer = (__u8)longer;
}
#endif
#endif /* __bpf__ */

#endif
