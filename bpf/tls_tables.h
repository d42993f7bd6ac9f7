/*
 * tls_tables.h - which socket carries the plain text of which SSL object
 *
 * The tables belong to the programs of a source and are lent to those of
 * tls.bpf.c.  A thread ties the two together, in one of three ways:
 *
 *	before		it reads the client's first record itself, and no other
 *			connection's, and hands it to the next step of a
 *			handshake (memory BIO)
 *	within		a step of a handshake reads it (socket BIO)
 *	older ones	what a thread sends can be the record of only one of
 *			its SSL_writes whose records may be outstanding, by its
 *			length; TLS_ALIKE times alike, and never once not
 *
 * In the first two the socket must be new, open, and nobody's yet; in the first
 * its record must be read when the steps of handshakes were probed already, for
 * else it may have been used unseen.
 */
#ifndef MOETOP_BPF_TLS_TABLES_H
#define MOETOP_BPF_TLS_TABLES_H

#include "bpf/slot.h"

#define TLS_CONNECTIONS_MAX 16384
#define TLS_THREADS_MAX 1024
#define TLS_PROCESSES_MAX 1024
#define TLS_HANDOVER_NS 200000000ull /* from reading a record to its use */
#define TLS_WRITES 16u /* of older objects, remembered by a thread */
#define TLS_FLUSH_NS \
	50000000ull /* from a write to the send of its record; what
				    takes longer proves nothing */
#define TLS_ALIKE 3u

#define TLS_FREED 1ull
#define TLS_SEVERAL 1ull

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
	__u64 socket; /* whose first record it has read last, or TLS_SEVERAL, */
	__u64 read_ns; /* and when */
	__u64 ssl;     /* in whose handshake it may be reading */
	__u32 next;    /* writes so far; the latest TLS_WRITES are there */
	__u16 sent;    /* records since the first of them, */
	__u16 sending; /* and since the last */
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
	if (!bpf_map_lookup_elem(&tls_sockets, &socket))
		c->tls.socket = 0; /* closed meanwhile: SSL_free will tell */
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
	__u64 socket = c->tls.socket, now;
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
	now = bpf_ktime_get_ns();
	/* those before have not been handed on: whose is whose? */
	t->socket = t->socket && now - t->read_ns < TLS_HANDOVER_NS
			    ? TLS_SEVERAL
			    : socket;
	t->read_ns = now;
}

/* Was the connection there before the probes of its process? */
static __always_inline int tls_is_older(const struct conn *c,
					const struct tls_process *p)
{
	return c->tls.kind == TLS_OLD || (p && c->tls.since_ns < p->since_ns);
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
	return tls_is_older(c, p) ? TLS_SOMEWHERE : TLS_NOWHERE;
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
	if (!c->closed)
		return;
	/* meanwhile, and nobody else may take out the entry any more */
	bpf_map_delete_elem(&tls_sockets, &socket);
	plain->tls.socket = 0;
}

/* 0 or 1, without a branch that the verifier would follow both ways. */
static __always_inline __u64 tls_any(__u64 x)
{
	__u64 minus = -x;

	asm volatile("" : "+r"(minus));
	return (x | minus) >> 63;
}

/*
 * 1: a record may be that of a text which is so much shorter: for all ciphers
 * in use of TLS 1.3; AES-GCM; ChaCha20.
 */
static __always_inline __u64 tls_fits(__u64 longer)
{
	const __u64 all = 1 << 17 | 1 << 24 | 1 << 16;

	return all >> (longer & 31) & 1 & ~tls_any(longer >> 5);
}

/* What one record says. */
struct tls_match {
	__u64 ssl;     /* of a write whose record it may be; 0: none */
	__u64 longer;  /* than that text */
	__u64 several; /* not 0: it may be another's, too, or is an old one */
	__u64 alike;   /* not 0: it may be one of the socket's candidate */
	__u64 at;      /* index of the write */
};

static __always_inline void tls_match(struct tls_match *m,
				      const struct tls_thread *t,
				      const struct tls_state *s, __u32 bytes)
{
	__u64 now = bpf_ktime_get_ns();

	m->several = t->next > TLS_WRITES; /* some are forgotten */
	for (__u32 i = 0; i < TLS_WRITES; i++) {
		const struct tls_write *w = &t->writes[i];
		__u64 ssl = w->ssl, longer = bytes - w->bytes, is, late;

		is = tls_fits(longer) & tls_any(ssl);
		late = tls_any((now - w->at_ns) / TLS_FLUSH_NS);
		m->alike |= is & ~tls_any(ssl ^ s->candidate) &
			    ~tls_any(longer ^ s->longer);
		m->several |=
			is & (late | (tls_any(m->ssl) & tls_any(m->ssl ^ ssl)));
		is = -is; /* all bits */
		m->ssl = (m->ssl & ~is) | (ssl & is);
		m->longer = (m->longer & ~is) | (longer & is);
		m->at = (m->at & ~is) | (i & is);
	}
}

/* A record of an older socket; one that is new has its object already. */
static __always_inline void tls_lone(struct conn *c, __u32 bytes)
{
	__u64 thread = bpf_get_current_pid_tgid();
	struct tls_thread *t = bpf_map_lookup_elem(&tls_threads, &thread);
	struct tls_key key = { .tgid = (__u32)(thread >> 32) };
	struct tls_match m = { 0 };

	if (!t ||
	    !tls_is_older(c, bpf_map_lookup_elem(&tls_processes, &key.tgid)))
		return;
	t->sent++;
	t->sending = 1;
	tls_match(&m, t, &c->tls, bytes);
	if (!m.alike)
		c->tls.candidate = 0; /* it has not written this */
	if (!m.ssl || m.several)
		return;
	if (!c->tls.candidate) {
		c->tls.candidate = m.ssl;
		c->tls.longer = (__u8)m.longer;
		c->tls.alike = 0;
	}
	t->writes[m.at & (TLS_WRITES - 1)].ssl = 0;
	key.ssl = m.ssl;
	if (++c->tls.alike == TLS_ALIKE)
		tls_pair_old(c, &key);
}
#endif
#endif /* __bpf__ */

#endif
