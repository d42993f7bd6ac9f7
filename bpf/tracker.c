#include "bpf/tracker.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "bpf/endpoints.h"
#include "bpf/loopback.h"
#include "bpf/path.h"

#ifdef __clang_analyzer__ /* it takes this for a leak in generated code */
void bpf_object__destroy_skeleton(struct bpf_object_skeleton *s)
	__attribute__((ownership_takes(malloc, 1)));
#endif
#include "bpf/requests.skel.h"

#define PORT_WORDS (65536 / 64)
#define SETTLE_MS 250 /* for packets of the self-test still on their way */
#define SELFTEST_TRIES 3

_Static_assert(sizeof(((struct requests_bpf__bss *)0)->ports_on) ==
		       PORT_WORDS * sizeof(uint64_t),
	       "one bit per port");

struct tracker {
	struct requests_bpf *skel;
	struct ring_buffer *ring;
	struct request_histogram *per_cpu; /* one for each possible CPU */
	int cpus;
	uint32_t paths; /* hashes in the program's table */
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

/* ---- paths --------------------------------------------------------------- */

static int path_teach(struct tracker *t, uint64_t hash, enum endpoint endpoint)
{
	uint8_t value = (uint8_t)endpoint;
	int err = bpf_map_update_elem(bpf_map__fd(t->skel->maps.paths), &hash,
				      &value, BPF_NOEXIST);

	if (!err)
		t->paths++;
	/* EEXIST: shipped twice, or learnt by the program itself */
	return err && errno != EEXIST ? -errno : 0;
}

static int paths_init(struct tracker *t)
{
	size_t n;
	const struct endpoint_path *p = endpoints_table(&n);

	for (size_t i = 0; i < n; i++) {
		uint64_t hash = endpoints_hash(p[i].path, strlen(p[i].path));
		int err = path_teach(t, hash, p[i].endpoint);

		if (err)
			return err;
	}
	t->skel->bss->paths_wanted = 1;
	return 0;
}

/*
 * Half of the table is kept for what the program learns by itself; clients that
 * try random paths end the reports, not the counting.
 */
static void path_read(struct tracker *t, const struct path_record *r)
{
	char tail[PATH_TAIL_BYTES];
	uint32_t n = r->bytes < PATH_TAIL_BYTES ? r->bytes : PATH_TAIL_BYTES;

	for (uint32_t i = 0; i < n; i++)
		tail[i] = r->tail[(r->bytes - n + i) % PATH_TAIL_BYTES];
	path_teach(t, r->hash, endpoints_classify(tail, n));
	if (t->paths >= PATHS_MAX / 2)
		t->skel->bss->paths_wanted = 0;
}

/* ---- records ------------------------------------------------------------- */

static int record_read(void *arg, void *data, size_t bytes)
{
	struct tracker *t = arg;

	if (bytes == sizeof(struct path_record)) {
		path_read(t, data);
	} else if (bytes == sizeof(struct request_record)) {
		t->drained++;
		if (t->fn)
			t->fn(data, t->arg);
	}
	return 0;
}

int tracker_drain(struct tracker *t,
		  void (*fn)(const struct request_record *r, void *arg),
		  void *arg)
{
	int err;

	t->fn = fn;
	t->arg = arg;
	t->drained = 0;
	err = ring_buffer__consume(t->ring);
	return err < 0 ? err : t->drained;
}

/* ---- settings ------------------------------------------------------------ */

static void ports_apply(struct tracker *t, const uint16_t *ports, size_t n)
{
	uint64_t on[PORT_WORDS] = { 0 };
	struct requests_bpf__bss *bss = t->skel->bss;

	for (size_t i = 0; i < n; i++)
		on[ports[i] / 64] |= 1ull << (ports[i] % 64);
	/* Word by word, so that a port that stays is never off. */
	for (size_t i = 0; i < PORT_WORDS; i++) {
		if (on[i] & ~bss->ports_seen[i])
			__atomic_fetch_or((uint64_t *)&bss->ports_seen[i],
					  on[i], __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)&bss->ports_on[i], on[i],
				 __ATOMIC_RELEASE);
	}
}

