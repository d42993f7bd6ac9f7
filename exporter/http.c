/*
 * http.c - the scrape end
 *
 * libmicrohttpd on one thread of its own.  A page never changes once it is
 * made; a slow client keeps the one that it was given alive by a reference.
 * Nothing is said before the web configuration allows it.
 */
#include "exporter/http_parts.h"
#include "wire/clock.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CONNECTIONS_MAX 2048u
#define CONNECTIONS_PER_ADDRESS_MAX 1280u
#define CONNECTION_BYTES (16u << 10) /* request head and answer's head */
#define BODY_BYTES_MAX (16u << 10)   /* of a request; read and dropped */
#define ANSWERS_MAX 256u             /* at a time */
#define SILENCE_S 60.0
#define DESCRIPTORS (CONNECTIONS_MAX + 1024u)

struct http {
	struct MHD_Daemon *daemon;
	int fd; /* before libmicrohttpd has it */
	uint16_t port;
	bool tls;
	struct pages *pages;
	struct guard guard;
	struct access *access;
	struct auth *auth;
	unsigned answers; /* being sent */
	unsigned long requests, unauthorized, refused;
	_Atomic uint64_t turned_ns; /* when http_turned was called last */
	double silence_s;
};

/* One request. */
struct request {
	struct http *http;
	struct MHD_Connection *mhd;
	struct connection *connection;
	size_t body_bytes;
	bool asked; /* the other thread was */
	enum verdict verdict;
	bool counted; /* in http.answers */
};

/* ---- answers ------------------------------------------------------------ */

static void free_page(void *cls)
{
	page_release(cls);
}

static void add_headers(struct MHD_Response *r, const struct web_config *c)
{
	MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	for (unsigned i = 0; c && i < c->n_headers; i++)
		MHD_add_response_header(r, c->headers[i].name,
					c->headers[i].value);
}

static enum MHD_Result reply(struct request *q, unsigned status,
			     const char *type, struct MHD_Response *r)
{
	enum MHD_Result ok;

	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	ok = MHD_queue_response(q->mhd, status, r);
	MHD_destroy_response(r);
	return ok;
}

static enum MHD_Result reply_text(struct request *q, const struct web_config *c,
				  unsigned status, const char *header,
				  const char *value, const char *text)
{
	/* the texts are literals: libmicrohttpd takes void * but only reads */
	struct MHD_Response *r = MHD_create_response_from_buffer(
		strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);

	if (!r)
		return MHD_NO;
	add_headers(r, c);
	if (header)
		MHD_add_response_header(r, header, value);
	return reply(q, status, "text/plain; charset=utf-8", r);
}

static enum MHD_Result reply_page(struct request *q, const struct web_config *c,
				  struct page *p, bool gzip, const char *type)
{
	struct MHD_IoVec part;
	struct MHD_Response *r;

	if (!p)
		return reply_text(q, c, MHD_HTTP_SERVICE_UNAVAILABLE,
				  MHD_HTTP_HEADER_RETRY_AFTER, "1",
				  "no snapshot yet\n");
	part = (struct MHD_IoVec){ p->text.data, p->text.bytes };
	r = MHD_create_response_from_iovec(&part, 1, free_page, p);
	if (!r) {
		page_release(p);
		return MHD_NO;
	}
	add_headers(r, c);
	MHD_add_response_header(r, MHD_HTTP_HEADER_VARY,
				"Accept, Accept-Encoding");
	if (gzip)
		MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING,
					"gzip");
	return reply(q, MHD_HTTP_OK, type, r);
}

/* ---- pages -------------------------------------------------------------- */

