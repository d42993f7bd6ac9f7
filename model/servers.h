/*
 * servers.h - the LLM servers of a machine, as a list to pick from
 *
 * target/ finds them, the screen's picker and `moetop` without a pid show them.
 */
#ifndef MOETOP_MODEL_SERVERS_H
#define MOETOP_MODEL_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#define SERVERS_MAX 64u

struct server {
	int32_t pid; /* what -p takes: the root of its tree */
	char engine[16], engine_version[24]; /* "" unknown */
	char model[96];
	char gpus[48];    /* "8 x H200", "0-3"; "" none or unknown */
	uint16_t port;    /* 0 unknown */
	double in_flight; /* requests, the engine's own claim; NAN unknown */
	double age_s;
	char container[64]; /* id or pod of its cgroup, "" none */
	char note[96];      /* what keeps it from being watched, "" nothing */
	bool left_over;     /* workers whose server is gone: it serves nobody */
};

struct servers {
	unsigned n, more;                /* in the list; found beyond it */
	struct server list[SERVERS_MAX]; /* by pid */
};

#endif
