#include "target/tls_library.h"

#include "target/inject_maps.h"
#include "target/inject_symbols.h"
#include "target/proc.h"
#include "target/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define CODE_BYTES 64u
#ifdef __x86_64__
#define IS_X86_64 true
#else
#define IS_X86_64 false
#endif

const char *const tls_functions[TLS_FUNCTIONS] = {
	"SSL_read",         "SSL_read_ex", "SSL_write", "SSL_write_ex",
	"SSL_do_handshake", "SSL_set_bio", "SSL_free",
};

/* ---- code ---------------------------------------------------------------- */

/* Instructions that may stand at the beginning of a function and change neither
 * a register with an argument nor where the next instruction is. */
static const struct {
	uint8_t bytes[6];
	uint8_t n, more; /* bytes to compare, and of a number after them */
} passed[] = {
	{ { 0xf3, 0x0f, 0x1e, 0xfa }, 4, 0 },       /* endbr64 */
	{ { 0x48, 0x83, 0xec }, 3, 1 },             /* sub $8, %rsp */
	{ { 0x48, 0x81, 0xec }, 3, 4 },             /* the same */
	{ { 0x64, 0x48, 0x8b, 0x04, 0x25 }, 5, 4 }, /* mov %fs:, %rax */
	{ { 0x48, 0x89, 0x44, 0x24 }, 4, 1 },       /* mov %rax, (%rsp) */
	{ { 0x31, 0xc0 }, 2, 0 },                   /* xor %eax, %eax */
	{ { 0xb8 }, 1, 4 },                         /* mov $, %eax */
	{ { 0x85, 0xd2 }, 2, 0 },                   /* test %edx, %edx */
	{ { 0x48, 0x85, 0xd2 }, 3, 0 },             /* test %rdx, %rdx */
	{ { 0x85, 0xff }, 2, 0 },
	{ { 0x48, 0x85, 0xff }, 3, 0 }, /* %rdi */
};

static bool is_emulated(const uint8_t *c, size_t n)
{
	if (n >= 2 && c[0] == 0x41 && (c[1] & 0xf8) == 0x50)
		return true; /* push %r8 .. %r15 */
	if (n >= 2 && c[0] == 0x0f && (c[1] & 0xf0) == 0x80)
		return true; /* jcc */
	return n &&
	       ((c[0] & 0xf8) == 0x50 || (c[0] & 0xf0) == 0x70 ||
		c[0] == 0x90 || c[0] == 0xe8 || c[0] == 0xe9 || c[0] == 0xeb);
}

static size_t pass(const uint8_t *c, size_t n)
{
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		if (n >= (size_t)passed[i].n + passed[i].more &&
		    !memcmp(c, passed[i].bytes, passed[i].n))
			return (size_t)passed[i].n + passed[i].more;
	return 0;
}

size_t tls_cheap_offset(const uint8_t *code, size_t n)
{
	size_t at = 0, more;

	while (IS_X86_64 && !is_emulated(code + at, n - at)) {
		more = pass(code + at, n - at);
		if (!more)
			return 0;
		at += more;
	}
	return at;
}

/* ---- files --------------------------------------------------------------- */

/* What opens the file of a mapping; the former wants CAP_SYS_ADMIN, and works
 * for a file that has been deleted. */
