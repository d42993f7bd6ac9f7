#include "exporter/http_parts.h"
#include "wire/clock.h"

#include <stdlib.h>
#include <sys/socket.h>

void guard_init(struct guard *g)
{
	*g = (struct guard){ 0 };
	pthread_mutex_init(&g->lock, NULL);
}

void guard_fini(struct guard *g)
{
	pthread_mutex_destroy(&g->lock);
}

struct connection *guard_add(struct guard *g, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = fd;
	c->deadline_ns = clock_now_ns() + HEAD_LIMIT_S * 1000000000ull;
	pthread_mutex_lock(&g->lock);
	c->next = g->first;
	if (g->first)
		g->first->prev = c;
	g->first = c;
	g->n++;
	pthread_mutex_unlock(&g->lock);
	return c;
}

void guard_remove(struct guard *g, struct connection *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&g->lock);
	if (c->next)
		c->next->prev = c->prev;
	if (c->prev)
		c->prev->next = c->next;
	else
		g->first = c->next;
	g->n--;
	pthread_mutex_unlock(&g->lock);
	tls_release(c->tls);
	free(c);
}

void guard_allow(struct guard *g, struct connection *c, unsigned seconds)
{
	if (!c)
		return;
	pthread_mutex_lock(&g->lock);
	c->deadline_ns = clock_now_ns() + seconds * 1000000000ull;
	pthread_mutex_unlock(&g->lock);
}

/* The descriptor is open as long as the connection is in the list. */
void guard_sweep(struct guard *g)
{
	uint64_t now = clock_now_ns();

	pthread_mutex_lock(&g->lock);
	for (struct connection *c = g->first; c; c = c->next) {
		if (now < c->deadline_ns)
			continue;
		shutdown(c->fd, SHUT_RDWR);
		c->deadline_ns = UINT64_MAX;
		g->slow++;
	}
	pthread_mutex_unlock(&g->lock);
}
