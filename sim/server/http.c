#include "sim/server/http_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 4096
#define HEADERS_BYTES_MAX 65536
#define TIMEOUT_S (24 * 3600) /* a stream may take long; idle peers are few */

static int listen_on(const char *host, uint16_t port, uint16_t *got)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port) };
	socklen_t bytes = sizeof(a);
	const int on = 1;
	int err, fd;

	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		return -EINVAL;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	/* Accepted sockets inherit TCP_NODELAY. */
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&a, &bytes)) {
		err = -errno;
		close(fd);
		return err;
	}
	*got = ntohs(a.sin_port);
	return fd;
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;

	(void)fd;
	(void)what;
	event_base_loopbreak(h->base);
}

static void on_completion(struct evhttp_request *peer, void *arg)
{
	http_generate(arg, peer, API_COMPLETION);
}

static void on_chat(struct evhttp_request *peer, void *arg)
{
	http_generate(arg, peer, API_CHAT);
}

static void on_generate(struct evhttp_request *peer, void *arg)
{
	http_generate(arg, peer, API_GENERATE);
}

static int http_setup(struct http *h)
{
	h->base = event_base_new();
	h->evhttp = h->base ? evhttp_new(h->base) : NULL;
	h->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	h->scratch_bytes = (size_t)h->o.max_model_len * API_TEXT_BYTES +
			   API_EVENT_BYTES + sizeof(h->model);
	h->scratch = malloc(h->scratch_bytes);
	if (!h->evhttp || h->stop_fd < 0 || !h->scratch)
		return -ENOMEM;
	h->outputs = event_new(h->base, engine_fd(h->o.engine),
			       EV_READ | EV_PERSIST, http_outputs, h);
	h->stop = event_new(h->base, h->stop_fd, EV_READ, on_stop, h);
	if (!h->outputs || !h->stop || event_add(h->outputs, NULL) ||
	    event_add(h->stop, NULL))
		return -ENOMEM;
	evhttp_set_max_body_size(h->evhttp, HTTP_BODY_BYTES_MAX);
	evhttp_set_max_headers_size(h->evhttp, HEADERS_BYTES_MAX);
	evhttp_set_timeout(h->evhttp, TIMEOUT_S);
	evhttp_set_default_content_type(h->evhttp, NULL);
	evhttp_set_gencb(h->evhttp, http_info, h);
	evhttp_set_cb(h->evhttp, "/v1/completions", on_completion, h);
	evhttp_set_cb(h->evhttp, "/v1/chat/completions", on_chat, h);
	if (h->o.flavour == KERNELS_SGLANG)
		evhttp_set_cb(h->evhttp, "/generate", on_generate, h);
	return 0;
}

int http_open(struct http **out, const struct http_options *o, char *why,
	      size_t why_bytes)
{
	struct http *h = calloc(1, sizeof(*h));
	int err;

	if (!h) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	h->o = *o;
	h->stop_fd = -1;
	api_escape(o->model_name, h->model, sizeof(h->model));
	h->listener = listen_on(o->host, o->port, &h->port);
	err = h->listener < 0 ? h->listener : http_setup(h);
	if (!err) {
		/* From here on evhttp closes the listener. */
		if (evhttp_accept_socket(h->evhttp, h->listener))
			err = -ENOMEM;
		else
			h->listener = -1;
	}
	if (err) {
		snprintf(why, why_bytes, "%s:%u: %s", o->host, o->port,
			 strerror(-err));
		http_close(h);
		return err;
	}
	*out = h;
	return 0;
}

uint16_t http_port(const struct http *h)
{
	return h->port;
}

static void *http_run(void *arg)
{
	struct http *h = arg;

	pthread_setname_np(pthread_self(), "http");
	event_base_dispatch(h->base);
	return NULL;
}

int http_start(struct http *h)
{
	int err = pthread_create(&h->thread, NULL, http_run, h);

	h->running = !err;
	return -err;
}

void http_stop(struct http *h)
{
	const uint64_t one = 1;

	if (h->running && write(h->stop_fd, &one, sizeof(one)) > 0) {
		pthread_join(h->thread, NULL);
		h->running = false;
	}
	/* Each response that is cut off here is counted as aborted. */
	if (h->evhttp)
		evhttp_free(h->evhttp);
	if (h->listener >= 0)
		close(h->listener);
	h->evhttp = NULL;
	h->listener = -1;
}

void http_close(struct http *h)
{
	if (!h)
		return;
	http_stop(h);
	http_free_responses(h);
	if (h->outputs)
		event_free(h->outputs);
	if (h->stop)
		event_free(h->stop);
	if (h->base)
		event_base_free(h->base);
	if (h->stop_fd >= 0)
		close(h->stop_fd);
	free(h->scratch);
	free(h);
}

void http_totals(struct http *h, struct truth_totals *out)
{
	*out = (struct truth_totals){
		.started = atomic_load(&h->started),
		.completed = atomic_load(&h->completed),
		.aborted = atomic_load(&h->aborted),
		.events = atomic_load(&h->events),
		.failed = atomic_load(&h->failed),
	};
}
