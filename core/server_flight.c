#include "core/server_flight.h"

#include "core/fetch.h"
#include "core/privileges.h"
#include "target/scrape.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define AT_A_TIME 16u

/* In a thread of its own, which stays in the server's network. */
static void *ask(void *arg)
{
	struct server *s = arg;
	struct scrape facts;
	struct fetch *fetch;
	const char *body;
	size_t bytes;

	if (fetch_open(&fetch, (pid_t)s->pid))
		return NULL;
	(void)privileges_keep(0); /* they were for the way in */
	if (fetch_metrics(fetch, s->port, &body, &bytes) == 0 &&
	    scrape_parse(body, bytes, &facts) == 0 && isfinite(facts.running) &&
	    isfinite(facts.waiting))
		s->in_flight = facts.running + facts.waiting;
	fetch_close(fetch);
	return NULL;
}

void server_flight_read(struct servers *s)
{
	pthread_t threads[AT_A_TIME];

	for (unsigned from = 0; from < s->n; from += AT_A_TIME) {
		bool started[AT_A_TIME] = { false };

		for (unsigned i = 0; i < AT_A_TIME && from + i < s->n; i++) {
			struct server *one = &s->list[from + i];

			started[i] = one->port && !one->left_over &&
				     pthread_create(&threads[i], NULL, ask,
						    one) == 0;
		}
		for (unsigned i = 0; i < AT_A_TIME; i++)
			if (started[i])
				pthread_join(threads[i], NULL);
	}
}
