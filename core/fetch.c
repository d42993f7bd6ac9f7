#include "core/fetch.h"
#include "target/bound.h"
#include "target/proc.h"
#include "wire/clock.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fetch {
	CURL *curl;
	char *body;
	size_t bytes, room;
	bool too_big;
	pid_t pid;
	unsigned at; /* of the hosts; where it answered last */
	char bound[BOUND_ADDRESS_MAX]; /* the last of them; "" not known */
	uint64_t looked_ns;            /* for it */
};

/* Where a server may listen: both loopbacks, then what it is bound to. */
#define HOSTS 3u
#define LOOK_EVERY_NS (10 * NS_PER_S)

/* Into the network namespace of pid, unless it is ours: at the same address and
 * port of another one somebody else may answer. */
static int enter_network(pid_t pid)
{
	int fd, err = 0, same = proc_same_network(pid);
	char path[64];

	if (same)
		return same < 0 ? same : 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? -EPERM : -errno;
	if (setns(fd, CLONE_NEWNET))
		err = -errno;
	close(fd);
	return err;
}

static bool make_room(struct fetch *f, size_t bytes)
{
	size_t room = f->room ? f->room : 65536;
	char *p;

	while (room < bytes)
		room *= 2;
	if (room == f->room)
		return true;
	p = realloc(f->body, room);
	if (!p)
		return false;
	f->body = p;
	f->room = room;
	return true;
}

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
	struct fetch *f = arg;

	n *= size;
	if (n > FETCH_BYTES_MAX - f->bytes) {
		f->too_big = true;
		return 0;
	}
	if (!make_room(f, f->bytes + n))
		return 0;
	memcpy(f->body + f->bytes, data, n);
	f->bytes += n;
	return n;
}

/* Plain HTTP only: without the word, curl would set up TLS. */
static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_NOTHING);
}

int fetch_open(struct fetch **out, pid_t pid)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct fetch *f;
	int err = enter_network(pid);

	if (err)
		return err;
	pthread_once(&once, start_curl);
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->curl = curl_easy_init();
	if (!f->curl) {
		free(f);
		return -ENOMEM;
	}
	f->pid = pid;
	curl_easy_setopt(f->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(f->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(f->curl, CURLOPT_TIMEOUT_MS, (long)FETCH_TIMEOUT_MS);
	curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
	curl_easy_setopt(f->curl, CURLOPT_USERAGENT, "moetop");
	*out = f;
	return 0;
}

static int status_error(long status)
{
	if (status == 200)
		return 0;
	if (status == 401 || status == 403)
		return -EACCES;
	if (status == 404)
		return -ENOENT;
	return status >= 300 && status < 400 ? -EAGAIN : -EPROTO;
}

/* NULL: there is no such place. */
static const char *host_of(struct fetch *f, unsigned at, uint16_t port)
{
	uint64_t now = clock_now_ns();

	if (at == 0)
		return "127.0.0.1";
	if (at == 1)
		return "[::1]";
	if (!f->bound[0] &&
	    (!f->looked_ns || now > f->looked_ns + LOOK_EVERY_NS)) {
		f->looked_ns = now;
		(void)bound_find(f->pid, port, f->bound);
	}
	return f->bound[0] ? f->bound : NULL;
}

static int get(struct fetch *f, uint16_t port, const char *path, unsigned at)
{
	const char *host = host_of(f, at, port);
	CURLcode code;
	char url[256];
	long status = 0;

	if (!host)
		return -ECONNREFUSED;
	snprintf(url, sizeof(url), "http://%s:%u%s", host, port, path);
	f->bytes = 0;
	f->too_big = false;
	curl_easy_setopt(f->curl, CURLOPT_URL, url);
	code = curl_easy_perform(f->curl);
	if (f->too_big)
		return -EFBIG;
	switch (code) {
	case CURLE_OK:
		break;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	default:
		return -EPROTO;
	}
	curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
	return status_error(status);
}

/* -EAGAIN: it is elsewhere. */
static int get_either(struct fetch *f, uint16_t port, const char *path,
		      const char **body, size_t *bytes)
{
	int err = get(f, port, path, f->at);

	for (unsigned i = 1; i < HOSTS && err == -ECONNREFUSED; i++) {
		unsigned at = (f->at + i) % HOSTS;

		err = get(f, port, path, at);
		if (err != -ECONNREFUSED)
			f->at = at;
	}
	if (err == -ECONNREFUSED)
		f->bound[0] = '\0'; /* another port may be bound elsewhere */
	if (err)
		return err;
	*body = f->body ? f->body : "";
	*bytes = f->bytes;
	return 0;
}

int fetch_get(struct fetch *f, uint16_t port, const char *path,
	      const char **body, size_t *bytes)
{
	int err = get_either(f, port, path, body, bytes);

	return err == -EAGAIN ? -EPROTO : err;
}

int fetch_metrics(struct fetch *f, uint16_t port, const char **body,
		  size_t *bytes)
{
	int err = get_either(f, port, "/metrics", body, bytes);

	if (err == -EAGAIN)
		err = fetch_get(f, port, "/metrics/", body, bytes);
	return err;
}

void fetch_close(struct fetch *f)
{
	if (!f)
		return;
	curl_easy_cleanup(f->curl);
	free(f->body);
	free(f);
}
