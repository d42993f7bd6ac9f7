/*
 * tracker.h - requests of a server, seen from the kernel
 *
 * Frames HTTP/1.x and HTTP/2 per socket inside BPF and keeps the gauges in mapped memory,
 * so reading them costs nothing and no ring overflow can make them wrong.
 * Sockets are chosen by listening port and network namespace, never by process.
 *
 * Where the bytes come from is tried in this order (bpf/rungs.c):
 *
 *	K	tracepoints sock_send_length and sock_recv_length
 *	F	fexit of tcp_sendmsg and tcp_recvmsg
 *	P	kprobes of the same
 *	C	packets of the root control group
 *	S	raw tracepoint sys_exit
 *	diag	no BPF and no privilege: socket times, an estimate (bpf/diag.h)
 *
 * UNIX stream sockets are followed by K, F, P and S (bpf/unix.h).
 *
 * Not followed: MPTCP (but by K).  Bytes that go by io_uring or sendfile are fine inside a body of
 * known length.
 *
 * Not thread-safe: one thread owns a tracker.
 */
#ifndef MOETOP_BPF_TRACKER_H
#define MOETOP_BPF_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/requests.h"

#define TRACKER_PORTS_MAX 64u
#define TRACKER_UNIX_MAX 16u

struct tracker;

struct tracker_config {
	const uint16_t *ports; /* host order; borrowed for the call */
	size_t n_ports;        /* 0 .. TRACKER_PORTS_MAX */
	/* inodes of UNIX sockets that listen; one port or one of these at least */
	const uint64_t *unix_inodes;
	size_t n_unix;    /* 0 .. TRACKER_UNIX_MAX */
	uint32_t netns;   /* inode of /proc/PID/ns/net; 0: own */
	const char *rung; /* only this one, e.g. "K"; NULL: the best */
};

#define TRACKER_REFUSED_BYTES 1024u

/*
 * Load, attach, and prove on a loopback connection of our own that one SSE
 * exchange and one abort are counted; only then is a source trusted, else the
 * next one is tried.
 *
 * 0 and *out (free with tracker_close).  -EINVAL: bad ports or rung.  Else that
 * of the first source tried: -EPERM: a capability is missing.  -EACCES: the
 * kernel refuses all the same (lockdown, seccomp, a security module, its
 * verifier).  -EOPNOTSUPP: it lacks the hooks or BTF.  -EPROTO: the self-test
 * failed three times.  why gets one line for the user in every error.  Takes half
 * a second when all is well.
 */
int tracker_open(struct tracker **out, const struct tracker_config *config,
		 char *why, size_t why_bytes);

/* Replace the ports (a server opened or closed one).  0 or -errno. */
int tracker_set_ports(struct tracker *t, const uint16_t *ports, size_t n);

/*
 * Replace the UNIX sockets that listen.  Not without one at open: the source has
 * to be tested for them.  0 or -errno.
 */
int tracker_set_unix(struct tracker *t, const uint64_t *inodes, size_t n);

/* Why connections by UNIX sockets are not followed; "" if they are, or none was
 * asked for. */
const char *tracker_unix_refused(const struct tracker *t);

/*
 * Another number when something of the machine has begun or ceased to listen, or
 * somebody new holds what listens: ports at once, UNIX sockets and descriptors
 * that were passed on with the next look at the open sockets.  0 when that is
 * not known.
 */
uint64_t tracker_listeners(const struct tracker *t);

/* The data source in use, e.g. "K tp_btf sock_*_length"; static string. */
const char *tracker_rung(const struct tracker *t);

/* What a source needs of the kernel and in privileges, by its letter; "" for one
 * that needs nothing.  Static string. */
const char *tracker_needs(const char *letter);

/* Why the better ones are not, e.g. "K: ...; F: ..."; "" for the best. */
const char *tracker_refused(const struct tracker *t);

/* The source is diag: waiting and streaming are estimates of generation, and
 * nothing else is known: counters and histograms stay 0. */
bool tracker_estimates(const struct tracker *t);

