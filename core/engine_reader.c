#include "core/engine_reader.h"
#include "core/fetch.h"
#include "wire/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_CHUNK (64u << 10)
#define LOOK_EVERY_NS (30 * NS_PER_S) /* for a load snapshot */
#define PAGE_TRIES 3u
#define PAGES_MAX 8u
#define LOAD_STALE_S 30.0
/* Any of these may be the engine's. */
#define LOOK_PORTS_MAX 16u
/* Several ports, and none of them an engine's: after some looks, not every
 * second. */
#define LOOKS_IN_VAIN 5u
#define VAIN_LOOK_EVERY_NS (30 * NS_PER_S)

struct engine_reader {
	struct fetch *fetch;
	uint16_t port;          /* that answered as an engine; 0 none */
	bool up;                /* some port has spoken HTTP */
	bool logged;            /* the log has been looked for */
	unsigned n_ports, vain; /* looks at that many, without an answer */
	uint64_t vain_ns;       /* the last one */
	unsigned tries[PAGES_MAX];
	pid_t load_pid; /* whose file it is; 0 none */
	char load_name[256];
	uint64_t load_looked_ns; /* 0 never */
};

/* ---- the metrics -------------------------------------------------------- */

/* It speaks HTTP, whatever it says. */
static bool spoke(int err)
{
	return err == 0 || err == -EACCES || err == -ENOENT || err == -ENODATA;
}

static int ask(struct engine_reader *r, uint16_t port, struct engine_facts *f)
{
	const char *body;
	size_t bytes;
	int err = fetch_metrics(r->fetch, port, &body, &bytes);

	if (!err)
		err = scrape_parse(body, bytes, &f->scrape);
	if (!err)
		f->scraped_ns = clock_now_ns();
	if (spoke(err) && !f->port)
		f->port = port;
	return err;
}

/* Others than HTTP servers listen, too, and their logs are not ours to fill. */
static bool may_look(struct engine_reader *r, const struct engine_places *p)
{
	uint64_t now_ns = clock_now_ns();

	if (p->n_ports != r->n_ports)
		r->vain = 0;
	r->n_ports = p->n_ports;
	if (p->n_ports > 1 && r->vain >= LOOKS_IN_VAIN &&
	    now_ns < r->vain_ns + VAIN_LOOK_EVERY_NS)
		return false;
	r->vain++;
	r->vain_ns = now_ns;
	return true;
}

static void find_metrics(struct engine_reader *r, const struct engine_places *p,
			 struct engine_facts *f)
{
	int err;

	if (r->port) {
		f->error = ask(r, r->port, f);
		if (!f->error)
			return;
	}
	if (!may_look(r, p))
		return;
	r->port = f->port = 0;
	f->error = -ECONNREFUSED;
	for (unsigned i = 0; i < p->n_ports && i < LOOK_PORTS_MAX; i++) {
		err = ask(r, p->ports[i], f);
		if (spoke(err) || !f->port)
			f->error = err;
		if (err)
			continue;
		f->port = r->port = p->ports[i];
		r->vain = 0;
		return;
	}
}

/* The next server at this place may have another model and other options. */
static void read_metrics(struct engine_reader *r, const struct engine_places *p,
			 struct engine_facts *f)
{
	bool there = f->port != 0;

	find_metrics(r, p, f);
	if (!there || f->port || f->error != -ECONNREFUSED)
		return;
	memset(r->tries, 0, sizeof(r->tries));
	f->info = (struct engine_info){ .engine = "" };
	f->pages = f->locked = 0;
}

/* ---- pages that are read once ------------------------------------------- */

/* What is known of the engine: its own word first. */
static const char *engine_of(const struct engine_places *p,
			     const struct engine_facts *f)
{
	if (f->scraped_ns)
		return f->scrape.engine;
	return f->info.engine[0] ? f->info.engine : p->engine;
}

static int read_page(struct engine_reader *r,
		     const struct engine_info_page *page, uint16_t port,
		     struct engine_info *info)
{
	const char *body;
	size_t bytes;
	int err = fetch_get(r->fetch, port, page->path, &body, &bytes);

	if (err == -ENOENT && page->instead)
		err = fetch_get(r->fetch, port, page->instead, &body, &bytes);
	return err ? err : engine_info_add(info, page, body, bytes);
}

static void read_pages(struct engine_reader *r, const struct engine_places *p,
		       struct engine_facts *f)
{
	const char *engine = engine_of(p, f);

