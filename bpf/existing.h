/*
 * existing.h - a walk over the sockets that are open
 *
 * The loader reads the iterator after it has attached or got new ports, and
 * from time to time.  Every descriptor of the machine is looked at, by port and
 * namespace as ever; about 0.1 us each.
 *
 * Connections that are older than the tracker are judged by their times: one
 * on which nothing was read yet is fresh, and one that has received data since
 * it last sent some has a request waiting.  So it may be with one that sent
 * within EARLY_HEAD_MS of receiving, for servers send the head of a stream at
 * once; or it has answered a quick request and is idle.  Servers close those
 * after some seconds (uvicorn: 5), so the guess stands for a minute, and goes
 * without proof.  The former is taken for true after 5 s.  A stream that is
 * under way is not guessed: its next event proves it.
 */
#ifndef MOETOP_BPF_EXISTING_H
#define MOETOP_BPF_EXISTING_H

#include "bpf/program.h"
#ifndef SOURCE_IS_PACKETS
#include "bpf/unix.h"
#endif

#define EARLY_HEAD_MS 50

/* Ticks in a second: they began to count 300 s before 2^32. */
static __always_inline __u32 ticks_per_second(void)
{
	__u64 ms = bpf_ktime_get_ns() / 1000000, ticks = bpf_jiffies64();
	__u64 hz = 0;

	if (ms > 300000)
		hz = (ticks - (1ull << 32)) * 1000 / (ms - 300000);
	else if (ms < 300000)
		hz = ((1ull << 32) - ticks) * 1000 / (300000 - ms);
	return hz >= 50 && hz <= 2000 ? (__u32)hz : 250;
}

static __always_inline int times_judge(__u32 sent, __u32 received)
{
	__u32 early = ticks_per_second() * EARLY_HEAD_MS / 1000;

	if ((__s32)(received - sent) > 0)
		return GUESS_SURE;
	return sent - received <= early ? GUESS_MAYBE : GUESS_NONE;
}

/* An older connection, seen for the first time. */
static __always_inline void conn_judge(struct conn *c, struct sock *sk)
{
	struct inet_connection_sock *icsk = (void *)sk;
	struct tcp_sock *tp = (void *)sk;
	__u32 unread =
		BPF_CORE_READ(tp, rcv_nxt) - BPF_CORE_READ(tp, copied_seq);
	int kind;

	if (BPF_CORE_READ(tp, bytes_received) == unread) {
		conn_fresh(c);
		return;
	}
	kind = GUESS_SURE;
	if (BPF_CORE_READ(tp, data_segs_out))
		kind = times_judge(BPF_CORE_READ(tp, lsndtime),
				   BPF_CORE_READ(icsk, icsk_ack.lrcvtime));
	if (kind == GUESS_NONE)
		return;
	c->guess = (__u8)kind;
	c->adopted.start_ns = 0;
	c->adopted.path_hash = 0;
	slot_move(&c->adopted, SLOT_FREE,
		  slot_word(SLOT_GUESSED, ENDPOINT_GENERATION));
	if (c->closed) /* meanwhile, by a reset */
		slot_end(c, &c->adopted, (__u32)c->closed - 1, 0);
}

/* Nothing has proved the guess in time. */
static __always_inline void conn_settle(struct conn *c, __u64 now)
{
	const __u64 guess = slot_word(SLOT_GUESSED, ENDPOINT_GENERATION);

	if (c->adopted.state != guess)
		return;
	if (c->guess == GUESS_SURE)
		guess_confirm(c);
	else if (shared.settle == SETTLE_ALL)
		slot_end(c, &c->adopted, ENDED_COMPLETED, now);
}

static __always_inline void oldest_is(__u64 start)
{
	if (start && (!shared.oldest_ns || start < shared.oldest_ns))
		shared.oldest_ns = start;
}

static __always_inline void oldest_seen(const struct slot *s)
{
	if (s->state != SLOT_FREE)
		oldest_is(s->start_ns);
}

static __always_inline void conn_look(struct conn *c)
{
	conn_sweep(c, bpf_ktime_get_ns());
	for (int i = 0; i < (int)EXCHANGE_SLOTS; i++)
		oldest_seen(&c->slots[i]);
	if (c->in.state == HTTP_FRAMES)
		oldest_is(h2_oldest(c));
}

/* NULL: not followed, or seen for the first time. */
static __always_inline struct conn *tcp_seen(struct sock *sk)
{
	struct conn *c;
	int state;

	if (!wanted(sk))
		return NULL;
	state = sk_read(sk, __sk_common.skc_state);
	if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return NULL;
	c = conn_make(sk);
	if (!c)
		return NULL;
	c->tls.socket = (__u64)sk;
	conn_claim(c, sk_read(sk, __sk_common.skc_num), state);
	if (!conn_unjudged(c))
		return c;
	c->judged = 1;
	conn_judge(c, sk);
	return NULL;
}

/* A listener that somebody new holds changes the sum. */
static __always_inline void listener_seen(int holder, __u64 inode)
{
	shared.listeners +=
		(inode * 2654435761u ^ (__u64)holder) * HTTP_FNV_PRIME;
}

SEC("iter/task_file")
int existing(struct bpf_iter__task_file *ctx)
{
	struct task_struct *t = ctx->task;
	struct file *f = ctx->file;
	struct socket *s;
	struct conn *c;
	struct sock *sk;

	if (!f || !t)
		return 0;
	s = bpf_sock_from_file(f);
	if (!s)
		return 0;
	sk = s->sk;
	if (!sk)
		return 0;
	if (sk_read(sk, __sk_common.skc_state) == TCP_LISTEN)
		listener_seen(t->tgid, f->f_inode->i_ino);
#ifndef SOURCE_IS_PACKETS
	if (unix_is(sk))
		c = unix_seen(sk, f->f_inode->i_ino);
	else
#endif
		c = tcp_seen(sk);
	if (!c)
		return 0;
	if (shared.settle)
		conn_settle(c, bpf_ktime_get_ns());
	conn_look(c);
	c = tls_conn_of(c);
	if (!c)
		return 0;
	conn_look(c);
	if (c->closed)
		h2_drop(c);
	return 0;
}

#endif
