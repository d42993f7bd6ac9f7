/*
 * rank_wire.h - what goes between the front process and its workers
 *
 * A stream socket, one conversation:
 *
 *	front	RANK_ARGUMENTS	its own arguments, each ended by NUL
 *	worker	RANK_READY	struct rank_ready, then why it is not, if so
 *	front	RANK_STEP	struct rank_step, then its items
 *	worker	RANK_DONE	struct rank_ready likewise
 *	...
 *
 * The end of the stream is the end of the other side.
 */
#ifndef MOETOP_SIM_SERVER_RANK_WIRE_H
#define MOETOP_SIM_SERVER_RANK_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define RANK_ENV "MOETOP_SIM_RANK" /* "FD:RANK:RANKS:EXPERT:LIFE" */
#define RANKS_MAX 16u
#define RANK_MESSAGE_MAX (1u << 20)

enum rank_kind { RANK_ARGUMENTS, RANK_READY, RANK_STEP, RANK_DONE };

struct rank_head {
	uint32_t kind, bytes; /* of what follows */
};

struct rank_ready {
	int32_t error; /* 0 or -errno */
	uint32_t pad;
	uint64_t kv_tokens;
	char why[240];
};

struct rank_step {
	uint32_t items, tokens, prefill, pad;
};

struct rank_item {
	uint64_t id;
	uint32_t first, count, samples, pad;
};

/* The whole of it.  0, -EPIPE the other side has ended, -errno. */
int rank_send(int fd, enum rank_kind kind, const void *data, size_t bytes);

/* The next message, of this kind and at most room bytes; *bytes gets its size.
 * 0, -EPIPE, -EPROTO another kind or too large, -errno. */
int rank_receive(int fd, enum rank_kind kind, void *data, size_t room,
		 size_t *bytes);

#endif
