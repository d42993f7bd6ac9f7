#include "target/inject_image.h"

#include "target/inject_arch.h"
#include "target/inject_symbols.h"

#include "wire/boot.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Segment i of the image; false: there is none. */
static bool segment(const struct inject_image *image, unsigned i,
		    Elf64_Phdr *out)
{
	Elf64_Ehdr e;

	if (image->bytes < sizeof(e))
		return false;
	memcpy(&e, image->data, sizeof(e));
	if (e.e_phentsize != sizeof(*out) || i >= e.e_phnum ||
	    e.e_phoff > image->bytes ||
	    (i + 1) * sizeof(*out) > image->bytes - e.e_phoff)
		return false;
	memcpy(out, (const char *)image->data + e.e_phoff + i * sizeof(*out),
	       sizeof(*out));
	return out->p_offset <= image->bytes &&
	       out->p_filesz <= image->bytes - out->p_offset;
}

/* The file as it will lie in memory, from address 0. */
static bool read_image(void *cls, uint64_t address, void *out, size_t bytes)
{
	const struct inject_image *image = cls;
	Elf64_Phdr p;

	for (unsigned i = 0; segment(image, i, &p); i++) {
		uint64_t from = address - p.p_vaddr;

		if (p.p_type != PT_LOAD || address < p.p_vaddr ||
		    from > p.p_filesz || bytes > p.p_filesz - from)
			continue;
		memcpy(out, (const char *)image->data + p.p_offset + from,
		       bytes);
		return true;
	}
	return false;
}

/* Does a head lie at this place of an executable segment p? */
static bool is_head(const struct inject_image *image, const Elf64_Phdr *p,
		    uint64_t at, struct boot_code *out)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const int64_t low = (int64_t)p->p_offset;
	const int64_t high = low + (int64_t)p->p_filesz;
	const int64_t here = (int64_t)at;
	struct boot_head h;
	int64_t start, end, enter;

	memcpy(&h, (const char *)image->data + at, sizeof(h));
	if (h.magic != BOOT_MAGIC || h.version != BOOT_VERSION)
		return false;
	start = here + (int64_t)offsetof(struct boot_head, start) + h.start;
	end = here + (int64_t)offsetof(struct boot_head, end) + h.end;
	enter = here + (int64_t)offsetof(struct boot_head, enter) + h.enter;
	if (start < low || end > high || start > here || enter <= start ||
	    enter >= end || end - start > (int64_t)BOOT_CODE_MAX)
		return false;
	out->offset = (uint64_t)start & ~(page - 1);
	out->bytes = (((uint64_t)end + page - 1) & ~(page - 1)) - out->offset;
	out->enter = (uint64_t)enter - out->offset;
	return true;
}

static bool find_head(const struct inject_image *image, const Elf64_Phdr *p,
		      struct boot_code *out)
{
	uint64_t at = (p->p_offset + BOOT_ALIGN - 1) & ~(BOOT_ALIGN - 1ull);
	uint64_t end = p->p_offset + p->p_filesz;

	for (; at + sizeof(struct boot_head) <= end; at += BOOT_ALIGN)
		if (is_head(image, p, at, out))
			return true;
	return false;
}

int image_find_boot(const struct inject_image *image, struct boot_code *out)
{
	const struct symbols_memory memory = { read_image, (void *)image };
	struct symbols s;
	Elf64_Phdr p;

	if (!image->data || symbols_open(&s, &memory, 0) ||
	    !symbols_find(&s, "InitializeInjection"))
		return -EINVAL;
	for (unsigned i = 0; segment(image, i, &p); i++)
		if (p.p_type == PT_LOAD && p.p_flags & PF_X &&
		    find_head(image, &p, out))
			return 0;
	return -EINVAL;
}
