/*
 * http.c - the scrape end
 *
 * libmicrohttpd in external mode: it watches its sockets with an epoll
 * descriptor of its own, which the caller polls, and does all work inside
 * http_run.  A page is rendered when it is published and never changes; a slow
 * client keeps the page that it was given alive by a reference.
 */
#include "exporter/exporter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 64u
#define CONNECTIONS_PER_ADDRESS_MAX 48u
#define CONNECTION_BYTES (16u << 10) /* request head and answer's head */
#define TIMEOUT_S 10u
#define BACKLOG 64
#define RUNS_MAX 32

/* One rendered format. */
struct page {
	unsigned references;
	const struct format *format;
	struct text text;
	double time; /* of the snapshot, Unix seconds */
};

enum { PAGE_METRICS, PAGE_JSON, PAGES };

struct http {
	struct MHD_Daemon *daemon;
	uint16_t port;
	struct page *pages[PAGES]; /* NULL until the first publish */
};

static const struct format *const formats[PAGES] = {
	[PAGE_METRICS] = &format_prometheus,
	[PAGE_JSON] = &format_json,
};

/* ---- pages -------------------------------------------------------------- */

static void page_release(struct page *p)
{
	if (!p || --p->references)
		return;
	text_free(&p->text);
	free(p);
}

static struct page *page_new(const struct format *f, const struct snapshot *s)
{
	struct page *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->references = 1;
	p->format = f;
	p->time = s->time;
	f->write(&p->text, s);
	if (p->text.error) {
		page_release(p);
		return NULL;
	}
	return p;
}

void http_publish(struct http *h, const struct snapshot *s)
{
	for (unsigned i = 0; i < PAGES; i++) {
		struct page *p = page_new(formats[i], s);

		/* without memory the old page stays, and its age grows */
		if (!p)
			continue;
		page_release(h->pages[i]);
		h->pages[i] = p;
	}
}

/* ---- answers ------------------------------------------------------------ */

/* What one answer holds on to. */
struct answer {
	struct page *page;
	char tail[256];
};

static void answer_free(void *cls)
{
	struct answer *a = cls;

	page_release(a->page);
	free(a);
}

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status,
			     const char *type, const char *allow,
			     struct MHD_Response *r)
{
	enum MHD_Result ok;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	if (allow)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow);
	ok = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return ok;
}

static enum MHD_Result reply_text(struct MHD_Connection *c, unsigned status,
				  const char *text)
{
	/* the texts are literals: libmicrohttpd takes void * but only reads */
	struct MHD_Response *r = MHD_create_response_from_buffer(
		strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);

	return reply(c, status, "text/plain; charset=utf-8",
		     status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL,
		     r);
}

/* The age is the one number that belongs to the scrape. */
static size_t age_text(char *out, size_t room, double time)
{
	struct timespec now;
	double age;
	int n;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - time;
	n = snprintf(out, room,
		     "# HELP moetop_snapshot_age_seconds Time since these "
		     "values were computed.\n"
		     "# TYPE moetop_snapshot_age_seconds gauge\n"
		     "moetop_snapshot_age_seconds %ld.%03d\n",
		     age > 0 ? (long)age : 0,
		     age > 0 ? (int)((age - (double)(long)age) * 1000) : 0);
	return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

static enum MHD_Result reply_page(struct MHD_Connection *c, struct page *p)
{
	struct MHD_IoVec parts[2];
	struct MHD_Response *r;
	struct answer *a;
	unsigned n = 1;

	if (!p)
		return reply_text(c, MHD_HTTP_SERVICE_UNAVAILABLE,
				  "no snapshot yet\n");
	a = calloc(1, sizeof(*a));
	if (!a)
		return MHD_NO;
	a->page = p;
	p->references++;
	parts[0] = (struct MHD_IoVec){ p->text.data, p->text.bytes };
	if (p->format == &format_prometheus) {
		parts[1].iov_base = a->tail;
		parts[1].iov_len = age_text(a->tail, sizeof(a->tail), p->time);
		n += parts[1].iov_len > 0;
	}
	r = MHD_create_response_from_iovec(parts, n, answer_free, a);
	if (!r)
		answer_free(a);
	return reply(c, MHD_HTTP_OK, p->format->content_type, NULL, r);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c,
				  const char *url, const char *method,
				  const char *version, const char *upload,
				  size_t *upload_bytes, void **request)
{
	const struct http *h = cls;

	(void)version;
	(void)upload;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		if (*upload_bytes) /* a body behind the answer: drop it */
			return MHD_NO;
		return reply_text(c, MHD_HTTP_METHOD_NOT_ALLOWED,
				  "only GET and HEAD\n");
	}
	if (!*request) { /* called again when the whole head is here */
		*request = c;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics") == 0)
		return reply_page(c, h->pages[PAGE_METRICS]);
	if (strcmp(url, "/snapshot.json") == 0)
		return reply_page(c, h->pages[PAGE_JSON]);
	if (strcmp(url, "/healthz") == 0)
		return reply_text(c, MHD_HTTP_OK, "ok\n");
	if (strcmp(url, "/") == 0)
		return reply_text(c, MHD_HTTP_OK,
				  "moetop\n/metrics\n/snapshot.json\n"
				  "/healthz\n");
	return reply_text(c, MHD_HTTP_NOT_FOUND,
			  "not found; try /metrics or /snapshot.json\n");
}

/* ---- address ------------------------------------------------------------ */

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

static bool parse_port(const char *s, uint16_t *port)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || v > 65535)
		return false;
	*port = htons((uint16_t)v);
	return true;
}

