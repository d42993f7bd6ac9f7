/*
 * frames_cases.h - exchanges over HTTP/2, and what must be counted of them
 */
#ifndef MOETOP_TESTS_UNIT_BPF_FRAMES_CASES_H
#define MOETOP_TESTS_UNIT_BPF_FRAMES_CASES_H

#include "tests/unit/bpf/frames_wire.h"

#include "wire/requests.h"

#define PATH_GEN "/v1/chat/completions"
#define SSE_TYPE "text/event-stream; charset=utf-8"
#define MESSAGE "\0\0\0\0\5hello"
#define MESSAGE_BYTES 10u

/* What client and server say, in this order. */
struct talk {
	struct wire ask, answer, ask_again, answer_again;
};

struct frames_case {
	const char *name;
	void (*write)(struct talk *t);
	unsigned started[ENDPOINTS];
	unsigned later; /* of those started, by ask_again */
	unsigned completed;
	unsigned client_aborted;
	unsigned server_aborted;
	unsigned failed;
	unsigned events;
	unsigned body_bytes; /* of all that are completed */
};

static inline void talk_begin(struct talk *t)
{
	memset(t, 0, sizeof(*t));
	wire_preface(&t->ask);
	wire_settings(&t->answer);
	wire_frame(&t->answer, FRAME_SETTINGS, FLAG_ACK, 0, "", 0);
}

static void case_json(struct talk *t)
{
	wire_request(&t->ask, 1, 0, PATH_GEN);
	wire_data(&t->ask, 1, FLAG_END_STREAM, "{}");
	wire_open(&t->answer, FRAME_HEADERS, FLAG_END_HEADERS, 1);
	wire_indexed(&t->answer, BY_STATUS);
	wire_field(&t->answer, true, BY_LENGTH, "", "5");
	wire_field(&t->answer, true, BY_TYPE, "", "application/json");
	wire_close(&t->answer);
	wire_data(&t->answer, 1, 0, "hel");
	wire_data(&t->answer, 1, FLAG_END_STREAM, "lo");
}

static void write_stream(struct talk *t, uint32_t id)
{
	wire_data(&t->answer, id, 0, ": ping\n\n");
	wire_data(&t->answer, id, 0, "data: a\n\n");
	wire_data(&t->answer, id, 0, "");
	wire_data(&t->answer, id, 0, "data: [\n\n");
	wire_data(&t->answer, id, 0, "data: [DONE]\n\n");
	wire_data(&t->answer, id, FLAG_END_STREAM, "");
}
#define STREAM_BODY 40u

static void case_stream(struct talk *t)
{
	wire_request(&t->ask, 1, FLAG_END_STREAM, PATH_GEN);
	wire_response(&t->answer, 1, 0, SSE_TYPE);
	write_stream(t, 1);
}

static void case_coded(struct talk *t)
{
	t->ask.coded = true;
	t->answer.coded = true;
	case_stream(t);
}

/* The second request and its answer are nothing but indices. */
static void case_table(struct talk *t)
{
	case_coded(t);
	for (uint32_t id = 3; id < 7; id += 2) {
		wire_open(&t->ask, FRAME_HEADERS,
			  FLAG_END_HEADERS | FLAG_END_STREAM, id);
		wire_indexed(&t->ask, 3);
		wire_indexed(&t->ask, WIRE_FIRST);
		wire_close(&t->ask);
		wire_open(&t->answer, FRAME_HEADERS, FLAG_END_HEADERS, id);
		wire_indexed(&t->answer, BY_STATUS);
		wire_indexed(&t->answer, WIRE_FIRST);
		wire_indexed(&t->answer, WIRE_FIRST + 1);
		wire_close(&t->answer);
		write_stream(t, id);
	}
}

/* Entries that push others out, a name by its index, sizes of the table. */
static void case_old_entries(struct talk *t)
{
	wire_request(&t->ask, 1, FLAG_END_STREAM, PATH_GEN);
	wire_open(&t->ask, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM,
		  3);
	wire_int(&t->ask, 0x20, 5, 4096);
	for (int i = 0; i < 127; i++)
		wire_field(&t->ask, true, BY_STATUS, "", "");
	wire_indexed(&t->ask, WIRE_FIRST + 127);
	wire_close(&t->ask);
	wire_open(&t->ask, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM,
		  5);
	wire_field(&t->ask, true, WIRE_FIRST + 127, "", "/health?x=1");
	wire_close(&t->ask);
	for (uint32_t id = 1; id < 7; id += 2)
		wire_response(&t->answer, id, FLAG_END_STREAM, "text/plain");
}