static double resident_bytes(void)
{
	unsigned long size, resident;
	FILE *f = fopen("/proc/self/statm", "re");
	int n = f ? fscanf(f, "%lu %lu", &size, &resident) : 0;

	if (f)
		fclose(f);
	return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static void fill_stats(struct http *h, struct exporter_stats *st)
{
	struct rusage u;

	*st = (struct exporter_stats){ .cpu_seconds = NAN,
				       .resident_bytes = resident_bytes(),
				       .requests = h->requests,
				       .unauthorized = h->unauthorized,
				       .refused = h->refused };
	pthread_mutex_lock(&h->guard.lock);
	st->connections = h->guard.n;
	st->slow = h->guard.slow;
	pthread_mutex_unlock(&h->guard.lock);
	if (!getrusage(RUSAGE_SELF, &u))
		st->cpu_seconds =
			(double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
			(double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static const char *header(const struct request *q, const char *name)
{
	return MHD_lookup_connection_value(q->mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result reply_metrics(struct request *q,
				     const struct web_config *c)
{
	static const struct format *const formats[WIRE_FORMATS] = {
		[WIRE_PROMETHEUS] = &format_prometheus,
		[WIRE_OPENMETRICS] = &format_openmetrics,
		[WIRE_PROTOBUF] = &format_protobuf,
	};
	bool gzip = negotiate_gzip(header(q, MHD_HTTP_HEADER_ACCEPT_ENCODING));
	struct exporter_stats stats;
	struct wanted wanted;
	char type[192];

	negotiate_format(header(q, MHD_HTTP_HEADER_ACCEPT), &wanted);
	snprintf(type, sizeof(type), "%s%s%s",
		 formats[wanted.format]->content_type,
		 wanted.escaping ? "; escaping=" : "",
		 wanted.escaping ? wanted.escaping : "");
	fill_stats(q->http, &stats);
	return reply_page(q, c,
			  pages_get(q->http->pages,
				    PAGE_METRICS + (unsigned)wanted.format,
				    gzip, &stats),
			  gzip, type);
}

static enum MHD_Result reply_json(struct request *q, const struct web_config *c)
{
	bool gzip = negotiate_gzip(header(q, MHD_HTTP_HEADER_ACCEPT_ENCODING));
	struct exporter_stats stats = { 0 };

	return reply_page(q, c,
			  pages_get(q->http->pages, PAGE_JSON, gzip, &stats),
			  gzip, format_json.content_type);
}

static enum MHD_Result reply_ready(struct request *q,
				   const struct web_config *c)
{
	bool ready = pages_ready(q->http->pages);

	return reply_text(q, c,
			  ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
			  NULL, NULL,
			  ready ? "ready\n"
				: "no snapshot, or none for three intervals\n");
}

static enum MHD_Result reply_alive(struct request *q,
				   const struct web_config *c)
{
	uint64_t turned = atomic_load(&q->http->turned_ns);
	double silent_s = (double)(clock_now_ns() - turned) / 1e9;
	bool alive = silent_s < q->http->silence_s;

	return reply_text(
		q, c, alive ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, NULL,
		NULL, alive ? "ok\n" : "the loop that takes snapshots hangs\n");
}

static enum MHD_Result route(struct request *q, const struct web_config *c,
			     const char *method, const char *url)
{
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply_text(q, c, MHD_HTTP_METHOD_NOT_ALLOWED,
				  MHD_HTTP_HEADER_ALLOW, "GET, HEAD",
				  "only GET and HEAD\n");
	if (strcmp(url, "/metrics") == 0)
		return reply_metrics(q, c);
	if (strcmp(url, "/snapshot.json") == 0)
		return reply_json(q, c);
	if (strcmp(url, "/healthz") == 0)
		return reply_alive(q, c);
	if (strcmp(url, "/readyz") == 0)
		return reply_ready(q, c);
	if (strcmp(url, "/") == 0)
		return reply_text(q, c, MHD_HTTP_OK, NULL, NULL,
				  "moetop\n/metrics\n/snapshot.json\n"
				  "/healthz\n/readyz\n");
	return reply_text(q, c, MHD_HTTP_NOT_FOUND, NULL, NULL,
			  "not found; try /metrics or /snapshot.json\n");
}

/* ---- who may ask -------------------------------------------------------- */

/* On auth's thread. */
static void on_verdict(void *arg, bool right)
{
	struct request *q = arg;

	q->verdict = right ? VERDICT_YES : VERDICT_NO;
	MHD_resume_connection(q->mhd);
}

/* Waits in libmicrohttpd until the other thread knows; then the request comes
 * here again. */
static void ask_and_wait(struct request *q, const struct web_config *c,
			 const char *credentials)
{
	enum verdict v;

	q->asked = true;
	MHD_suspend_connection(q->mhd);
	v = auth_check(q->http->auth, c, credentials, q);
	if (v == VERDICT_LATER)
		return;
	q->verdict = v;
	MHD_resume_connection(q->mhd);
}

static enum MHD_Result refuse(struct request *q, const struct web_config *c,
			      unsigned status, const char *text)
{
	q->http->refused++;
	return reply_text(q, c, status, MHD_HTTP_HEADER_RETRY_AFTER, "1", text);
}

/* true: it may; else *result is what to tell libmicrohttpd. */
static bool authorize(struct request *q, const struct web_config *c,
		      enum MHD_Result *result)
{
	const char *credentials = header(q, MHD_HTTP_HEADER_AUTHORIZATION);

	if (!c->n_users)
		return true;
	if (!q->asked)
		q->verdict = auth_check(q->http->auth, c, credentials, NULL);
	switch (q->verdict) {
	case VERDICT_YES:
		return true;
	case VERDICT_LATER:
		ask_and_wait(q, c, credentials);
		*result = MHD_YES;
		return false;
	case VERDICT_BUSY:
		*result = refuse(q, c, MHD_HTTP_SERVICE_UNAVAILABLE,
				 "too many passwords to check\n");
		return false;
	case VERDICT_NO:
		break;
	}
	q->http->unauthorized++;
	*result = reply_text(q, c, MHD_HTTP_UNAUTHORIZED,
			     MHD_HTTP_HEADER_WWW_AUTHENTICATE,
			     "Basic realm=\"moetop\"", "unauthorized\n");
	return false;
}

static enum MHD_Result answer(struct request *q, const char *method,
			      const char *url)
{
	struct http *h = q->http;
	const struct web_config *c;
	enum MHD_Result result;
	struct tls *tls;

	c = access_now(h->access, &tls);
	if (!c)
		return reply_text(q, NULL, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL,
				  NULL, "the web configuration is broken\n");
	if (!authorize(q, c, &result))
		return result;
	if (!access_rate(h->access))
		return refuse(q, c, MHD_HTTP_TOO_MANY_REQUESTS,
			      "too many requests\n");
	if (h->answers >= ANSWERS_MAX)
		return refuse(q, c, MHD_HTTP_SERVICE_UNAVAILABLE,
			      "too many requests at a time\n");
	q->counted = true;
	h->answers++;
	h->requests++;
	return route(q, c, method, url);
}

/* ---- what libmicrohttpd calls ------------------------------------------- */

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd,
				  const char *url, const char *method,
				  const char *version, const char *upload,
				  size_t *upload_bytes, void **request)
{
	const union MHD_ConnectionInfo *info;
	struct request *q = *request;
	struct http *h = cls;

	(void)version;
	(void)upload;
	if (!q) { /* the head is here; called again for what follows */
		q = calloc(1, sizeof(*q));
		if (!q)
			return MHD_NO;
		info = MHD_get_connection_info(
			mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
		q->http = h;
		q->mhd = mhd;
		q->connection = info ? info->socket_context : NULL;
		guard_allow(&h->guard, q->connection, ANSWER_LIMIT_S);
		*request = q;
		return MHD_YES;
	}
	if (*upload_bytes) {
		q->body_bytes += *upload_bytes;
		*upload_bytes = 0;
		return q->body_bytes <= BODY_BYTES_MAX ? MHD_YES : MHD_NO;
	}
	return answer(q, method, url);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **request,
			 enum MHD_RequestTerminationCode how)
{
	struct request *q = *request;
	struct http *h = cls;

	(void)mhd;
	(void)how;
	if (!q)
		return;
	h->answers -= q->counted;
	guard_allow(&h->guard, q->connection, IDLE_LIMIT_S);
	free(q);
	*request = NULL;
}

static void begin_tls(struct http *h, struct MHD_Connection *mhd,
		      struct connection *c)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_session_t session = info ? info->tls_session : NULL;
	struct tls *tls;

	if (!session)
		return;
	if (!c || !access_now(h->access, &tls) || !tls ||
	    tls_begin(tls, session)) {
		tls_refuse(session);
		return;
	}
	c->tls = tls_hold(tls);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info;
	struct http *h = cls;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		guard_remove(&h->guard, *context);
		*context = NULL;
		return;
	}
	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	*context = guard_add(&h->guard, info ? info->connect_fd : -1);
	if (h->tls)
		begin_tls(h, mhd, *context);
}

/* Of libmicrohttpd's own credentials, which no session keeps: they would let
 * nobody in. */
static int on_certificate(gnutls_session_t session,
			  const gnutls_datum_t *req_ca_dn, int nreqs,
			  const gnutls_pk_algorithm_t *pk_algos,
			  int pk_algos_length, gnutls_pcert_st **pcert,
			  unsigned int *pcert_length, gnutls_privkey_t *pkey)
{
	(void)session;
	(void)req_ca_dn;
	(void)nreqs;
	(void)pk_algos;
	(void)pk_algos_length;
	*pcert = NULL;
	*pcert_length = 0;
	*pkey = NULL;
	return -1;
}

static void on_tick(void *arg)
{
	struct http *h = arg;

	guard_sweep(&h->guard);
}

/* ---- interface ---------------------------------------------------------- */

/* Many shells allow 1024, which slow clients alone could use up. */
static void raise_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= DESCRIPTORS)
		return;
	r.rlim_cur = r.rlim_max < DESCRIPTORS ? r.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &r);
}

static int start_daemon(struct http *h)
{
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD |
			 MHD_ALLOW_SUSPEND_RESUME | (h->tls ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
		  (void *)(uintptr_t)on_certificate },
		{ MHD_OPTION_END, 0, NULL },
	};

	raise_descriptors();
	h->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET,
		h->fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_PER_ADDRESS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_LIMIT_S,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
		MHD_OPTION_ARRAY, h->tls ? tls : &tls[1], MHD_OPTION_END);
	if (!h->daemon)
		return -ENOMEM;
	h->fd = -1;
	return 0;
}

