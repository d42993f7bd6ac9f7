#include "target/container.h"

#include "target/proc.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CGROUP_BYTES 16384u
#define SHORT_ID 12
#define ID_MIN 32u
#define ID_LENGTH 64u
#define UUID_LENGTH 36u

/* What a part of the path begins with, "docker-ID.scope", or is: "docker/ID". */
static const struct runtime {
	const char *word, *name;
} runtimes[] = {
	{ "docker", "docker" },
	{ "cri-containerd", "containerd" },
	{ "crio", "cri-o" },
	{ "libpod", "podman" },
	{ "nerdctl", "nerdctl" },
	{ "podman", "podman" },
	{ "containerd", "containerd" },
	{ "ecs", "ecs" },
	{ "buildkit", "buildkit" },
	{ "garden", "garden" },
};

static bool begins(const char *s, size_t n, const char *word)
{
	size_t len = strlen(word);

	return n >= len && memcmp(s, word, len) == 0;
}

static void set(char *out, size_t room, const char *s, size_t n)
{
	size_t i = 0;

	for (; i < n && i < room - 1; i++)
		out[i] = isprint((unsigned char)s[i]) ? s[i] : '?';
	out[i] = '\0';
}

static void set_runtime(struct container *c, const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
		size_t len = strlen(runtimes[i].word);

		if (begins(s, n, runtimes[i].word) &&
		    (n == len || s[len] == '-')) {
			set(c->runtime, sizeof(c->runtime), runtimes[i].name,
			    strlen(runtimes[i].name));
			return;
		}
	}
}

/* A long run of hexadecimal digits that ends the part, or its name before a
 * suffix: the container. */
static void set_id(struct container *c, const char *s, size_t n)
{
	size_t end = n, start;
	const char *dot = memchr(s, '.', n);

	if (dot)
		end = (size_t)(dot - s);
	for (start = end; start > 0 && isxdigit((unsigned char)s[start - 1]);)
		start--;
	if (end - start < ID_MIN || end - start >= sizeof(c->id) ||
	    (start > 0 && s[start - 1] != '-'))
		return;
	set(c->id, sizeof(c->id), s + start, end - start);
	if (start > 0)
		set_runtime(c, s, start - 1);
}

/* "pod0a1b..", "kubepods-burstable-pod0a1b_...slice" */
static bool set_pod(struct container *c, const char *s, size_t n)
{
	const char *pod = begins(s, n, "pod") ? s : memmem(s, n, "-pod", 4);
	const char *dot = memchr(s, '.', n);
	size_t len, k = 0;

	if (!pod || (pod != s && !begins(s, n, "kubepods")))
		return false;
	pod += pod == s ? 3 : 4;
	len = (size_t)((dot && dot > pod ? dot : s + n) - pod);
	if (len < ID_MIN || len > UUID_LENGTH)
		return false;
	for (; k < len; k++) {
		char ch = pod[k] == '_' ? '-' : pod[k];

		if (!isxdigit((unsigned char)ch) && ch != '-') {
			c->pod_uid[0] = '\0';
			return false;
		}
		c->pod_uid[k] = ch;
	}
	c->pod_uid[k] = '\0';
	return true;
}

/* A container that has a name in place of a number. */
static void set_named(struct container *c, const char *s, size_t n,
		      const char *above, size_t n_above)
{
	static const char payload[] = "lxc.payload.", machine[] = "machine-";
	size_t end = n;

	if (begins(s, n, payload) && n > sizeof(payload) - 1) {
		strcpy(c->runtime, "lxc");
		set(c->id, sizeof(c->id), s + sizeof(payload) - 1,
		    n - (sizeof(payload) - 1));
	} else if (n_above == 3 && begins(above, n_above, "lxc") &&
		   begins(s, n, "lxc") == false) {
		strcpy(c->runtime, "lxc");
		set(c->id, sizeof(c->id), s, n);
	} else if (begins(s, n, machine) && n > 14 &&
		   memcmp(s + n - 6, ".scope", 6) == 0) {
		end = n - 6 - (sizeof(machine) - 1);
		strcpy(c->runtime, "machine");
		set(c->id, sizeof(c->id), s + sizeof(machine) - 1, end);
	} else if (begins(s, n, "job_") && n > 4 &&
		   isdigit((unsigned char)s[4])) {
		set(c->job, sizeof(c->job), s + 4, n - 4);
	}
}

