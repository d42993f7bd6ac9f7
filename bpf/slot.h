/*
 * slot.h - the outstanding requests of a connection, and the accounts
 *
 * Who writes what: the receiving side owns `in` and pushes slots, the sending
 * side owns `out` and pops them, and the life cycle may end any slot at any
 * time, from an interrupt on top of either.  Therefore the gauges change only
 * together with the state word of a slot, by compare-and-swap or exchange:
 * each gauge is the number of slots in that state and cannot drift, whoever
 * races.  In the few instructions between the two a reader may find it one off,
 * and so below 0.
 *
 * What the includer defines is listed in exchange.h.
 */
#ifndef MOETOP_BPF_SLOT_H
#define MOETOP_BPF_SLOT_H

#include "bpf/http.h"
#include "bpf/sse.h"
#include "wire/requests.h"

#define EXCHANGE_SLOTS 8u /* outstanding requests of a connection, power of 2 */

enum exchange_histogram { EXCHANGE_TTFT, EXCHANGE_GAP, EXCHANGE_DURATION };

/* How a request ended, as in struct request_record. */
enum { ENDED_COMPLETED, ENDED_BY_CLIENT, ENDED_BY_SERVER };

/*
 * State word of a slot: one of these, and the endpoint in the next byte.  A
 * guessed one may not exist; it is in the gauge of guesses and in no counter.
 * Nor are those that are inferred from the times of TLS records (tls.h).  A
 * taken one is about to become a request.
 */
enum {
	SLOT_FREE,
	SLOT_WAITING,
	SLOT_STREAMING,
	SLOT_GUESSED,
	SLOT_TLS_WAITING,
	SLOT_TLS_STREAMING,
	SLOT_TAKEN,
};

/* Of an adopted slot: how sure it is that it exists. */
enum { GUESS_NONE, GUESS_MAYBE, GUESS_SURE };

struct slot {
	__u64 state;
	__u64 start_ns; /* 0: began before the tracker saw the connection */
	__u64 path_hash;
	__u64 head_method;
};

/* What is known of a response in progress, by the sender. */
struct answer {
	__u64 first_ns;
	__u64 last_ns;
	__u64 max_gap_ns;
	__u64 body_bytes;
	__u32 events;
	__u16 status;
	__u8 counted; /* 1 + the endpoint of its last event; 0: none, or of no
			 request */
	__u8 pad;
	struct sse sse;
};

/* A connection that is encrypted, as its socket shows it (tls.h). */
enum tls_kind {
	TLS_NONE,
	TLS_FRESH, /* seen from its first byte */
	TLS_OLD,   /* from its middle */
};

enum tls_where {
	TLS_NOWHERE,
	TLS_SOMEWHERE, /* its process shows plain text: that of it, too */
	TLS_PAIRED,    /* and it is known which */
};

/* When a write of plain text counts. */
enum tls_writes { TLS_WRITES_OPEN, TLS_WRITES_BEGIN, TLS_WRITES_RETURN };

/* What is known of a connection that is encrypted (tls.h). */
struct tls_state {
	__u64 socket;    /* its address, which names it in tables; 0: none */
	__u64 candidate; /* SSL object that may be that of the socket */
	__u64 since_ns;  /* when it was seen to be encrypted */
	__u64 unpaired;  /* in gauges.tls_unpaired */
	__u32 tgid;      /* of the process that reads it */
	__u8 kind;       /* enum tls_kind */
	__u8 sent;       /* the server has sent application records */
	__u8 finished;   /* the client has ended the handshake */
	__u8 answered;   /* the server has sent something since it was asked */
	__u8 inferred;   /* counted as a connection without plain text */
	__u8 writes;     /* of plain text: enum tls_writes */
	__u8 longer;     /* than its text is a record, of the candidate */
	__u8 alike;      /* records that can only be the candidate's */
	__u8 pad[4];
};

