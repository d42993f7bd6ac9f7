/*
 * container.h - the container of a process, from its control group
 *
 * Knows the names that Docker, containerd, CRI-O, Podman, nerdctl, LXC,
 * systemd-nspawn, Kubernetes (either cgroup driver), ECS and Slurm give their
 * control groups, version 1 and 2.  Without a telling name a process of another
 * pid namespace is still "namespace".
 */
#ifndef MOETOP_TARGET_CONTAINER_H
#define MOETOP_TARGET_CONTAINER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct container {
	char runtime[16];  /* "docker", "containerd", ...; "" none */
	char id[72];       /* as long as it is there; "" none */
	char pod_uid[40];  /* with dashes; "" no pod */
	char pod_name[64]; /* of the environment; "" unknown */
	char job[24];      /* of Slurm; "" none */
	pid_t inner_pid;   /* in its own pid namespace; 0: that is ours */
};

/* The text of /proc/PID/cgroup; fills what it says. */
void container_parse(const char *cgroup, size_t bytes, struct container *out);

/* The last number of the line NSpid: in /proc/PID/status, where there are
 * several; 0 else. */
pid_t container_inner_pid(const char *status);

/* All of a process.  env: its environment, NUL-separated, or NULL. */
void container_read(pid_t pid, const char *env, size_t env_bytes,
		    struct container *out);

/* "pod llm-0 0123456789ab", "docker 0123456789ab", "slurm 42", "namespace, pid
 * 7 inside", ""; cut to room. */
void container_describe(const struct container *c, char *out, size_t room);

#endif
