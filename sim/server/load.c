#include "sim/server/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/server/clock.h"
#include "sim/server/reply.h"
#include "sim/server/rng.h"

#define SCAN_NS (2 * 1000000ull) /* how often users are looked over */
#define SPREAD_S 0.3             /* over which new users start */
#define RETRY_NS (100 * 1000000ull)
#define HEAD_WAIT_NS NS_PER_S /* for heads, before the last abort */
#define READ_BYTES 65536u
#define EVENTS_N 512
#define DONE_BYTES 14u /* of the event that ends a stream */
#define NO_ABORT UINT64_MAX

struct user {
	int fd;      /* -1: no connection */
	bool wanted; /* by the schedule */
	bool busy;   /* a request is open */
	bool reused; /* the connection has carried a response before */
	bool health, reset;
	uint64_t due_ns; /* of the next request, when idle */
	uint64_t sent_ns, last_ns;
	uint64_t abort_after; /* events */
	char *out;            /* the request, until it is sent */
	size_t out_bytes, out_done;
	struct reply reply;
};

struct load {
	const struct load_options *o;
	struct load_stats *stats;
	struct rng rng;
	int epoll;
	struct user *users;
	unsigned users_n, busy_n;
	unsigned active; /* users that the schedule wants */
	uint64_t start_ns, end_ns;
	uint64_t issued; /* generations begun */
	double arrivals; /* open loop: due and not yet started */
	bool ending;
	char *buffer;
};

int load_parse_url(const char *url, uint32_t *address, uint16_t *port)
{
	char host[64];
	unsigned n = 80;
	int used = 0;
	struct in_addr a;

	if (strncmp(url, "http://", 7))
		return -EINVAL;
	url += 7;
	if (sscanf(url, "%63[^:/]%n", host, &used) != 1)
		return -EINVAL;
	url += used;
	if (*url == ':') {
		if (sscanf(url, ":%5u%n", &n, &used) != 1)
			return -EINVAL;
		url += used;
	}
	if (*url == '/')
		url++;
	if (!strcmp(host, "localhost"))
		strcpy(host, "127.0.0.1");
	if (*url || !n || n > 65535 || inet_pton(AF_INET, host, &a) != 1 ||
	    ntohl(a.s_addr) >> 24 != 127)
		return -EINVAL;
	*address = a.s_addr;
	*port = (uint16_t)n;
	return 0;
}

double load_quantile_ns(const struct request_histogram *h, double q)
{
	double want = q * (double)h->count, sum = 0;

	if (!h->count)
		return 0;
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		sum += (double)h->buckets[i];
		if (sum >= want && h->buckets[i])
			return ((double)hist_bucket_low_ns(i) +
				(double)hist_bucket_low_ns(i + 1)) /
			       2;
	}
	return 0;
}

static void observe(struct request_histogram *h, uint64_t ns)
{
	h->count++;
	h->sum_ns += ns;
	h->buckets[hist_bucket(ns)]++;
}

/* ---- one request --------------------------------------------------------- */

static uint32_t length_of(struct load *l, double mean)
{
	double n = mean * (0.5 + rng_unit(&l->rng));

	return n < 1 ? 1 : (uint32_t)(n + 0.5);
}

static void put_filler(char *out, size_t bytes)
{
	static const char text[] = "Tell me how the experts of one layer share "
				   "what a batch of tokens asks of them. ";
	const size_t n = sizeof(text) - 1;

	for (size_t at = 0; at < bytes; at += n)
		memcpy(out + at, text, bytes - at < n ? bytes - at : n);
}