static void case_padding(struct talk *t)
{
	struct wire *w = &t->ask;

	wire_open(w, FRAME_HEADERS,
		  FLAG_END_HEADERS | FLAG_PADDED | FLAG_PRIORITY, 1);
	wire_bytes(w, "\4\0\0\0\0\x10", 6);
	wire_indexed(w, 3);
	wire_field(w, false, BY_PATH, "", PATH_GEN);
	wire_bytes(w, "\0\0\0\0", 4);
	wire_close(w);
	wire_frame(w, FRAME_DATA, FLAG_PADDED | FLAG_END_STREAM, 1, "\0{}", 3);
	w = &t->answer;
	wire_open(w, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_PADDED, 1);
	wire_byte(w, 3);
	wire_indexed(w, BY_STATUS);
	wire_field(w, false, BY_TYPE, "", "text/event-stream");
	wire_bytes(w, "\0\0\0", 3);
	wire_close(w);
	wire_frame(w, FRAME_DATA, FLAG_PADDED, 1, "\2data: a\n\n\0\0", 12);
	wire_frame(w, FRAME_DATA, FLAG_PADDED, 1, "\3:\0\0\0", 5);
	wire_frame(w, FRAME_DATA, FLAG_PADDED, 1, "\2\0\0", 3);
	wire_frame(w, FRAME_DATA, FLAG_PADDED | FLAG_END_STREAM, 1, "\0", 1);
}

/* A header block over three frames, cut in a string and before a length. */
static void case_continuation(struct talk *t)
{
	struct wire block = { .coded = true };
	struct wire *w = &t->ask;

	wire_indexed(&block, 3);
	wire_field(&block, true, 0, ":path", PATH_GEN);
	wire_frame(w, FRAME_HEADERS, FLAG_END_STREAM, 1, block.b, 4);
	wire_frame(w, FRAME_CONTINUATION, 0, 1, block.b + 4, 1);
	wire_frame(w, FRAME_CONTINUATION, 0, 1, "", 0);
	wire_frame(w, FRAME_CONTINUATION, FLAG_END_HEADERS, 1, block.b + 5,
		   block.n - 5);
	w = &t->answer;
	block.n = 0;
	wire_field(&block, false, 0, ":status", "200");
	wire_field(&block, false, 0, "content-type", "text/plain");
	wire_frame(w, FRAME_HEADERS, FLAG_END_STREAM, 1, block.b, 1);
	wire_frame(w, FRAME_CONTINUATION, FLAG_END_HEADERS, 1, block.b + 1,
		   block.n - 1);
}

static void case_other_frames(struct talk *t)
{
	struct wire *w = &t->ask;

	wire_frame(w, FRAME_WINDOW, 0, 0, "\0\1\0\0", 4);
	wire_frame(w, FRAME_PRIORITY, 0, 3, "\0\0\0\0\x10", 5);
	wire_request(w, 1, 0, PATH_GEN);
	wire_frame(w, FRAME_PING, 0, 0, "12345678", 8);
	wire_frame(w, 0x10, 0xff, 0, "u=1, i, and more", 16);
	wire_frame(w, FRAME_WINDOW, 0, 1, "\0\1\0\0", 4);
	wire_frame(w, FRAME_SETTINGS, FLAG_ACK, 0, "", 0);
	wire_data(w, 1, FLAG_END_STREAM, "{}");
	w = &t->answer;
	wire_frame(w, FRAME_PING, FLAG_ACK, 0, "12345678", 8);
	wire_frame(w, FRAME_WINDOW, 0, 1, "\0\1\0\0", 4);
	wire_response(w, 1, 0, SSE_TYPE);
	wire_frame(w, 0xff, FLAG_PADDED | FLAG_END_STREAM, 1, "abc", 3);
	wire_frame(w, FRAME_PING, 0, 0, "12345678", 8);
	write_stream(t, 1);
}

