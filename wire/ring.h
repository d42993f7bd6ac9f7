/*
 * ring.h - the memory that an agent and the collector share
 *
 * A sealed memfd named RING_NAME, found by the collector in /proc/PID/fd:
 *
 *	struct ring_header (one page)   written by the agent, except `control`
 *	struct record[capacity]         written by the agent only
 *
 * One writer, one reader.  The writer never waits: when the ring is full the
 * new record is lost and `lost` grows.  The reader publishes `tail`.  The fd is
 * sealed against shrinking and growing and its memory is there while
 * records are written, so a mapping never faults.
 *
 * The reader trusts nothing: it copies the header's fixed part once, checks
 * magic, version and geometry against the file size, bounds every index, and
 * reads at most `capacity` records a call whatever head says.  The writer
 * likewise treats `tail` and `control` as hostile input.
 */
#ifndef MOETOP_WIRE_RING_H
#define MOETOP_WIRE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/record.h"

#define RING_NAME "moetop-ring"
#define RING_MAGIC 0x474e495250544f4dull /* "MOTPRING", little endian */
#define RING_VERSION 2u
#define RING_HEADER_BYTES 4096u
#define RING_CAPACITY_MAX (1u << 20)

/* Written by the collector, read by the agent. */
struct ring_control {
	_Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC; 0: nobody reads */
	_Atomic uint32_t collector_pid;
	_Atomic uint32_t budget_ppm;  /* allowed overhead, 10000 = 1 % */
	_Atomic uint32_t window_wish; /* grows by one: a window, please */
	_Atomic uint32_t rows_mode;   /* 0 off, 1 sampled, 2 exact */
	_Atomic uint32_t detach;      /* 1: fall asleep (AGENT_STUB) */
	_Atomic uint32_t decode_hint; /* streams being decoded, 0 unknown */
	_Atomic uint64_t session;     /* who reads: random; 0: nobody */
	_Atomic uint32_t wake;        /* futex: grows when a stub shall rise */
	_Atomic uint32_t spans;       /* 1: SPANS records with each window */
	/* Routed experts of a MoE layer and of a token, as the model's config
	 * has them; 0 unknown.  Rows that contradict them are refused. */
	_Atomic uint32_t experts, top_k;
};

/*
 * Written by the agent: what a collector must know before it reads a record.
 * A stub (AGENT_STUB) has released all but this page and its descriptor; its
 * one thread sleeps on control.wake.
 */
struct ring_state {
	_Atomic uint32_t state;  /* enum agent_state */
	_Atomic uint32_t reason; /* enum agent_reason */
	_Atomic uint32_t lives;  /* times that the agent has risen, from 1 */
	_Atomic uint32_t late;   /* 1: came after CUDA had started */
};

struct ring_header {
	uint64_t magic;
	uint32_t version;        /* RING_VERSION */
	uint32_t record_version; /* RECORD_VERSION */
	uint32_t record_bytes;   /* RECORD_BYTES */
	uint32_t capacity;       /* records, a power of two */
	uint32_t agent_pid;      /* as seen in the agent's namespace */
	uint32_t pad;
	uint64_t start_ns;                  /* when the agent made the ring */
	_Alignas(64) _Atomic uint64_t head; /* records ever written */
	_Atomic uint64_t lost;              /* records that found no room */
	_Alignas(64) _Atomic uint64_t tail; /* records ever read */
	_Alignas(64) struct ring_control control;
	_Alignas(64) struct ring_state state;
};

_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "ring layout");

/*
 * The writer's end.  All functions are async-signal-safe after create.  The
 * descriptor is one among the host's, which may close it and give its number to
 * another file: that is never touched.
 */
struct ring_writer {
	struct ring_header *h;
	struct record *slots;
	uint64_t head;
	uint32_t mask;
	int fd;
	uint64_t device, inode; /* of the file behind fd */
};

/*
 * Make a sealed ring of `capacity` records (a power of two, at most
 * RING_CAPACITY_MAX).  The descriptor is close-on-exec and stays open so that
 * the collector can find it.  0, or -errno and *w unchanged.
 */
int ring_create(struct ring_writer *w, uint32_t capacity);

/* Copy one record in; 0, or -ENOSPC after counting the loss.  Never blocks.
 * Callers serialise themselves: one writer. */
int ring_write(struct ring_writer *w, const struct record *r);

void ring_destroy(struct ring_writer *w);

/* In fork's child, which has the descriptor but not the mapping. */
void ring_forget(struct ring_writer *w);

/*
 * For a stub: give the memory of all records back to the system, unread ones
 * included; the header page stays.  And have it again before the next
 * ring_write: 0, or -errno (-ENOMEM, -ENOSPC; -EBADF: the host has closed the
 * descriptor, nobody can find this ring), when nothing may be written.
 */
void ring_release(struct ring_writer *w);
int ring_restore(struct ring_writer *w);

/* The reader's end. */
struct ring_reader {
	struct ring_header *h; /* borrowed mapping, until ring_close */
	const struct record *slots;
	size_t map_bytes;
	uint64_t tail;
	uint32_t mask;
	uint64_t lost;    /* last value reported by ring_read */
	uint64_t session; /* ours, in control.session */
};

/*
 * Map the ring behind fd (not kept) and become its one reader: the session in
 * `control` is taken by compare-and-swap, from nobody or from a reader whose
 * heartbeat is older than 2 s.  A stub is woken.  Errors: -EPROTO not a ring of
 * ours or an impossible geometry, -EPROTONOSUPPORT another version, -EBUSY
 * another collector reads it, else -errno.  *r is unchanged on error.
 */
int ring_open(struct ring_reader *r, int fd, uint64_t now_ns);

/* Tell the agent that we are here, and wake it if it sleeps; -EBUSY when another collector has taken the
 * ring over (we slept for too long): it must then be closed. */
int ring_beat(struct ring_reader *r, uint64_t now_ns);

/* What the agent says of itself, without a record; out of range: AGENT_ABSENT. */
enum agent_state ring_agent_state(const struct ring_reader *r);

/*
 * Copy up to max records, oldest first; what a stub has released (type 0) is
 * passed over.  Returns how many (0..max), or -EPROTO when the writer's head
 * makes no sense; the ring must then be closed.
 */
int ring_read(struct ring_reader *r, struct record *out, size_t max);

/* Records that the writer could not store since the last call. */
uint64_t ring_lost(struct ring_reader *r);

/* Give the ring back and unmap it.  detach: send the agent to sleep, else it
 * stays ready for 30 s.  A ring that another reader has taken is only unmapped. */
void ring_close(struct ring_reader *r, bool detach);

#endif