static int open_parts(struct http *h, const struct http_config *config,
		      char *why, size_t why_bytes)
{
	const struct pages_config pages = { .all = config->all,
					    .experts = config->experts,
					    .series_max = config->series_max };
	struct tls *tls = NULL;
	int err = access_new(&h->access, config->web_config, config->report,
			     config->arg, why, why_bytes);

	if (err)
		return err;
	access_now(h->access, &tls);
	h->tls = tls != NULL;
	h->fd = listen_open(config->listen, why, why_bytes);
	if (h->fd < 0)
		return h->fd;
	h->port = listen_port(h->fd);
	err = pages_new(&h->pages, &pages);
	if (!err)
		err = auth_new(&h->auth, on_verdict, on_tick, h);
	if (!err)
		err = start_daemon(h);
	if (err)
		snprintf(why, why_bytes,
			 "--listen %s: cannot start to serve; free some memory",
			 config->listen);
	return err;
}

int http_open(struct http **out, const struct http_config *config, char *why,
	      size_t why_bytes)
{
	struct http *h = calloc(1, sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->fd = -1;
	h->silence_s = config->silence_s > 0 ? config->silence_s : SILENCE_S;
	http_turned(h);
	guard_init(&h->guard);
	err = open_parts(h, config, why, why_bytes);
	if (err) {
		http_close(h);
		return err;
	}
	*out = h;
	return 0;
}

void http_publish(struct http *h, const struct snapshot *const *list,
		  unsigned n, unsigned left_out)
{
	pages_publish(h->pages, list, n, left_out);
}

void http_turned(struct http *h)
{
	atomic_store(&h->turned_ns, clock_now_ns());
}

uint16_t http_port(const struct http *h)
{
	return h->port;
}

void http_close(struct http *h)
{
	if (!h)
		return;
	if (h->auth) /* nobody may be waiting when the daemon stops */
		auth_stop(h->auth);
	if (h->daemon)
		MHD_stop_daemon(h->daemon);
	if (h->fd >= 0)
		close(h->fd);
	auth_free(h->auth);
	access_free(h->access);
	pages_free(h->pages);
	guard_fini(&h->guard);
	free(h);
}
