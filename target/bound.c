#include "target/bound.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LISTEN 0x0au
#define LINES_MAX 200000u

/* Words of 32 bits, each as this machine stores an address of the network. */
static bool take_address(const char *hex, void *out, unsigned words)
{
	for (unsigned i = 0; i < words; i++) {
		uint32_t word;

		if (sscanf(hex + 8 * i, "%8x", &word) != 1)
			return false;
		memcpy((char *)out + 4 * i, &word, sizeof(word));
	}
	return true;
}

int bound_parse(const char *line, uint16_t port, char out[BOUND_ADDRESS_MAX])
{
	char hex[33], text[INET6_ADDRSTRLEN];
	unsigned at, state;
	size_t digits;
	struct in6_addr a;
	int family;

	if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%4x %*[0-9A-Fa-f:] %2x", hex,
		   &at, &state) != 3 ||
	    at != port || state != LISTEN)
		return 0;
	digits = strlen(hex);
	if (digits != 8 && digits != 32)
		return 0;
	family = digits == 8 ? AF_INET : AF_INET6;
	if (!take_address(hex, &a, (unsigned)digits / 8) ||
	    !inet_ntop(family, &a, text, sizeof(text)))
		return 0;
	snprintf(out, BOUND_ADDRESS_MAX, family == AF_INET ? "%s" : "[%s]",
		 text);
	return 1;
}

static bool is_every(const char *address)
{
	return !strcmp(address, "0.0.0.0") || !strcmp(address, "[::]");
}

static int find_in(const char *path, uint16_t port, char out[BOUND_ADDRESS_MAX])
{
	char line[512], address[BOUND_ADDRESS_MAX];
	unsigned lines = 0;
	int err = -ENOENT;
	FILE *f = fopen(path, "re");

	if (!f)
		return -ENOENT;
	while (err && lines++ < LINES_MAX && fgets(line, sizeof(line), f)) {
		if (bound_parse(line, port, address) != 1 || is_every(address))
			continue;
		memcpy(out, address, sizeof(address));
		err = 0;
	}
	fclose(f);
	return err;
}

int bound_find(pid_t pid, uint16_t port, char out[BOUND_ADDRESS_MAX])
{
	static const char *const files[] = { "tcp", "tcp6" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[48];

		snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid,
			 files[i]);
		if (!find_in(path, port, out))
			return 0;
	}
	return -ENOENT;
}
