#include "bpf/rungs.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#ifdef __clang_analyzer__ /* it takes this for a leak in generated code */
void bpf_object__destroy_skeleton(struct bpf_object_skeleton *s)
	__attribute__((ownership_takes(malloc, 1)));
#endif
#include "bpf/requests_c.skel.h"
#include "bpf/requests_f.skel.h"
#include "bpf/requests_k.skel.h"
#include "bpf/requests_p.skel.h"
#include "bpf/requests_s.skel.h"

const struct rung rungs[RUNGS] = {
	{ "K", "K tp_btf sock_*_length",
	  "Linux >= 6.3, BTF, CAP_BPF + CAP_PERFMON",
	  requests_k_bpf__elf_bytes },
	{ "F", "F fexit tcp_sendmsg, tcp_recvmsg",
	  "Linux >= 5.15 (Arm: 6.4), BTF, CAP_BPF + CAP_PERFMON",
	  requests_f_bpf__elf_bytes },
	{ "P", "P kprobe tcp_sendmsg, tcp_recvmsg",
	  "Linux >= 5.15 with kprobes, BTF, CAP_BPF + CAP_PERFMON",
	  requests_p_bpf__elf_bytes },
	{ "C", "C cgroup_skb packets",
	  "Linux >= 5.12 with cgroup2, CAP_BPF + CAP_PERFMON + CAP_NET_ADMIN",
	  requests_c_bpf__elf_bytes },
	{ "S", "S raw_tp sys_exit",
	  "Linux >= 5.15, BTF, CAP_BPF + CAP_PERFMON; every process pays",
	  requests_s_bpf__elf_bytes },
};

/* ---- loading ------------------------------------------------------------- */

/* Arguments of functions of the kernel, 0 for one that it does not have. */
struct arguments {
	bool known;
	unsigned tcp_recvmsg, unix_recvmsg;
};

static unsigned arguments_of(const struct btf *b, const char *function)
{
	const struct btf_type *t = NULL;
	int id = btf__find_by_name_kind(b, function, BTF_KIND_FUNC);

	if (id > 0)
		t = btf__type_by_id(b, btf__type_by_id(b, (__u32)id)->type);
	return t ? btf_vlen(t) : 0;
}

static void arguments_read(struct arguments *a)
{
	struct btf *b = a->known ? NULL : btf__load_vmlinux_btf();

	a->known = true;
	if (!b)
		return;
	a->tcp_recvmsg = arguments_of(b, "tcp_recvmsg");
	a->unix_recvmsg = arguments_of(b, "unix_stream_recvmsg");
	btf__free(b);
}

/*
 * One of several variants of a program is right for this kernel, and UNIX sockets
 * may be a module that it does not know yet.
 */
static void choose_variant(struct bpf_object *o)
{
	struct arguments a = { 0 };
	struct bpf_program *p;

	bpf_object__for_each_program(p, o)
	{
		const char *name = bpf_program__name(p);

		if (!strncmp(name, "on_unix_", 8)) {
			arguments_read(&a);
			bpf_program__set_autoload(p, a.unix_recvmsg > 0);
		}
		if (strncmp(name, "on_recv_", 8) != 0 || name[9] ||
		    name[8] < '0' || name[8] > '9')
			continue;
		arguments_read(&a);
		bpf_program__set_autoload(p, a.tcp_recvmsg ==
						     (unsigned)(name[8] - '0'));
	}
}

static int map_of(struct bpf_object *o, const char *name)
{
	return bpf_object__find_map_fd_by_name(o, name);
}

