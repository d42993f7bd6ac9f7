/*
 * reply.h - the client's view of one HTTP/1.1 response, byte by byte
 *
 * Frames bodies by chunks, by Content-Length or not at all (204, 304); a body
 * that ends with the connection is not supported.  Bounded and pure.
 */
#ifndef MOETOP_SIM_SERVER_REPLY_H
#define MOETOP_SIM_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_HEAD_BYTES 4096u

enum reply_event {
	REPLY_MORE,  /* all bytes are used up */
	REPLY_HEAD,  /* the head is complete: status and so on are set */
	REPLY_CHUNK, /* a chunk begins: chunk_bytes */
	REPLY_END,   /* the response is complete; the next one may follow */
	REPLY_BAD    /* not HTTP, or more than we take */
};

struct reply {
	int state;
	unsigned status;
	bool chunked, close;
	uint64_t chunk_bytes; /* of the chunk that began last */
	uint64_t left;        /* of the chunk or body */
	uint64_t chunks;
	size_t head_bytes;
	char head[REPLY_HEAD_BYTES];
};

/* Before each response. */
void reply_start(struct reply *r);

/* Go on until something happens; *data and *bytes advance past what was
 * read. */
enum reply_event reply_next(struct reply *r, const char **data, size_t *bytes);

/* Whether any byte of the response has come. */
bool reply_begun(const struct reply *r);
/* Whether the head has. */
bool reply_has_head(const struct reply *r);

#endif