static bool parse_host(const char *host, uint16_t port, union address *a)
{
	memset(a, 0, sizeof(*a));
	if (strcmp(host, "localhost") == 0)
		host = "127.0.0.1";
	if (inet_pton(AF_INET, host, &a->four.sin_addr) == 1) {
		a->four.sin_family = AF_INET;
		a->four.sin_port = port;
		return true;
	}
	if (inet_pton(AF_INET6, host, &a->six.sin6_addr) != 1)
		return false;
	a->six.sin6_family = AF_INET6;
	a->six.sin6_port = port;
	return true;
}

/* "PORT", "ADDR:PORT", "[ADDR6]:PORT". */
static bool parse_listen(const char *text, union address *a)
{
	const char *colon = strrchr(text, ':');
	char host[64] = "127.0.0.1";
	uint16_t port;

	if (colon) {
		size_t n = (size_t)(colon - text);

		if (text[0] == '[' && n > 2 && text[n - 1] == ']') {
			text++;
			n -= 2;
		} else if (memchr(text, ':', n)) {
			/* a bare IPv6 address: which part is the port? */
			return false;
		}
		if (n == 0 || n >= sizeof(host))
			return false;
		memcpy(host, text, n);
		host[n] = '\0';
		text = colon + 1;
	}
	return parse_port(text, &port) && parse_host(host, port, a);
}

static int listen_socket(const union address *a)
{
	int one = 1, err;
	socklen_t n =
		a->any.sa_family == AF_INET ? sizeof(a->four) : sizeof(a->six);
	int fd = socket(a->any.sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (a->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, &a->any, n) || listen(fd, BACKLOG)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

static uint16_t bound_port(int fd)
{
	union address a;
	socklen_t n = sizeof(a);

	memset(&a, 0, sizeof(a));
	if (getsockname(fd, &a.any, &n))
		return 0;
	return ntohs(a.any.sa_family == AF_INET ? a.four.sin_port
						: a.six.sin6_port);
}

static void explain(const char *listen, int err, char *why, size_t why_bytes)
{
	switch (err) {
	case -EINVAL:
		snprintf(
			why, why_bytes,
			"--listen %s: not an address; write PORT, ADDR:PORT or "
			"[ADDR6]:PORT with a numeric address",
			listen);
		break;
	case -EADDRINUSE:
		snprintf(why, why_bytes,
			 "--listen %s: the port is in use by another program; "
			 "choose another port",
			 listen);
		break;
	case -EACCES:
		snprintf(why, why_bytes,
			 "--listen %s: not permitted; choose a port above 1023",
			 listen);
		break;
	case -EADDRNOTAVAIL:
		snprintf(
			why, why_bytes,
			"--listen %s: this machine does not have that address; "
			"choose one that it has",
			listen);
		break;
	default:
		snprintf(why, why_bytes,
			 "--listen %s: %s; choose another address or port",
			 listen, strerror(-err));
	}
}

/* ---- interface ---------------------------------------------------------- */

static int http_start(struct http *h, int fd)
{
	h->port = bound_port(fd);
	h->daemon = MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, on_request, h,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		CONNECTIONS_PER_ADDRESS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
		TIMEOUT_S, MHD_OPTION_END);
	return h->daemon ? 0 : -ENOMEM;
}

int http_open(struct http **out, const char *listen, char *why,
	      size_t why_bytes)
{
	struct http *h = NULL;
	union address a;
	int err = -EINVAL, fd = -1;

	if (parse_listen(listen, &a)) {
		fd = listen_socket(&a);
		err = fd < 0 ? fd : 0;
	}
	if (!err) {
		h = calloc(1, sizeof(*h));
		err = h ? http_start(h, fd) : -ENOMEM;
	}
	if (err) {
		explain(listen, err, why, why_bytes);
		if (fd >= 0)
			close(fd);
		free(h);
		return err;
	}
	*out = h;
	return 0;
}

int http_fd(const struct http *h)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	return info ? info->epoll_fd : -1;
}

int http_timeout_ms(const struct http *h)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(h->daemon, &ms) != MHD_YES)
		return -1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

void http_run(struct http *h)
{
	/* libmicrohttpd takes one step of each connection a run */
	for (int i = 0; i < RUNS_MAX; i++) {
		MHD_run(h->daemon);
		if (http_timeout_ms(h) != 0)
			break;
	}
}

uint16_t http_port(const struct http *h)
{
	return h->port;
}

void http_close(struct http *h)
{
	if (!h)
		return;
	MHD_stop_daemon(h->daemon);
	for (unsigned i = 0; i < PAGES; i++)
		page_release(h->pages[i]);
	free(h);
}