int tracker_set_ports(struct tracker *t, const uint16_t *ports, size_t n)
{
	if (!n || n > TRACKER_PORTS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (!ports[i])
			return -EINVAL;
	ports_apply(t, ports, n);
	return 0;
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
	(void)t;
	return "K tp_btf sock_*_length";
}

/* ---- reading ------------------------------------------------------------- */

static void words_read(void *to, const void *from, size_t bytes)
{
	const uint64_t *w = from;
	uint64_t *out = to;

	for (size_t i = 0; i < bytes / sizeof(*w); i++)
		out[i] = __atomic_load_n(&w[i], __ATOMIC_RELAXED);
}

void tracker_read(struct tracker *t, struct request_gauges *gauges,
		  struct request_counters *counters)
{
	words_read(gauges, &t->skel->bss->gauges, sizeof(*gauges));
	words_read(counters, &t->skel->bss->counters, sizeof(*counters));
}

int tracker_histogram(struct tracker *t, enum tracker_histogram which,
		      struct request_histogram *out)
{
	uint32_t key = (uint32_t)which;
	struct request_histogram sum = { 0 };

	if (bpf_map_lookup_elem(bpf_map__fd(t->skel->maps.histograms), &key,
				t->per_cpu))
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

/* ---- opening ------------------------------------------------------------- */

/* All but the gauges: those of a test that failed may still come to rest. */
static int counters_clear(struct tracker *t)
{
	int fd = bpf_map__fd(t->skel->maps.histograms);

	tracker_drain(t, NULL, NULL);
	memset(t->per_cpu, 0, (size_t)t->cpus * sizeof(*t->per_cpu));
	for (uint32_t key = 0; key <= TRACKER_DURATION; key++)
		if (bpf_map_update_elem(fd, &key, t->per_cpu, BPF_ANY))
			return -errno;
	memset(&t->skel->bss->counters, 0, sizeof(t->skel->bss->counters));
	return 0;
}

static bool selftest_exact(struct tracker *t)
{
	const enum endpoint e = ENDPOINT_GENERATION;
	struct request_counters c;
	struct request_gauges g;

	tracker_read(t, &g, &c);
	return c.started[e] == LOOPBACK_STARTED &&
	       c.completed[e] == LOOPBACK_COMPLETED &&
	       c.client_aborted[e] == LOOPBACK_ABORTED &&
	       c.events[e] == LOOPBACK_EVENTS && !c.desyncs && !g.waiting[e] &&
	       !g.streaming[e];
}

static int selftest_once(struct tracker *t, char *why, size_t why_bytes)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	uint16_t port;
	int fd, err;

	err = loopback_listen(&fd, &port);
	if (err) {
		snprintf(why, why_bytes,
			 "self-test: cannot listen on 127.0.0.1: %s",
			 strerror(-err));
		return -EPROTO;
	}
	ports_apply(t, &port, 1);
	err = loopback_exchange(fd, port);
	for (int i = 0; !err && i < SETTLE_MS && !selftest_exact(t); i++)
		nanosleep(&ms, NULL);
	ports_apply(t, NULL, 0);
	close(fd);
	if (err) {
		snprintf(why, why_bytes,
			 "self-test: no connection to 127.0.0.1: %s",
			 strerror(-err));
		return -EPROTO;
	}
	if (!selftest_exact(t)) {
		snprintf(why, why_bytes,
			 "self-test: a known exchange was not counted exactly");
		return -EPROTO;
	}
	return 0;
}

/*
 * On a machine with more to do than it can, a packet may be later than the test
 * waits: one failure proves nothing.
 */
static int selftest(struct tracker *t, char *why, size_t why_bytes)
{
	int err = -EPROTO, uncleared = 0;

	for (int i = 0; err && !uncleared && i < SELFTEST_TRIES; i++) {
		err = selftest_once(t, why, why_bytes);
		uncleared = counters_clear(t);
	}
	if (uncleared)
		snprintf(why, why_bytes, "cannot clear the histograms: %s",
			 strerror(-uncleared));
	return uncleared ? uncleared : err;
}

/* CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, which holds both. */
static bool privileged(void)
{
	const uint64_t both = 1ull << CAP_BPF | 1ull << CAP_PERFMON;
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	uint64_t has;

	if (syscall(SYS_capget, &head, data))
		return false;
	has = (uint64_t)data[1].effective << 32 | data[0].effective;
	return (has & both) == both || (has & 1ull << CAP_SYS_ADMIN);
}

/* What a refusal of the programs means, for the caller and for the user. */
static int load_error(int err, char *why, size_t why_bytes)
{
	if (err == -ENOMEM) {
		snprintf(why, why_bytes, "no memory for the BPF programs");
		return err;
	}
	if (!privileged()) {
		snprintf(why, why_bytes, "no CAP_BPF and CAP_PERFMON");
		return -EPERM;
	}
	if (err == -EPERM || err == -EACCES) {
		snprintf(why, why_bytes, "this kernel refuses BPF programs: %s",
			 strerror(-err));
		return -EACCES;
	}
	snprintf(why, why_bytes, "no BTF or no tracepoints sock_*_length: %s",
		 strerror(-err));
	return -EOPNOTSUPP;
}

static int load(struct tracker *t, char *why, size_t why_bytes)
{
	int err;

	libbpf_set_print(silent);
	t->skel = requests_bpf__open();
	err = t->skel ? requests_bpf__load(t->skel) : -errno;
	if (!err)
		err = requests_bpf__attach(t->skel);
	return err ? load_error(err, why, why_bytes) : 0;
}

static int prepare(struct tracker *t)
{
	t->cpus = libbpf_num_possible_cpus();
	if (t->cpus < 0)
		return t->cpus;
	t->per_cpu = calloc((size_t)t->cpus, sizeof(*t->per_cpu));
	t->ring = ring_buffer__new(bpf_map__fd(t->skel->maps.records),
				   record_read, t, NULL);
	return t->per_cpu && t->ring ? 0 : -ENOMEM;
}

static int start(struct tracker *t, const struct tracker_config *config,
		 char *why, size_t why_bytes)
{
	uint32_t own = 0;
	int err = own_netns(&own);

	if (!err)
		err = prepare(t);
	if (!err)
		err = paths_init(t);
	if (err) {
		snprintf(why, why_bytes, "cannot set up: %s", strerror(-err));
		return err;
	}
	t->skel->bss->netns_inode = own;
	err = selftest(t, why, why_bytes);
	if (err)
		return err;
	t->skel->bss->netns_inode = config->netns ? config->netns : own;
	return tracker_set_ports(t, config->ports, config->n_ports);
}

int tracker_open(struct tracker **out, const struct tracker_config *config,
		 char *why, size_t why_bytes)
{
	struct tracker *t;
	int err;

	if (!config->n_ports || config->n_ports > TRACKER_PORTS_MAX) {
		snprintf(why, why_bytes, "%zu ports, not 1 to %u",
			 config->n_ports, TRACKER_PORTS_MAX);
		return -EINVAL;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		snprintf(why, why_bytes, "no memory");
		return -ENOMEM;
	}
	err = load(t, why, why_bytes);
	if (!err)
		err = start(t, config, why, why_bytes);
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
	requests_bpf__destroy(t->skel);
	free(t->per_cpu);
	free(t);
}
