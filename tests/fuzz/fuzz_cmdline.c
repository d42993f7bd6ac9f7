/*
 * fuzz_cmdline.c - any bytes as arguments, as a YAML file of options, as a
 * line of /proc/PID/stat
 */
#include "target/cmdline.h"
#include "target/proc.h"
#include "target/sockets.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void fuzz_lines(const uint8_t *data, size_t bytes)
{
	struct proc_stat s;
	struct listener l;
	char line[512];

	proc_stat_parse((const char *)data, bytes, &s);
	if (bytes >= sizeof(line))
		bytes = sizeof(line) - 1;
	memcpy(line, data, bytes);
	line[bytes] = '\0';
	listener_parse(line, &l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char server[] = "vllm\0serve\0org/name\0--config\0c";
	struct cmdline c;
	char name[96], *args;

	if (bytes == 0)
		return 0;
	fuzz_lines(data, bytes);
	cmdline_worker((const char *)data, bytes);
	if (cmdline_parse((const char *)data, bytes, &c) == 0)
		cmdline_model_name(&c, name, sizeof(name));
	/* as arguments of a server */
	args = malloc(sizeof(server) + bytes);
	memcpy(args, server, sizeof(server));
	memcpy(args + sizeof(server), data, bytes);
	if (cmdline_parse(args, sizeof(server) + bytes, &c) ||
	    strcmp(c.engine, "vllm") != 0)
		abort();
	cmdline_yaml(&c, (const char *)data, bytes);
	cmdline_model_name(&c, name, sizeof(name));
	if (strlen(name) >= sizeof(name) || c.tp > 65536)
		abort();
	free(args);
	return 0;
}
