#include "bpf/libssl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#ifdef __clang_analyzer__ /* it takes this for a leak in generated code */
void bpf_object__destroy_skeleton(struct bpf_object_skeleton *s)
	__attribute__((ownership_takes(malloc, 1)));
#endif
#include "bpf/tls.skel.h"
#include "bpf/tls_sweep.h"
#include "wire/clock.h"

#define LINKS_MAX 16u
#define TEND_NS 1000000000ull

/* Which program goes where. */
struct probe {
	enum tracker_tls_function function;
	const char *program;
	bool returns;
	bool writes; /* only where writes are followed by their return */
};

/*
 * Returns first: a call whose beginning is seen must have its end.  Handshakes
 * last: an object in one that is seen was seen to be made.
 */
static const struct probe probes[] = {
	{ TRACKER_TLS_WRITE, "on_write_done", true, true },
	{ TRACKER_TLS_WRITE_EX, "on_write_done", true, true },
	{ TRACKER_TLS_READ, "on_read_done", true, false },
	{ TRACKER_TLS_READ_EX, "on_read_done", true, false },
	{ TRACKER_TLS_HANDSHAKE, "on_handshake_done", true, false },
	{ TRACKER_TLS_FREE, "on_free", false, false },
	{ TRACKER_TLS_SET_BIO, "on_set_bio", false, false },
	{ TRACKER_TLS_READ, "on_read", false, false },
	{ TRACKER_TLS_READ_EX, "on_read_ex", false, false },
	{ TRACKER_TLS_WRITE, "on_write", false, false },
	{ TRACKER_TLS_WRITE_EX, "on_write_ex", false, false },
	{ TRACKER_TLS_HANDSHAKE, "on_handshake", false, false },
};
#define PROBES (sizeof(probes) / sizeof(probes[0]))

struct file {
	struct tracker_tls library;
	bool write_returns;
	uint32_t place; /* in the table of when they were probed */
	struct bpf_link *links[LINKS_MAX];
	unsigned n;
};

struct libssl {
	struct bpf_object *object;
	struct tracker_shared *shared; /* of the source */
	int conns;
	unsigned entries; /* in that map, at the last look */
	uint64_t tend_ns;
	int since; /* a map, by struct file.place */
	struct file *files[LIBSSL_FILES_MAX];
	unsigned n;
};

/* ---- loading ------------------------------------------------------------- */

static bool is_variables(const char *name)
{
	size_t n = strlen(name);

	return n >= 4 && !strcmp(name + n - 4, ".bss");
}

static struct bpf_map *same_map(struct bpf_object *o, const char *name)
{
	struct bpf_map *m;

	bpf_object__for_each_map(m, o)
	{
		const char *other = bpf_map__name(m);

		if (!strcmp(name, other) ||
		    (is_variables(name) && is_variables(other)))
			return m;
	}
	return NULL;
}

/* All that the source has, too, is the source's. */
static int borrow_maps(struct bpf_object *o, struct bpf_object *source)
{
	struct bpf_map *m, *lent;
	int err = 0;

	bpf_object__for_each_map(m, o)
	{
		const char *name = bpf_map__name(m);

		if (strstr(name, ".rodata"))
			continue;
		lent = same_map(source, name);
		if (lent && !err)
			err = bpf_map__reuse_fd(m, bpf_map__fd(lent));
	}
	return err;
}

int libssl_open(struct libssl **out, struct rung_programs *rung)
{
	struct libssl *l = calloc(1, sizeof(*l));
	const void *bytes;
	size_t n;
	int err;

	if (!l)
		return -ENOMEM;
	bytes = tls_bpf__elf_bytes(&n);
	l->object = bpf_object__open_mem(bytes, n, NULL);
	err = l->object ? borrow_maps(l->object, rung->object) : -errno;
	if (!err)
		err = bpf_object__load(l->object);
	if (err) {
		libssl_close(l);
		return err;
	}
	l->shared = rung->shared;
	l->conns = bpf_object__find_map_fd_by_name(l->object, "tls_conns");
	l->since = bpf_object__find_map_fd_by_name(l->object, "tls_since");
	*out = l;
	return 0;
}