static void case_interleaved(struct talk *t)
{
	struct wire *w = &t->answer;

	wire_request(&t->ask, 1, 0, PATH_GEN);
	wire_request(&t->ask, 3, FLAG_END_STREAM, "/v1/embeddings");
	wire_request(&t->ask, 5, FLAG_END_STREAM, "/nowhere");
	wire_data(&t->ask, 1, FLAG_END_STREAM, "{}");
	wire_response(w, 5, 0, SSE_TYPE);
	wire_response(w, 1, 0, SSE_TYPE);
	wire_data(w, 5, 0, "data: 5\n\n");
	wire_data(w, 1, 0, "data: 1\ndata");
	wire_response(w, 3, FLAG_END_STREAM, "application/json");
	wire_data(w, 1, FLAG_END_STREAM, ": 1\n\ndata: 2\n\n");
	wire_data(w, 5, FLAG_END_STREAM, "event: 5\n\n");
}

static void case_large(struct talk *t)
{
	static char big[16384];

	memset(big, 'x', sizeof(big));
	wire_request(&t->ask, 1, 0, PATH_GEN);
	wire_frame(&t->ask, FRAME_DATA, 0, 1, big, sizeof(big));
	wire_frame(&t->ask, FRAME_DATA, FLAG_END_STREAM, 1, big, 3);
	wire_response(&t->answer, 1, 0, "application/json");
	wire_frame(&t->answer, FRAME_DATA, 0, 1, big, sizeof(big));
	wire_frame(&t->answer, FRAME_DATA, FLAG_END_STREAM, 1, big, 3);
}

/* Hints before the response, fields after it, and a promise in between. */
static void case_extras(struct talk *t)
{
	struct wire *w = &t->answer;

	wire_request(&t->ask, 1, 0, PATH_GEN);
	wire_open(&t->ask, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS,
		  1);
	wire_field(&t->ask, true, 0, "x-sum", "1");
	wire_close(&t->ask);
	wire_open(w, FRAME_HEADERS, FLAG_END_HEADERS, 1);
	wire_field(w, true, BY_STATUS, "", "103");
	wire_close(w);
	wire_open(w, FRAME_PUSH, FLAG_END_HEADERS, 1);
	wire_number(w, 2);
	wire_field(w, true, BY_TYPE, "", "text/event-stream");
	wire_close(w);
	wire_open(w, FRAME_HEADERS, FLAG_END_HEADERS, 1);
	wire_indexed(w, BY_STATUS);
	wire_indexed(w, WIRE_FIRST);
	wire_close(w);
	wire_data(w, 2, FLAG_END_STREAM, "pushed");
	wire_data(w, 1, 0, "data: a\n\n");
	wire_open(w, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, 1);
	wire_field(w, true, 0, "x-sum", "1");
	wire_close(w);
}

static void case_failures(struct talk *t)
{
	const char *const statuses[] = { "404", "503", "429" };
	struct wire *w = &t->answer;

	for (uint32_t i = 0; i < 3; i++) {
		wire_request(&t->ask, 1 + 2 * i, FLAG_END_STREAM, PATH_GEN);
		w->coded = i == 2;
		wire_open(w, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM,
			  1 + 2 * i);
		if (i)
			wire_field(w, false, BY_STATUS, "", statuses[i]);
		else
			wire_indexed(w, 13);
		wire_close(w);
	}
}

#define RPC "/vllm.grpc.engine.VllmEngine/"

static void write_status(struct wire *w, uint32_t stream, const char *status)
{
	wire_open(w, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, stream);
	wire_field(w, true, 0, "grpc-status", status);
	wire_close(w);
}

/* Two messages in a frame, one over three, an empty one. */
static void case_calls(struct talk *t)
{
	struct wire *w = &t->answer;

	t->ask.coded = true;
	w->coded = true;
	wire_request(&t->ask, 1, 0, RPC "Generate");
	wire_frame(&t->ask, FRAME_DATA, FLAG_END_STREAM, 1, MESSAGE,
		   MESSAGE_BYTES);
	wire_request(&t->ask, 3, FLAG_END_STREAM, RPC "HealthCheck");
	wire_response(w, 1, 0, "application/grpc+proto");
	wire_frame(w, FRAME_DATA, 0, 1, MESSAGE MESSAGE, 2 * MESSAGE_BYTES);
	wire_response(w, 3, 0, "application/grpc");
	wire_frame(w, FRAME_DATA, 0, 1, MESSAGE, 3);
	wire_frame(w, FRAME_DATA, 0, 3, MESSAGE, MESSAGE_BYTES);
	wire_frame(w, FRAME_DATA, 0, 1, &MESSAGE[3], 4);
	wire_frame(w, FRAME_DATA, 0, 1, &MESSAGE[7], 3);
	wire_frame(w, FRAME_DATA, 0, 1, "\0\0\0\0\0", 5);
	write_status(w, 3, "0");
	write_status(w, 1, "0");
}

