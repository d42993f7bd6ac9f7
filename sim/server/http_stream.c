#include "sim/server/http_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/server/clock.h"
#include "sim/server/rng.h"

/* A peer that reads slowly gets several tokens an event rather than a queue. */
#define QUEUED_BYTES_MAX 262144u
/* What a peer may send ahead of its turn. */
#define READ_AHEAD_BYTES (HTTP_BODY_BYTES_MAX + 65536u)
#define FRAMING_BYTES 32u /* of a chunk, at either end */

static void count(_Atomic uint64_t *n)
{
	atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* ---- the server's own count ---------------------------------------------- */

static void log_in_flight(const struct http *h)
{
	truth_in_flight(h->o.truth, clock_ns(), h->in_flight, h->waiting);
}

static void body_starts(struct response *r)
{
	if (r->body)
		return;
	r->body = true;
	r->http->waiting--;
	log_in_flight(r->http);
}

static void leave(struct response *r, _Atomic uint64_t *how)
{
	struct http *h = r->http;

	count(how);
	h->in_flight--;
	if (!r->body)
		h->waiting--;
	log_in_flight(h);
	r->peer = NULL;
}

/* The request is the response's first member. */
static struct response *response_of(struct request *q)
{
	return (struct response *)(void *)q;
}

static void unlink_response(struct response *r)
{
	if (r->next)
		r->next->link = r->link;
	*r->link = r->next;
}

static void link_response(struct http *h, struct response *r)
{
	r->next = h->responses;
	r->link = &h->responses;
	if (r->next)
		r->next->link = &r->next;
	h->responses = r;
}

static void release(struct response *r)
{
	if (r->peer || !r->request.ended)
		return;
	unlink_response(r);
	free(r);
}

void http_free_responses(struct http *h)
{
	struct response *next;

	for (struct response *r = h->responses; r; r = next) {
		next = r->next;
		free(r);
	}
	h->responses = NULL;
}

/* ---- writing ------------------------------------------------------------- */

/* An event that is built at this place has room for its framing before it. */
static char *event_at(const struct http *h)
{
	return h->scratch + FRAMING_BYTES;
}

static size_t event_room(const struct http *h)
{
	return h->scratch_bytes - 2 * FRAMING_BYTES;
}

/* Send the event at event_at(): one chunk, one write(2); what the socket does
 * not take is queued. */
static void send_chunk(struct response *r, size_t bytes)
{
	struct evbuffer *queue = bufferevent_get_output(r->bev);
	char head[FRAMING_BYTES], *chunk = event_at(r->http);
	size_t total = bytes, done = 0;

	if (r->chunked) {
		int n = snprintf(head, sizeof(head), "%zx\r\n", bytes);

		memcpy(chunk + bytes, "\r\n", 2);
		chunk -= n;
		memcpy(chunk, head, (size_t)n);
		total += (size_t)n + 2;
	}
	if (!evbuffer_get_length(queue)) {
		ssize_t n = write(bufferevent_getfd(r->bev), chunk, total);

		/* Any error but a full socket shows on the reading side. */
		done = n > 0 ? (size_t)n : 0;
	}
	if (done < total)
		evbuffer_add(queue, chunk + done, total - done);
	body_starts(r);
	count(&r->http->events);
}

static struct api_response describe(const struct response *r)
{
	return (struct api_response){
		.request = &r->api,
		.id = r->id,
		.model = r->http->model,
		.created = r->created,
	};
}

static void send_event(struct response *r, const char *finish)
{
	struct http *h = r->http;
	struct api_response d = describe(r);

	if (r->api.kind == API_CHAT && !r->role_sent) {
		send_chunk(r, api_role_event(&d, event_at(h), event_room(h)));
		r->role_sent = true;
	}
	send_chunk(r, api_event(&d, r->sent, r->waiting_tokens, finish,
				event_at(h), event_room(h)));
	r->sent += r->waiting_tokens;
	r->waiting_tokens = 0;
}

static const char *finish_reason(const struct response *r)
{
	return r->stops ? "stop" : "length";
}

static void end_stream(struct response *r)
{
	static const char done[] = "data: [DONE]\n\n";
	struct http *h = r->http;
	struct api_response d = describe(r);

	send_event(r, finish_reason(r));
	if (r->api.include_usage)
		send_chunk(r, api_usage_event(&d, r->sent, event_at(h),
					      event_room(h)));
	memcpy(event_at(h), done, sizeof(done) - 1);
	send_chunk(r, sizeof(done) - 1);
	r->answered = true;
	evhttp_send_reply_end(r->peer);
}

static void send_whole(struct response *r)
{
	struct http *h = r->http;
	struct api_response d = describe(r);
	size_t n = api_whole(&d, r->waiting_tokens, finish_reason(r),
			     event_at(h), event_room(h));

	body_starts(r);
	r->answered = true;
	http_send_text(r->peer, 200, "OK", "application/json", event_at(h), n);
}

static void stream_tokens(struct response *r)
{
	uint32_t interval = r->http->o.stream_interval;
	size_t queued = evbuffer_get_length(bufferevent_get_output(r->bev));

	if (r->api.stream_interval > interval)
		interval = r->api.stream_interval;
	/* The first token goes out at once. */
	if (!r->waiting_tokens || queued > QUEUED_BYTES_MAX ||
	    (r->sent && r->waiting_tokens < interval))
		return;
	send_event(r, NULL);
}

void http_outputs(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	struct response *r;
	struct request *q, *next;
	uint64_t n;

	(void)what;
	if (read(fd, &n, sizeof(n)) < 0)
		return;
	for (q = engine_take(h->o.engine); q; q = next) {
		next = q->taken;
		r = response_of(q);
		r->waiting_tokens += q->tokens;
		if (!r->peer)
			release(r);
		else if (!r->api.stream && q->ended)
			send_whole(r);
		else if (r->api.stream && q->ended)
			end_stream(r);
		else if (r->api.stream)
			stream_tokens(r);
	}
}

/* ---- reading ------------------------------------------------------------- */

/* evhttp has handed the whole response to the kernel. */
static void on_complete(struct evhttp_request *peer, void *arg)
{
	struct response *r = arg;

	evhttp_connection_set_closecb(evhttp_request_get_connection(peer), NULL,
				      NULL);
	leave(r, &r->http->completed);
	release(r);
}

/* The connection ended with the request open. */
static void on_close(struct evhttp_connection *c, void *arg)
{
	struct response *r = arg;
	struct evhttp_request *peer = r->peer;

	(void)c;
	/* evhttp lets go of a request that has no end yet: it is ours. */
	if (!r->answered && !evhttp_request_get_connection(peer))
		evhttp_request_free(peer);
	leave(r, &r->http->aborted);
	if (!r->request.ended)
		engine_abort(r->http->o.engine, &r->request);
	release(r);
}

/* How long the answer would be if nobody asked for an exact length. */
static void choose_length(struct response *r)
{
	struct rng rng = { mix64(r->http->o.seed) ^ r->request.seq.id };
	double own = 1 + rng_exponential(&rng, r->http->o.mean_tokens);

	r->request.seq.prompt_tokens = r->api.prompt_tokens;
	r->request.seq.max_tokens = r->api.max_tokens;
	if (!r->api.ignore_eos && own < r->api.max_tokens) {
		r->request.seq.max_tokens = (uint32_t)own;
		r->stops = true;
	}
}

static void start_stream(struct response *r)
{
	struct evkeyvalq *head = evhttp_request_get_output_headers(r->peer);

	evhttp_add_header(head, "Content-Type",
			  "text/event-stream; charset=utf-8");
	evhttp_add_header(head, "Cache-Control", "no-cache");
	evhttp_send_reply_start(r->peer, 200, "OK");
	/* Not for HTTP/1.0. */
	r->chunked = evhttp_find_header(head, "Transfer-Encoding");
}

/* Have evhttp notice a peer that goes away before there is an answer: it does
 * not read while a request waits. */
static void watch_peer(struct response *r)
{
	bufferevent_data_cb on_write;
	bufferevent_event_cb on_event;
	void *arg;

	bufferevent_getcb(r->bev, NULL, &on_write, &on_event, &arg);
	bufferevent_setcb(r->bev, NULL, on_write, on_event, arg);
	bufferevent_enable(r->bev, EV_READ);
}

static void accept_request(struct http *h, struct response *r)
{
	struct evhttp_connection *c = evhttp_request_get_connection(r->peer);

	r->http = h;
	r->created = (uint64_t)time(NULL);
	r->bev = evhttp_connection_get_bufferevent(c);
	r->request.seq.id = ++h->next_id;
	snprintf(r->id, sizeof(r->id), "%s-%016llx",
		 r->api.kind == API_CHAT ? "chatcmpl" : "cmpl",
		 (unsigned long long)mix64(h->o.seed + h->next_id));
	choose_length(r);
	link_response(h, r);
	bufferevent_setwatermark(r->bev, EV_READ, 0, READ_AHEAD_BYTES);
	count(&h->started);
	h->in_flight++;
	h->waiting++;
	log_in_flight(h);
	evhttp_connection_set_closecb(c, on_close, r);
	evhttp_request_set_on_complete_cb(r->peer, on_complete, r);
	if (r->api.stream)
		start_stream(r);
	else
		watch_peer(r);
	engine_submit(h->o.engine, &r->request);
}

static void refuse(struct http *h, struct evhttp_request *peer, int status,
		   const char *reason, const char *why)
{
	count(&h->started);
	count(&h->completed);
	count(&h->failed);
	http_send_error(peer, status, reason, why);
}

void http_generate(struct http *h, struct evhttp_request *peer,
		   enum api_kind kind)
{
	struct evbuffer *body = evhttp_request_get_input_buffer(peer);
	size_t bytes = evbuffer_get_length(body);
	struct response *r;
	char why[256];

	if (evhttp_request_get_command(peer) != EVHTTP_REQ_POST) {
		http_send_error(peer, 405, "Method Not Allowed", "use POST");
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r || (bytes && !evbuffer_pullup(body, -1))) {
		free(r);
		refuse(h, peer, 503, "Service Unavailable", "out of memory");
		return;
	}
	if (api_parse(kind, (const char *)evbuffer_pullup(body, -1), bytes,
		      h->o.max_model_len, &r->api, why, sizeof(why))) {
		free(r);
		refuse(h, peer, 400, "Bad Request", why);
		return;
	}
	r->peer = peer;
	accept_request(h, r);
}
