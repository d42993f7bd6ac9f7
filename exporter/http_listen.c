#include "exporter/http_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 512
#define SYSTEMD_FIRST_FD 3

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

static int bind_socket(const union address *a)
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

uint16_t listen_port(int fd)
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

/* ---- systemd ------------------------------------------------------------ */

static long env_number(const char *name)
{
	const char *s = getenv(name);
	char *end;
	long v = s && *s ? strtol(s, &end, 10) : -1;

	return s && *s && !*end ? v : -1;
}

static bool is_listener(int fd)
{
	int yes = 0, type = 0;
	socklen_t n = sizeof(yes), m = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &n) && yes &&
	       !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &m) &&
	       type == SOCK_STREAM;
}

/* The protocol of sd_listen_fds(3): how many descriptors are for us, which is
 * not for our children to know. */
static long handed_over(void)
{
	bool ours = env_number("LISTEN_PID") == (long)getpid();
	long n = ours ? env_number("LISTEN_FDS") : 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return n > 0 ? n : 0;
}

static int take_socket(long n, char *why, size_t why_bytes)
{
	if (n != 1 || !is_listener(SYSTEMD_FIRST_FD)) {
		snprintf(why, why_bytes,
			 "--listen: systemd handed over %s; give the .socket "
			 "unit one ListenStream=",
			 n > 1 ? "more than one socket"
			       : "what is no listening socket");
		return -EINVAL;
	}
	fcntl(SYSTEMD_FIRST_FD, F_SETFD, FD_CLOEXEC);
	fcntl(SYSTEMD_FIRST_FD, F_SETFL, O_NONBLOCK);
	return SYSTEMD_FIRST_FD;
}

/* ---- interface ---------------------------------------------------------- */

int http_check_listen(const char *listen, char *why, size_t why_bytes)
{
	union address a;

	if (parse_listen(listen, &a))
		return 0;
	explain(listen, -EINVAL, why, why_bytes);
	return -EINVAL;
}

int listen_open(const char *listen, char *why, size_t why_bytes)
{
	long n = handed_over();
	union address a;
	int fd = -EINVAL;

	if (n)
		return take_socket(n, why, why_bytes);
	if (parse_listen(listen, &a))
		fd = bind_socket(&a);
	if (fd < 0)
		explain(listen, fd, why, why_bytes);
	return fd;
}
