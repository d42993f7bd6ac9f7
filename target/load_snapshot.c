#include "target/load_snapshot.h"

#include "target/config.h"
#include "target/msgpack.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "SLNS"
#define VERSION 2u
#define HEADER_BYTES 12u
#define PREFIX "/dev/shm/sglang_loads_"
#define TRIES 3u
#define MAPS_LINES_MAX 200000u

static uint32_t u16_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t u32_at(const uint8_t *p)
{
	return u16_at(p) | u16_at(p + 2) << 16;
}

/* What one rank says. */
struct slot {
	double time, running, waiting, used, room, rate;
};

static void take_entry(void *arg, const char *key, size_t n, double value)
{
	struct slot *s = arg;
	const struct {
		const char *key;
		double *to;
	} keys[] = {
		{ "timestamp", &s->time },
		{ "num_running_reqs", &s->running },
		{ "num_waiting_reqs", &s->waiting },
		{ "num_used_tokens", &s->used },
		{ "max_total_num_tokens", &s->room },
		{ "gen_throughput", &s->rate },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strlen(keys[i].key) == n && !memcmp(keys[i].key, key, n))
			*keys[i].to = value;
}

static bool sane(const struct slot *s)
{
	const double all[] = { s->time, s->running, s->waiting,
			       s->used, s->room,    s->rate };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!(all[i] >= 0) || !isfinite(all[i]))
			return false;
	return true;
}

/* A rank that has not published leaves out the time, like any other 0. */
static void add_slot(const uint8_t *p, size_t room, struct load_snapshot *out)
{
	uint32_t bytes = u32_at(p);
	struct slot s = { 0 };

	if (bytes == 0 || bytes > room - 4 ||
	    msgpack_map(p + 4, bytes, take_entry, &s) || !sane(&s)) {
		out->writing++;
		return;
	}
	if (s.time <= 0)
		return;
	if (!out->ranks || s.time < out->time)
		out->time = s.time;
	out->ranks++;
	out->running += s.running;
	out->waiting += s.waiting;
	out->used_tokens += s.used;
	out->capacity_tokens += s.room;
	out->tokens_per_s += s.rate;
}

int load_snapshot_parse(const void *bytes, size_t n, struct load_snapshot *out)
{
	struct load_snapshot s = { 0 };
	const uint8_t *p = bytes;
	uint32_t ranks, slot;

	if (n < HEADER_BYTES || memcmp(p, MAGIC, 4) != 0 ||
	    u16_at(p + 4) != VERSION)
		return -EPROTO;
	ranks = u16_at(p + 6);
	slot = u32_at(p + 8);
	if (ranks == 0 || slot < 4 || slot > LOAD_SNAPSHOT_BYTES_MAX ||
	    (n - HEADER_BYTES) / slot < ranks)
		return -EPROTO;
	for (uint32_t i = 0; i < ranks; i++)
		add_slot(p + HEADER_BYTES + (size_t)i * slot, slot, &s);
	if (!s.ranks)
		return -ENODATA;
	*out = s;
	return 0;
}

/* A name below /dev/shm that cannot lead elsewhere. */
static bool take_name(const char *line, char *name, size_t room)
{
	const char *p = strstr(line, PREFIX);
	size_t n;

	if (!p)
		return false;
	p += sizeof("/dev/shm/") - 1;
	n = strcspn(p, " \n");
	if (n >= room || n < 4 || memchr(p, '/', n) ||
	    memcmp(p + n - 4, ".shm", 4) != 0)
		return false;
	memcpy(name, p, n);
	name[n] = '\0';
	return true;
}

static int find_in(pid_t pid, char *name, size_t room)
{
	char path[32], line[512];
	unsigned lines = 0;
	int err = -ENOENT;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == EACCES || errno == EPERM ? -EACCES : -ENOENT;
	while (err && lines++ < MAPS_LINES_MAX && fgets(line, sizeof(line), f))
		if (take_name(line, name, room))
			err = 0;
	if (err && ferror(f) && (errno == EACCES || errno == EPERM))
		err = -EACCES;
	fclose(f);
	return err;
}

int load_snapshot_find(const pid_t *pids, unsigned n, pid_t *pid, char *name,
		       size_t room)
{
	int worst = -ENOENT;

	for (unsigned i = 0; i < n; i++) {
		int err = find_in(pids[i], name, room);

		if (!err) {
			*pid = pids[i];
			return 0;
		}
		if (err == -EACCES)
			worst = err;
	}
	return worst;
}

int load_snapshot_read(pid_t pid, const char *name, struct load_snapshot *out)
{
	struct load_snapshot s;
	char path[320];
	int err = 0;

	if (strchr(name, '/') ||
	    (size_t)snprintf(path, sizeof(path), "/dev/shm/%s", name) >=
		    sizeof(path))
		return -EINVAL;
	for (unsigned i = 0; i < TRIES; i++) {
		size_t bytes;
		char *data;

		err = server_file_load(pid, path, LOAD_SNAPSHOT_BYTES_MAX,
				       &data, &bytes);
		if (err)
			return err;
		err = load_snapshot_parse(data, bytes, &s);
		free(data);
		if (!err && !s.writing)
			break;
	}
	if (!err)
		*out = s;
	return err;
}
