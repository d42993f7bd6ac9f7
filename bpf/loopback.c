#include "bpf/loopback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static const char request[] = "POST /v1/completions HTTP/1.1\r\n"
			      "Content-Length: 2\r\n\r\n{}";
static const char head[] = "HTTP/1.1 200 OK\r\n"
			   "content-type: text/event-stream\r\n"
			   "transfer-encoding: chunked\r\n\r\n";
static char events[2][15] = { "9\r\ndata: a\n\n\r\n", "9\r\ndata: b\n\n\r\n" };
static char last_chunk[] = "0\r\n\r\n";

static int give_up_in_time(int fd)
{
	const struct timeval limit = { .tv_usec = 500000 };

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit))
		       ? -errno
		       : 0;
}

static int listen_on(int *fd, const void *address, socklen_t bytes)
{
	const struct sockaddr *a = address;
	int s = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), err;

	if (s < 0)
		return -errno;
	if (bind(s, a, bytes) || listen(s, 4))
		err = -errno;
	else
		err = give_up_in_time(s); /* accept obeys it too */
	if (err) {
		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

int loopback_listen(int *fd, uint16_t *port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t bytes = sizeof(a);
	int err = listen_on(fd, &a, bytes);

	if (!err && getsockname(*fd, (struct sockaddr *)&a, &bytes)) {
		err = -errno;
		close(*fd);
	}
	if (!err)
		*port = ntohs(a.sin_port);
	return err;
}

int loopback_listen_unix(int *fd, uint64_t *inode)
{
	const struct sockaddr_un a = { .sun_family = AF_UNIX };
	/* no name: the kernel gives it one */
	int err = listen_on(fd, &a, sizeof(a.sun_family));
	struct stat st;

	if (!err && fstat(*fd, &st)) {
		err = -errno;
		close(*fd);
	}
	if (!err)
		*inode = st.st_ino;
	return err;
}

static int put(int fd, const char *what, size_t bytes)
{
	ssize_t n = send(fd, what, bytes, MSG_NOSIGNAL);

	if (n < 0)
		return -errno;
	return (size_t)n == bytes ? 0 : -EIO;
}

static int take(int fd, size_t bytes)
{
	char buf[512];

	while (bytes) {
		ssize_t n = read(fd, buf, bytes < 512 ? bytes : 512);

		if (n <= 0)
			return n ? -errno : -EPIPE;
		bytes -= (size_t)n;
	}
	return 0;
}

static int ask(int client, int server)
{
	int err = put(client, request, sizeof(request) - 1);

	return err ? err : take(server, sizeof(request) - 1);
}

static int answer(int client, int server)
{
	struct iovec v[3] = {
		{ events[0], sizeof(events[0]) - 1 },
		{ events[1], sizeof(events[1]) - 1 },
		{ last_chunk, sizeof(last_chunk) - 1 },
	};
	size_t bytes = v[0].iov_len + v[1].iov_len + v[2].iov_len;
	int err = put(server, head, sizeof(head) - 1);

	if (err)
		return err;
	if (writev(server, v, 3) != (ssize_t)bytes)
		return -EIO;
	return take(client, sizeof(head) - 1 + bytes);
}

/* The client leaves; the server learns of it and closes too. */
static int abandon(int *client, int server)
{
	char byte;
	int err = put(server, head, sizeof(head) - 1);

	if (err)
		return err;
	err = take(*client, sizeof(head) - 1);
	if (err)
		return err;
	close(*client);
	*client = -1;
	return read(server, &byte, 1) ? -EIO : 0;
}

static int loopback_connect(int listen_fd, int *client, int *server)
{
	struct sockaddr_storage a = { 0 };
	socklen_t bytes = sizeof(a);
	int c, s = -1, err;

	if (getsockname(listen_fd, (struct sockaddr *)&a, &bytes))
		return -errno;
	c = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c < 0)
		return -errno;
	err = give_up_in_time(c);
	if (!err && connect(c, (struct sockaddr *)&a, bytes))
		err = -errno;
	if (!err) {
		s = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
		err = s < 0 ? -errno : give_up_in_time(s);
	}
	if (err) {
		if (s >= 0)
			close(s);
		close(c);
		return err;
	}
	*client = c;
	*server = s;
	return 0;
}

int loopback_ask(int listen_fd, int *client, int *server)
{
	int err = loopback_connect(listen_fd, client, server);

	if (err)
		return err;
	err = ask(*client, *server);
	if (err) {
		close(*server);
		close(*client);
	}
	return err;
}

int loopback_stream(int server)
{
	int err = put(server, head, sizeof(head) - 1);

	return err ? err : put(server, events[0], sizeof(events[0]) - 1);
}

int loopback_exchange(int listen_fd)
{
	int client = -1, server = -1, err;

	err = loopback_connect(listen_fd, &client, &server);
	if (err)
		return err;
	err = ask(client, server);
	if (!err)
		err = answer(client, server);
	if (!err)
		err = ask(client, server);
	if (!err)
		err = abandon(&client, server);
	close(server);
	if (client >= 0)
		close(client);
	return err;
}
