#include "core/tar.h"

#include <errno.h>
#include <string.h>

#define BLOCK 512u

/* IEEE 1003.1, "ustar Interchange Format": octal digits, ended by NUL. */
struct header {
	char name[100];
	char mode[8], uid[8], gid[8];
	char size[12], mtime[12];
	char checksum[8];
	char type, link[100];
	char magic[6], version[2];
	char user[32], group[32];
	char major[8], minor[8];
	char prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "ustar");

static int failed(void)
{
	return errno ? -errno : -EIO;
}

static void octal(char *to, size_t room, unsigned long long v)
{
	for (size_t i = room - 1; i-- > 0; v >>= 3)
		to[i] = (char)('0' + (v & 7));
}

static unsigned checksum(const struct header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	unsigned sum = 0;

	for (size_t i = 0; i < sizeof(*h); i++)
		sum += p[i];
	return sum;
}

int tar_add(FILE *f, const char *name, const void *data, size_t bytes,
	    uint64_t unix_s)
{
	static const char zeros[BLOCK];
	size_t rest = (BLOCK - bytes % BLOCK) % BLOCK;
	struct header h = { .type = '0', .magic = "ustar", .version = "00" };

	if (strlen(name) >= sizeof(h.name))
		return -ENAMETOOLONG;
	strcpy(h.name, name);
	octal(h.mode, sizeof(h.mode), 0600);
	octal(h.uid, sizeof(h.uid), 0);
	octal(h.gid, sizeof(h.gid), 0);
	octal(h.size, sizeof(h.size), bytes);
	octal(h.mtime, sizeof(h.mtime), unix_s);
	memset(h.checksum, ' ', sizeof(h.checksum));
	octal(h.checksum, sizeof(h.checksum) - 1, checksum(&h));
	errno = 0;
	if (fwrite(&h, sizeof(h), 1, f) != 1 ||
	    (bytes && fwrite(data, bytes, 1, f) != 1) ||
	    (rest && fwrite(zeros, rest, 1, f) != 1))
		return failed();
	return 0;
}

int tar_end(FILE *f)
{
	static const char zeros[2 * BLOCK];

	errno = 0;
	if (fwrite(zeros, sizeof(zeros), 1, f) != 1 || fflush(f))
		return failed();
	return 0;
}