/*
 * The order is that of use: what an event of a stream needs begins it, in the
 * two cache lines that the kernel's own header of a socket's storage (8 bytes)
 * begins.
 */
struct conn {
	struct answer answer;
	/* slots, by the receiver; positions count up and wrap */
	__u32 pushed;
	__u32 retired; /* requests before this one are over */
	/* slots, by the sender */
	__u32 popped;
	__u32 answered; /* position of the request being answered */
	__u16 port;
	__u8 adopting; /* the response is one whose request was not seen */
	__u8 client_closed;
	__u8 guess;  /* GUESS_* */
	__u8 judged; /* by the walk, or younger than we */
	__u8 responding;
	__u8 pad;
	__u64 closed; /* 0: open, else 1 + ENDED_*; before slots are closed */
	struct http_stream out, in;
	struct slot slots[EXCHANGE_SLOTS];
	struct slot adopted;
	__u64 known;       /* counted as a connection */
	__u64 left_ns;     /* when the client closed */
	__u32 over_pushed; /* requests that found no slot, by the receiver */
	__u32 over_popped; /* and by the sender */
	__u32 next_in, next_out; /* sequence numbers; 0: none yet */
	struct tls_state tls;
};

/* Seen from its first byte; one that is not starts as all zero. */
static __always_inline void conn_fresh(struct conn *c)
{
	c->judged = 1;
	http_begin(&c->in);
	c->out.flags = HTTP_RESPONSE;
	http_begin(&c->out);
}

#define exchange_add(word, n) ((void)__sync_fetch_and_add(&(word), (n)))

/* Bytes that cannot be what must come now. */
static __always_inline void conn_lose(struct http_stream *s)
{
	s->state = HTTP_UNKNOWN;
	s->field = 0;
	exchange_add(counters.desyncs, 1);
}

static __always_inline __u64 slot_word(__u32 state, __u32 endpoint)
{
	return state | (__u64)endpoint << 8;
}

static __always_inline __u32 slot_endpoint(__u64 word)
{
	return (__u32)(word >> 8) & (ENDPOINTS - 1);
}

static __always_inline void gauge_add(__u64 word, __s64 n)
{
	__u32 e = slot_endpoint(word);

	if ((word & 0xff) == SLOT_WAITING)
		exchange_add(gauges.waiting[e], n);
	else if ((word & 0xff) == SLOT_STREAMING)
		exchange_add(gauges.streaming[e], n);
	else if ((word & 0xff) == SLOT_GUESSED)
		exchange_add(gauges.guessed[e], n);
	else if ((word & 0xff) == SLOT_TLS_WAITING)
		exchange_add(gauges.inferred_waiting, n);
	else if ((word & 0xff) == SLOT_TLS_STREAMING)
		exchange_add(gauges.inferred_streaming, n);
}

/* 0: someone else has moved it. */
static __always_inline int slot_move(struct slot *s, __u64 from, __u64 to)
{
	if (__sync_val_compare_and_swap(&s->state, from, to) != from)
		return 0;
	gauge_add(from, -1);
	gauge_add(to, 1);
	return 1;
}

static __always_inline void slot_count(__u32 e, __u32 how, __u16 status)
{
	if (how == ENDED_BY_CLIENT) {
		exchange_add(counters.client_aborted[e], 1);
	} else if (how == ENDED_BY_SERVER) {
		exchange_add(counters.server_aborted[e], 1);
	} else {
		exchange_add(counters.completed[e], 1);
		if (status >= 400)
			exchange_add(counters.failed[e], 1);
		if (status >= 500)
			exchange_add(counters.failed_5xx[e], 1);
	}
}