/* Calls that a program missed because it was running already (Linux >= 5.12). */
uint64_t tracker_missed(const struct tracker *t);

/*
 * When the oldest request in flight began, CLOCK_MONOTONIC; 0: there is none
 * whose beginning was seen.  As of the last look at the open sockets: looks
 * are 1 s apart, or more so that they take 0.25 % of a core.  -EOPNOTSUPP where
 * the kernel does not let us look.
 */
int tracker_oldest(struct tracker *t, uint64_t *start_ns);

/*
 * What the server cannot see itself: bytes received that it has not read, and
 * connections it has not accepted.  -EOPNOTSUPP in another network namespace,
 * or -errno.  As of the last look: one takes milliseconds, and they are half a
 * second apart, or more so that they take 0.1 % of a core.
 */
int tracker_queues(struct tracker *t, uint64_t *unread_bytes,
		   uint64_t *backlog);

/* A consistent-enough copy: each word is read once, atomically. */
void tracker_read(struct tracker *t, struct request_gauges *gauges,
		  struct request_counters *counters);

enum tracker_histogram { TRACKER_TTFT, TRACKER_GAP, TRACKER_DURATION };

/*
 * Histogram of generation requests since open, summed over CPUs.  TTFT (from the
 * request head to the first event) and gaps between events are those of event
 * streams and of answers in chunks, since one in a single piece shows no first
 * token; k events in one write are one gap and k - 1 of 0.  Duration is that of every completed
 * request.  Answers with a status of 400 or more are in none.
 */
int tracker_histogram(struct tracker *t, enum tracker_histogram which,
		      struct request_histogram *out);

/*
 * Drain request records; calls fn, if not NULL, for each.  Returns the number or -errno.
 * Records whose path no table knew are classified here, and from then on in
 * the kernel.  To be called at least once a second: it also looks at the open
 * sockets where that is due.
 */
int tracker_drain(struct tracker *t,
		  void (*fn)(const struct request_record *r, void *arg),
		  void *arg);

/* ---- TLS that the server ends itself ------------------------------------- */

/* Functions of OpenSSL, by which its plain text is followed. */
enum tracker_tls_function {
	TRACKER_TLS_READ,      /* SSL_read */
	TRACKER_TLS_READ_EX,   /* SSL_read_ex */
	TRACKER_TLS_WRITE,     /* SSL_write */
	TRACKER_TLS_WRITE_EX,  /* SSL_write_ex */
	TRACKER_TLS_HANDSHAKE, /* SSL_do_handshake */
	TRACKER_TLS_SET_BIO,   /* SSL_set_bio */
	TRACKER_TLS_FREE,      /* SSL_free */
	TRACKER_TLS_FUNCTIONS
};

/* A libssl in a process; offsets are those of its file. */
struct tracker_tls {
	pid_t pid;
	uint64_t base;  /* its address there: tells two of one process */
	char path[256]; /* that opens the file */
	uint64_t entry[TRACKER_TLS_FUNCTIONS]; /* 0: it has none */
	/* an instruction that is cheaper to probe, with all arguments still in
	 * their registers; else the entry */
	uint64_t inside[TRACKER_TLS_FUNCTIONS];
	bool native; /* it may write to sockets by itself (not Python) */
};

/*
 * Follow the plain text of a library in a process, from its next handshakes and
 * writes on.  What is followed already stays as it is.  0.  -EOPNOTSUPP: not
 * with this source.  -EPERM, -EACCES: not with these capabilities.  -ENOSPC: 64
 * libraries are.  -errno.  Without it, or where a connection is not made by such
 * a library, its requests are inferred from timing, as gauges only.  The first
 * call takes half a second and more, nearly all of it the kernel's verifier.
 */
int tracker_tls_attach(struct tracker *t, const struct tracker_tls *library);

/* Leave all processes but these. */
void tracker_tls_keep(struct tracker *t, const pid_t *pids, size_t n);

/* Processes whose plain text is followed. */
unsigned tracker_tls_processes(const struct tracker *t);

void tracker_close(struct tracker *t);

#endif