static int write_generation(struct load *l, struct user *u, bool large)
{
	bool chat = rng_unit(&l->rng) < l->o->chat_ratio;
	uint32_t prompt =
		large ? LOAD_LARGE_TOKENS : length_of(l, l->o->prompt_tokens);
	uint32_t tokens = length_of(l, l->o->output_tokens);
	size_t filler = (size_t)prompt * 4, room = filler + 512;
	char before[256], after[128];
	bool stream = rng_unit(&l->rng) >= l->o->json_ratio;
	int a, b, n;

	u->abort_after = NO_ABORT;
	u->out_done = 0;
	if (stream && rng_unit(&l->rng) < l->o->abort_ratio) {
		/* In the first half: the server must not be through with it. */
		u->abort_after = rng_below(&l->rng, tokens / 2 + 1);
		u->reset = rng_next(&l->rng) & 1;
	}
	a = snprintf(before, sizeof(before),
		     chat ? "{\"model\":\"\",\"messages\":[{\"role\":\"user\","
			    "\"content\":\""
			  : "{\"model\":\"\",\"prompt\":\"");
	b = snprintf(after, sizeof(after),
		     "\"%s,\"max_tokens\":%u,\"ignore_eos\":true,"
		     "\"stream\":%s}",
		     chat ? "}]" : "", tokens, stream ? "true" : "false");
	u->out = malloc(room);
	if (!u->out)
		return -ENOMEM;
	n = snprintf(u->out, room,
		     "POST /v1/%scompletions HTTP/1.1\r\n"
		     "Host: 127.0.0.1:%u\r\nContent-Type: application/json\r\n"
		     "Content-Length: %zu\r\n\r\n%s",
		     chat ? "chat/" : "", l->o->port,
		     (size_t)a + filler + (size_t)b, before);
	put_filler(u->out + n, filler);
	memcpy(u->out + n + filler, after, (size_t)b);
	u->out_bytes = (size_t)n + filler + (size_t)b;
	return 0;
}

static int write_request(struct load *l, struct user *u)
{
	char text[128];

	u->health = rng_unit(&l->rng) < l->o->health_ratio;
	if (!u->health)
		return write_generation(l, u,
					rng_unit(&l->rng) < l->o->large_ratio);
	u->abort_after = NO_ABORT;
	u->out_done = 0;
	u->out_bytes = (size_t)snprintf(text, sizeof(text),
					"GET /health HTTP/1.1\r\n"
					"Host: 127.0.0.1:%u\r\n\r\n",
					l->o->port);
	u->out = strdup(text);
	return u->out ? 0 : -ENOMEM;
}

static void close_user(struct user *u)
{
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
	free(u->out);
	u->out = NULL;
}

/* The request is over, one way or the other. */
static void finish(struct load *l, struct user *u, uint64_t now)
{
	u->busy = false;
	l->busy_n--;
	u->due_ns = now;
	if (l->o->think_s > 0)
		u->due_ns +=
			(uint64_t)(rng_exponential(&l->rng, l->o->think_s) *
				   1e9);
	if (!u->wanted)
		close_user(u);
}

static void fail(struct load *l, struct user *u, uint64_t now)
{
	close_user(u);
	if (!u->health)
		l->stats->failed++;
	finish(l, u, now);
	u->due_ns = now + RETRY_NS;
}

static void give_up(struct load *l, struct user *u, uint64_t now)
{
	const struct linger reset = { .l_onoff = 1 };

	if (u->reset)
		setsockopt(u->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close_user(u);
	if (!u->health)
		l->stats->aborted++;
	finish(l, u, now);
}

static int connect_user(struct load *l, struct user *u)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons(l->o->port),
		.sin_addr.s_addr = l->o->address,
	};
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT, .data.ptr = u };
	const int on = 1;

	u->reused = false;
	u->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (u->fd < 0)
		return -errno;
	setsockopt(u->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(u->fd, (struct sockaddr *)&a, sizeof(a)) &&
	    errno != EINPROGRESS)
		return -errno;
	return epoll_ctl(l->epoll, EPOLL_CTL_ADD, u->fd, &e) ? -errno : 0;
}

static void want_output(struct load *l, struct user *u, bool on)
{
	struct epoll_event e = {
		.events = EPOLLIN | (on ? EPOLLOUT : 0u),
		.data.ptr = u,
	};

	epoll_ctl(l->epoll, EPOLL_CTL_MOD, u->fd, &e);
}

static void on_writable(struct load *l, struct user *u, uint64_t now)
{
	ssize_t n;

	if (!u->out) {
		want_output(l, u, false);
		return;
	}
	n = send(u->fd, u->out + u->out_done, u->out_bytes - u->out_done,
		 MSG_NOSIGNAL);
	if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
		return;
	if (n < 0) {
		fail(l, u, now);
		return;
	}
	u->out_done += (size_t)n;
	if (u->out_done < u->out_bytes)
		return;
	free(u->out);
	u->out = NULL;
	u->sent_ns = u->last_ns = now;
	if (u->health)
		l->stats->health++;
	else
		l->stats->started++;
	want_output(l, u, false);
}