/* The programs' variables: one map that can be mapped. */
static int map_shared(struct rung_programs *p)
{
	struct bpf_map *m;
	void *at;

	bpf_object__for_each_map(m, p->object)
	{
		const char *name = bpf_map__name(m);
		size_t n = strlen(name);

		if (n < 4 || strcmp(name + n - 4, ".bss") != 0)
			continue;
		if (bpf_map__value_size(m) < sizeof(*p->shared))
			return -EINVAL;
		at = mmap(NULL, sizeof(*p->shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED, bpf_map__fd(m), 0);
		if (at == MAP_FAILED)
			return -errno;
		p->shared = at;
		return 0;
	}
	return -EINVAL;
}

static int load_object(const struct rung *r, struct rung_programs *p,
		       bool with_walk)
{
	struct bpf_program *walk;
	size_t n;
	const void *bytes = r->bytes(&n);
	int err;

	p->object = bpf_object__open_mem(bytes, n, NULL);
	if (!p->object)
		return -errno;
	choose_variant(p->object);
	walk = bpf_object__find_program_by_name(p->object, "existing");
	if (walk && !with_walk)
		bpf_program__set_autoload(walk, false);
	err = bpf_object__load(p->object);
	if (!err)
		err = map_shared(p);
	if (!err)
		return 0;
	bpf_object__close(p->object);
	p->object = NULL;
	return err;
}

int rung_load(const struct rung *r, struct rung_programs *out)
{
	struct rung_programs p = { .walk = -1, .gone = -1 };
	int err = load_object(r, &p, true);

	if (err)
		err = load_object(r, &p, false);
	if (err)
		return err;
	p.paths = map_of(p.object, "paths");
	p.histograms = map_of(p.object, "histograms");
	p.records = map_of(p.object, "records");
	p.listeners = map_of(p.object, "unix_listeners");
	p.names = map_of(p.object, "unix_names");
	p.conns = map_of(p.object, "unix_conns");
	*out = p;
	return 0;
}

/* ---- settings and counters ----------------------------------------------- */

void rung_ports(struct rung_programs *p, const uint16_t *ports, size_t n)
{
	uint64_t on[PORT_WORDS] = { 0 };
	struct tracker_shared *shared = p->shared;

	for (size_t i = 0; i < n; i++)
		on[ports[i] / 64] |= 1ull << (ports[i] % 64);
	/* Word by word, so that a port that stays is never off. */
	for (size_t i = 0; i < PORT_WORDS; i++) {
		if (on[i] & ~shared->ports_seen[i])
			__atomic_fetch_or((uint64_t *)&shared->ports_seen[i],
					  on[i], __ATOMIC_RELAXED);
		__atomic_store_n((uint64_t *)&shared->ports_on[i], on[i],
				 __ATOMIC_RELEASE);
	}
}

static void words_read(void *to, const void *from, size_t bytes)
{
	const uint64_t *w = from;
	uint64_t *out = to;

	for (size_t i = 0; i < bytes / sizeof(*w); i++)
		out[i] = __atomic_load_n(&w[i], __ATOMIC_RELAXED);
}

void rung_read(const struct rung_programs *p, struct request_gauges *gauges,
	       struct request_counters *counters)
{
	words_read(gauges, &p->shared->gauges, sizeof(*gauges));
	words_read(counters, &p->shared->counters, sizeof(*counters));
}

/* Of a pair of programs for one event, at least one never misses it. */
uint64_t rung_missed(const struct rung_programs *p)
{
	struct bpf_program *program;
	uint64_t sum = 0;

	bpf_object__for_each_program(program, p->object)
	{
		struct bpf_prog_info info = { 0 };
		__u32 n = sizeof(info);
		int fd = bpf_program__fd(program);

		if (!strncmp(bpf_program__name(program), "on_state", 8) ||
		    !strncmp(bpf_program__name(program), "on_destroy", 10) ||
		    fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &n))
			continue;
		sum += info.recursion_misses;
	}
	return sum;
}

/* ---- attaching ----------------------------------------------------------- */

