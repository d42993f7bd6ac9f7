#include "sim/server/rank_wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int receive_all(int fd, void *data, size_t bytes)
{
	char *at = data;

	while (bytes) {
		ssize_t n = recv(fd, at, bytes, MSG_WAITALL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == ECONNRESET ? -EPIPE : -errno;
		if (n == 0)
			return -EPIPE;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int send_all(int fd, const void *data, size_t bytes, int flags)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | flags);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == ECONNRESET ? -EPIPE : -errno;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int rank_send(int fd, enum rank_kind kind, const void *data, size_t bytes)
{
	struct rank_head h = { .kind = kind, .bytes = (uint32_t)bytes };
	int err;

	if (bytes > RANK_MESSAGE_MAX)
		return -EMSGSIZE;
	err = send_all(fd, &h, sizeof(h), bytes ? MSG_MORE : 0);
	return err ? err : send_all(fd, data, bytes, 0);
}

int rank_receive(int fd, enum rank_kind kind, void *data, size_t room,
		 size_t *bytes)
{
	struct rank_head h;
	int err = receive_all(fd, &h, sizeof(h));

	if (err)
		return err;
	if (h.kind != (uint32_t)kind || h.bytes > room)
		return -EPROTO;
	err = receive_all(fd, data, h.bytes);
	if (!err)
		*bytes = h.bytes;
	return err;
}
