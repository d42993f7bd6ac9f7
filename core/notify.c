#include "core/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_to(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int fd;

	/* @ stands for the NUL of an abstract name */
	if ((path[0] != '/' && path[0] != '@') || n >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, path, n);
	if (path[0] == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 &&
	    connect(fd, (struct sockaddr *)&a,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static uint64_t number(const char *s)
{
	char *end = NULL;
	unsigned long long v = s && *s ? strtoull(s, &end, 10) : 0;

	return end && !*end ? v : 0;
}

/* Half of the time that the manager waits; 0: it does not, or not for us. */
static uint64_t watchdog_ns(void)
{
	const char *pid = getenv("WATCHDOG_PID");

	if (pid && number(pid) != (uint64_t)getpid())
		return 0;
	return number(getenv("WATCHDOG_USEC")) * 1000 / 2;
}

void notify_init(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");

	*n = (struct notify){ .fd = path ? connect_to(path) : -1,
			      .period_ns = watchdog_ns() };
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
}

/* A manager that does not listen is its own problem. */
static void tell(const struct notify *n, const char *what)
{
	if (n->fd >= 0)
		(void)!send(n->fd, what, strlen(what), MSG_NOSIGNAL);
}

void notify_ready(struct notify *n)
{
	tell(n, "READY=1\nSTATUS=watching");
}

void notify_alive(struct notify *n, uint64_t now_ns)
{
	if (!n->period_ns || now_ns < n->told_ns + n->period_ns)
		return;
	n->told_ns = now_ns;
	tell(n, "WATCHDOG=1");
}

void notify_fini(struct notify *n)
{
	tell(n, "STOPPING=1");
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}