static void send_request(struct load *l, struct user *u, uint64_t now)
{
	u->busy = true;
	l->busy_n++;
	reply_start(&u->reply);
	if (u->fd >= 0) {
		/* Most often the socket takes all of it at once. */
		want_output(l, u, true);
		on_writable(l, u, now);
	} else if (connect_user(l, u)) {
		fail(l, u, now);
	}
}

static void start_request(struct load *l, struct user *u, uint64_t now)
{
	if (write_request(l, u)) {
		u->due_ns = now + RETRY_NS;
		return;
	}
	l->issued += !u->health;
	send_request(l, u, now);
}

/* ---- responses ----------------------------------------------------------- */

static void on_chunk(struct load *l, struct user *u, uint64_t now)
{
	l->stats->events++;
	if (u->reply.chunks == 1)
		observe(&l->stats->ttft, now - u->sent_ns);
	else if (u->reply.chunk_bytes != DONE_BYTES)
		observe(&l->stats->gap, now - u->last_ns);
	u->last_ns = now;
}

static void on_end(struct load *l, struct user *u, uint64_t now)
{
	bool good = u->reply.status == 200;

	if (!u->health && good)
		l->stats->completed++;
	else if (!u->health)
		l->stats->failed++;
	if (u->reply.close)
		close_user(u);
	u->reused = true;
	finish(l, u, now);
	/* Do not hammer a server that refuses us. */
	if (!good)
		u->due_ns += RETRY_NS;
}

/* The server closed the connection, or it broke. */
static void on_closed(struct load *l, struct user *u, uint64_t now)
{
	bool retry = u->reused && !reply_begun(&u->reply);
	bool sent = !u->out;

	if (!u->busy) {
		close_user(u);
		return;
	}
	if (!retry) {
		fail(l, u, now);
		return;
	}
	/* It was closing while we sent: the request was never read. */
	if (sent && u->health)
		l->stats->health--;
	else if (sent)
		l->stats->started--;
	close_user(u);
	u->busy = false;
	l->busy_n--;
	/* Another of the same kind. */
	if (u->health || write_generation(l, u, false))
		u->due_ns = now;
	else
		send_request(l, u, now);
}

/* Returns false when the user's connection is gone or its request over. */
static bool take_bytes(struct load *l, struct user *u, const char *data,
		       size_t bytes, uint64_t now)
{
	for (;;) {
		enum reply_event e = reply_next(&u->reply, &data, &bytes);

		if (e == REPLY_BAD) {
			fail(l, u, now);
			return false;
		}
		if (e == REPLY_END) {
			on_end(l, u, now);
			return false;
		}
		if (e == REPLY_CHUNK)
			on_chunk(l, u, now);
		if (reply_has_head(&u->reply) &&
		    u->reply.chunks >= u->abort_after) {
			give_up(l, u, now);
			return false;
		}
		if (e == REPLY_MORE)
			return true;
	}
}

static void on_readable(struct load *l, struct user *u)
{
	ssize_t n = recv(u->fd, l->buffer, READ_BYTES, 0);
	uint64_t now = clock_ns();

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || !u->busy)
		on_closed(l, u, now);
	else
		take_bytes(l, u, l->buffer, (size_t)n, now);
}

/* ---- the schedule -------------------------------------------------------- */

static void retire(struct load *l, struct user *u, bool abandon, uint64_t now)
{
	u->wanted = false;
	if (!u->busy) {
		close_user(u);
	} else if (abandon) {
		/* Not before the head: the server might never see it. */
		u->abort_after = 0;
		if (reply_has_head(&u->reply))
			give_up(l, u, now);
	}
}

static void set_active(struct load *l, unsigned n, bool abandon, uint64_t now)
{
	for (unsigned i = n; i < l->active; i++)
		retire(l, &l->users[i], abandon, now);
	for (unsigned i = l->active; i < n; i++) {
		struct user *u = &l->users[i];

		u->wanted = true;
		u->due_ns =
			now + (uint64_t)(rng_unit(&l->rng) * SPREAD_S * 1e9);
	}
	l->active = n;
}

