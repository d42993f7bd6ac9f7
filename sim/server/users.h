/*
 * users.h - how many simulated users there are, over time
 *
 * A schedule is "16" (sixteen users, for ever) or phases "1:10,16:10a,512:10":
 * users, seconds, and `a` where users that have become too many abandon their
 * request instead of finishing it.  The last phase holds.
 *
 * Pure.
 */
#ifndef MOETOP_SIM_SERVER_USERS_H
#define MOETOP_SIM_SERVER_USERS_H

#include <stdbool.h>

#define USERS_MAX 20000u
#define USERS_PHASES_MAX 64u

struct users_phase {
	unsigned users; /* 0..USERS_MAX */
	double seconds; /* 0: for ever */
	bool abandon;   /* a fall into this phase aborts requests */
};

struct users {
	struct users_phase phase[USERS_PHASES_MAX];
	unsigned phases;
};

/* 0, or -EINVAL with *out unchanged. */
int users_parse(const char *text, struct users *out);

/* The phase that is in force elapsed_s after the start. */
const struct users_phase *users_at(const struct users *u, double elapsed_s);

/* The most users of any phase. */
unsigned users_peak(const struct users *u);

#endif