	for (unsigned i = 0; i < PAGES_MAX && engine_info_pages[i].path; i++) {
		const struct engine_info_page *page = &engine_info_pages[i];
		int err;

		if (r->tries[i] >= PAGE_TRIES ||
		    (page->engine && strcmp(page->engine, engine) != 0))
			continue;
		err = read_page(r, page, f->port, &f->info);
		r->tries[i]++;
		if (err == 0 || err == -ENOENT || err == -EACCES)
			r->tries[i] = PAGE_TRIES;
		f->pages += err == 0;
		f->locked += err == -EACCES;
	}
}

/* ---- shared memory ------------------------------------------------------ */

static void find_load(struct engine_reader *r, const struct engine_places *p)
{
	uint64_t now = clock_now_ns();

	if (r->load_looked_ns && now < r->load_looked_ns + LOOK_EVERY_NS)
		return;
	r->load_looked_ns = now;
	if (load_snapshot_find(p->pids, p->n_pids, &r->load_pid, r->load_name,
			       sizeof(r->load_name)))
		r->load_pid = 0;
}

static void read_load(struct engine_reader *r, const struct engine_places *p,
		      struct engine_facts *f)
{
	struct load_snapshot s;
	int err;

	if (strcmp(engine_of(p, f), "sglang") != 0)
		return;
	if (!r->load_pid)
		find_load(r, p);
	if (!r->load_pid)
		return;
	err = load_snapshot_read(r->load_pid, r->load_name, &s);
	/* a file that nobody has written to yet is the right one */
	if (err && err != -ENODATA)
		r->load_pid = 0;
	if (err)
		return;
	/* a scheduler without work need not publish */
	if (s.running + s.waiting > 0 && clock_unix_s() - s.time > LOAD_STALE_S)
		return;
	f->load = s;
	f->load_ns = clock_now_ns();
}

/* ---- the log ------------------------------------------------------------ */

/* Never a pipe or a terminal: reading would take from the server. */
static int open_log(pid_t pid, int number, struct stat *st)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, number);
	if (stat(path, st) || !S_ISREG(st->st_mode))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && (fstat(fd, st) || !S_ISREG(st->st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Chunks are cut at the last end of a line. */
static void read_log_file(int fd, struct engine_log *log)
{
	char *buf = malloc(LOG_CHUNK);
	size_t kept = 0, total = 0;
	ssize_t n;

	while (buf && total < ENGINE_LOG_BYTES_MAX &&
	       (n = read(fd, buf + kept, LOG_CHUNK - kept)) > 0) {
		size_t have = kept + (size_t)n;
		char *end = memrchr(buf, '\n', have);
		size_t whole = end ? (size_t)(end - buf) + 1 : have;

		total += (size_t)n;
		engine_log_add(log, buf, whole);
		kept = have - whole;
		memmove(buf, buf + whole, kept);
	}
	if (buf && kept)
		engine_log_add(log, buf, kept);
	free(buf);
}

/* Of the server itself and its first workers: they share it as a rule. */
static void read_log(const struct engine_places *p, struct engine_facts *f)
{
	struct stat st, first = { 0 };

	engine_log_init(&f->log);
	for (int number = 1; number <= 2; number++) {
		int fd = open_log(p->pid, number, &st);

		if (fd < 0)
			continue;
		if (!f->have_log || st.st_ino != first.st_ino ||
		    st.st_dev != first.st_dev)
			read_log_file(fd, &f->log);
		first = st;
		f->have_log = true;
		close(fd);
	}
}

/* ------------------------------------------------------------------------- */

int engine_reader_new(struct engine_reader **out)
{
	struct engine_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*out = r;
	return 0;
}

void engine_reader_step(struct engine_reader *r, const struct engine_places *p,
			struct engine_facts *facts)
{
	facts->network = r->fetch ? 0 : fetch_open(&r->fetch, p->pid);
	if (facts->network) {
		facts->error = -EACCES;
		read_load(r, p, facts);
		return;
	}
	read_metrics(r, p, facts);
	if (facts->port) {
		read_pages(r, p, facts);
		r->up = true;
	}
	read_load(r, p, facts);
	if (r->up && !r->logged) {
		read_log(p, facts);
		r->logged = true;
	}
}

bool engine_reader_inside(const struct engine_reader *r)
{
	return r->fetch != NULL;
}

/* The load snapshot is opened again for each look. */
bool engine_reader_settled(const struct engine_reader *r)
{
	return r->logged && !r->load_pid;
}

void engine_reader_free(struct engine_reader *r)
{
	if (!r)
		return;
	fetch_close(r->fetch);
	free(r);
}