static int open_mapped(pid_t pid, const struct map *m, char *path, size_t room)
{
	int fd;

	snprintf(path, room, "/proc/%d/map_files/%llx-%llx", (int)pid,
		 (unsigned long long)m->start, (unsigned long long)m->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if ((size_t)snprintf(path, room, "/proc/%d/root%.*s", (int)pid,
			     (int)m->path_bytes, m->path) >= room)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void find_function(struct tls_library *l, unsigned i, int fd,
			  const struct symbols *s, const struct map *m)
{
	uint64_t address = symbols_find(s, tls_functions[i]);
	uint8_t code[CODE_BYTES];
	ssize_t n;

	if (address < m->start || address >= m->end)
		return;
	l->entry[i] = address - m->start + m->offset;
	l->inside[i] = l->entry[i];
	n = pread(fd, code, sizeof(code), (off_t)l->entry[i]);
	if (n > 0)
		l->inside[i] += tls_cheap_offset(code, (size_t)n);
}

/* base: the mapping of the file's beginning, m: that of its code. */
static int read_library(pid_t pid, uint64_t base, const struct map *m,
			struct tls_library *out)
{
	const struct symbols_memory memory = { symbols_read_process, &pid };
	struct tls_library l = { .base = base };
	struct symbols s;
	int err = symbols_open(&s, &memory, base), fd;

	if (err)
		return err;
	fd = open_mapped(pid, m, l.path, sizeof(l.path));
	if (fd < 0)
		return fd;
	for (unsigned i = 0; i < TLS_FUNCTIONS; i++)
		find_function(&l, i, fd, &s, m);
	close(fd);
	if (!l.entry[0] || !l.entry[2])
		return -ENOENT;
	*out = l;
	return 0;
}

int tls_libraries_find(pid_t pid, struct tls_library *out, unsigned max)
{
	struct map m, first = { 0 };
	bool python = false;
	unsigned n = 0;
	size_t place = 0;
	struct maps maps;
	int err = maps_read(pid, &maps);

	if (err)
		return err;
	while (maps_next(&maps, &place, &m)) {
		python |= map_is(&m, "_ssl");
		if (!map_is(&m, "libssl"))
			continue;
		if (!m.offset)
			first = m;
		if (m.executable && m.inode == first.inode && n < max &&
		    !read_library(pid, first.start, &m, &out[n]))
			n++;
	}
	maps_free(&maps);
	for (unsigned i = 0; i < n; i++)
		out[i].native = !python;
	return (int)n;
}

bool tls_returns_harmless(const char *release, const char *status)
{
	unsigned major, minor;

	if (!strstr(status, "\nSeccomp:"))
		return true; /* a kernel without */
	if (strstr(status, "\nSeccomp:\t0\n"))
		return true;
	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return false;
	return major != 6 || minor < 11 || minor > 13;
}

bool tls_process_harmless(pid_t pid)
{
	struct utsname name;
	char status[4096];

	return !uname(&name) &&
	       proc_read(pid, "status", status, sizeof(status)) > 0 &&
	       tls_returns_harmless(name.release, status);
}

bool tls_in_words(const char *words, size_t bytes)
{
	static const char *const names[] = { "--ssl-", "--tls", "--cert",
					     "--keyfile" };
	const char *end = words + bytes;

	for (const char *w = words; w < end; w += strnlen(w, bytes) + 1) {
		bytes = (size_t)(end - w);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			size_t n = strlen(names[i]);

			if (bytes >= n && !memcmp(w, names[i], n))
				return true;
		}
	}
	return false;
}

bool tls_expected(pid_t pid)
{
	char words[16384];
	ssize_t n = proc_read(pid, "cmdline", words, sizeof(words));

	return n > 0 && tls_in_words(words, (size_t)n);
}

/* ---- sockets ------------------------------------------------------------- */

static void read_listening(struct tls_listening *l, pid_t pid, const char *name,
			   const uint16_t *ports, unsigned n)
{
	char path[64], line[512];
	struct listener one;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(line, sizeof(line), f)) /* the heading */
		while (l->n < TLS_LISTENING_MAX &&
		       fgets(line, sizeof(line), f) &&
		       listener_parse(line, &one) == 1)
			for (unsigned i = 0; i < n; i++)
				if (ports[i] == one.port) {
					l->inodes[l->n++] = one.inode;
					break;
				}
	fclose(f);
}

static void on_socket(void *cls, uint64_t inode)
{
	struct tls_listening *l = cls;

	for (unsigned i = 0; i < l->n; i++)
		l->held |= l->inodes[i] == inode;
}

void tls_listening_read(struct tls_listening *out, pid_t pid,
			const uint16_t *ports, unsigned n)
{
	out->n = 0;
	read_listening(out, pid, "tcp", ports, n);
	read_listening(out, pid, "tcp6", ports, n);
}

bool tls_listens(struct tls_listening *l, pid_t pid)
{
	struct proc_fds fds;

	l->held = false;
	return l->n && !proc_fds_read(pid, &fds, on_socket, l) && l->held;
}
