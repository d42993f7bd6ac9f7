#include "tui/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

/* Of a descriptor that blocks; a terminal that is writable has room for it. */
#define PART_BYTES 256u
#define PATIENCE_MS 100

int output_open(int fd)
{
	char path[32];
	int out;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	out = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (out < 0)
		out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return out < 0 ? -errno : out;
}

static bool has_room(int out, int timeout_ms)
{
	struct pollfd p = { .fd = out, .events = POLLOUT };

	return poll(&p, 1, timeout_ms) > 0;
}

ssize_t output_some(int out, const char *bytes, size_t n)
{
	bool blocks = !(fcntl(out, F_GETFL) & O_NONBLOCK);
	size_t done = 0;

	while (done < n) {
		size_t part = n - done;
		ssize_t w;

		if (blocks && !has_room(out, 0))
			break;
		if (blocks && part > PART_BYTES)
			part = PART_BYTES;
		w = write(out, bytes + done, part);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0)
			return -errno;
		done += (size_t)w;
	}
	return (ssize_t)done;
}

void output_last(int out, const char *bytes, size_t n)
{
	for (unsigned try = 0; n > 0 && try < 3; try++) {
		ssize_t w = output_some(out, bytes, n);

		if (w < 0)
			return;
		bytes += w;
		n -= (size_t)w;
		if (n > 0 && !has_room(out, PATIENCE_MS))
			tcflush(out, TCOFLUSH);
	}
}