static bool may_start(const struct load *l)
{
	if (l->ending)
		return false;
	return !l->o->requests || l->issued < l->o->requests;
}

static void scan_closed(struct load *l, uint64_t now)
{
	double elapsed = (double)(now - l->start_ns) / 1e9;
	const struct users_phase *p = users_at(&l->o->users, elapsed);

	if (!l->ending && p->users != l->active)
		set_active(l, p->users, p->abandon, now);
	for (unsigned i = 0; i < l->active && may_start(l); i++)
		if (!l->users[i].busy && l->users[i].due_ns <= now)
			start_request(l, &l->users[i], now);
}

static void scan_open(struct load *l, uint64_t now, uint64_t elapsed_ns)
{
	unsigned i = 0;

	if (l->ending)
		return;
	l->arrivals += l->o->rate * (double)elapsed_ns / 1e9;
	for (; l->arrivals >= 1 && may_start(l); l->arrivals--) {
		while (i < l->users_n &&
		       (l->users[i].busy || l->users[i].due_ns > now))
			i++;
		if (i < l->users_n)
			start_request(l, &l->users[i], now);
		else
			l->stats->dropped++;
	}
}

static void abort_all(struct load *l, uint64_t now, bool force)
{
	for (unsigned i = 0; i < l->users_n; i++) {
		struct user *u = &l->users[i];

		if (!u->busy)
			continue;
		u->abort_after = 0;
		if (force || reply_has_head(&u->reply))
			give_up(l, u, now);
	}
}

/* Whether the load is over; begins and ends the drain on the way. */
static bool is_over(struct load *l, uint64_t now)
{
	bool stop = l->o->stop && atomic_load(l->o->stop);
	uint64_t n = l->o->requests;

	if (!l->ending && l->o->duration_s > 0 &&
	    (double)(now - l->start_ns) >= l->o->duration_s * 1e9) {
		l->ending = true;
		l->end_ns = now + (uint64_t)(l->o->drain_s * 1e9);
	}
	if (stop && (!l->ending || l->end_ns > now)) {
		l->ending = true;
		l->end_ns = now;
	}
	if (l->ending && now >= l->end_ns)
		abort_all(l, now, now >= l->end_ns + HEAD_WAIT_NS);
	if (l->ending)
		return !l->busy_n;
	return n && l->issued >= n && !l->busy_n;
}

static void loop(struct load *l)
{
	struct epoll_event events[EVENTS_N];
	uint64_t now = clock_ns(), scanned = now;

	l->start_ns = now;
	while (!is_over(l, now)) {
		int n = epoll_wait(l->epoll, events, EVENTS_N, 2);

		for (int i = 0; i < n; i++) {
			struct user *u = events[i].data.ptr;

			/* Closed by an earlier event of this batch. */
			if (u->fd < 0)
				continue;
			if (events[i].events & EPOLLOUT)
				on_writable(l, u, clock_ns());
			if (u->fd >= 0 &&
			    events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				on_readable(l, u);
		}
		now = clock_ns();
		if (now - scanned < SCAN_NS)
			continue;
		if (l->o->rate > 0)
			scan_open(l, now, now - scanned);
		else
			scan_closed(l, now);
		scanned = now;
	}
}

int load_run(const struct load_options *o, struct load_stats *out)
{
	struct load l = {
		.o = o,
		.stats = out,
		.rng = { mix64(o->seed) },
		.users_n = o->rate > 0 ? USERS_MAX : users_peak(&o->users),
	};
	int err = 0;

	*out = (struct load_stats){ 0 };
	if (ntohl(o->address) >> 24 != 127)
		return -EINVAL;
	l.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l.epoll < 0)
		return -errno;
	l.users = calloc(l.users_n ? l.users_n : 1, sizeof(*l.users));
	l.buffer = malloc(READ_BYTES);
	if (!l.users || !l.buffer)
		err = -ENOMEM;
	for (unsigned i = 0; !err && i < l.users_n; i++) {
		l.users[i].fd = -1;
		l.users[i].wanted = o->rate > 0;
	}
	if (!err)
		loop(&l);
	for (unsigned i = 0; !err && i < l.users_n; i++)
		close_user(&l.users[i]);
	free(l.users);
	free(l.buffer);
	close(l.epoll);
	return err;
}
