#include "bpf/tracker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/diag.h"
#include "bpf/libssl.h"
#include "bpf/loopback.h"
#include "bpf/paths.h"
#include "bpf/refusal.h"
#include "bpf/rungs.h"
#include "bpf/selftest.h"
#include "wire/clock.h"

#define SELFTEST_TRIES 3
#define SETTLE_NS 5000000000ull  /* after that a sure guess is believed */
#define EXPIRE_NS 60000000000ull /* after that any other is not */
#define SWEEP_NS 1000000000ull   /* at least, between two looks */
#define SWEEP_SHARE 400          /* and so many times what one takes */
#define DIAG_PERIOD_NS 500000000ull
#define QUEUES_SHARE 1000 /* more, where they tell but the queues */

struct tracker {
	const struct rung *rung; /* NULL: diag */
	struct rung_programs bpf;
	struct libssl *libssl; /* NULL: not needed so far */
	struct ring_buffer *ring;
	struct request_histogram *per_cpu; /* one for each possible CPU */
	int cpus;
	struct paths paths;
	uint64_t walk_ns;              /* when the sockets are looked at next */
	uint64_t oldest_ns, listeners; /* as of the last look */
	int walked;                    /* 0, or why not */
	uint64_t settle_ns, expire_ns; /* when guesses have had their time */
	char refused[TRACKER_REFUSED_BYTES];
	size_t refused_why; /* where the last reason begins */
	uint16_t ports[TRACKER_PORTS_MAX];
	size_t n_ports;
	bool unix_followed;
	char unix_refused[160];
	int diag; /* -1 without */
	uint64_t diag_ns;
	struct diag_counts counts;
	/* of tracker_drain, while it runs */
	void (*fn)(const struct request_record *r, void *arg);
	void *arg;
	int drained;
};

static int silent(enum libbpf_print_level level, const char *format, va_list ap)
{
	(void)level;
	(void)format;
	(void)ap;
	return 0;
}

/* ---- records ------------------------------------------------------------- */

static int record_read(void *arg, void *data, size_t bytes)
{
	struct tracker *t = arg;

	if (bytes == sizeof(struct path_record)) {
		t->bpf.shared->paths_wanted = paths_learn(&t->paths, data);
	} else if (bytes == sizeof(struct request_record)) {
		t->drained++;
		if (t->fn)
			t->fn(data, t->arg);
	}
	return 0;
}

/* Look at the open sockets when that is due. */
static void walk(struct tracker *t)
{
	uint64_t now_ns = clock_now_ns(), cpu_ns;

	if (now_ns < t->walk_ns)
		return;
	cpu_ns = clock_thread_cpu_ns();
	t->bpf.shared->settle = now_ns < t->settle_ns   ? SETTLE_NONE
				: now_ns < t->expire_ns ? SETTLE_SURE
							: SETTLE_ALL;
	t->walked = rung_walk(&t->bpf);
	t->oldest_ns = t->bpf.shared->oldest_ns;
	t->listeners = t->bpf.shared->listeners;
	cpu_ns = clock_thread_cpu_ns() - cpu_ns;
	t->walk_ns = now_ns + SWEEP_NS + SWEEP_SHARE * cpu_ns;
	if (now_ns < t->settle_ns && t->walk_ns > t->settle_ns)
		t->walk_ns = t->settle_ns;
}

int tracker_drain(struct tracker *t,
		  void (*fn)(const struct request_record *r, void *arg),
		  void *arg)
{
	int err;

	if (!t->rung)
		return 0;
	walk(t);
	if (t->libssl)
		libssl_tend(t->libssl, clock_now_ns());
	t->fn = fn;
	t->arg = arg;
	t->drained = 0;
	err = ring_buffer__consume(t->ring);
	return err < 0 ? err : t->drained;
}

/* ---- settings ------------------------------------------------------------ */

/* At what is new: what was guessed there has its time from now on. */
static void looked(struct tracker *t, int result)
{
	uint64_t now_ns = clock_now_ns();

	t->walked = result;
	t->listeners = t->bpf.shared->listeners;
	t->walk_ns = now_ns + SWEEP_NS;
	t->settle_ns = now_ns + SETTLE_NS;
	t->expire_ns = now_ns + EXPIRE_NS;
}