static void case_failed_calls(struct talk *t)
{
	struct wire *w = &t->answer;

	wire_request(&t->ask, 1, FLAG_END_STREAM, RPC "Generate");
	wire_request(&t->ask, 3, FLAG_END_STREAM, RPC "Generate");
	wire_open(w, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, 3);
	wire_indexed(w, BY_STATUS);
	wire_field(w, true, BY_TYPE, "", "application/grpc");
	wire_field(w, true, 0, "grpc-status", "14");
	wire_close(w);
	wire_response(w, 1, 0, "application/grpc");
	wire_frame(w, FRAME_DATA, 0, 1, MESSAGE, MESSAGE_BYTES);
	w->coded = true;
	write_status(w, 1, "13");
}

/* The client resets a stream; what the server still sends counts nothing. */
static void case_client_reset(struct talk *t)
{
	wire_request(&t->ask, 1, FLAG_END_STREAM, PATH_GEN);
	wire_request(&t->ask, 3, FLAG_END_STREAM, PATH_GEN);
	wire_response(&t->answer, 1, 0, SSE_TYPE);
	wire_data(&t->answer, 1, 0, "data: a\n\n");
	wire_reset(&t->ask_again, 1);
	wire_reset(&t->ask_again, 1);
	wire_data(&t->answer_again, 1, FLAG_END_STREAM, "data: b\n\n");
	wire_response(&t->answer_again, 3, FLAG_END_STREAM, "text/plain");
	wire_reset(&t->answer_again, 1);
}

/* A reset by the server is an abort, but not after the end. */
static void case_server_reset(struct talk *t)
{
	wire_request(&t->ask, 1, FLAG_END_STREAM, PATH_GEN);
	wire_request(&t->ask, 3, 0, PATH_GEN);
	wire_response(&t->answer, 1, 0, SSE_TYPE);
	wire_data(&t->answer, 1, 0, "data: a\n\n");
	wire_reset(&t->answer, 1);
	wire_response(&t->answer, 3, FLAG_END_STREAM, "text/plain");
	wire_frame(&t->answer, FRAME_RESET, 0, 3, "\0\0\0\0", 4);
	wire_data(&t->ask_again, 3, FLAG_END_STREAM, "{}");
	wire_reset(&t->ask_again, 3);
}

