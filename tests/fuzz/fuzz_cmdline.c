/*
 * fuzz_cmdline.c - any bytes as arguments, as a title, as a YAML file of
 * options, as a line of /proc/PID/stat or of sockets
 */
#include "target/cmdline.h"
#include "target/config_override.h"
#include "target/proc.h"
#include "target/processes.h"
#include "target/sockets.h"
#include "target/title.h"

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

static void check(const struct cmdline *c)
{
	char name[96];

	cmdline_model_name(c, name, sizeof(name));
	if (strlen(name) >= sizeof(name) || c->tp > 65536 ||
	    c->launch.n > LAUNCH_MAX)
		abort();
	for (unsigned i = 1; i < c->launch.n; i++)
		if (c->launch.list[i - 1].id >= c->launch.list[i].id)
			abort();
	for (unsigned i = 0; i < c->launch.n; i++)
		for (const char *p = c->launch.list[i].value; *p; p++)
			if (*p < ' ' || *p > '~')
				abort();
}

/* As arguments of a server of each engine, then as its file of options and its
 * environment. */
static void fuzz_server(const char *start, size_t n, const uint8_t *data,
			size_t bytes)
{
	struct cmdline c;
	char *args = malloc(n + bytes);

	memcpy(args, start, n);
	memcpy(args + n, data, bytes);
	if (cmdline_parse(args, n + bytes, &c) == 0) {
		check(&c);
		cmdline_yaml(&c, (const char *)data, bytes);
		cmdline_environ(&c, (const char *)data, bytes);
		cmdline_add(&c, (const char *)data, bytes);
		check(&c);
	}
	free(args);
}

static void fuzz_override(const uint8_t *data, size_t bytes)
{
	char *json = strdup("{\"a\":{\"b\":1}}"), *over = malloc(bytes + 1);
	size_t n = strlen(json);

	memcpy(over, data, bytes);
	over[bytes] = '\0';
	config_override(&json, &n, over);
	if (strlen(json) != n)
		abort();
	free(over);
	free(json);
}

/* A table of processes: a line of 8 bytes and a title or a server each. */
static void fuzz_table(const uint8_t *data, size_t bytes)
{
	static const char args[8][24] = {
		"vllm\0serve\0m",    "python3\0x.py",
		"VLLM::Worker_TP0",  "bash",
		"sglang::scheduler", "",
		"sglang\0serve\0m",  "ray::RayWorkerWrapper"
	};
	struct processes p = { 0 };
	unsigned several;
	pid_t pids[16];

	for (size_t i = 0; i + 6 <= bytes && p.n < 24; i += 6) {
		struct proc_stat s = { .pid = data[i] % 64 + 1,
				       .ppid = data[i + 1] % 64,
				       .pgrp = data[i + 2] % 4,
				       .session = data[i + 3] % 4,
				       .start_ticks = data[i + 4],
				       .state = 'S' };

		processes_add(&p, &s, args[data[i + 5] % 8], sizeof(args[0]));
	}
	processes_group(&p, NULL);
	for (unsigned i = 0; i < p.n; i++) {
		int root = processes_server(&p, p.all[i].pid, &several);

		if (root >= (int)p.n ||
		    (root >= 0 && !processes_members(&p, root, pids, 16)))
			abort();
	}
	processes_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char vllm[] = "vllm\0serve\0org/name\0--config\0c";
	static const char sglang[] = "python\0-m\0sglang.launch_server";
	static const char trtllm[] = "trtllm-serve\0serve\0m";
	struct cmdline c;
	struct title t;

	if (bytes == 0)
		return 0;
	fuzz_lines(data, bytes);
	cmdline_worker((const char *)data, bytes);
	title_parse((const char *)data, bytes, &t);
	if (cmdline_parse((const char *)data, bytes, &c) == 0)
		check(&c);
	fuzz_server(vllm, sizeof(vllm), data, bytes);
	fuzz_server(sglang, sizeof(sglang), data, bytes);
	fuzz_server(trtllm, sizeof(trtllm), data, bytes);
	fuzz_override(data, bytes);
	fuzz_table(data, bytes);
	return 0;
}
