/*
 * load_snapshot.h - SGLang's load, from the shared memory that its schedulers
 * publish it in
 *
 * A file /dev/shm/sglang_loads_NAME_HASH.shm of the server: a header (magic
 * "SLNS", version, ranks, bytes of a slot), then one slot for each data-parallel
 * rank: a length and a MessagePack map, in which a number that is 0 is left out.
 * The length is 0 while a rank writes.  Source: SGLang
 * srt/managers/load_snapshot.py, version 2 of the format.
 *
 * Requests in it are those that the schedulers hold; it needs neither
 * --enable-metrics nor an API key, but the right to read the server's files.
 */
#ifndef MOETOP_TARGET_LOAD_SNAPSHOT_H
#define MOETOP_TARGET_LOAD_SNAPSHOT_H

#include <stddef.h>
#include <sys/types.h>

#define LOAD_SNAPSHOT_BYTES_MAX (8u << 20)

/* Added over the ranks. */
struct load_snapshot {
	unsigned ranks;   /* that have published */
	unsigned writing; /* and those that were at it, or made no sense */
	double running, waiting; /* requests */
	double used_tokens;      /* in the KV cache; 0 unknown, as the next */
	double capacity_tokens;
	double tokens_per_s; /* generated */
	double time;         /* unix seconds, of the oldest rank's */
};

/*
 * 0; -ENODATA when no rank has published yet; -EPROTO when the bytes are not of
 * this format.  On error *out is unchanged.  Any bytes are safe.
 */
int load_snapshot_parse(const void *bytes, size_t n, struct load_snapshot *out);

/*
 * The file that one of these processes has mapped: its name in /dev/shm and the
 * process.  0, -ENOENT none has, -EACCES it may not be seen.
 */
int load_snapshot_find(const pid_t *pids, unsigned n, pid_t *pid, char *name,
		       size_t room);

/* Read it, again at once when a rank was writing.  As load_snapshot_parse, or
 * -ENOENT, -EACCES, -EFBIG, -errno. */
int load_snapshot_read(pid_t pid, const char *name, struct load_snapshot *out);

#endif