/* Streams above the last one that the server has taken are over. */
static void case_goaway(struct talk *t)
{
	struct wire *w = &t->answer;

	wire_request(&t->ask, 1, FLAG_END_STREAM, PATH_GEN);
	wire_request(&t->ask, 3, FLAG_END_STREAM, PATH_GEN);
	wire_frame(w, FRAME_GOAWAY, 0, 0, "\x7f\xff\xff\xff\0\0\0\0", 8);
	wire_frame(w, FRAME_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0bye", 11);
	wire_response(w, 1, FLAG_END_STREAM, "text/plain");
}

#define UPGRADE                                                   \
	"POST " PATH_GEN " HTTP/1.1\r\nHost: x\r\n"               \
	"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" \
	"HTTP2-Settings: AAMAAABk\r\nContent-Length: 2\r\n\r\n{}"

/* The answer to a request that asks for HTTP/2 is that of the first stream. */
static void upgrade_begin(struct talk *t)
{
	memset(t, 0, sizeof(*t));
	wire_text(&t->ask, UPGRADE);
	wire_text(&t->answer, "HTTP/1.1 101 Switching Protocols\r\n"
			      "Connection: Upgrade\r\nUpgrade: H2C\r\n\r\n");
	wire_settings(&t->answer);
	wire_preface(&t->ask_again);
}

static void case_upgrade(struct talk *t)
{
	upgrade_begin(t);
	wire_request(&t->ask_again, 3, FLAG_END_STREAM, PATH_GEN);
	wire_response(&t->answer, 1, 0, SSE_TYPE);
	wire_data(&t->answer, 1, 0, "data: a\n\n");
	wire_data(&t->answer_again, 1, FLAG_END_STREAM, "data: b\n\n");
	wire_response(&t->answer_again, 3, FLAG_END_STREAM, "text/plain");
}

static void case_upgrade_reset(struct talk *t)
{
	upgrade_begin(t);
	wire_reset(&t->ask_again, 1);
	wire_request(&t->ask_again, 3, FLAG_END_STREAM, "/health");
	wire_response(&t->answer_again, 3, FLAG_END_STREAM, "text/plain");
}

/* A server that knows no HTTP/2 answers as ever. */
static void case_no_upgrade(struct talk *t)
{
	memset(t, 0, sizeof(*t));
	wire_text(&t->ask, UPGRADE);
	wire_text(&t->answer, "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\n"
			      "Content-Length: 2\r\n\r\n{}");
	wire_text(&t->ask_again, "GET /health HTTP/1.1\r\n\r\n");
	wire_text(&t->answer_again,
		  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

#define CASE_GEN .started[ENDPOINT_GENERATION]
#define CASE_IGNORED .started[ENDPOINT_IGNORED]

static const struct frames_case frames_cases[] = {
	{ "json of a known length", case_json, CASE_GEN = 1, .completed = 1,
	  .body_bytes = 5 },
	{ "event stream with a comment and an end marker", case_stream,
	  CASE_GEN = 1, .completed = 1, .events = 2,
	  .body_bytes = STREAM_BODY },
	{ "all strings in Huffman's code", case_coded, CASE_GEN = 1,
	  .completed = 1, .events = 2, .body_bytes = STREAM_BODY },
	{ "requests by the dynamic table", case_table, CASE_GEN = 3,
	  .completed = 3, .events = 6, .body_bytes = 3 * STREAM_BODY },
	{ "128 entries back, and a name of the dynamic table", case_old_entries,
	  CASE_GEN = 2, CASE_IGNORED = 1, .completed = 3 },
	{ "padding and priorities", case_padding, CASE_GEN = 1, .completed = 1,
	  .events = 1, .body_bytes = 10 },
	{ "header blocks over several frames", case_continuation, CASE_GEN = 1,
	  .completed = 1 },
	{ "frames that say nothing of requests", case_other_frames,
	  CASE_GEN = 1, .completed = 1, .events = 2,
	  .body_bytes = STREAM_BODY },
	{ "interleaved streams", case_interleaved, CASE_GEN = 2,
	  .started[ENDPOINT_POOLING] = 1, .completed = 3, .events = 4,
	  .body_bytes = 45 },
	{ "large bodies", case_large, CASE_GEN = 1, .completed = 1, .events = 2,
	  .body_bytes = 16387 },
	{ "hints, promises and trailers", case_extras, CASE_GEN = 1,
	  .completed = 1, .events = 1, .body_bytes = 9 },
	{ "failures in every spelling", case_failures, CASE_GEN = 3,
	  .completed = 3, .failed = 3 },
	{ "remote calls count messages", case_calls, CASE_GEN = 1,
	  CASE_IGNORED = 1, .completed = 2, .events = 5, .body_bytes = 45 },
	{ "remote calls that fail", case_failed_calls, CASE_GEN = 2,
	  .completed = 2, .failed = 2, .events = 1, .body_bytes = 10 },
	{ "reset by the client", case_client_reset, CASE_GEN = 2,
	  .completed = 1, .client_aborted = 1, .events = 1 },
	{ "reset by the server", case_server_reset, CASE_GEN = 2,
	  .completed = 1, .server_aborted = 1, .events = 1 },
	{ "upgrade of HTTP/1.1, then a second stream", case_upgrade,
	  CASE_GEN = 2, .later = 1, .completed = 2, .events = 2,
	  .body_bytes = 18 },
	{ "an upgraded request is reset by the client", case_upgrade_reset,
	  CASE_GEN = 1, CASE_IGNORED = 1, .later = 1, .completed = 1,
	  .client_aborted = 1 },
	{ "an upgrade that the server does not want", case_no_upgrade,
	  CASE_GEN = 1, CASE_IGNORED = 1, .later = 1, .completed = 2,
	  .body_bytes = 2 },
	{ "the server goes away", case_goaway, CASE_GEN = 2, .completed = 1,
	  .server_aborted = 1 },
};

#define N_FRAMES_CASES (sizeof(frames_cases) / sizeof(frames_cases[0]))

#endif
