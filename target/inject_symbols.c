#include "target/inject_symbols.h"

#include "target/inject_arch.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define SEGMENTS_MAX 64u
#define DYNAMIC_MAX 256u
#define CHAIN_MAX 4096u /* symbols of one hash bucket */
#define NAME_MAX_BYTES 64u
#define VERSION_HIDDEN 0x8000u

bool symbols_read_process(void *pid, uint64_t address, void *out, size_t bytes)
{
	struct iovec to = { out, bytes };
	struct iovec from = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(*(const pid_t *)pid, &to, 1, &from, 1, 0) ==
	       (ssize_t)bytes;
}

static bool get(const struct symbols *s, uint64_t address, void *out,
		size_t bytes)
{
	return s->memory.read(s->memory.cls, address, out, bytes);
}

/* Where the dynamic section is, 0 when there is none. */
static int find_dynamic(const struct symbols *s, uint64_t *address)
{
	Elf64_Ehdr e;

	if (!get(s, s->base, &e, sizeof(e)))
		return -EFAULT;
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_machine != CPU_ELF_MACHINE || e.e_type != ET_DYN ||
	    e.e_phentsize != sizeof(Elf64_Phdr) || e.e_phnum > SEGMENTS_MAX)
		return -ENOEXEC;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;

		if (!get(s, s->base + e.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return -EFAULT;
		if (p.p_type == PT_DYNAMIC) {
			*address = s->base + p.p_vaddr;
			return 0;
		}
	}
	return -ENOENT;
}

/* The loader may have made the tables' addresses absolute. */
static uint64_t absolute(const struct symbols *s, uint64_t value)
{
	return value >= s->base ? value : s->base + value;
}

int symbols_open(struct symbols *s, const struct symbols_memory *memory,
		 uint64_t base)
{
	struct symbols n = { .memory = *memory, .base = base };
	uint64_t dynamic;
	Elf64_Dyn d;
	int err = find_dynamic(&n, &dynamic);

	if (err)
		return err;
	for (unsigned i = 0; i < DYNAMIC_MAX; i++) {
		if (!get(&n, dynamic + i * sizeof(d), &d, sizeof(d)))
			return -EFAULT;
		if (d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_SYMTAB)
			n.symbols = absolute(&n, d.d_un.d_ptr);
		else if (d.d_tag == DT_STRTAB)
			n.strings = absolute(&n, d.d_un.d_ptr);
		else if (d.d_tag == DT_VERSYM)
			n.versions = absolute(&n, d.d_un.d_ptr);
		else if (d.d_tag == DT_GNU_HASH)
			n.hash = absolute(&n, d.d_un.d_ptr);
	}
	if (!n.symbols || !n.strings || !n.hash)
		return -ENOENT;
	*s = n;
	return 0;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* 0: not this name.  1: an older version of it.  2: its default version. */
static unsigned match(const struct symbols *s, uint32_t index, const char *name,
		      uint64_t *address)
{
	char found[NAME_MAX_BYTES];
	size_t bytes = strlen(name) + 1;
	uint16_t version = 0;
	Elf64_Sym y;

	if (bytes > sizeof(found) ||
	    !get(s, s->symbols + index * sizeof(y), &y, sizeof(y)))
		return 0;
	if (y.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(y.st_info) != STT_FUNC)
		return 0;
	if (!get(s, s->strings + y.st_name, found, bytes) ||
	    memcmp(found, name, bytes))
		return 0;
	if (s->versions && !get(s, s->versions + index * sizeof(version),
				&version, sizeof(version)))
		return 0;
	*address = s->base + y.st_value;
	return version & VERSION_HIDDEN ? 1 : 2;
}

uint64_t symbols_find(const struct symbols *s, const char *name)
{
	struct {
		uint32_t buckets, first, bloom_words, bloom_shift;
	} head;
	uint32_t hash = gnu_hash(name), index, value;
	uint64_t buckets, chain, address, old = 0;

	if (!get(s, s->hash, &head, sizeof(head)) || !head.buckets)
		return 0;
	buckets = s->hash + sizeof(head) + head.bloom_words * 8ull;
	chain = buckets + head.buckets * 4ull;
	if (!get(s, buckets + hash % head.buckets * 4ull, &index, 4))
		return 0;
	for (unsigned i = 0; index >= head.first && i < CHAIN_MAX; i++) {
		unsigned how = 0;

		if (!get(s, chain + (index - head.first) * 4ull, &value, 4))
			break;
		if ((value | 1) == (hash | 1))
			how = match(s, index, name, &address);
		if (how == 2)
			return address;
		if (how == 1)
			old = address;
		if (value & 1)
			break;
		index++;
	}
	return old;
}
