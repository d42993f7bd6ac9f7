/*
 * exchanges.h - requests and responses, and what must be counted of them
 */
#ifndef MOETOP_TESTS_UNIT_BPF_EXCHANGES_H
#define MOETOP_TESTS_UNIT_BPF_EXCHANGES_H

#include <stdbool.h>

#include "wire/requests.h"

#define X_GEN "POST /v1/chat/completions HTTP/1.1\r\n"
#define X_JSON "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
#define X_SSE                                                \
	"HTTP/1.1 200 OK\r\ndate: x\r\n"                     \
	"content-type: text/event-stream; charset=utf-8\r\n" \
	"Transfer-Encoding: chunked\r\n\r\n"
#define X_DONE "e\r\ndata: [DONE]\n\n\r\n"
#define X_END "0\r\n\r\n"
/* A body full of what framing looks like. */
#define X_TRAP "\r\n0\r\n\r\nPOST / HTTP/1.1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
#define X_TRAP_BYTES "45"

struct exchange {
	const char *name;
	const char *request;
	const char *response;
	unsigned started[ENDPOINTS];
	unsigned completed;
	unsigned failed;
	unsigned events;
	unsigned body_bytes; /* of all responses */
	unsigned status;     /* of the last */
	bool closes;         /* the response ends when the server closes */
};

#define ONE_GENERATION .started[ENDPOINT_GENERATION] = 1, .completed = 1
#define ONE_OTHER .started[ENDPOINT_OTHER] = 1, .completed = 1

