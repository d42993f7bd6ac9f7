/*
 * Where the figures go: the terminal, and the port of --listen.
 */
#include "core/doctor.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool has_colour(const char *term)
{
	static const char *const words[] = { "color", "xterm",    "screen",
					     "tmux",  "linux",    "rxvt",
					     "kitty", "alacritty" };
	const char *more = getenv("COLORTERM");

	if (more && *more)
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(term, words[i]))
			return true;
	return false;
}

void doctor_terminal(struct doctor *d)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
	bool utf8;

	if (!term || !*term || !strcmp(term, "dumb")) {
		doctor_say(d, NULL, DOCTOR_MISSING,
			   "export TERM=xterm-256color, or use --json or "
			   "--headless --listen PORT",
			   "TERM is %s: no screen can be drawn",
			   term && *term ? term : "not set");
		return;
	}
	setlocale(LC_CTYPE, "");
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	setlocale(LC_CTYPE, "C");
	doctor_say(d, NULL, utf8 ? DOCTOR_OK : DOCTOR_MISSING,
		   utf8 ? "" : "export LC_ALL=C.UTF-8", "TERM %.40s, %s, %s",
		   term,
		   no_color && *no_color ? "colours are off by NO_COLOR"
		   : has_colour(term)    ? "colours"
					 : "no colours",
		   utf8 ? "UTF-8" : "no UTF-8: drawn in ASCII");
}

/* "PORT", "ADDR:PORT", "[ADDR6]:PORT" into its two halves. */
static void split(const char *address, char *host, size_t bytes,
		  const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t n = colon ? (size_t)(colon - address) : 0;

	*port = colon ? colon + 1 : address;
	if (n > 1 && address[0] == '[' && address[n - 1] == ']')
		snprintf(host, bytes, "%.*s", (int)n - 2, address + 1);
	else
		snprintf(host, bytes, "%.*s", (int)n, address);
	if (!host[0])
		snprintf(host, bytes, "127.0.0.1");
}

/* 0 when it could be listened on, or -errno. */
static int try_address(const char *address)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST |
						    AI_NUMERICSERV };
	struct addrinfo *a = NULL;
	const char *port;
	char host[128];
	int fd, one = 1, err = 0;

	split(address, host, sizeof(host), &port);
	if (getaddrinfo(host, port, &hints, &a))
		return -EINVAL;
	fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1))
		err = -errno;
	if (fd >= 0)
		close(fd);
	freeaddrinfo(a);
	return err;
}

void doctor_listen(struct doctor *d)
{
	const char *address = d->settings->listen;
	int err;

	if (!address)
		return;
	err = try_address(address);
	if (!err)
		doctor_say(d, NULL, DOCTOR_OK, "",
			   "--listen %.60s can be opened", address);
	else
		doctor_say(d, NULL, DOCTOR_BROKEN,
			   err == -EADDRINUSE
				   ? "name another port (who has it: ss -ltnp)"
			   : err == -EACCES
				   ? "name a port above 1023"
				   : "give [ADDR:]PORT with an address "
				     "of this machine",
			   "--listen %.60s cannot be opened: %s", address,
			   strerror(-err));
}