int tracker_set_ports(struct tracker *t, const uint16_t *ports, size_t n)
{
	if ((!n && !t->unix_followed) || n > TRACKER_PORTS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (!ports[i])
			return -EINVAL;
	memcpy(t->ports, ports, n * sizeof(*ports));
	t->n_ports = n;
	if (!t->rung)
		return 0;
	rung_ports(&t->bpf, ports, n);
	t->bpf.shared->settle = SETTLE_NONE;
	/* without it, they are known by their next bytes */
	looked(t, rung_walk(&t->bpf));
	return 0;
}

int tracker_set_unix(struct tracker *t, const uint64_t *inodes, size_t n)
{
	if (n > TRACKER_UNIX_MAX)
		return -EINVAL;
	if (!t->unix_followed)
		return -EOPNOTSUPP;
	looked(t, rung_unix(&t->bpf, inodes, n));
	return t->walked;
}

const char *tracker_unix_refused(const struct tracker *t)
{
	return t->unix_refused;
}

uint64_t tracker_listeners(const struct tracker *t)
{
	return t->rung ? 1 + t->bpf.shared->listens + t->listeners : 0;
}

static int own_netns(uint32_t *inode)
{
	struct stat st;

	if (stat("/proc/self/ns/net", &st))
		return -errno;
	*inode = (uint32_t)st.st_ino;
	return 0;
}

const char *tracker_rung(const struct tracker *t)
{
	return t->rung ? t->rung->name : "diag socket times";
}

const char *tracker_needs(const char *letter)
{
	for (unsigned i = 0; i < RUNGS; i++)
		if (!strcmp(rungs[i].letter, letter))
			return rungs[i].needs;
	return "";
}

const char *tracker_refused(const struct tracker *t)
{
	return t->refused;
}

bool tracker_estimates(const struct tracker *t)
{
	return !t->rung;
}

uint64_t tracker_missed(const struct tracker *t)
{
	return t->rung ? rung_missed(&t->bpf) : 0;
}

/* ---- reading ------------------------------------------------------------- */

static int counts_read(struct tracker *t)
{
	uint64_t now_ns = clock_now_ns(), cpu_ns = clock_thread_cpu_ns();
	int err;

	if (now_ns < t->diag_ns)
		return 0;
	err = diag_read(t->diag, t->ports, t->n_ports, &t->counts);
	if (err)
		return err;
	cpu_ns = clock_thread_cpu_ns() - cpu_ns;
	t->diag_ns = now_ns + DIAG_PERIOD_NS;
	if (t->rung)
		t->diag_ns += QUEUES_SHARE * cpu_ns;
	return 0;
}

static void estimate_read(struct tracker *t, struct request_gauges *gauges,
			  struct request_counters *counters)
{
	counts_read(t); /* else the last counts stand */
	*gauges = (struct request_gauges){ 0 };
	gauges->waiting[ENDPOINT_GENERATION] = t->counts.waiting;
	gauges->streaming[ENDPOINT_GENERATION] = t->counts.streaming;
	*counters = (struct request_counters){ 0 };
}

int tracker_oldest(struct tracker *t, uint64_t *start_ns)
{
	if (!t->rung)
		return -EOPNOTSUPP;
	if (t->walked)
		return t->walked;
	*start_ns = t->oldest_ns;
	return 0;
}

int tracker_queues(struct tracker *t, uint64_t *unread_bytes, uint64_t *backlog)
{
	uint32_t own = 0;
	int err = own_netns(&own);

	if (err)
		return err;
	if (t->diag < 0 || (t->rung && t->bpf.shared->netns_inode != own))
		return -EOPNOTSUPP;
	err = counts_read(t);
	if (err)
		return err;
	*unread_bytes = t->counts.unread_bytes;
	*backlog = t->counts.backlog;
	return 0;
}

void tracker_read(struct tracker *t, struct request_gauges *gauges,
		  struct request_counters *counters)
{
	if (t->rung)
		rung_read(&t->bpf, gauges, counters);
	else
		estimate_read(t, gauges, counters);
}

int tracker_histogram(struct tracker *t, enum tracker_histogram which,
		      struct request_histogram *out)
{
	uint32_t key = (uint32_t)which;
	struct request_histogram sum = { 0 };

	if (!t->rung) {
		*out = sum;
		return 0;
	}
	if (bpf_map_lookup_elem(t->bpf.histograms, &key, t->per_cpu))
		return -errno;
	for (int cpu = 0; cpu < t->cpus; cpu++) {
		const struct request_histogram *h = &t->per_cpu[cpu];

		sum.count += h->count;
		sum.sum_ns += h->sum_ns;
		for (uint32_t i = 0; i < HIST_BUCKETS; i++)
			sum.buckets[i] += h->buckets[i];
	}
	*out = sum;
	return 0;
}

/* ---- TLS ----------------------------------------------------------------- */

int tracker_tls_attach(struct tracker *t, const struct tracker_tls *library)
{
	int err = 0;

	if (!t->rung || *t->rung->letter == 'C')
		return -EOPNOTSUPP;
	if (!t->libssl)
		err = libssl_open(&t->libssl, &t->bpf);
	return err ? err : libssl_attach(t->libssl, library);
}

void tracker_tls_keep(struct tracker *t, const pid_t *pids, size_t n)
{
	if (t->libssl)
		libssl_keep(t->libssl, pids, n);
}

unsigned tracker_tls_processes(const struct tracker *t)
{
	return t->libssl ? libssl_processes(t->libssl) : 0;
}

/* ---- opening ------------------------------------------------------------- */

/* All but the gauges: those of a test that failed may still come to rest. */
static int counters_clear(struct tracker *t)
{
	tracker_drain(t, NULL, NULL);
	memset(t->per_cpu, 0, (size_t)t->cpus * sizeof(*t->per_cpu));
	for (uint32_t key = 0; key <= TRACKER_DURATION; key++)
		if (bpf_map_update_elem(t->bpf.histograms, &key, t->per_cpu,
					BPF_ANY))
			return -errno;
	memset(&t->bpf.shared->counters, 0, sizeof(t->bpf.shared->counters));
	return 0;
}

/*
 * On a machine with more to do than it can, a packet may be later than the test
 * waits: one failure proves nothing.
 */
static int selftest(struct tracker *t,
		    int (*exchange)(struct rung_programs *p, char *why,
				    size_t why_bytes),
		    char *why, size_t why_bytes)
{
	int err = -EPROTO, uncleared = 0;

	for (int i = 0; err && !uncleared && i < SELFTEST_TRIES; i++) {
		err = exchange(&t->bpf, why, why_bytes);
		uncleared = counters_clear(t);
	}
	if (uncleared)
		snprintf(why, why_bytes, "cannot clear the histograms: %s",
			 strerror(-uncleared));
	return uncleared ? uncleared : err;
}

static int prepare(struct tracker *t)
{
	t->cpus = libbpf_num_possible_cpus();
	if (t->cpus < 0)
		return t->cpus;
	if (!t->per_cpu)
		t->per_cpu = calloc((size_t)t->cpus, sizeof(*t->per_cpu));
	t->ring = ring_buffer__new(t->bpf.records, record_read, t, NULL);
	if (!t->per_cpu || !t->ring)
		return -ENOMEM;
	t->bpf.shared->paths_wanted = 1;
	return paths_init(&t->paths, t->bpf.paths);
}

/* UNIX sockets, too; without them the ports are better than nothing. */
static int start_unix(struct tracker *t, const struct tracker_config *config,
		      char *why, size_t why_bytes)
{
	int err;

	if (*t->rung->letter == 'C') {
		snprintf(why, why_bytes, "a UNIX socket sends no packets");
		err = -EOPNOTSUPP;
	} else {
		err = selftest(t, selftest_unix, why, why_bytes);
	}
	t->unix_followed = !err;
	snprintf(t->unix_refused, sizeof(t->unix_refused), "%s",
		 err ? why : "");
	return config->n_ports ? 0 : err;
}

static int start(struct tracker *t, const struct tracker_config *config,
		 char *why, size_t why_bytes)
{
	uint32_t own = 0;
	int err = own_netns(&own);

	if (!err)
		err = prepare(t);
	if (err) {
		snprintf(why, why_bytes, "cannot set up: %s", strerror(-err));
		return err;
	}
	t->bpf.shared->netns_inode = own;
	err = selftest(t, selftest_exchange, why, why_bytes);
	if (!err && config->n_unix)
		err = start_unix(t, config, why, why_bytes);
	if (err)
		return err;
	t->bpf.shared->netns_inode = config->netns ? config->netns : own;
	err = tracker_set_ports(t, config->ports, config->n_ports);
	if (!err && t->unix_followed)
		err = tracker_set_unix(t, config->unix_inodes, config->n_unix);
	return err;
}

static int try_rung(struct tracker *t, const struct rung *r,
		    const struct tracker_config *config, char *why,
		    size_t why_bytes)
{
	int err;

	err = rung_load(r, &t->bpf);
	if (!err)
		err = rung_attach(&t->bpf);
	t->rung = r;
	if (err)
		err = refusal_of_load(r, err, why, why_bytes);
	else
		err = start(t, config, why, why_bytes);
	if (!err)
		return 0;
	ring_buffer__free(t->ring);
	t->ring = NULL;
	rung_close(&t->bpf);
	t->rung = NULL;
	return err;
}

static int try_diag(struct tracker *t, const struct tracker_config *config,
		    char *why, size_t why_bytes)
{
	uint32_t own = 0;
	int err = own_netns(&own);

	snprintf(t->unix_refused, sizeof(t->unix_refused), "%s",
		 config->n_unix ? "UNIX sockets keep no times" : "");
	if (!config->n_ports) {
		snprintf(why, why_bytes, "%s", t->unix_refused);
		return -EOPNOTSUPP;
	}
	if (!err && config->netns && config->netns != own) {
		snprintf(why, why_bytes, "another network namespace");
		return -EOPNOTSUPP;
	}
	if (!err && t->diag < 0)
		err = -EOPNOTSUPP;
	if (err) {
		snprintf(why, why_bytes, "no inet_diag: %s", strerror(-err));
		return err;
	}
	err = selftest_diag(t->diag, why, why_bytes);
	return err ? err : tracker_set_ports(t, config->ports, config->n_ports);
}

/* "K, F: one reason; C: another" */
static void refuse(struct tracker *t, const char *letter, const char *why)
{
	char *last = t->refused + t->refused_why;
	size_t n = strlen(t->refused);

	if (n && !strcmp(last, why)) {
		snprintf(last - 2, sizeof(t->refused) - t->refused_why + 2,
			 ", %s: %s", letter, why);
		t->refused_why += 2 + strlen(letter);
		return;
	}
	n += (size_t)snprintf(t->refused + n, sizeof(t->refused) - n,
			      "%s%s: ", n ? "; " : "", letter);
	if (n >= sizeof(t->refused))
		return;
	t->refused_why = n;
	snprintf(t->refused + n, sizeof(t->refused) - n, "%s", why);
}

static bool asked_for(const struct tracker_config *config, const char *letter)
{
	return !config->rung || !strcmp(config->rung, letter);
}

/* The first source that works; why and the error are of the first tried. */
static int climb(struct tracker *t, const struct tracker_config *config,
		 char *why, size_t why_bytes)
{
	int first = -EINVAL, err;
	char one[160]; /* six of them find room in refused */

	snprintf(why, why_bytes, "no source has this name");
	for (unsigned i = 0; i <= RUNGS; i++) {
		const char *letter = i < RUNGS ? rungs[i].letter : "diag";

		if (!asked_for(config, letter))
			continue;
		snprintf(one, sizeof(one), "unknown");
		err = i < RUNGS
			      ? try_rung(t, &rungs[i], config, one, sizeof(one))
			      : try_diag(t, config, one, sizeof(one));
		if (!err)
			return 0;
		if (first == -EINVAL) {
			first = err;
			snprintf(why, why_bytes, "%s", one);
		}
		if (err == -ENOMEM)
			return err;
		refuse(t, letter, one);
	}
	return first;
}

int tracker_open(struct tracker **out, const struct tracker_config *config,
		 char *why, size_t why_bytes)
{
	struct tracker *t;
	int err;

	if (!(config->n_ports + config->n_unix) ||
	    config->n_ports > TRACKER_PORTS_MAX ||
	    config->n_unix > TRACKER_UNIX_MAX) {
		snprintf(why, why_bytes,
			 "%zu ports and %zu UNIX sockets, not 1 to %u or %u",
			 config->n_ports, config->n_unix, TRACKER_PORTS_MAX,
			 TRACKER_UNIX_MAX);
		return -EINVAL;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		snprintf(why, why_bytes, "no memory");
		return -ENOMEM;
	}
	libbpf_set_print(silent);
	t->diag = -1;
	diag_open(&t->diag);
	err = climb(t, config, why, why_bytes);
	if (err) {
		tracker_close(t);
		return err;
	}
	*out = t;
	return 0;
}

void tracker_close(struct tracker *t)
{
	if (!t)
		return;
	ring_buffer__free(t->ring);
	libssl_close(t->libssl);
	rung_close(&t->bpf);
	if (t->diag >= 0)
		close(t->diag);
	free(t->per_cpu);
	free(t);
}