static void take_path(struct container *c, const char *p, const char *end)
{
	const char *above = p;
	size_t n_above = 0;

	while (p < end) {
		const char *slash = memchr(p, '/', (size_t)(end - p));
		size_t n = (size_t)((slash ? slash : end) - p);

		if (!set_pod(c, p, n)) {
			set_id(c, p, n);
			if (c->id[0] && !c->runtime[0])
				set_runtime(c, above, n_above);
			/* any program may name a group by a long number */
			if (!c->runtime[0] && strlen(c->id) != ID_LENGTH)
				c->id[0] = '\0';
			if (!c->id[0])
				set_named(c, p, n, above, n_above);
		}
		above = p;
		n_above = n;
		p += n + 1;
	}
}

void container_parse(const char *cgroup, size_t bytes, struct container *out)
{
	const char *end = cgroup + bytes;
	struct container c = { 0 };

	/* "HIERARCHY:CONTROLLERS:PATH" */
	while (cgroup < end) {
		const char *eol = memchr(cgroup, '\n', (size_t)(end - cgroup));
		const char *stop = eol ? eol : end;
		const char *p = memchr(cgroup, ':', (size_t)(stop - cgroup));

		if (p)
			p = memchr(p + 1, ':', (size_t)(stop - p - 1));
		if (p && !(c.id[0] && (c.pod_uid[0] || c.runtime[0])))
			take_path(&c, p + 1, stop);
		cgroup = stop + 1;
	}
	*out = c;
}

pid_t container_inner_pid(const char *status)
{
	const char *p = strstr(status, "\nNSpid:");
	unsigned n = 0;
	long pid = 0;
	char *end;

	for (p = p ? p + 7 : ""; *p == ' ' || *p == '\t'; n++) {
		p += strspn(p, " \t");
		if (!isdigit((unsigned char)*p))
			break;
		pid = strtol(p, &end, 10);
		p = end;
	}
	return n > 1 && pid > 0 && pid <= 1 << 22 ? (pid_t)pid : 0;
}

static const char *variable(const char *env, size_t bytes, const char *name)
{
	size_t len = strlen(name);

	for (size_t at = 0; env && at < bytes;
	     at += strnlen(env + at, bytes - at) + 1)
		if (strnlen(env + at, bytes - at) > len &&
		    memcmp(env + at, name, len) == 0)
			return env + at + len;
	return NULL;
}

void container_read(pid_t pid, const char *env, size_t env_bytes,
		    struct container *out)
{
	char text[CGROUP_BYTES];
	ssize_t n = proc_read(pid, "cgroup", text, sizeof(text));
	const char *name;

	container_parse(text, n > 0 ? (size_t)n : 0, out);
	if (proc_read(pid, "status", text, sizeof(text)) > 0)
		out->inner_pid = container_inner_pid(text);
	if (!out->pod_uid[0])
		return;
	name = variable(env, env_bytes, "POD_NAME=");
	if (!name)
		name = variable(env, env_bytes, "HOSTNAME=");
	if (name)
		set(out->pod_name, sizeof(out->pod_name), name, strlen(name));
}

void container_describe(const struct container *c, char *out, size_t room)
{
	int digits =
		isxdigit((unsigned char)c->id[0]) && strlen(c->id) >= ID_MIN
			? SHORT_ID
			: 40;

	if (c->pod_uid[0])
		snprintf(out, room, "pod %.40s%s%.*s",
			 c->pod_name[0] ? c->pod_name : c->pod_uid,
			 c->id[0] ? " " : "", digits, c->id);
	else if (c->id[0])
		snprintf(out, room, "%s %.*s",
			 c->runtime[0] ? c->runtime : "container", digits,
			 c->id);
	else if (c->job[0])
		snprintf(out, room, "slurm %s", c->job);
	else if (c->inner_pid)
		snprintf(out, room, "namespace, pid %d inside",
			 (int)c->inner_pid);
	else if (room)
		out[0] = '\0';
}