/* The root of the control groups of version 2. */
static int cgroup_root(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	int fd = -ENOENT;

	if (!f)
		return -errno;
	while ((m = getmntent(f)))
		if (!strcmp(m->mnt_type, "cgroup2")) {
			fd = open(m->mnt_dir,
				  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			fd = fd < 0 ? -errno : fd;
			break;
		}
	endmntent(f);
	return fd;
}

static struct bpf_link *attach_cgroup(struct bpf_program *p)
{
	struct bpf_link *l;
	int fd = cgroup_root(), err;

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	l = bpf_program__attach_cgroup(p, fd);
	err = errno;
	close(fd);
	errno = err;
	return l;
}

static bool of_cgroup(const struct bpf_program *p)
{
	const char *section = bpf_program__section_name(p);

	return !strncmp(section, "cgroup", 6) || !strcmp(section, "sockops");
}

static struct bpf_link *attach_gone(struct bpf_program *program,
				    const struct rung_programs *p)
{
	union bpf_iter_link_info link = { 0 };
	LIBBPF_OPTS(bpf_iter_attach_opts, o, .link_info = &link,
		    .link_info_len = sizeof(link));

	link.map.map_fd = (__u32)p->conns;
	return bpf_program__attach_iter(program, &o);
}

/* NULL and errno. */
static struct bpf_link *attach(struct bpf_program *program,
			       struct rung_programs *p, int **iterator)
{
	const char *name = bpf_program__name(program);

	*iterator = NULL;
	if (of_cgroup(program))
		return attach_cgroup(program);
	if (!strcmp(name, "unix_gone")) {
		*iterator = &p->gone;
		return attach_gone(program, p);
	}
	if (!strcmp(name, "existing"))
		*iterator = &p->walk;
	return bpf_program__attach(program);
}

int rung_attach(struct rung_programs *p)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, p->object)
	{
		struct bpf_link *l;
		int *iterator;

		if (!bpf_program__autoload(program))
			continue;
		if (p->n_links == RUNG_LINKS_MAX)
			return -E2BIG;
		l = attach(program, p, &iterator);
		if (!l && !iterator)
			return -errno;
		if (!l)
			continue;
		p->links[p->n_links++] = l;
		if (iterator)
			*iterator = bpf_link__fd(l);
	}
	return 0;
}

void rung_detach(struct rung_programs *p)
{
	p->walk = p->gone = -1;
	while (p->n_links)
		bpf_link__destroy(p->links[--p->n_links]);
}

/* Let an iterator run. */
static int iterate(int link)
{
	char b[64];
	ssize_t n;
	int fd;

	fd = bpf_iter_create(link);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, b, sizeof(b))) > 0 ||
	       (n < 0 && (errno == EAGAIN || errno == EINTR)))
		;
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

/* Forget the addresses of listeners that this round has not seen. */
static void forget_names(struct rung_programs *p)
{
	uint64_t stale[16], key, *after = NULL;
	struct unix_name name;
	unsigned n = 0;

	while (n < 16 && !bpf_map_get_next_key(p->names, after, &key)) {
		if (!bpf_map_lookup_elem(p->names, &key, &name) &&
		    name.seen != p->shared->round)
			stale[n++] = key;
		after = &key;
	}
	while (n)
		bpf_map_delete_elem(p->names, &stale[--n]);
}

static bool map_empty(int map)
{
	uint64_t key;

	return bpf_map_get_next_key(map, NULL, &key) && errno == ENOENT;
}

int rung_walk(struct rung_programs *p)
{
	int err;

	if (p->walk < 0)
		return -EOPNOTSUPP;
	p->shared->round++;
	p->shared->oldest_ns = p->shared->listeners = 0;
	err = iterate(p->walk);
	if (err || !p->shared->unix_on)
		return err;
	forget_names(p);
	err = iterate(p->gone);
	if (map_empty(p->listeners) && map_empty(p->conns))
		p->shared->unix_on = 0;
	return err;
}

int rung_unix(struct rung_programs *p, const uint64_t *inodes, size_t n)
{
	const uint8_t value = 1;
	uint64_t key;
	int err = 0;

	if (p->walk < 0 || p->gone < 0)
		return -EOPNOTSUPP;
	if (!n && !p->shared->unix_on)
		return 0;
	while (!bpf_map_get_next_key(p->listeners, NULL, &key))
		bpf_map_delete_elem(p->listeners, &key);
	for (size_t i = 0; i < n; i++)
		if (bpf_map_update_elem(p->listeners, &inodes[i], &value, 0))
			return -errno;
	p->shared->unix_on = 1;
	/* one round finds the listeners, the next one what they have accepted */
	p->shared->settle = SETTLE_NONE;
	p->shared->unix_since = p->shared->round + 1;
	for (unsigned i = 0; i < 2 && !err; i++)
		err = rung_walk(p);
	p->shared->unix_since = UINT64_MAX;
	return err;
}

void rung_close(struct rung_programs *p)
{
	if (!p->object)
		return;
	rung_detach(p);
	munmap(p->shared, sizeof(*p->shared));
	bpf_object__close(p->object);
	*p = (struct rung_programs){ 0 };
}