/* ---- attaching ----------------------------------------------------------- */

static int attach(struct libssl *l, struct file *f, const struct probe *p)
{
	const struct tracker_tls *t = &f->library;
	LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = p->returns,
		    .bpf_cookie = f->place << 1 | f->write_returns);
	struct bpf_program *program;
	uint64_t offset = t->entry[p->function];

	if (!offset)
		return 0; /* this version has no such function */
	/* arguments must be as they were, and the return address on top */
	if (!p->returns && p->function != TRACKER_TLS_READ &&
	    p->function != TRACKER_TLS_READ_EX)
		offset = t->inside[p->function];
	program = bpf_object__find_program_by_name(l->object, p->program);
	if (!program || f->n == LINKS_MAX)
		return -EINVAL;
	f->links[f->n] = bpf_program__attach_uprobe_opts(
		program, t->pid, t->path, offset, &options);
	if (!f->links[f->n])
		return -errno;
	f->n++;
	return 0;
}

static void file_free(struct file *f)
{
	while (f->n)
		bpf_link__destroy(f->links[--f->n]);
	free(f);
}

static struct file *find(const struct libssl *l, const struct tracker_tls *t)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->files[i]->library.pid == t->pid &&
		    l->files[i]->library.base == t->base)
			return l->files[i];
	return NULL;
}

/* A place that no other library has; there is one. */
static uint32_t free_place(const struct libssl *l)
{
	uint64_t taken = 0;

	for (unsigned i = 0; i < l->n; i++)
		taken |= 1ull << l->files[i]->place;
	return (uint32_t)__builtin_ctzll(~taken);
}

static void since_is(struct libssl *l, const struct file *f, uint64_t ns)
{
	bpf_map_update_elem(l->since, &f->place, &ns, 0);
}

int libssl_attach(struct libssl *l, const struct tracker_tls *library)
{
	struct file *f;
	int err = 0;

	if (find(l, library))
		return 0;
	if (l->n == LIBSSL_FILES_MAX)
		return -ENOSPC;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->library = *library;
	f->write_returns = library->native;
	f->place = free_place(l);
	since_is(l, f, 0);
	for (size_t i = 0; i < PROBES && !err; i++)
		if (!probes[i].writes || f->write_returns)
			err = attach(l, f, &probes[i]);
	if (err) {
		file_free(f);
		return err;
	}
	l->files[l->n++] = f;
	since_is(l, f, clock_now_ns());
	return 0;
}

void libssl_keep(struct libssl *l, const pid_t *pids, size_t n)
{
	for (unsigned i = 0; i < l->n;) {
		bool kept = false;

		for (size_t k = 0; k < n && !kept; k++)
			kept = pids[k] == l->files[i]->library.pid;
		if (kept) {
			i++;
			continue;
		}
		file_free(l->files[i]);
		l->files[i] = l->files[--l->n];
	}
}

unsigned libssl_processes(const struct libssl *l)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->n; i++) {
		bool again = false;

		for (unsigned k = 0; k < i; k++)
			again |= l->files[k]->library.pid ==
				 l->files[i]->library.pid;
		n += !again;
	}
	return n;
}

/* ---- tending ------------------------------------------------------------- */

static void probe_write_returns(struct libssl *l)
{
	if (!l->shared->tls_returns)
		return;
	l->shared->tls_returns = 0;
	for (unsigned i = 0; i < l->n; i++) {
		struct file *f = l->files[i];

		if (f->write_returns)
			continue;
		f->write_returns = true;
		for (size_t p = 0; p < PROBES; p++)
			if (probes[p].writes)
				attach(l, f, &probes[p]);
	}
}

void libssl_tend(struct libssl *l, uint64_t now_ns)
{
	probe_write_returns(l);
	if (now_ns < l->tend_ns)
		return;
	l->tend_ns = now_ns + TEND_NS;
	l->entries = tls_sweep(l->conns, l->shared, l->entries, now_ns);
}

void libssl_close(struct libssl *l)
{
	if (!l)
		return;
	libssl_keep(l, NULL, 0);
	bpf_object__close(l->object);
	free(l);
}