/* End a request; nothing happens if that was done already. */
HTTP_GLOBAL int slot_close(struct slot *s, const struct answer *a, __u32 port,
			   __u32 how, __u64 now)
{
	struct request_record r = { 0 };
	__u64 word;

	if (!s || !a)
		return 0;
	word = __sync_lock_test_and_set(&s->state, SLOT_FREE);
	if (word == SLOT_FREE)
		return 0;
	gauge_add(word, -1);
	if ((word & 0xff) >= SLOT_GUESSED)
		return 0;
	r.start_ns = s->start_ns;
	r.end_ns = now;
	r.path_hash = s->path_hash;
	r.endpoint = (__u8)slot_endpoint(word);
	r.how = (__u8)how;
	r.port = (__u16)port;
	if ((word & 0xff) == SLOT_STREAMING || how == ENDED_COMPLETED) {
		r.first_body_ns = a->first_ns;
		r.body_bytes = a->body_bytes;
		r.max_gap_ns = a->max_gap_ns;
		r.events = a->events;
		r.status = a->status;
	}
	slot_count(r.endpoint, how, r.status);
	if (how == ENDED_COMPLETED && r.endpoint == ENDPOINT_GENERATION &&
	    r.start_ns && r.status && r.status < 400)
		histogram_add(EXCHANGE_DURATION, now - r.start_ns);
	if (record_emit(&r))
		exchange_add(counters.records_lost, 1);
	return 0;
}

/* One that HTTP/1.x answers in turn. */
static __always_inline void slot_end(struct conn *c, struct slot *s, __u32 how,
				     __u64 now)
{
	slot_close(s, &c->answer, c->port, how, now);
}

/* ---- answers ------------------------------------------------------------- */

/* An event stream is an answer of a generation endpoint, whatever its path. */
static __always_inline void slot_reclassify(struct slot *s)
{
	__u64 word = s->state;
	__u32 e = slot_endpoint(word);

	if (word == SLOT_FREE || e == ENDPOINT_GENERATION)
		return;
	if (!slot_move(s, word,
		       slot_word((__u32)word & 0xff, ENDPOINT_GENERATION)))
		return;
	exchange_add(counters.started[e], (__u64)-1);
	exchange_add(counters.started[ENDPOINT_GENERATION], 1);
	if (s->path_hash)
		endpoint_learn(s->path_hash);
}

/*
 * Is the answer one that says how fast tokens come?  timed: it comes in pieces
 * as they are made.
 */
static __always_inline int answer_timed(const struct answer *a, __u32 timed,
					__u64 word)
{
	return word != SLOT_FREE && timed &&
	       slot_endpoint(word) == ENDPOINT_GENERATION && a->status < 400;
}

/* A byte of the body that is no comment has been sent. */
static __always_inline void answer_first(struct answer *a, struct slot *s,
					 __u32 timed, __u64 now)
{
	__u64 word;

	if (a->first_ns)
		return;
	a->first_ns = now;
	if (!s)
		return;
	word = s->state;
	if ((word & 0xff) != SLOT_WAITING)
		return;
	slot_move(s, word, slot_word(SLOT_STREAMING, slot_endpoint(word)));
	if (answer_timed(a, timed, word) && s->start_ns)
		histogram_add(EXCHANGE_TTFT, now - s->start_ns);
}

/* An event of the request whose slot has this state. */
static __always_inline void answer_count(struct answer *a, __u64 word,
					 __u32 timed, __u64 now)
{
	__u64 gap = now - a->last_ns;

	exchange_add(counters.events[slot_endpoint(word)], 1);
	a->events++;
	if (a->last_ns) {
		if (gap > a->max_gap_ns)
			a->max_gap_ns = gap;
		if (answer_timed(a, timed, word))
			histogram_add(EXCHANGE_GAP, gap);
	}
	a->last_ns = now;
}

static __always_inline void answer_event(struct answer *a, const struct slot *s,
					 __u32 timed, __u64 now)
{
	__u64 word = s ? s->state : SLOT_FREE;

	a->counted = 0;
	if (word == SLOT_FREE)
		return;
	a->counted = (__u8)(1 + slot_endpoint(word));
	answer_count(a, word, timed, now);
}

#endif
