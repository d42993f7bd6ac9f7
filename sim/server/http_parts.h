/*
 * http_parts.h - what the files of the HTTP front share
 */
#ifndef MOETOP_SIM_SERVER_HTTP_PARTS_H
#define MOETOP_SIM_SERVER_HTTP_PARTS_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <pthread.h>
#include <stdatomic.h>

#include "sim/server/api.h"
#include "sim/server/http.h"

/* A generation request from when it has been read until both the engine and
 * HTTP are through with it. */
struct response {
	struct request request; /* the engine's part */
	struct http *http;
	struct api_request api;
	char id[32];
	uint64_t created;
	struct evhttp_request *peer; /* NULL: the connection is gone */
	struct bufferevent *bev;
	uint32_t sent;                 /* tokens that events have carried */
	uint32_t waiting_tokens;       /* made, not yet in an event */
	struct response *next, **link; /* all responses of the server */
	bool chunked;
	bool role_sent;
	bool body;     /* the first byte of the body was written */
	bool stops;    /* ends by itself before max_tokens */
	bool answered; /* the end was handed to evhttp */
};

struct http {
	struct http_options o;
	char model[256]; /* escaped for JSON */
	int listener;
	uint16_t port;
	struct event_base *base;
	struct evhttp *evhttp;
	struct event *outputs, *stop;
	int stop_fd;
	pthread_t thread;
	bool running;
	uint64_t next_id, in_flight, waiting;
	_Atomic uint64_t started, completed, aborted, events, failed;
	struct response *responses;
	char *scratch; /* for one event or whole body */
	size_t scratch_bytes;
};

/* http_stream.c: take a request that has been read. */
void http_generate(struct http *h, struct evhttp_request *peer,
		   enum api_kind kind);
/* Once nothing refers to them any more. */
void http_free_responses(struct http *h);
/* The engine has outputs. */
void http_outputs(evutil_socket_t fd, short what, void *arg);

/* http_info.c: everything that is not generation. */
void http_info(struct evhttp_request *peer, void *arg);
void http_send_text(struct evhttp_request *peer, int status, const char *reason,
		    const char *type, const char *text, size_t bytes);
void http_send_error(struct evhttp_request *peer, int status,
		     const char *reason, const char *message);

#endif
