#include "sim/server/users.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int parse_phase(const char **at, struct users_phase *out)
{
	struct users_phase p = { 0 };
	char *end;
	unsigned long users;

	if (**at < '0' || **at > '9')
		return -EINVAL;
	users = strtoul(*at, &end, 10);
	if (users > USERS_MAX)
		return -EINVAL;
	p.users = (unsigned)users;
	if (*end == ':') {
		const char *seconds = end + 1;

		p.seconds = strtod(seconds, &end);
		if (end == seconds || !isfinite(p.seconds) || p.seconds <= 0)
			return -EINVAL;
	}
	if (*end == 'a') {
		p.abandon = true;
		end++;
	}
	*at = end;
	*out = p;
	return 0;
}

int users_parse(const char *text, struct users *out)
{
	struct users u = { 0 };

	for (;;) {
		if (u.phases == USERS_PHASES_MAX)
			return -EINVAL;
		if (parse_phase(&text, &u.phase[u.phases++]))
			return -EINVAL;
		if (!*text)
			break;
		/* Only the last phase may do without an end. */
		if (*text++ != ',' || u.phase[u.phases - 1].seconds <= 0)
			return -EINVAL;
	}
	*out = u;
	return 0;
}

const struct users_phase *users_at(const struct users *u, double elapsed_s)
{
	unsigned i = 0;

	while (i + 1 < u->phases && elapsed_s >= u->phase[i].seconds)
		elapsed_s -= u->phase[i++].seconds;
	return &u->phase[i];
}

unsigned users_peak(const struct users *u)
{
	unsigned peak = 0;

	for (unsigned i = 0; i < u->phases; i++)
		if (u->phase[i].users > peak)
			peak = u->phase[i].users;
	return peak;
}
