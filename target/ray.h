/*
 * ray.h - the job of Ray that a process works for
 *
 * Ray names the logs of a process by session, job and process: the output of an
 * actor is ".../session_S/logs/worker-ID-JOB-PID.out", a program that uses the
 * cluster has ".../session_S/logs/python-core-driver-JOBffff..._PID.log" open.
 * Equal jobs of one session belong together.
 */
#ifndef MOETOP_TARGET_RAY_H
#define MOETOP_TARGET_RAY_H

#include <stddef.h>
#include <sys/types.h>

#define RAY_JOB_BYTES 96u

/* "session_S JOB" of the path of an open file; 0, or -ENOENT when it is no such
 * log or of no job yet. */
int ray_job_parse(const char *path, char *out, size_t room);

/* Of a process, by its descriptors; "" when none tells. */
void ray_job_read(pid_t pid, char *out, size_t room);

#endif
