#include "bpf/diag.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { STATE_ESTABLISHED = 1, STATE_CLOSE_WAIT = 8, STATE_LISTEN = 10 };

#define REPLY_BYTES 65536

struct request {
	struct nlmsghdr h;
	struct inet_diag_req_v2 r;
};

enum diag_kind diag_judge(uint32_t received_ms, uint32_t sent_ms,
			  int read_nothing)
{
	if (read_nothing)
		return DIAG_IDLE;
	if (received_ms < sent_ms)
		return DIAG_WAITING;
	if (received_ms - sent_ms <= DIAG_EARLY_HEAD_MS &&
	    sent_ms < DIAG_GUESS_MS)
		return DIAG_WAITING;
	return sent_ms < DIAG_STREAM_MS ? DIAG_STREAMING : DIAG_IDLE;
}

int diag_open(int *fd)
{
	const struct timeval limit = { .tv_sec = 1 };
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int err;

	if (s < 0)
		return -errno;
	if (setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit))) {
		err = -errno;
		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

static bool of_ports(uint16_t port, const uint16_t *ports, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i] == port)
			return true;
	return false;
}

/* The times of a connection are in one of its attributes. */
static void count_times(const struct nlmsghdr *h, const struct inet_diag_msg *m,
			struct diag_counts *out)
{
	const char *at = (const char *)(m + 1);
	size_t left = h->nlmsg_len - NLMSG_LENGTH(sizeof(*m));

	while (left >= sizeof(struct rtattr)) {
		const struct rtattr *a = (const struct rtattr *)at;
		size_t whole = RTA_ALIGN(a->rta_len), n;
		struct tcp_info t = { 0 };

		if (a->rta_len < sizeof(*a) || a->rta_len > left)
			return;
		at += whole;
		left = whole < left ? left - whole : 0;
		if (a->rta_type != INET_DIAG_INFO)
			continue;
		n = RTA_PAYLOAD(a);
		memcpy(&t, RTA_DATA(a), n < sizeof(t) ? n : sizeof(t));
		switch (diag_judge(t.tcpi_last_data_recv, t.tcpi_last_data_sent,
				   t.tcpi_bytes_received == 0)) {
		case DIAG_WAITING:
			out->waiting++;
			break;
		case DIAG_STREAMING:
			out->streaming++;
			break;
		case DIAG_IDLE:
			out->idle++;
			break;
		}
	}
}

static void count_one(const struct nlmsghdr *h, const uint16_t *ports, size_t n,
		      struct diag_counts *out)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)) ||
	    !of_ports(ntohs(m->id.idiag_sport), ports, n))
		return;
	if (m->idiag_state == STATE_LISTEN) {
		out->backlog += m->idiag_rqueue;
		return;
	}
	out->unread_bytes += m->idiag_rqueue;
	count_times(h, m, out);
}

/* One message.  1: it was the last, 0, or -errno. */
static int message(const struct nlmsghdr *h, const uint16_t *ports, size_t n,
		   struct diag_counts *out)
{
	const struct nlmsgerr *e = NLMSG_DATA(h);

	if (h->nlmsg_type == NLMSG_DONE)
		return 1;
	if (h->nlmsg_type == NLMSG_ERROR)
		return h->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) && e->error < 0
			       ? e->error
			       : -EPROTO;
	if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
		count_one(h, ports, n, out);
	return 0;
}

/* One datagram.  1: it was the last, 0, or -errno. */
static int take(int fd, const uint16_t *ports, size_t n,
		struct diag_counts *out)
{
	static _Thread_local union {
		struct nlmsghdr h;
		char bytes[REPLY_BYTES];
	} b;
	ssize_t got = recv(fd, &b, sizeof(b), 0);
	size_t at = 0;

	if (got <= 0)
		return got && errno != EINTR ? -errno : got ? 0 : -EPROTO;
	while ((size_t)got - at >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *h = (const void *)(b.bytes + at);
		int end;

		if (h->nlmsg_len < sizeof(*h) ||
		    h->nlmsg_len > (size_t)got - at)
			return -EPROTO;
		end = message(h, ports, n, out);
		if (end)
			return end;
		at += NLMSG_ALIGN(h->nlmsg_len);
		if (at > (size_t)got)
			return 0;
	}
	return 0;
}

int diag_read(int fd, const uint16_t *ports, size_t n, struct diag_counts *out)
{
	static const uint8_t families[] = { AF_INET, AF_INET6 };
	struct diag_counts sum = { 0 };

	for (unsigned i = 0; i < 2; i++) {
		struct request q = {
			.h = { .nlmsg_len = sizeof(q),
			       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
			.r = { .sdiag_family = families[i],
			       .sdiag_protocol = IPPROTO_TCP,
			       .idiag_ext = 1 << (INET_DIAG_INFO - 1),
			       .idiag_states = 1 << STATE_ESTABLISHED |
					       1 << STATE_CLOSE_WAIT |
					       1 << STATE_LISTEN },
		};
		int err = 0;

		if (send(fd, &q, sizeof(q), 0) < 0)
			return -errno;
		while (!err)
			err = take(fd, ports, n, &sum);
		if (err < 0)
			return err;
	}
	*out = sum;
	return 0;
}
