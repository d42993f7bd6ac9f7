/*
 * engine_reader.h - asks a server what it says of itself; blocking
 *
 * One step asks for all that is due: the metrics page (of one port after the
 * other, until one answers as a known engine; then of that one), the pages of
 * engine_info.h once, and again after the server was gone, SGLang's load in
 * shared memory, and, once, the log where the server's output is a file.  For a
 * worker's thread only.
 */
#ifndef MOETOP_CORE_ENGINE_READER_H
#define MOETOP_CORE_ENGINE_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/engine_info.h"
#include "target/engine_log.h"
#include "target/load_snapshot.h"
#include "target/scrape.h"
#include "target/target.h"

#define ENGINE_LOG_BYTES_MAX (16u << 20)

/* Where to ask. */
struct engine_places {
	pid_t pid;
	unsigned n_pids, n_ports;
	pid_t pids[TARGET_PIDS_MAX];
	uint16_t ports[TARGET_PORTS_MAX];
	char engine[16]; /* by the command line; "" not known */
};

/* What is known so far. */
struct engine_facts {
	struct scrape scrape;
	uint64_t scraped_ns; /* 0 never; CLOCK_MONOTONIC, as the next */
	struct load_snapshot load;
	uint64_t load_ns;
	struct engine_info info;
	unsigned pages;  /* that have answered */
	unsigned locked; /* and those that want a key */
	struct engine_log log;
	bool have_log;
	uint16_t port; /* that speaks HTTP; 0 none yet */
	int error;     /* of the last try at the metrics; 0 */
	int network;   /* -EPERM, -EACCES: its network cannot be reached; 0 */
};

struct engine_reader;

/* 0 and *out, or -ENOMEM. */
int engine_reader_new(struct engine_reader **out);
/* Learn more; *facts keeps what is not asked for again. */
void engine_reader_step(struct engine_reader *r, const struct engine_places *p,
			struct engine_facts *facts);
/* It is in the server's network: only files are left to be opened. */
bool engine_reader_inside(const struct engine_reader *r);
/* The server is up and has been looked at: from now on HTTP is enough. */
bool engine_reader_settled(const struct engine_reader *r);
void engine_reader_free(struct engine_reader *r); /* NULL is legal */

#endif