static const struct exchange exchanges[] = {
	{ "json by length", X_GEN "Host: x\r\ncontent-length: 2\r\n\r\n{}",
	  X_JSON "Content-Length: 5\r\n\r\nhello", ONE_GENERATION,
	  .body_bytes = 5, .status = 200 },
	{ "event stream: one event a chunk, end marker apart",
	  X_GEN "Content-Length: 0\r\n\r\n",
	  X_SSE "9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n" X_DONE X_END,
	  ONE_GENERATION, .events = 2, .body_bytes = 32, .status = 200 },
	{ "comments are no events", X_GEN "Content-Length: 0\r\n\r\n",
	  X_SSE
	  "8\r\n: ping\n\n\r\n9\r\ndata: a\n\n\r\n8\r\n: ping\n\n\r\n" X_END,
	  ONE_GENERATION, .events = 1, .body_bytes = 25, .status = 200 },
	{ "named events; lines that only resemble the end marker", X_GEN "\r\n",
	  X_SSE "12\r\nevent: x\ndata: y\n\n\r\n9\r\ndata: [\n\n\r\n"
		"7\r\ndata:\n\n\r\n6\r\ndata\n\n\r\n" X_END,
	  ONE_GENERATION, .events = 4, .body_bytes = 40, .status = 200 },
	{ "several events in one chunk", X_GEN "\r\n",
	  X_SSE "9\r\ndata: a\n\n\r\n12\r\ndata: b\n\ndata: c\n\n\r\n"
		"31\r\ndata: d\n\n: ping\n\nid: 1\nevent: x\ndata: e\n"
		"data: f\n\n\r\n"
		"24\r\n: p\n\ndata: g\n\ndata:h\n\ndata: [DONE]\n\n\r\n" X_END,
	  ONE_GENERATION, .events = 7, .body_bytes = 112, .status = 200 },
	{ "one event over several chunks", X_GEN "\r\n",
	  X_SSE "2\r\nda\r\n4\r\nta: \r\n1\r\na\r\n1\r\n\n\r\n1\r\n\n\r\n"
		"9\r\nevent: x\n\r\n9\r\ndata: b\n\n\r\n"
		"8\r\ndata: c\n\r\n9\r\ndata: d\n\n\r\n"
		"6\r\ndata: \r\n6\r\n[DONE]\r\n2\r\n\n\n\r\n" X_END,
	  ONE_GENERATION, .events = 3, .body_bytes = 58, .status = 200 },
	{ "a chunk that begins in the middle of an event, among even ones",
	  X_GEN "\r\n",
	  X_SSE
	  "9\r\ndata: a\n\n\r\n9\r\ndata: bcd\r\n9\r\nefghijk\n\n\r\n"
	  "9\r\ndata: lmn\r\n8\r\nata: b\n\n\r\n9\r\ndata: o\n\n\r\n" X_END,
	  ONE_GENERATION, .events = 4, .body_bytes = 53, .status = 200 },
	{ "lines that end with CR LF or CR, fields that count for nothing",
	  X_GEN "\r\n",
	  X_SSE "b\r\ndata: a\r\n\r\n\r\n"
		"1b\r\ndata: b\r\n\r\ndata:c\r\rdata:d\r\r\r\n"
		"10\r\nretry: 1\n\nid: 2\n\r\n" X_END,
	  ONE_GENERATION, .events = 4, .body_bytes = 54, .status = 200 },
	{ "an event stream until close",
	  "POST /v1/completions HTTP/1.0\r\n\r\n",
	  "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	  ": ping\n\ndata: a\n\ndata: b\n\nevent: c\ndata: c\n\ndata: "
	  "[DONE]\n\n",
	  ONE_GENERATION, .events = 3, .body_bytes = 58, .status = 200,
	  .closes = true },
	{ "chunk extensions and trailers, both ways",
	  X_GEN "Transfer-Encoding: chunked\r\n\r\n"
		"4;a=b\r\nabcd\r\n0A ; x=\"y\"\r\n0123456789\r\n"
		"0;last\r\nX-Sum: 1\r\nX: \r\n\r\n",
	  X_JSON "transfer-encoding: gzip, chunked\r\n\r\n"
		 "3;ext=1234567890123456789012345678901234567890\r\nabc\r\n"
		 "0\r\nX-Trailer: 0\r\n\r\n",
	  ONE_GENERATION, .events = 1, .body_bytes = 3, .status = 200 },
	{ "a body that looks like framing, by length",
	  X_GEN "Content-Length: " X_TRAP_BYTES "\r\n\r\n" X_TRAP,
	  X_JSON "Content-Length: " X_TRAP_BYTES "\r\n\r\n" X_TRAP,
	  ONE_GENERATION, .body_bytes = 45, .status = 200 },
	{ "a body that looks like framing, in chunks",
	  X_GEN "Transfer-Encoding: chunked\r\n\r\n2d\r\n" X_TRAP "\r\n" X_END,
	  X_JSON "Transfer-Encoding: chunked\r\n\r\n2d\r\n" X_TRAP "\r\n" X_END,
	  ONE_GENERATION, .events = 1, .body_bytes = 45, .status = 200 },
	{ "100-continue is not the response",
	  X_GEN "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n"
	  "Link: x\r\n\r\n" X_JSON "Content-Length: 1\r\n\r\n1",
	  ONE_GENERATION, .body_bytes = 1, .status = 200 },
	{ "HEAD has a length but no body",
	  "HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET /health "
	  "HTTP/1.1\r\n\r\n",
	  X_JSON "Content-Length: 1234\r\n\r\n" X_JSON
		 "Content-Length: 2\r\n\r\n{}",
	  .started[ENDPOINT_IGNORED] = 2, .completed = 2, .body_bytes = 2,
	  .status = 200 },
	{ "204 and 304 have no body",
	  "GET /health HTTP/1.1\r\n\r\nGET /ping HTTP/1.1\r\n\r\n",
	  "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"
	  "HTTP/1.1 204 No Content\r\n\r\n",
	  .started[ENDPOINT_IGNORED] = 2, .completed = 2, .status = 204 },
	{ "three requests in a pipeline",
	  X_GEN "Content-Length: 2\r\n\r\n{}" X_GEN
		"Content-Length: 2\r\n\r\n{}"
		"POST /v1/embeddings?x=/generate HTTP/1.1\r\n\r\n",
	  X_SSE "9\r\ndata: a\n\n\r\n" X_DONE X_END X_SSE X_DONE X_END X_JSON
		"Content-Length: 3\r\n\r\nabc",
	  .started[ENDPOINT_GENERATION] = 2, .started[ENDPOINT_POOLING] = 1,
	  .completed = 3, .events = 1, .body_bytes = 40, .status = 200 },
	{ "body until close", "GET /nowhere HTTP/1.0\r\n\r\n",
	  "HTTP/1.0 200 OK\r\n\r\nsome\r\n\r\nbytes", ONE_OTHER,
	  .body_bytes = 13, .status = 200, .closes = true },
	{ "a coding that is not chunked lasts until close", X_GEN "\r\n",
	  X_JSON "Content-Length: 3\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"
		 "abcdef",
	  ONE_GENERATION, .body_bytes = 6, .status = 200, .closes = true },
	{ "of two codings the last counts", X_GEN "\r\n",
	  X_JSON "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n"
		 "abcdef",
	  ONE_GENERATION, .body_bytes = 6, .status = 200, .closes = true },
	{ "an event stream makes any path a generation",
	  "POST /my/own/path HTTP/1.1\r\n\r\n",
	  X_SSE "9\r\ndata: a\n\n\r\n" X_END, ONE_GENERATION, .events = 1,
	  .body_bytes = 9, .status = 200 },
	{ "errors are completed and failed",
	  X_GEN "Content-Length: 2\r\n\r\n{}",
	  "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
	  ONE_GENERATION, .failed = 1, .status = 503 },
	{ "names in values and values in names",
	  X_GEN
	  "X-content-length: 7\r\nUser-Agent: transfer-encoding: chunked\r\n"
	  "Content-Lengthy: 9\r\nContent: 1\r\nCONTENT-LENGTH:\t 2 \r\n\r\n{}",
	  X_JSON "server: content-length: 9\r\nContent-length: 1\r\n\r\n.",
	  ONE_GENERATION, .body_bytes = 1, .status = 200 },
	{ "bare line feeds and empty lines between messages",
	  "\r\n\r\nPOST /generate HTTP/1.1\nContent-Length: 1\n\n.\r\n",
	  "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\n.\r\n0\n\n",
	  ONE_GENERATION, .events = 1, .body_bytes = 1, .status = 200 },
	{ "chunked and a length: chunked wins",
	  X_GEN
	  "Content-Length: 999\r\nTransfer-Encoding: chunked\r\n\r\n" X_END,
	  X_JSON
	  "Transfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n" X_END,
	  ONE_GENERATION, .status = 200 },
};

#define N_EXCHANGES (sizeof(exchanges) / sizeof(exchanges[0]))

#endif
